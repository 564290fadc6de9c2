package storetest

import (
	"context"
	"errors"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/store"
)

// L-11: ctx bounds the wait in the queue. Who leaves it is not run, and holds up nobody.
func testCancelQueued(t *testing.T, open opener) {
	s := open.fresh(t)
	ctx, cancel := context.WithCancel(context.Background())
	release := hold(t, s)
	leaver := writeOn(ctx, s, func(store.Tx) error {
		t.Error("a transaction ran whose caller had left")
		return nil
	})
	awaitQueued(t, s, 1)
	stayer := writeOn(context.Background(), s, appendTo(unit(1), 0, renewed(1)))
	awaitQueued(t, s, 2)
	cancel()
	require.ErrorIs(t, receive(t, leaver).err, context.Canceled, "while the writer is still held")
	release()
	require.NoError(t, receive(t, stayer).err)
	require.Len(t, readLog(t, s), 1)
}

// L-11: once a transaction runs, a context changes nothing about it: its caller gets its own result, good or bad, those
// who share its commit are not touched, and the writer goes on.
func testCancelRunning(t *testing.T, open opener) {
	s := open.fresh(t)
	makeNotes(t, s)
	kept := 0
	for round := range byte(4) {
		ctx, cancel := context.WithCancel(context.Background())
		refused := round%2 == 1
		release := hold(t, s)
		end := writeOn(ctx, s, func(tx store.Tx) error {
			if err := appendTo(unit(round), 0, renewed(1))(tx); err != nil {
				return err
			}
			cancel()
			if refused {
				return errUndo
			}
			return note(tx, string('0'+round), int(round))
		})
		awaitQueued(t, s, 1)
		other := writeOn(context.Background(), s, appendTo(run(round), 0, renewed(1)))
		awaitQueued(t, s, 2)
		release()
		if got := receive(t, end); refused {
			require.Equal(t, ended{err: errUndo}, got)
		} else {
			require.Equal(t, ended{}, got)
			kept++
		}
		require.NoError(t, receive(t, other).err)
		require.Len(t, notes(t, s), kept)
		require.Len(t, readLog(t, s), int(round)+1+kept)
	}
}

// L-11, O-12: ctx's error means that nothing was written, and any other end tells what was. A context that ends
// anywhere between the queue and the answer leaves no third case; which of the two it is, the scheduler decides here.
func testCancelAnywhere(t *testing.T, open opener) {
	s := open.fresh(t)
	for i := range byte(100) {
		ctx, cancel := context.WithCancel(context.Background())
		end := writeOn(ctx, s, appendTo(unit(i), 0, renewed(1)))
		for range i % 10 {
			runtime.Gosched()
		}
		cancel()
		err := receive(t, end).err
		write(t, s, func(store.Tx) error { return nil }) // behind whatever is left of it
		history := readStream(t, s, unit(i))
		if err != nil {
			require.ErrorIs(t, err, context.Canceled)
			require.Empty(t, history, "the caller was told that nothing has happened")
		} else {
			require.Len(t, history, 1)
		}
	}
}

// L-11: a context that has ended before the call is the end of it; one that ends after it has no effect.
func testCancelBefore(t *testing.T, open opener) {
	s := open.fresh(t)
	ctx, cancel := context.WithCancel(context.Background())
	require.NoError(t, s.Write(ctx, appendTo(unit(1), 0, renewed(1))))
	cancel()
	require.Len(t, readLog(t, s), 1)
	err := s.Write(ctx, func(store.Tx) error { return errors.New("ran") })
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, s.Read(ctx, func(r store.Reader) error {
		_, _, err := r.Head()
		return err
	}), context.Canceled)
	write(t, s, appendTo(unit(1), 1, renewed(2)))
	require.Len(t, readLog(t, s), 2)
}

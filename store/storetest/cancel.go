package storetest

import (
	"context"
	"errors"
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

// L-11: once a transaction runs, a context changes nothing about it: it is whole or not at all, those who share its
// commit are not touched, and the writer goes on.
func testCancelRunning(t *testing.T, open opener) {
	s := open.fresh(t)
	makeNotes(t, s)
	for round := range byte(4) {
		ctx, cancel := context.WithCancel(context.Background())
		release := hold(t, s)
		end := writeOn(ctx, s, func(tx store.Tx) error {
			if err := appendTo(unit(round), 0, renewed(1))(tx); err != nil {
				return err
			}
			cancel()
			return note(tx, string('0'+round), int(round))
		})
		awaitQueued(t, s, 1)
		other := writeOn(context.Background(), s, appendTo(run(round), 0, renewed(1)))
		awaitQueued(t, s, 2)
		release()
		if err := receive(t, end).err; err != nil {
			require.ErrorIs(t, err, context.Canceled, "ctx's error, if the caller left early")
		}
		require.NoError(t, receive(t, other).err)
		write(t, s, func(store.Tx) error { return nil }) // behind the one that was left
		require.Len(t, notes(t, s), int(round)+1)
		require.Len(t, readLog(t, s), 2*(int(round)+1))
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

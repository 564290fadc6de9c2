package storetest

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/store"
)

func requireConflict(t *testing.T, err error, want store.ConflictError) {
	t.Helper()
	var conflict *store.ConflictError
	require.ErrorAs(t, err, &conflict)
	if conflict.Actual == -1 {
		want.Actual = -1 // the store need not know
	}
	require.Equal(t, want, *conflict)
}

// L-5: an append whose stream is elsewhere is a typed conflict and appends nothing of its transaction.
func testConflict(t *testing.T, open opener) {
	dir := t.TempDir()
	s := open.at(t, Options{Dir: dir})
	write(t, s, appendTo(unit(1), 0, renewed(1), renewed(2), renewed(3)))
	check := func(s store.Store) {
		t.Helper()
		for _, expected := range []events.Version{0, 1, 2, 4, 100} {
			err := s.Write(context.Background(), func(tx store.Tx) error {
				require.NoError(t, appendTo(unit(2), 0, renewed(1))(tx))
				return appendTo(unit(1), expected, renewed(9))(tx)
			})
			requireConflict(t, err, store.ConflictError{Stream: unit(1), Expected: expected, Actual: 3})
		}
		err := s.Write(context.Background(), appendTo(unit(3), 1, renewed(9)))
		requireConflict(t, err, store.ConflictError{Stream: unit(3), Expected: 1, Actual: 0})
		require.Len(t, readLog(t, s), 3)
	}
	check(s)
	require.NoError(t, s.Close())
	again := open.at(t, Options{Dir: dir}) // which has appended nothing itself
	check(again)
	write(t, again, appendTo(unit(1), 3, renewed(4)))
}

// L-5: a transaction that met a conflict keeps nothing, even if its function goes on as if nothing had happened.
func testSwallowedConflict(t *testing.T, open opener) {
	s := open.fresh(t)
	makeNotes(t, s)
	write(t, s, appendTo(unit(1), 0, renewed(1)))
	err := s.Write(context.Background(), func(tx store.Tx) error {
		require.NoError(t, both(2, nil)(tx))
		require.Error(t, appendTo(unit(1), 5, renewed(1))(tx))
		return appendTo(unit(3), 0, renewed(1))(tx)
	})
	requireConflict(t, err, store.ConflictError{Stream: unit(1), Expected: 5, Actual: 1})
	require.Len(t, readLog(t, s), 1)
	require.Empty(t, notes(t, s))
}

// L-9: two that both believe a stream to be new: the first wins, also within one commit.
func testFreshOnce(t *testing.T, open opener) {
	s := open.fresh(t)
	ends := group(t, s, appendTo(unit(1), 0, renewed(1)), appendTo(unit(1), 0, renewed(2)), appendTo(unit(1), 1, renewed(3)))
	require.NoError(t, ends[0].err)
	requireConflict(t, ends[1].err, store.ConflictError{Stream: unit(1), Expected: 0, Actual: 1})
	require.NoError(t, ends[2].err)
	require.Len(t, readLog(t, s), 2)
}

// L-9: of the transactions of one commit only those with a wrong belief fail.
func testConflictInGroup(t *testing.T, open opener) {
	s := open.fresh(t)
	write(t, s, appendTo(unit(1), 0, renewed(1), renewed(2)))
	ends := group(t, s,
		appendTo(unit(2), 0, renewed(1)),
		appendTo(unit(1), 1, renewed(9)), // too low
		appendTo(unit(1), 2, renewed(3)),
		appendTo(unit(1), 4, renewed(9)), // too high
		appendTo(unit(1), 3, renewed(4)))
	for i, ok := range []bool{true, false, true, false, true} {
		if ok {
			require.NoError(t, ends[i].err)
		} else {
			require.Error(t, ends[i].err)
		}
	}
	requireConflict(t, ends[1].err, store.ConflictError{Stream: unit(1), Expected: 1, Actual: 2})
	requireConflict(t, ends[3].err, store.ConflictError{Stream: unit(1), Expected: 4, Actual: 3})
	requireDense(t, readLog(t, s))
}

// L-9: a store may leave the belief that a stream is new to a unique index, and learn only at the end of the commit
// that it was wrong. Then the others of the commit run again, and the engine forgets what it had cached of it.
func testLateConflict(t *testing.T, open opener) {
	dir := t.TempDir()
	s := open.at(t, Options{Dir: dir})
	for n := range byte(40) {
		write(t, s, appendTo(unit(n+1), 0, renewed(1)))
	}
	require.NoError(t, s.Close())

	again := open.at(t, Options{Dir: dir}) // which cannot know the streams
	makeNotes(t, again)
	var voids atomic.Int64
	again.Attach(store.Hooks{OnVoid: func() { voids.Add(1) }})
	ends := group(t, again,
		appendTo(unit(100), 0, renewed(1)),
		both(1, nil),
		appendTo(unit(101), 0, renewed(1)),
		func(tx store.Tx) error { return errUndo },
		appendTo(unit(2), 0, renewed(1), renewed(2)),
		appendTo(unit(3), 1, renewed(2)))
	require.NoError(t, ends[0].err)
	requireConflict(t, ends[1].err, store.ConflictError{Stream: unit(1), Expected: 0, Actual: 1})
	require.NoError(t, ends[2].err)
	require.ErrorIs(t, ends[3].err, errUndo)
	requireConflict(t, ends[4].err, store.ConflictError{Stream: unit(2), Expected: 0, Actual: 1})
	require.NoError(t, ends[5].err)

	log := readLog(t, again)
	require.Len(t, log, 43)
	requireDense(t, log)
	require.Empty(t, notes(t, again))
	// A store that always looks has nothing to void. One that does not, voids the group and then each guilty one.
	require.Contains(t, []int64{0, 3}, voids.Load())
}

// HC-57: of many who append with the same expectation one succeeds; of many who read the version first all do. What
// was reported as appended is what is in the log.
func testExpectationRace(t *testing.T, open opener) {
	const writers = 20
	s := open.fresh(t)
	write(t, s, appendTo(unit(1), 0, renewed(1), renewed(2), renewed(3), renewed(4), renewed(5)))
	var blind, read atomic.Int64
	var all sync.WaitGroup
	for range writers {
		all.Go(func() {
			if err := s.Write(context.Background(), appendTo(unit(1), 5, renewed(6))); err == nil {
				blind.Add(1)
			} else if conflict := (*store.ConflictError)(nil); !errors.As(err, &conflict) {
				t.Error(err)
			}
		})
		all.Go(func() {
			err := s.Write(context.Background(), func(tx store.Tx) error {
				history, err := tx.Stream(unit(1))
				if err != nil {
					return err
				}
				return appendTo(unit(1), events.Version(len(history)), renewed(len(history)))(tx)
			})
			if err != nil {
				t.Error(err)
				return
			}
			read.Add(1)
		})
	}
	all.Wait()
	require.LessOrEqual(t, blind.Load(), int64(1))
	require.EqualValues(t, writers, read.Load())
	log := readLog(t, s)
	require.EqualValues(t, 5+blind.Load()+read.Load(), len(log))
	requireDense(t, log)
}

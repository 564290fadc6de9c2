package storetest

import (
	"context"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/store"
)

// L-2, L-9: each transaction of a commit is all or nothing, events and tables alike, and hurts nobody else.
func testAtomicInGroup(t *testing.T, open opener) {
	s := open.fresh(t)
	makeNotes(t, s)
	ends := group(t, s,
		both(1, nil),
		both(2, errUndo),
		both(3, nil),
		func(tx store.Tx) error { // fails after it has been half done, in the middle of a statement
			if err := both(4, nil)(tx); err != nil {
				return err
			}
			return tx.Exec(`INSERT INTO notes (name, n) VALUES ('5', 5), ('3', 33)`)
		},
		both(6, nil))
	require.NoError(t, ends[0].err)
	require.ErrorIs(t, ends[1].err, errUndo)
	require.NoError(t, ends[2].err)
	require.Error(t, ends[3].err)
	require.NoError(t, ends[4].err)

	require.Equal(t, []string{"1", "3", "6"}, notes(t, s))
	log := readLog(t, s)
	require.Len(t, log, 3)
	for i, n := range []byte{1, 3, 6} {
		require.Equal(t, unit(n), log[i].Stream)
	}
	requireDense(t, log)
}

// both appends to unit n and notes it, then returns err.
func both(n byte, err error) func(store.Tx) error {
	return func(tx store.Tx) error {
		if err := appendTo(unit(n), 0, renewed(int(n)))(tx); err != nil {
			return err
		}
		if err := note(tx, string('0'+n), int(n)); err != nil {
			return err
		}
		return err
	}
}

// L-9: a panic undoes its own transaction and is raised again where it was asked for, value and all.
func testPanic(t *testing.T, open opener) {
	s := open.fresh(t)
	makeNotes(t, s)
	type bug struct{ n int }
	for _, value := range []any{bug{7}, "text", errUndo} {
		n := byte(len(readLog(t, s)))
		ends := group(t, s,
			both(n+1, nil),
			func(tx store.Tx) error {
				require.NoError(t, both(9, nil)(tx))
				panic(value)
			},
			both(n+2, nil))
		require.NoError(t, ends[0].err)
		require.Equal(t, ended{panicked: value}, ends[1])
		require.NoError(t, ends[2].err)
	}
	require.Len(t, notes(t, s), 6)
	log := readLog(t, s)
	require.Len(t, log, 6)
	requireDense(t, log)
}

// L-9: t.FailNow inside of a transaction ends the test that called it, not the store.
func testGoexit(t *testing.T, open opener) {
	s := open.fresh(t)
	var voids int
	s.Attach(store.Hooks{OnVoid: func() { voids++ }})
	ends := group(t, s,
		appendTo(unit(1), 0, renewed(1)),
		func(tx store.Tx) error {
			require.NoError(t, appendTo(unit(2), 0, renewed(1))(tx))
			runtime.Goexit()
			return nil
		},
		appendTo(unit(3), 0, renewed(1)))
	require.Equal(t, ended{exited: true}, ends[1])
	for _, end := range []ended{ends[0], ends[2]} {
		require.ErrorIs(t, end.err, store.ErrUnavailable)
	}
	require.Equal(t, 1, voids)
	require.Empty(t, readLog(t, s))
	write(t, s, appendTo(unit(1), 0, renewed(1)))
	require.Len(t, readLog(t, s), 1)
}

// L-6: what was undone leaves no hole in positions or versions, in its own commit or in a later one.
func testNoGap(t *testing.T, open opener) {
	s := open.fresh(t)
	undo := func(id events.StreamID, v events.Version, n int) func(store.Tx) error {
		return func(tx store.Tx) error {
			for i := range n {
				if err := appendTo(id, v+events.Version(i), renewed(i))(tx); err != nil {
					return err
				}
			}
			return errUndo
		}
	}
	for round := range events.Version(3) {
		ends := group(t, s,
			undo(unit(1), round, 5),
			appendTo(unit(1), round, renewed(1)),
			undo(unit(1), round+1, 40),
			undo(unit(2), round, 2),
			appendTo(unit(2), round, renewed(2)))
		for i, undone := range []bool{true, false, true, true, false} {
			if undone {
				require.ErrorIs(t, ends[i].err, errUndo)
			} else {
				require.NoError(t, ends[i].err)
			}
		}
		require.ErrorIs(t, s.Write(context.Background(), undo(unit(1), round+1, 3)), errUndo)
	}
	log := readLog(t, s)
	require.Len(t, log, 6)
	requireDense(t, log)
}

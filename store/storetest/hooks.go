package storetest

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/store"
)

// design 11: BeforeCommit is the last transaction of every commit that appended. It sees all of it, and what it
// appends and changes commits with it, under a tx of its own.
func testBeforeCommit(t *testing.T, open opener) {
	s := open.fresh(t)
	makeNotes(t, s)
	var heads []events.Position
	var seen [][]events.Envelope
	s.Attach(store.Hooks{BeforeCommit: func(tx store.Tx) error {
		from := events.Position(0)
		if len(heads) > 0 {
			from = heads[len(heads)-1]
		}
		page, err := tx.After(from, 100)
		if err != nil {
			return err
		}
		seen = append(seen, page)
		if err := note(tx, string('0'+byte(len(seen))), len(page)); err != nil {
			return err
		}
		if _, err = tx.Append(run(byte(len(seen))), 0, events.Meta{Command: "Hook"}, renewed(0)); err != nil {
			return err
		}
		p, _, err := tx.Head()
		heads = append(heads, p)
		return err
	}})
	ends := group(t, s,
		appendTo(unit(1), 0, renewed(1)),
		func(tx store.Tx) error {
			require.NoError(t, appendTo(unit(2), 0, renewed(1))(tx))
			return errUndo
		},
		appendTo(unit(3), 0, renewed(1), renewed(2)))
	require.NoError(t, ends[0].err)
	require.ErrorIs(t, ends[1].err, errUndo)
	require.NoError(t, ends[2].err)
	write(t, s, appendTo(unit(4), 0, renewed(1)))

	require.Len(t, seen, 2, "once a commit")
	require.Len(t, seen[0], 3)
	require.Len(t, seen[1], 1)
	log := readLog(t, s)
	require.Equal(t, []events.Position{4, 6}, heads)
	require.Len(t, log, 6)
	for _, i := range []int{3, 5} {
		require.Equal(t, "Hook", log[i].Command)
		require.Equal(t, log[i].Position, log[i].Tx)
	}
	requireDense(t, log)
	require.Equal(t, []string{"1", "2"}, notes(t, s))
}

// design 11: a commit without events nudges nobody; a table may change all the same.
func testNoHook(t *testing.T, open opener) {
	s := open.fresh(t)
	makeNotes(t, s)
	s.Attach(store.Hooks{BeforeCommit: func(store.Tx) error {
		t.Error("the hook ran in a commit without events")
		return nil
	}})
	ends := group(t, s,
		func(store.Tx) error { return nil },
		func(tx store.Tx) error { return note(tx, "1", 1) },
		both(2, errUndo))
	require.NoError(t, ends[0].err)
	require.NoError(t, ends[1].err)
	require.ErrorIs(t, ends[2].err, errUndo)
	require.Equal(t, []string{"1"}, notes(t, s))
	require.Empty(t, readLog(t, s))
}

// design 11: a failed commit voids all of its transactions. The engine's caches are emptied before anybody is told, and
// the next commit is as good as ever.
func testVoid(t *testing.T, open opener) {
	s := open.fresh(t)
	makeNotes(t, s)
	fault := errors.New("fault before the commit")
	var order []string
	fail := true
	s.Attach(store.Hooks{
		BeforeCommit: func(tx store.Tx) error {
			if fail {
				fail = false
				require.NoError(t, note(tx, "9", 9))
				return fault
			}
			return nil
		},
		OnVoid: func() { order = append(order, "void") },
	})
	ends := group(t, s,
		both(1, nil),
		func(store.Tx) error { return errUndo }, // its reason may lie in what has not happened
		both(2, nil))
	for _, end := range ends {
		require.ErrorIs(t, end.err, fault)
	}
	require.Equal(t, []string{"void"}, order, "before the first answer, so without a race")
	require.Empty(t, readLog(t, s))
	require.Empty(t, notes(t, s))

	for _, end := range group(t, s, both(1, nil), both(2, nil)) {
		require.NoError(t, end.err)
	}
	require.Len(t, order, 1)
	require.Equal(t, []string{"1", "2"}, notes(t, s))
	log := readLog(t, s)
	require.Len(t, log, 2)
	requireDense(t, log)
}

// L-9: a store may write what a large commit has appended before the commit ends. If it then fails, all of that is
// void, too: also what the store itself remembers of it.
func testVoidFanOut(t *testing.T, open opener) {
	const n = 3000
	s := open.fresh(t)
	var node events.NodeID
	fan := func(tx store.Tx) error {
		if _, err := tx.Append(events.NodeStream(node), 0, events.Meta{Node: node}, events.NodeStarted{StoreMode: events.StoreShared}); err != nil {
			return err
		}
		for i := range n {
			id := events.UnitStream(events.UnitID{14: byte(i >> 8), 15: byte(i)})
			if _, err := tx.Append(id, 0, events.Meta{Node: node}, renewed(i)); err != nil {
				return err
			}
		}
		return nil
	}
	reads := func(tx store.Tx) error {
		history, err := tx.Stream(events.UnitStream(events.UnitID{15: 1}))
		require.NoError(t, err)
		require.NotEmpty(t, history)
		require.Equal(t, node, history[0].Node)
		page, err := tx.After(n-10, 100)
		require.NoError(t, err)
		require.GreaterOrEqual(t, len(page), 11)
		_, err = tx.Append(unit(1), 1, events.Meta{Node: node}, renewed(0))
		return err
	}
	fails := 2
	s.Attach(store.Hooks{BeforeCommit: func(store.Tx) error {
		if fails--; fails >= 0 {
			return errUndo
		}
		return nil
	}})
	for round := range byte(2) {
		node = events.NodeID{15: 7 + round}
		for _, end := range group(t, s, fan, reads, reads) {
			require.ErrorIs(t, end.err, errUndo)
		}
		require.Empty(t, readLog(t, s))
		err := s.Write(context.Background(), func(tx store.Tx) error {
			_, err := tx.Append(unit(1), 0, events.Meta{Node: node}, renewed(0))
			return err
		})
		require.Error(t, err, "a node whose start is void")
	}
	node = events.NodeID{15: 9}
	ends := group(t, s, fan, reads, reads)
	require.NoError(t, ends[0].err)
	require.NoError(t, ends[1].err)
	requireConflict(t, ends[2].err, store.ConflictError{Stream: unit(1), Expected: 1, Actual: 2})
	log := readLog(t, s)
	require.Len(t, log, n+2)
	requireDense(t, log)
}

// CLK-1: an engine that attaches itself brings its clock, and the store has no other from then on.
func testHookClock(t *testing.T, open opener) {
	s := open.at(t, Options{Dir: t.TempDir(), Now: func() events.Micros { return 1_000 }})
	engine := events.Micros(5_000)
	s.Attach(store.Hooks{Now: func() events.Micros { return engine }})
	for range 3 {
		engine++
		write(t, s, func(tx store.Tx) error {
			require.Equal(t, engine, tx.Now())
			return nil
		})
	}
	plain := open.at(t, Options{Dir: t.TempDir(), Now: func() events.Micros { return 1_000 }})
	plain.Attach(store.Hooks{OnVoid: func() {}})
	write(t, plain, func(tx store.Tx) error {
		require.EqualValues(t, 1_000, tx.Now(), "hooks without a clock leave the store its own")
		return nil
	})
}

// A bug in the hook is nobody's and so everybody's: no caller may take its transaction for done.
func testHookPanic(t *testing.T, open opener) {
	s := open.fresh(t)
	voids := 0
	broken := true
	s.Attach(store.Hooks{
		BeforeCommit: func(store.Tx) error {
			if broken {
				panic("hook")
			}
			return nil
		},
		OnVoid: func() { voids++ },
	})
	for _, end := range group(t, s, appendTo(unit(1), 0, renewed(1)), appendTo(unit(2), 0, renewed(1))) {
		require.Equal(t, ended{panicked: "hook"}, end)
	}
	require.Equal(t, 1, voids)
	require.Empty(t, readLog(t, s))
	broken = false
	write(t, s, appendTo(unit(1), 0, renewed(1)))
}

package storetest

import (
	"context"
	"database/sql"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/store"
)

// L-6: position, version, stream, time, actor, command and cause of an envelope are those of the append.
func testPlace(t *testing.T, open opener) {
	const now = 1_700_000_000_000_000
	s := open.at(t, Options{Dir: t.TempDir(), Now: func() events.Micros { return now }})
	meta := events.Meta{Actor: "ann", Command: "PlanRun", Cause: 1}
	var returned []events.Envelope
	write(t, s, func(tx store.Tx) error {
		first, err := tx.Append(run(1), 0, events.Meta{}, events.RunDispatchStarted{})
		require.NoError(t, err)
		second, err := tx.Append(unit(2), 0, meta, renewed(1), renewed(2))
		require.NoError(t, err)
		returned = append(first, second...)
		return nil
	})
	require.Equal(t, []events.Envelope{
		{Position: 1, Tx: 1, Stream: run(1), Version: 1, At: now, Event: events.RunDispatchStarted{}},
		{Position: 2, Tx: 1, Stream: unit(2), Version: 1, At: now, Meta: meta, Event: renewed(1)},
		{Position: 3, Tx: 1, Stream: unit(2), Version: 2, At: now, Meta: meta, Event: renewed(2)},
	}, returned)
	require.Equal(t, returned, readLog(t, s))
	require.Equal(t, returned[1:], readStream(t, s, unit(2)))
	require.Empty(t, readStream(t, s, unit(3)))
}

// L-7, L-12: every type, with every field set, in every family of streams.
func testEveryEvent(t *testing.T, open opener) {
	s := open.fresh(t)
	samples, streams := Samples(), Streams()
	var want []events.Event
	write(t, s, func(tx store.Tx) error {
		versions := map[events.StreamID]events.Version{}
		for i := range max(len(samples), len(streams)) {
			e, id := samples[i%len(samples)], streams[i%len(streams)]
			if _, err := tx.Append(id, versions[id], events.Meta{Actor: "a 'b' é", Command: "C"}, e); err != nil {
				return err
			}
			versions[id]++
			want = append(want, e)
		}
		return nil
	})
	log := readLog(t, s)
	require.Len(t, log, len(want))
	for i, e := range log {
		require.Equal(t, want[i], e.Event)
		require.Equal(t, streams[i%len(streams)], e.Stream)
		require.Equal(t, "a 'b' é", e.Actor)
	}
	requireDense(t, log)
}

// L-6: tx is the position of the first event of the transaction, whatever it appends to and whoever shares its commit.
func testTxNumber(t *testing.T, open opener) {
	s := open.fresh(t)
	three := func(n byte) func(store.Tx) error {
		return func(tx store.Tx) error {
			for i := range byte(3) {
				if _, err := tx.Append(unit(10*n+i), 0, events.Meta{}, renewed(1)); err != nil {
					return err
				}
			}
			return nil
		}
	}
	for _, end := range group(t, s, three(1), three(2)) {
		require.NoError(t, end.err)
	}
	var txs []events.Position
	for _, e := range readLog(t, s) {
		txs = append(txs, e.Tx)
	}
	require.Equal(t, []events.Position{1, 1, 1, 4, 4, 4}, txs)
}

// N-1, L-12: an event says which incarnation appended it, and NodeStarted names itself. An incarnation that has not
// started can append nothing.
func testNode(t *testing.T, open opener) {
	dir := t.TempDir()
	s := open.at(t, Options{Dir: dir})
	a, b := events.NodeID{15: 1}, events.NodeID{15: 2}
	err := s.Write(context.Background(), func(tx store.Tx) error {
		_, err := tx.Append(unit(1), 0, events.Meta{Node: a}, renewed(1))
		return err
	})
	require.Error(t, err)
	start := func(node events.NodeID) func(store.Tx) error {
		return func(tx store.Tx) error {
			_, err := tx.Append(events.NodeStream(node), 0, events.Meta{Node: node}, events.NodeStarted{StoreMode: events.StoreExclusive})
			return err
		}
	}
	by := func(node events.NodeID, n byte) func(store.Tx) error {
		return func(tx store.Tx) error {
			_, err := tx.Append(unit(n), 0, events.Meta{Node: node}, renewed(1))
			return err
		}
	}
	// The start is still part of the same transaction, then of the same commit, then of the file.
	write(t, s, func(tx store.Tx) error {
		require.NoError(t, start(a)(tx))
		return by(a, 1)(tx)
	})
	for _, end := range group(t, s, start(b), by(b, 2), by(a, 3)) {
		require.NoError(t, end.err)
	}
	write(t, s, by(b, 4))
	nodes := func(s store.Store) (out []events.NodeID) {
		for _, e := range readLog(t, s) {
			out = append(out, e.Node)
		}
		return out
	}
	want := []events.NodeID{a, a, b, b, a, b}
	require.Equal(t, want, nodes(s))
	require.NoError(t, s.Close())
	again := open.at(t, Options{Dir: dir})
	require.Equal(t, want, nodes(again))
	write(t, again, func(tx store.Tx) error {
		history, err := tx.Stream(unit(3))
		require.NoError(t, err)
		require.Equal(t, a, history[0].Node)
		return by(b, 5)(tx)
	})

	// What was undone has not started.
	c := events.NodeID{15: 3}
	require.ErrorIs(t, again.Write(context.Background(), func(tx store.Tx) error {
		require.NoError(t, start(c)(tx))
		require.NoError(t, by(c, 6)(tx))
		return errUndo
	}), errUndo)
	require.Error(t, again.Write(context.Background(), by(c, 7)))
}

// L-9: what the tables of the log would refuse is refused by Append, before it can hurt the rest of a commit.
func testInvalidAppend(t *testing.T, open opener) {
	s := open.fresh(t)
	invalid := map[string]func(store.Tx) error{
		"no stream":       appendTo(events.StreamID{}, 0, renewed(1)),
		"no name":         appendTo(events.AppStream(""), 0, renewed(1)),
		"a later cause":   func(tx store.Tx) error { return causedBy(tx, 1000) },
		"a cause below 0": func(tx store.Tx) error { return causedBy(tx, -1) },
	}
	for name, fn := range invalid {
		ends := group(t, s, fn, func(tx store.Tx) error {
			p, _, err := tx.Head()
			require.NoError(t, err)
			_, err = tx.Append(unit(1), events.Version(p), events.Meta{}, renewed(1))
			return err
		})
		require.Error(t, ends[0].err, name)
		require.NoError(t, ends[1].err, name)
	}
	log := readLog(t, s)
	require.Len(t, log, len(invalid))
	requireDense(t, log)
}

func causedBy(tx store.Tx, cause events.Position) error {
	_, err := tx.Append(unit(9), 0, events.Meta{Cause: cause}, renewed(1))
	return err
}

// L-5: nothing to do is success.
func testNothing(t *testing.T, open opener) {
	s := open.fresh(t)
	write(t, s, func(tx store.Tx) error {
		out, err := tx.Append(unit(1), 0, events.Meta{})
		require.NoError(t, err)
		require.Empty(t, out)
		p, at, err := tx.Head()
		require.NoError(t, err)
		require.Zero(t, p)
		require.Zero(t, at)
		return nil
	})
	require.Empty(t, readLog(t, s))
}

// L-3: a decision reads the stream's history inside its transaction, and so all that was appended before it: by
// itself, by an earlier transaction of the same commit, by an earlier commit.
func testOwnAppends(t *testing.T, open opener) {
	s := open.fresh(t)
	write(t, s, appendTo(unit(1), 0, renewed(1)))
	sees := func(tx store.Tx, n int) {
		t.Helper()
		history, err := tx.Stream(unit(1))
		require.NoError(t, err)
		require.Len(t, history, n)
		for i, e := range history {
			require.EqualValues(t, i+1, e.Version)
			require.Equal(t, renewed(i+1), e.Event)
		}
		p, at, err := tx.Head()
		require.NoError(t, err)
		page, err := tx.After(0, 100)
		require.NoError(t, err)
		require.Len(t, page, int(p))
		require.Equal(t, p, page[p-1].Position)
		require.Equal(t, at, page[p-1].At)
	}
	ends := group(t, s,
		func(tx store.Tx) error {
			sees(tx, 1)
			require.NoError(t, appendTo(unit(1), 1, renewed(2))(tx))
			sees(tx, 2)
			return appendTo(unit(2), 0, renewed(1))(tx)
		},
		func(tx store.Tx) error {
			sees(tx, 2)
			require.NoError(t, appendTo(unit(1), 2, renewed(3), renewed(4))(tx))
			sees(tx, 4)
			return errUndo
		},
		func(tx store.Tx) error {
			sees(tx, 2)
			page, err := tx.After(1, 1)
			require.NoError(t, err)
			require.Len(t, page, 1)
			require.EqualValues(t, 2, page[0].Position)
			for _, none := range []struct {
				after events.Position
				limit int
			}{{0, 0}, {3, 10}, {1000, 10}} {
				page, err = tx.After(none.after, none.limit)
				require.NoError(t, err)
				require.Empty(t, page)
			}
			return nil
		})
	require.NoError(t, ends[0].err)
	require.ErrorIs(t, ends[1].err, errUndo)
	require.NoError(t, ends[2].err)
	require.Len(t, readLog(t, s), 3)
}

// L-6: positions are commit order, also when the clock stands still.
func testOneMoment(t *testing.T, open opener) {
	const events1000 = 1000
	s := open.at(t, Options{Dir: t.TempDir(), Now: func() events.Micros { return 1_700_000_000_000_000 }})
	for i := 0; i < events1000; {
		write(t, s, func(tx store.Tx) error {
			for end := i + 40; i < end; i++ {
				if err := appendTo(unit(byte(i%7)), events.Version(i/7), renewed(i))(tx); err != nil {
					return err
				}
			}
			return nil
		})
	}
	log := readLog(t, s)
	require.Len(t, log, events1000)
	for i, e := range log {
		require.Equal(t, renewed(i), e.Event)
	}
	requireDense(t, log)
}

// CLK-1, CLK-2: a transaction has one time; it is the clock's, but never before the newest event.
func testTime(t *testing.T, open opener) {
	dir := t.TempDir()
	clock := events.Micros(1_700_000_000_000_000)
	now := func() events.Micros { return clock }
	s := open.at(t, Options{Dir: dir, Now: now})
	var version events.Version
	at := func(s store.Store, set, want events.Micros) {
		t.Helper()
		clock = set
		write(t, s, func(tx store.Tx) error {
			require.Equal(t, want, tx.Now())
			clock++
			require.Equal(t, want, tx.Now(), "frozen")
			out, err := tx.Append(unit(1), version, events.Meta{}, renewed(1))
			require.NoError(t, err)
			require.Equal(t, want, out[0].At)
			return nil
		})
		version++
	}
	const start = 1_700_000_000_000_000
	at(s, start, start)
	at(s, start+10, start+10)
	at(s, start-1_000_000, start+10)
	at(s, start+10, start+10)
	at(s, start+11, start+11)
	require.NoError(t, s.Close())
	again := open.at(t, Options{Dir: dir, Now: now})
	at(again, start-5_000_000, start+11)
	clock = start - 5_000_000
	for _, end := range group(t, again, appendTo(unit(2), 0, renewed(1)), func(tx store.Tx) error {
		require.EqualValues(t, start+11, tx.Now())
		return nil
	}) {
		require.NoError(t, end.err)
	}
	requireDense(t, readLog(t, again))
}

// HC-51: a fan-out of any size is one transaction, whatever a statement may hold.
func testFanOut(t *testing.T, open opener) {
	widths := []int{1000, 3000, 10_923, 40_000}
	if testing.Short() {
		widths = widths[:2]
	}
	for _, n := range widths {
		s := open.fresh(t)
		stream := func(i int) events.StreamID {
			return events.UnitStream(events.UnitID{12: byte(i >> 16), 13: byte(i >> 8), 14: byte(i), 15: 1})
		}
		fan := func(tx store.Tx) error {
			for i := range n / 2 {
				if err := appendTo(stream(i), 0, renewed(i))(tx); err != nil {
					return err
				}
			}
			evs := make([]events.Event, n-n/2)
			for i := range evs {
				evs[i] = renewed(i)
			}
			return appendTo(run(1), 0, evs...)(tx)
		}
		err := s.Write(context.Background(), func(tx store.Tx) error {
			require.NoError(t, fan(tx))
			return errUndo
		})
		require.ErrorIs(t, err, errUndo)
		require.Empty(t, readLog(t, s), "half a plan")

		write(t, s, fan)
		log := readLog(t, s)
		require.Len(t, log, n)
		require.EqualValues(t, 1, log[n-1].Tx)
		requireDense(t, log)
		require.Len(t, readStream(t, s, run(1)), n-n/2)
	}
}

// L-1: what is on disk is the log, and all of it.
func testReopen(t *testing.T, open opener) {
	dir := t.TempDir()
	s := open.at(t, Options{Dir: dir})
	for i := range byte(50) {
		write(t, s, appendTo(unit(i%5), events.Version(i/5), renewed(int(i))))
	}
	before := readLog(t, s)
	require.NoError(t, s.Close())

	again := open.at(t, Options{Dir: dir})
	require.Equal(t, before, readLog(t, again))
	write(t, again, func(tx store.Tx) error {
		p, at, err := tx.Head()
		require.NoError(t, err)
		require.EqualValues(t, 50, p)
		require.Equal(t, before[49].At, at)
		return appendTo(unit(0), 10, renewed(50))(tx)
	})
	log := readLog(t, again)
	require.Equal(t, before, log[:50])
	require.Len(t, log, 51)
	requireDense(t, log)
}

// L-1: nothing is updated or deleted in the log; the store refuses both, to its own Exec and to any SQL.
func testNoEdits(t *testing.T, open opener) {
	s := open.fresh(t)
	write(t, s, appendTo(unit(1), 0, renewed(1), renewed(2)))
	before := readLog(t, s)
	edits := []string{
		`UPDATE events SET data = '{}'`,
		`UPDATE events SET position = position + 10`,
		`DELETE FROM events`,
		`DELETE FROM events WHERE position = 2`,
	}
	for _, edit := range append(edits,
		`INSERT INTO events SELECT position + 2, tx + 2, stream, version + 2, at, type, schema, actor, command, cause, node, data FROM events`,
		`DROP TABLE events`,
		`COMMIT`, `ROLLBACK`, `BEGIN`, `SAVEPOINT a`, `RELEASE tx`) {
		err := s.Write(context.Background(), func(tx store.Tx) error { return tx.Exec(edit) })
		require.Error(t, err, edit)
	}
	if offers, ok := s.(interface{ DB() *sql.DB }); ok {
		for _, edit := range edits {
			_, err := offers.DB().Exec(edit)
			require.Error(t, err, edit)
		}
	}
	require.Equal(t, before, readLog(t, s))
	write(t, s, appendTo(unit(1), 2, renewed(3)))
}

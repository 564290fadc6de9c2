package projections_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/projections"
	"github.com/towline-dev/towline/store"
)

// spoiled is a history in which one event is cut off, and one is of a type that this release does not know. streams are the names
// of what they are about, as the tables show them.
func spoiled(t *testing.T) (h *history, live []string, bad []events.Position, streams []string) {
	t.Helper()
	h = toldUntil(t, 3, func(h *history) bool { return len(h.plain(`SELECT 1 FROM units WHERE status = 'succeeded'`)) > 2 })
	live = h.tables()
	var cut, unknown events.Envelope
	h.read(func(r store.Reader) {
		page, err := r.After(0, 100_000)
		require.NoError(t, err)
		for _, e := range page {
			switch e.Event.(type) {
			case events.UnitDispatched:
				cut = e
			case events.JobLinked:
				unknown = e
			}
		}
	})
	require.NotZero(t, cut.Position)
	require.NotZero(t, unknown.Position)
	h.sql(`DROP TRIGGER events_no_update`,
		fmt.Sprintf(`UPDATE events SET data = substr(data, 1, 5) WHERE position = %d`, cut.Position),
		fmt.Sprintf(`UPDATE events SET type = 9999 WHERE position = %d`, unknown.Position))
	for _, e := range []events.Envelope{cut, unknown} {
		streams = append(streams, fmt.Sprintf("%X", e.Stream.Key()[1:]))
	}
	return h, live, []events.Position{cut.Position, unknown.Position}, streams
}

// HC-25, L-7: a rebuild that meets an event which cannot be read stops and names it, and the old tables stand.
func TestARebuildStopsAtAnEventThatCannotBeRead(t *testing.T) {
	h, live, bad, _ := spoiled(t)
	err := h.write(rebuildAll)
	var met *events.DecodeError
	require.ErrorAs(t, err, &met)
	require.Equal(t, min(bad[0], bad[1]), met.Position)
	require.Equal(t, live, h.tables())
}

// HC-25, L-7: a rebuild that leaves such events out lists them, and every row that is not about their streams is as it was, byte
// for byte. The list stays until all views are made of the whole log.
func TestARebuildLeavesOutAndLists(t *testing.T) {
	h, live, bad, streams := spoiled(t)
	without := func(names ...string) (left []projections.LeftOut) {
		require.NoError(t, h.write(func(tx store.Tx) (err error) {
			left, err = projections.RebuildWithout(tx, names...)
			return err
		}))
		return left
	}
	left := without()
	require.Subset(t, positions(left), bad)
	require.True(t, slices.IsSorted(positions(left)))
	h.read(func(r store.Reader) {
		for _, l := range left {
			t.Log(l.Position, l.Reason)
			if slices.Contains(bad, l.Position) {
				continue
			}
			page, err := r.After(l.Position-1, 1)
			require.NoError(t, err)
			require.Contains(t, streams, fmt.Sprintf("%X", page[0].Stream.Key()[1:]), "only what comes behind one of them does not fold")
		}
	})
	h.view(func(v projections.View) {
		kept, err := v.LeftOut()
		require.NoError(t, err)
		require.Equal(t, left, kept)
	})
	now := h.tables()
	require.NotEqual(t, live, now)
	was := map[string]bool{}
	for _, row := range live {
		was[row] = true
	}
	for _, row := range now {
		about := strings.Contains(row, streams[0]) || strings.Contains(row, streams[1])
		require.True(t, was[row] || about, row)
	}
	require.Equal(t, len(live), len(now))

	require.Equal(t, left, without(), "it is the same again")
	var met *events.DecodeError
	h.read(func(r store.Reader) {
		_, err := r.After(bad[0]-1, 1)
		require.ErrorAs(t, err, &met)
	})
	id, err := events.ParseStreamKey(met.Stream)
	require.NoError(t, err)
	require.NoError(t, h.write(func(tx store.Tx) error {
		a, ok := store.AsArchiveTx(tx)
		require.True(t, ok)
		_, err := a.Archive([]events.StreamID{id})
		return err
	}))
	require.Equal(t, left, without(), "and where its stream lies in a segment (L-1)")
	h.sql(fmt.Sprintf(`UPDATE events SET type = %d WHERE type = 9999`, events.TypeJobLinked))
	require.NotContains(t, positions(without("jobs")), unknown(bad))
	h.view(func(v projections.View) {
		kept, err := v.LeftOut()
		require.NoError(t, err)
		require.Subset(t, positions(kept), bad, "other views were not made anew of the event that can be read again")
	})
	require.NotContains(t, positions(without()), unknown(bad))
}

func unknown(bad []events.Position) events.Position { return bad[1] }

func positions(left []projections.LeftOut) (out []events.Position) {
	for _, l := range left {
		out = append(out, l.Position)
	}
	return out
}

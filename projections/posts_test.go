package projections_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/projections"
	"github.com/towline-dev/towline/store"
)

// REC-4, REC-10: a run is scanned for its post_sync until that is armed, and no longer: where the messages are consumed
// by somebody else nobody records what became of them, and the index must not keep these runs for ever. That a post_sync
// was owed stays on record, because REC-10 asks for more of one in exactly_once mode.
func TestAnArmedPostSyncLeavesTheScan(t *testing.T) {
	h := told(t, 17, 0)
	appends := func(id events.StreamID, evs ...events.Event) {
		t.Helper()
		require.NoError(t, h.write(func(tx store.Tx) error {
			if _, err := tx.Append(id, 0, events.Meta{}, evs...); err != nil {
				return err
			}
			return projections.CatchUp(tx)
		}))
	}
	ended := func(n byte, mode events.DeliveryMode) events.RunID {
		t.Helper()
		id := events.RunID{15: n}
		appends(events.RunStream(id),
			events.RunPlanned{
				Job: events.JobID{15: n}, Sync: "s", TotalUnits: 1, Policy: events.Policy{PostSync: mode, Targets: []string{"t"}},
			},
			events.RunFinalized{Status: events.RunSucceeded, Counts: events.Counts{Total: 1, Succeeded: 1}, PostSyncOwed: true})
		return id
	}
	scanned := func(want ...events.RunID) {
		t.Helper()
		h.view(func(v projections.View) {
			found, err := v.UnarmedPosts(events.RunID{}, 100)
			require.NoError(t, err)
			var got []events.RunID
			for _, u := range found {
				got = append(got, u.Run)
			}
			require.Equal(t, want, got)
		})
		index := h.plain(`SELECT sql FROM sqlite_schema WHERE name = 'runs_post'`)[0]["sql"].(string)
		_, predicate, _ := strings.Cut(index, " WHERE ")
		rows := h.plain(`SELECT count(*) AS n FROM runs WHERE ` + predicate)
		require.EqualValues(t, len(want), rows[0]["n"], "the index holds nobody else")
	}
	first, second := ended(1, events.AtMostOnce), ended(2, events.ExactlyOnce)
	scanned(first, second)
	appends(events.RegisterStream(first, events.KindDispatch), events.OutboxArmed{N: 1, AvailableAt: 1})
	scanned(first, second)
	appends(events.RegisterStream(first, events.KindPostSync), events.OutboxArmed{N: 1, AvailableAt: 1})
	scanned(second)
	appends(events.RegisterStream(second, events.KindPostSync), events.OutboxArmed{N: 1, AvailableAt: 1})
	scanned()
	require.Len(t, h.plain(`SELECT 1 FROM runs WHERE post_sync_owed = 1`), 2)
}

package projections_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/projections"
)

// REC-14, O-16, REC-4: what is due of some kinds is in the order of its time, whatever the page; the next time and the
// count agree with it; and what is sent only once is not among what can be repeated.
func TestWhatIsDueOfSomeKinds(t *testing.T) {
	h := toldUntil(t, 19, func(h *history) bool {
		return len(h.plain(`SELECT 1 FROM outbox WHERE kind = 'post_sync' LIMIT 3`)) == 3
	})
	h.sql(`UPDATE outbox SET status = 'pending', available_at = 1 + unicode(kind) + newest WHERE status = 'idle'`) // many at one time
	now := events.MicrosOf(h.now).Add(1e12)
	found := 0
	for set := 1; set < 1<<len(events.Kinds); set++ {
		for _, repeatable := range []bool{false, true} {
			w, in := projections.Wakeups{Repeatable: repeatable, Suspects: projections.AlsoSuspects}, "''"
			for i, k := range events.Kinds {
				if set&(1<<i) != 0 {
					w.Kinds = append(w.Kinds, k)
					in += fmt.Sprintf(", '%s'", k)
				}
			}
			once := ``
			if repeatable {
				once = ` AND NOT (kind = 'post_sync' AND owner IN (SELECT run_id FROM runs WHERE policy ->> 'post_sync' = 'at_most_once'))`
			}
			want := h.plain(`SELECT available_at, owner, kind FROM outbox WHERE status = 'pending' AND kind IN (` + in + `)` + once + ` ORDER BY 1, 2, 3`)
			found += len(want)
			h.view(func(v projections.View) {
				var got []projections.DueCursor
				for cursor := (projections.DueCursor{}); ; cursor = got[len(got)-1] {
					page, err := v.DueOf(w, now, cursor, 3)
					require.NoError(t, err)
					if len(page) == 0 {
						break
					}
					got = append(got, page...)
				}
				require.Len(t, got, len(want))
				for i, row := range want {
					require.Equal(t, projections.DueCursor{
						AvailableAt: events.Micros(row["available_at"].(int64)),
						Key:         projections.Key{Owner: events.RunID(row["owner"].([]byte)), Kind: events.Kind(row["kind"].(string))},
					}, got[i])
				}
				next, err := v.NextDueOf(w)
				require.NoError(t, err)
				n, err := v.CountDue(w, now)
				require.NoError(t, err)
				require.Equal(t, len(want), n)
				if len(want) == 0 {
					require.Zero(t, next)
					return
				}
				require.Equal(t, got[0].AvailableAt, next)
				early, err := v.DueOf(w, next-1, projections.DueCursor{}, 3)
				require.NoError(t, err)
				require.Empty(t, early)
			})
		}
	}
	require.Greater(t, found, 100)
	require.NotEmpty(t, h.plain(`SELECT 1 FROM outbox WHERE status = 'pending' AND kind = 'post_sync'`))
}

// O-16, N-3: an open breaker is seen while its node lives, since it first opened and until its next probe.
func TestOpenBreakersAreThoseOfLivingNodes(t *testing.T) {
	h := toldUntil(t, 19, func(h *history) bool {
		return len(h.plain(`SELECT 1 FROM breakers WHERE closed_at IS NOT NULL`)) > 0 && len(h.plain(`SELECT 1 FROM breakers WHERE closed_at IS NULL`)) > 0
	})
	h.view(func(v projections.View) {
		open, err := v.OpenBreakers()
		require.NoError(t, err)
		rows := h.plain(`SELECT b.* FROM breakers b JOIN nodes n USING (incarnation) WHERE n.gone = 0 AND b.closed_at IS NULL`)
		require.Len(t, open, len(rows))
		for _, b := range open {
			require.Equal(t, h.e.Node(), b.Node)
			require.Equal(t, events.TransportLocal, b.Transport)
			require.False(t, b.Until.Before(b.OpenedAt))
			require.Equal(t, events.Kinds[:], b.Kinds)
		}
	})
}

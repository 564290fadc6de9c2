package projections_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/projections"
	"github.com/towline-dev/towline/store"
)

// I-27, X-3, X-4, X-9, RL-5, RW-8: whatever was lost, paused, limited and taken out of the configuration on the way: when
// the faults stop, everything is resumed and configured again and time moves on, every run ends, but for one whose wakeup
// was parked; and the log and the views agree.
func TestEveryRunEndsWhenNothingHoldsItAnyMore(t *testing.T) {
	check(t, 6, func(rt *rapid.T) {
		h := newHistory(rt, t.TempDir(), func(label string, n int) int { return rapid.IntRange(0, n-1).Draw(rt, label) })
		defer h.close()
		for range rapid.IntRange(20, 120).Draw(rt, "steps") {
			h.step()
		}
		h.calm()
		const most = 500 // minutes
		for n := 0; h.openRuns() > 0; n++ {
			require.Less(rt, n, most, "a run does not end")
			h.turn()
		}
		h.verify(t.TempDir())
	})
}

// calm ends all faults and all holds.
func (h *history) calm() {
	h.draw = func(_ string, n int) int { return n - 1 } // the last answer is the good one
	h.close()
	h.lacks = 0
	h.waiting = nil
	h.open()
	ctx, by := context.Background(), towline.Actor{Name: "ada", Reason: "that was all"}
	require.NoError(h.tb, h.e.ResumeEngine(ctx, by))
	for _, source := range []string{"north", "south", "team"} {
		require.NoError(h.tb, h.e.ResumeSource(ctx, source, by))
	}
}

// turn is a minute in which every message arrives and every unit succeeds.
func (h *history) turn() {
	ctx := context.Background()
	h.now = h.now.Add(time.Minute)
	require.NoError(h.tb, h.relay.Pass(ctx).Err())
	for len(h.waiting) > 0 {
		n := h.waiting[0]
		h.waiting = h.waiting[1:]
		h.handle(n)
		for _, l := range h.leases {
			if err := h.e.Complete(ctx, l, events.Result{}); !errors.Is(err, towline.ErrLeaseLost) {
				require.NoError(h.tb, err)
			}
		}
		h.leases = nil
		require.NoError(h.tb, h.relay.Step(ctx).Err())
	}
}

// openRuns counts those that are not held by a parked wakeup.
func (h *history) openRuns() (n int) {
	h.read(func(r store.Reader) {
		v := projections.NewView(r)
		runs, err := v.OpenRuns(events.RunID{}, 1000)
		require.NoError(h.tb, err)
		for _, run := range runs {
			registers, err := v.RegistersOf(run.Run)
			require.NoError(h.tb, err)
			n++
			for _, g := range registers {
				if g.Status == decider.RegisterParked {
					n--
					break
				}
			}
		}
	})
	return n
}

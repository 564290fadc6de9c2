package projections

import (
	"cmp"
	"context"
	"slices"

	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/events"
)

// The row of a running unit shows the grace of a clock step, and that stands in the stream of a node, not in the unit's
// own (CLK-4). It counts for the attempt that was live then, so a past looks for it in the log behind the claim: a part
// that is as long as an attempt, whatever the length of the log.

// withClockSteps adds the steps of the clock that the running attempts among some streams have seen.
func (p *Past) withClockSteps(ctx context.Context, steps []step) ([]step, error) {
	running := map[events.UnitID]events.Position{}
	for _, s := range steps {
		if u, ok := s.after.(decider.Unit); ok {
			delete(running, u.ID)
			if u.Status == events.UnitIsRunning {
				running[u.ID] = u.Claimed
			}
		}
	}
	if len(running) == 0 {
		return steps, nil
	}
	first := p.position
	for _, claimed := range running {
		first = min(first, claimed)
	}
	err := p.Log(ctx, first, func(env events.Envelope) error {
		if e, ok := env.Event.(events.ClockStepped); ok && e.GraceUntil != 0 {
			for unit, claimed := range running {
				if claimed < env.Position {
					steps = append(steps, step{env: env, graced: unit})
				}
			}
		}
		return nil
	})
	slices.SortStableFunc(steps, func(a, b step) int { return cmp.Compare(a.env.Position, b.env.Position) })
	return steps, err
}

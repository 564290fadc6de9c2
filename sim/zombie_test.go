package sim_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/sim"
)

// zombieSleeps is longer than every lease, claim, lifetime and redrive.
const zombieSleeps = 2 * time.Hour

// G-2, G-3, HU-5, O-9, U-19, SC-019, SC-176, SC-179: a zombie at every place. Something stops there and goes on two hours
// later, when its lease, its claim and its turn are long over: a single task, beside which its node goes on, or the whole
// process, as SIGSTOP does; with the store to itself, and beside another node that takes over. What it still says is refused,
// every run ends, and no invariant breaks.
func TestAZombieAtEveryPlace(t *testing.T) {
	for _, z := range []struct {
		name  string
		nodes int
		whole bool
		every int // odd: places before and behind a call are both in it
	}{
		{"a task of the only node", 1, false, 1},
		{"the only node", 1, true, thin()},
		{"a task of one of two nodes", 2, false, thin()},
		{"one of two nodes", 2, true, thin()},
	} {
		t.Run(z.name, func(t *testing.T) {
			b := measureOn(t, whole(), z.nodes)
			enumerate(t, "zombie windows, "+z.name, len(b.stops), z.every*sample, func(v *verdict, i int) {
				at := b.stops[i]
				if *window != 0 && at.N != *window {
					v.left = true
					return
				}
				v.name = fmt.Sprintf("zombie at %s of incarnation %d, seed %d: go test ./sim -run 'TestAZombieAtEveryPlace/%s' -seed %[3]d -window %[5]d",
					at.Stop, at.incarnation, b.scenario.seed, z.name, at.N)
				c := b.config(v)
				c.Holds = []sim.Hold{{Incarnation: at.incarnation, Stop: at.N, For: zombieSleeps, Whole: z.whole}}
				w := b.worldOf(v, c)
				e := b.finish(v, w)
				require.Equal(v, 1, w.Held(), "the same seed takes the same way")
				b.ended(v, e)
			})
		})
	}
}

// ended: what a unit says of its content is true, and it did not end but by a rule that loses workers.
func (b baseline) ended(v *verdict, e ending) {
	for _, u := range e.units {
		switch u.Status {
		case events.UnitHasSucceeded:
			require.Equal(v, b.content[e.name(u)], e.w.Outside().Destination.Rows(place(u)), "content of %s", e.name(u))
		case events.UnitHasFailed:
			lost := []events.Category{events.WorkerLost, events.WorkerLostExhausted, events.ReferenceFailed, events.Timeout}
			require.Contains(v, lost, u.Category, e.name(u))
		default:
			require.Fail(v, "a unit has not ended", "%s: %s", e.name(u), u.Status)
		}
	}
}

package sim

import (
	"context"
	"time"

	"github.com/towline-dev/towline"
)

// Tick moves the clock to the next time at which somebody has something to do, at most by d, and says how far. Ask when Step
// finds nothing to do.
func (w *World) Tick(ctx context.Context, d time.Duration) time.Duration {
	w.look(ctx)
	return w.advance(d)
}

// Gone reports a node that has died or stopped, and waits for Bury.
func (w *World) Gone() bool { return w.anyGone() }

// Broken lists what should not have happened in a living node.
func (w *World) Broken() []error { return w.broken }

// Trap kills a node at the next boundary of which the function says so. nil: at none.
func (w *World) Trap(trap func(node int, at Boundary) bool) { w.trap = trap }

// Configure says for what, and with which knobs, the incarnations are configured that start from now on.
func (w *World) Configure(syncs []Sync, knobs towline.Knobs) { w.c.Syncs, w.c.Knobs = syncs, knobs }

// Living are the numbers of the nodes that have not died, and not stopped.
func (w *World) Living() (numbers []int) {
	for _, n := range w.nodes {
		if !n.dead && !n.stopped {
			numbers = append(numbers, n.number)
		}
	}
	return numbers
}

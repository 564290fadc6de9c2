package sim

import (
	"context"
	"time"

	"github.com/towline-dev/towline"
)

// A world that is driven by hand: by scenario files, and by whoever wants to decide what happens next.

// Standing is a task that is under way, and the place at which it has given others their turn.
type Standing struct {
	Task string // "1/relay": its node, and what it is
	At   string // "before publish traffic dispatch_sync_run.1"; empty: it has not come to a place yet
	Last bool   // it has moved last
}

// Tasks lists what is under way, by node and age.
func (w *World) Tasks() (out []Standing) {
	for _, n := range w.nodes {
		for _, t := range n.tasks {
			out = append(out, Standing{t.label(), t.at, t == w.last})
		}
	}
	return out
}

// Moves names what could happen now; a Step makes one of them.
func (w *World) Moves(ctx context.Context) (names []string) {
	for _, m := range w.moves(ctx) {
		names = append(names, m.name)
	}
	return names
}

// Choose says from now on which of several moves is made, as Config.Choose does. nil: the seed chooses.
func (w *World) Choose(choose func(moves []string) int) { w.c.Choose = choose }

// Faults says from now on what goes wrong, as Config.Faults does. nil: nothing does.
func (w *World) Faults(faults func(Call) Fault) {
	w.c.Faults = faults
	w.disturbed = w.disturbed || faults != nil
}

// Begin lets the nodes that do not live begin to boot, each as a new incarnation. What is dead must be buried.
func (w *World) Begin(ctx context.Context) error { return w.begin(ctx) }

// HoldTask holds a task for so long, whatever it waits for; false: there is none of that name. HoldNode holds a whole node.
func (w *World) HoldTask(label string, d time.Duration) bool {
	w.disturbed = true
	for _, n := range w.nodes {
		for _, t := range n.tasks {
			if t.label() == label {
				t.held = w.now.Add(d)
				return true
			}
		}
	}
	return false
}

// HoldNode holds a node for so long, as SIGSTOP does; false: it does not live.
func (w *World) HoldNode(number int, d time.Duration) bool {
	w.disturbed = true
	for _, n := range w.nodes {
		if n.number == number && !n.dead {
			n.frozen = w.now.Add(d)
			return true
		}
	}
	return false
}

// Wake ends every hold.
func (w *World) Wake() {
	for _, n := range w.nodes {
		n.frozen = time.Time{}
		for _, t := range n.tasks {
			t.held = time.Time{}
		}
		n.fire()
	}
}

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

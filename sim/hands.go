package sim

import (
	"context"
	"fmt"
	"time"
)

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

// Advance lets time pass, and everything happen that comes due, and ends at once when a node has died or stopped. The errors
// are those of Run.
func (w *World) Advance(ctx context.Context, d time.Duration) error {
	end := w.now.Add(d)
	for range maxTurns {
		switch {
		case len(w.broken) > 0:
			return w.errors()
		case w.anyGone():
			return ErrDead
		case w.Step(ctx):
			continue
		case !w.now.Before(end):
			return nil
		}
		w.look(ctx)
		w.advance(end.Sub(w.now))
	}
	return fmt.Errorf("sim: %s do not pass in %d turns", d, maxTurns)
}

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

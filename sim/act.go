package sim

import (
	"context"
	"fmt"
	"slices"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/projections"
)

// Act is something that an operator does when its time has come.
type Act struct {
	Name string
	// Look says what is to be done now. It goes by the views alone, so an operator that a crash has left without an answer
	// finds out by the log whether it was done. It has no memory: worlds share it.
	Look func(v projections.View, now events.Micros) (Move, error)
	// Standing: it may come to nothing, so the world does not wait for it.
	Standing bool
}

// Move is what an operator makes of what it sees. The zero Move waits for the next event.
type Move struct {
	Do   func(context.Context, *towline.Engine) error // not nil: its time is now
	At   events.Micros                                // it looks again then, also without an event; 0: it does not
	Over bool                                         // it is done, or its occasion has passed
}

// Act lets operators act. Whoever is ready goes before all others. What a crash has cut short is looked at anew.
func (w *World) Act(acts ...Act) {
	w.acts = append(w.acts, acts...)
	for _, n := range w.nodes {
		n.operators = operators{} // who comes later looks at what is there already
	}
}

// operators are the acts of a world as one node has seen them last.
type operators struct {
	looked bool
	head   events.Position // of the log that they have seen
	next   events.Micros   // when one of them looks again
	ready  *Act
	do     func(context.Context, *towline.Engine) error
}

// ready finds somebody who can act now. What they see changes with the log, and when their time comes.
func (n *node) operatorReady(ctx context.Context) bool {
	o, now := &n.operators, n.engine.Now()
	if o.looked && o.head == n.w.head && (o.next == 0 || now < o.next) {
		return o.ready != nil
	}
	*o = operators{looked: true, head: n.w.head}
	if len(n.w.acts) == 0 || n.dead {
		return false
	}
	err := n.engine.View(ctx, func(v projections.View) error {
		var left []Act
		for _, a := range n.w.acts {
			move, err := a.Look(v, now)
			if err != nil {
				return fmt.Errorf("%s: %w", a.Name, err)
			}
			if move.Over {
				continue
			}
			left = append(left, a)
			o.next = events.Earliest(o.next, move.At)
			if move.Do != nil && o.ready == nil {
				o.ready, o.do = &a, move.Do
			}
		}
		n.w.acts = left
		return nil
	})
	if err != nil {
		n.w.breaks("look: %w", err)
		return false
	}
	return o.ready != nil
}

// act lets the one who is ready act. Nothing has changed since it looked, so it is not refused.
func (n *node) act(ctx context.Context) {
	a, do := n.operators.ready, n.operators.do
	n.operators = operators{}
	n.w.acting = true
	t := n.start("operator: "+a.Name, func() {
		defer func() { n.w.acting = false }()
		if err := do(ctx, n.engine); err != nil && !n.dead && !n.excused(err) {
			n.w.breaks("%s: %w", a.Name, err)
			n.w.acts = slices.DeleteFunc(n.w.acts, func(b Act) bool { return b.Name == a.Name })
		}
	})
	t.prompt = true
	n.w.run(t)
}

// awaited reports that somebody has still to act.
func (w *World) awaited() bool {
	return slices.ContainsFunc(w.acts, func(a Act) bool { return !a.Standing })
}

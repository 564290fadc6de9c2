package check

import (
	"slices"

	"github.com/towline-dev/towline/events"
)

// answer is what the log says of an obligation. It does not show everything: a node may not have said what it is
// configured for.
type answer int8

const (
	no answer = iota
	perhaps
	yes
)

// expansion counts the units that wakeup n would be published for (K-1).
func (r *register) expansion(n int) int {
	count := 0
	for _, u := range r.run.busy {
		if u.Status == events.UnitIsDispatching && u.Wakeup > r.Closed && u.Wakeup <= n {
			count++
		}
	}
	return count
}

// owes says whether the obligation behind a wakeup stands (O-8).
func (c *Checker) owes(by events.NodeID, r *register, n int, now events.Micros) answer {
	is := func(owed bool) answer {
		if owed {
			return yes
		}
		return no
	}
	switch {
	case r.Kind == events.KindMessage:
		return is(!r.message.over())
	case r.Kind == events.KindPostSync:
		return is(r.order() == events.MarkFirst || !r.run.completed())
	case r.run.Status.Terminal():
		return no
	case r.Kind == events.KindUnit:
		return is(r.expansion(n) > 0)
	case r.Kind == events.KindFinalize:
		return is(r.run.Units.Open() == 0)
	}
	return c.dispatchOwed(by, r.run, now)
}

// completed: in exactly_once mode a run is done when every target has completed (K-8).
func (r *run) completed() bool { return len(r.outstanding()) == 0 }

// dispatchOwed: some unit is planned with an open tier, due or stale (O-8), and nothing holds it. What is held may be owed
// or not: a node that has left it out, or one of another configuration, is right both times.
func (c *Checker) dispatchOwed(by events.NodeID, r *run, now events.Micros) answer {
	best := no
	add := func(held bool) {
		if !held {
			best = yes
		} else if best == no {
			best = perhaps
		}
	}
	for _, t := range r.sources {
		if t.plannedReferences > 0 || t.plannedWorking > 0 && t.open() {
			add(c.heldSource(t.provider, t.source, now) != "" || c.lacksSome(by, r, t))
		}
	}
	for _, u := range r.busy {
		stale, known := c.isStale(u, now)
		switch {
		case u.Status == events.UnitIsRetrying && u.AvailableAt <= now, stale && known:
			add(c.held(by, u, now) != "")
		case !known && best == no:
			best = perhaps
		}
	}
	return best
}

// lacksSome: the planned units of a source are counted together, so one dataset that the node lacks makes it unsure.
func (c *Checker) lacksSome(by events.NodeID, r *run, t *tier) bool {
	n := c.nodes[by]
	return n != nil && slices.ContainsFunc(t.datasets, func(dataset string) bool {
		return n.lacks(r.Sync, t.provider, t.source, dataset)
	})
}

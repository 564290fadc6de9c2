package decider

import (
	"slices"

	"github.com/towline-dev/towline/events"
)

// Breaker is the open circuit breaker of a transport at one node (O-16).
//
//	closed ──Opened──► open ──its time──► half-open ──Closed──► closed
//	                    ▲────Opened anew──────┘
type Breaker struct {
	Transport string
	Cause     string
	Since     events.Micros // it opened then
	Until     events.Micros // nothing is claimed before; then one wakeup is let through
	Kinds     []events.Kind // that wait
	Only      string        // the one register whose wakeup has failed: those of others do not wait
}

// OpenBreaker notes that a node holds back the wakeups of a transport that fails. A probe that failed opens it anew, for
// longer; the same opening twice is noted once.
type OpenBreaker struct {
	Node   events.NodeID
	Opened events.BreakerOpened
}

func (OpenBreaker) Name() string              { return "open_breaker" }
func (c OpenBreaker) Stream() events.StreamID { return events.NodeStream(c.Node) }
func (OpenBreaker) Fresh() bool               { return false }

func (c OpenBreaker) decide(s State) ([]events.Event, *Rejection) {
	n := s.(Node)
	i := n.breaker(c.Opened.Transport)
	if !n.up() || i >= 0 && n.Breakers[i].Until >= c.Opened.Until {
		return nil, nil
	}
	return []events.Event{c.Opened}, nil
}

// CloseBreaker notes that a transport works again.
type CloseBreaker struct {
	Node   events.NodeID
	Closed events.BreakerClosed
}

func (CloseBreaker) Name() string              { return "close_breaker" }
func (c CloseBreaker) Stream() events.StreamID { return events.NodeStream(c.Node) }
func (CloseBreaker) Fresh() bool               { return false }

func (c CloseBreaker) decide(s State) ([]events.Event, *Rejection) {
	n := s.(Node)
	if !n.up() || n.breaker(c.Closed.Transport) < 0 {
		return nil, nil
	}
	return []events.Event{c.Closed}, nil
}

// breaker is the place of a transport in Breakers; -1: its breaker is closed.
func (n Node) breaker(transport string) int {
	return slices.IndexFunc(n.Breakers, func(b Breaker) bool { return b.Transport == transport })
}

// breakerOpened copies: a state is a value, and an older copy of it may live in a cache.
func (n Node) breakerOpened(at events.Micros, e events.BreakerOpened) Node {
	b := Breaker{Transport: e.Transport, Cause: e.Cause, Since: at, Until: e.Until, Kinds: e.Kinds, Only: e.Only}
	n.Breakers = slices.Clone(n.Breakers)
	if i := n.breaker(e.Transport); i >= 0 {
		b.Since = n.Breakers[i].Since
		n.Breakers[i] = b
		return n
	}
	n.Breakers = append(n.Breakers, b)
	return n
}

func (n Node) breakerClosed(e events.BreakerClosed) Node {
	if i := n.breaker(e.Transport); i >= 0 {
		n.Breakers = slices.Delete(slices.Clone(n.Breakers), i, i+1)
	}
	return n
}

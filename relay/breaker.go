package relay

import (
	"time"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/events"
)

// breaker is what one node has learned of one transport (O-16). It is a value: each receipt is a step to the next one.
//
//	        failures in a row              its time
//	closed ───────────────────► open ─────────────────► half-open
//	  ▲ ▲                        ▲ │ accepted              │  │
//	  │ └────────────────────────┼─┘        a probe failed │  │
//	  │                          └─────────────────────────┘  │
//	  └───────────────────────────────────────────────────────┘ accepted
//
// It begins closed with its node. What a start costs is one batch into a broker that is away; that burns no attempt, for
// the transport is blamed until it has accepted something (decider.Failure).
type breaker struct {
	row      int           // failures of the transport since it last accepted
	by       string        // the register whose wakeup has failed each time; empty: several have, or none
	accepted events.Micros // when it did; 0: never
	until    events.Micros // open, and half-open from then on; 0: closed
	wait     events.Span   // how long it opened last
	closed   events.Micros // when it closed last; 0: it never did
}

// outcome is what a receipt says of a transport.
type outcome int

const (
	accepted    outcome = iota
	failed              // refused or unknown, and no fault of the message
	probeFailed         // the one that was let through
)

// breakerKnobs are relay.breaker_failures and relay.breaker_open.
type breakerKnobs struct {
	failures      int
	open, longest events.Span
}

// longestOpen is where the doubling of relay.breaker_open ends.
const longestOpen = 5 * time.Minute

func breakerKnobsOf(k towline.Knobs) breakerKnobs {
	return breakerKnobs{
		failures: k.BreakerFailures, open: events.SpanOf(k.BreakerOpen), longest: events.SpanOf(max(k.BreakerOpen, longestOpen)),
	}
}

// isOpen: no claim is made, but for a probe.
func (b breaker) isOpen() bool { return b.until != 0 }

// halfOpen: it is open, and its time is over, so that a probe may go.
func (b breaker) halfOpen(now events.Micros) bool { return b.isOpen() && now >= b.until }

// admits reports that a wakeup of a register may be the probe. As long as all failures are those of one register, they may
// be its own fault, and any other one need not wait: it is the proof.
func (b breaker) admits(now events.Micros, register string) bool {
	return b.halfOpen(now) || b.isOpen() && b.by != "" && b.by != register
}

// next is the breaker behind a receipt that came at now, of a wakeup of a register.
func (b breaker) next(now events.Micros, o outcome, register string, k breakerKnobs) breaker {
	if o == accepted {
		b.row, b.by, b.accepted = 0, "", now
		if b.isOpen() {
			b.until, b.closed = 0, now
		}
		return b
	}
	if b.row == 0 {
		b.by = register
	}
	if b.by != register {
		b.by = ""
	}
	b.row++
	switch {
	case !b.isOpen() && b.row >= k.failures:
		return b.opened(now, k)
	case b.isOpen() && o == probeFailed:
		b.wait = min(2*b.wait, k.longest)
		b.until = now.Add(b.wait)
	}
	return b // what else fails while it is open was on its way when it opened
}

// opened begins with the shortest wait. But a transport that comes and goes is waited for longer each time: one that has
// not worked, since it came back, for as long as it was waited for.
func (b breaker) opened(now events.Micros, k breakerKnobs) breaker {
	recent := b.closed != 0 && now.Sub(b.closed) < k.longest
	if recent && b.accepted.Sub(b.closed) < b.wait {
		b.wait = min(2*b.wait, k.longest)
	} else {
		b.wait = k.open
	}
	b.until = now.Add(b.wait)
	return b
}

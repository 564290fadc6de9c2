package projections

import (
	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/events"
)

// grace is what a step of the wall clock has left to one attempt (CLK-4). It stays when the attempt ends, for a rollback
// may bring it back; the next attempt has its own.
type grace struct {
	attempt int // 0: none had one yet
	decider.Grace
}

// graceOf is the grace of the attempt in whose state the unit is.
func (u *hotUnit) graceOf(l live) decider.Grace {
	if l.status != events.UnitIsRunning || u.grace.attempt != l.attempt {
		return decider.Grace{}
	}
	return u.grace.Grace
}

// effective is l with its grace, as the row of the unit shows it.
func (u *hotUnit) effective(l live) live {
	g := u.graceOf(l)
	l.leaseExpires, l.leaseEnds = max(l.leaseExpires, g.Until), max(l.leaseEnds, g.Ends)
	return l
}

// hurt reports a lease that was live before a step, and whose attempt had no grace yet.
func (u *hotUnit) hurt(before events.Micros) bool {
	return u.status == events.UnitIsRunning && u.leaseExpires > before && u.grace.attempt != u.attempt
}

// stepped folds the grace of a step. It looks at what is in flight, which the caps bound.
func (h *Hot) stepped(e events.ClockStepped) {
	if e.GraceUntil == 0 {
		return
	}
	for _, r := range h.order {
		for _, u := range r.busy {
			if u.hurt(e.Before) {
				ends := max(u.leaseEnds.Add(stepLength(e)), e.GraceUntil)
				u.grace = grace{u.attempt, decider.Grace{Until: e.GraceUntil, Ends: ends}}
				u.live = u.effective(u.live)
				h.revive(u)
			}
		}
	}
}

// revive judges a unit anew whose lease lives longer than it seemed. Where another process has looked at a later time
// than that of the step, it may be dead already.
func (h *Hot) revive(u *hotUnit) {
	if u.dead {
		u.dead = false
		h.slots(u, 1)
	}
	h.judge(u)
}

// Grace is what a step of the wall clock has left to the running attempt of a unit (CLK-4); zero: nothing.
func (h *Hot) Grace(id events.UnitID) decider.Grace {
	if u, ok := h.units[id]; ok {
		return u.graceOf(u.live)
	}
	return decider.Grace{}
}

// LongestHurt is the longest lease among those that a step of the wall clock would end too early: live before it, of no
// incarnation that is gone, and without a grace so far. 0: it hurts none.
func (h *Hot) LongestHurt(before events.Micros) events.Span {
	longest := events.Span(0)
	for _, r := range h.order {
		for _, u := range r.busy {
			if u.hurt(before) && !h.Gone(u.leaseNode) {
				longest = max(longest, r.lease)
			}
		}
	}
	return longest
}

// Stepped is when a clock was last set forward; 0: never (CLK-8).
func (h *Hot) Stepped() events.Micros { return h.clock.stepped }

// ClockBehind is how far an operator has confirmed the wall clock to lie before engine time; 0: not at all (CLK-7).
func (h *Hot) ClockBehind() events.Span { return h.clock.behind }

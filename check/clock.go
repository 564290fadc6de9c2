package check

import "github.com/towline-dev/towline/events"

// clockStepped checks CLK-3 and CLK-4, and keeps what a step leaves to the leases that it would have ended.
func (c *Checker) clockStepped(e events.Envelope, ev events.ClockStepped) {
	if ev.Actor != "" {
		if ev.GraceUntil != 0 {
			c.wrong("I-6", e, "an operator's word on the clock grants a grace until %s: it moves no time (CLK-7)", ev.GraceUntil)
		}
		return
	}
	if !c.tx.torn && e.Position != c.tx.position && !(c.tx.boots && e.Position == c.tx.position+1) {
		c.wrong("I-2", e, "the step is recorded behind other decisions of its transaction (CLK-3)")
	}
	longest := c.longestHurt(ev.Before)
	switch {
	case ev.GraceUntil == 0 && longest > 0 && c.mustGrace(e, ev):
		c.wrong("I-2", e, "the clock went forward from %s to %s, and the leases that were live get no grace (CLK-4)", ev.Before, ev.After)
	case ev.GraceUntil == 0:
	case ev.After <= ev.Before:
		c.wrong("I-6", e, "a clock that did not go forward, from %s to %s, grants a grace until %s (CLK-4)", ev.Before, ev.After, ev.GraceUntil)
	case longest == 0:
		c.wrong("I-6", e, "it grants a grace until %s, and no lease was live at %s without one (CLK-4)", ev.GraceUntil, ev.Before)
	case ev.GraceUntil > e.At.Add(longest):
		c.wrong("I-6", e, "it grants a grace until %s, and the longest lease that it covers ends at %s (CLK-4)", ev.GraceUntil, e.At.Add(longest))
	case ev.GraceUntil < e.At.Add(longest):
		c.wrong("I-2", e, "it grants a grace until %s, less than the lease that would end at %s (CLK-4)", ev.GraceUntil, e.At.Add(longest))
	}
	if ev.After > ev.Before {
		c.stepped = e.At
	}
	c.grace(ev)
}

// mustGrace: the step is larger than the bound of the node.
func (c *Checker) mustGrace(e events.Envelope, ev events.ClockStepped) bool {
	bound := c.settings(e.Node).StepBound
	return bound > 0 && ev.After.Sub(ev.Before) > bound
}

// hurt reports a lease that was live at before, and whose attempt has had no grace.
func (u *unit) hurt(before events.Micros) bool {
	return u.Status == events.UnitIsRunning && u.LeaseExpiresAt > before && u.GraceUntil == 0
}

// longestHurt is the longest lease that a step from before would end too early; 0: it hurts none.
func (c *Checker) longestHurt(before events.Micros) events.Span {
	longest := events.Span(0)
	for _, u := range c.slots.flight {
		if u.hurt(before) && !c.gone(u.LeaseNode) {
			longest = max(longest, u.run.Policy.Lease)
		}
	}
	return longest
}

// grace keeps leases that were live before a clock step alive until grace_until, once per attempt, and lets their lifetime
// end later by the length of the step (CLK-4).
func (c *Checker) grace(ev events.ClockStepped) {
	if ev.GraceUntil == 0 {
		return
	}
	for _, u := range c.slots.flight {
		if u.hurt(ev.Before) {
			u.GraceUntil = ev.GraceUntil
			u.graceEnds = max(u.LeaseEndsAt.Add(max(ev.After.Sub(ev.Before), 0)), ev.GraceUntil)
			c.count(u)
		}
	}
}

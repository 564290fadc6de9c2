package check

import (
	"fmt"

	"github.com/towline-dev/towline/events"
)

// Standstills reports every run that has not ended and shows nothing that it waits for: no pause, no restored hold, no
// parked wakeup, no due time ahead of now (I-27). They count as violations of the checker too.
//
// Ask when faults have stopped, time has moved on and a pass appends nothing any more; before that, a wakeup that has
// become due and was not yet claimed looks like a standstill. What a node is not configured for shows only if its
// NodeStarted says so.
func (c *Checker) Standstills(now events.Micros) []Violation {
	return c.collect(func() { c.standstills(now) })
}

func (c *Checker) standstills(now events.Micros) {
	for _, r := range c.runOrder {
		if r.Status.Terminal() || c.waits(r, now) {
			continue
		}
		text := ""
		for i, reg := range r.regs {
			if reg != nil {
				text += fmt.Sprintf("; %s is %s", events.Kinds[i], reg.describe())
			}
		}
		n := r.Units
		c.report("I-27", c.position, events.RunStream(r.ID),
			"at %s the run is %s with %d planned, %d dispatching, %d running and %d retrying units, and nothing is paused, held or due later%s",
			now, r.Status, n.Planned, n.Dispatching, n.Running, n.Retrying, text)
	}
}

// waits reports that a run shows something that it waits for.
func (c *Checker) waits(r *run, now events.Micros) bool {
	if c.hold || c.paused && r.Units.Open() > 0 {
		return true
	}
	for _, reg := range r.regs {
		if reg == nil {
			continue
		}
		switch reg.State {
		case Parked, Unresolved:
			return true
		case Pending:
			if reg.AvailableAt > now {
				return true
			}
		case Claimed:
			if reg.ClaimExpiresAt > now && !c.gone(reg.ClaimNode) {
				return true
			}
		}
	}
	for _, u := range r.busy {
		until := c.slotUntil(u, c.slots.stale)
		if u.Status == events.UnitIsRetrying {
			until = u.AvailableAt
		}
		if until > now || u.Status != events.UnitIsRunning && c.isHeld(u, now) {
			return true
		}
	}
	for _, u := range r.units {
		if u.Status == events.UnitIsPlanned && c.isHeld(u, now) {
			return true
		}
	}
	return false
}

// isHeld reports a unit that nobody may dispatch now.
func (c *Checker) isHeld(u *unit, now events.Micros) bool {
	return c.heldSource(u.Plan.Provider, u.Plan.Source, now) != "" || c.lacked(u)
}

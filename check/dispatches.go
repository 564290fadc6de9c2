package check

import "github.com/towline-dev/towline/events"

// dispatched and retried are what I-10 is checked for at the end of the transaction.
type dispatched struct {
	u        *unit
	wakeup   int
	position events.Position
}

type retried struct {
	u           *unit
	availableAt events.Micros
	position    events.Position
}

// unitDispatched checks U-2, U-3 and U-4, and what B-1, P-9 and K-1 say of a dispatch.
func (c *Checker) unitDispatched(e events.Envelope, u *unit, ev events.UnitDispatched) {
	var cause events.DispatchCause
	switch u.Status {
	case events.UnitIsPlanned:
		cause = events.DispatchPlanned
	case events.UnitIsRetrying:
		cause = events.DispatchRetry
		if u.AvailableAt > e.At {
			c.wrong("I-2", e, "the unit is dispatched again, and its next attempt is not due before %s (U-3)", u.AvailableAt)
		}
	case events.UnitIsDispatching:
		cause = c.staleCause(e, u, ev)
	default:
		c.wrong("I-2", e, "a unit that is %s cannot be dispatched (U-18)", u.Status)
		cause = ev.Cause
	}
	if ev.Cause != cause {
		c.wrong("I-2", e, "its cause is %s, and the unit is %s (U-2 to U-4)", ev.Cause, u.Status)
	}
	if ev.Dispatch != u.Dispatches+1 {
		c.wrong("I-2", e, "it is dispatch %d, and the unit was dispatched %d times", ev.Dispatch, u.Dispatches)
	}
	if ev.Attempt != u.Attempt+1 {
		c.wrong("I-2", e, "it invites attempt %d, and the unit was claimed %d times", ev.Attempt, u.Attempt)
	}
	if ev.Bucket != u.bucket.name {
		c.wrong("I-2", e, "its bucket is %q, and the unit was planned for %q", ev.Bucket, u.bucket.name)
	}
	if u.Plan.Tier != events.TierReference && !u.tier.open() {
		c.wrong("I-21", e, "%d of %d reference units of source %s have succeeded", u.tier.succeeded, u.tier.references, u.Plan.Source)
	}
	if why := c.held(e.Node, u, e.At); why != "" {
		c.wrong("I-2", e, "a unit is dispatched while %s", why)
	}
	if other := c.suspectAtWork(u, e.At); u.Suspect && other != nil {
		c.wrong("I-2", e, "a crash suspect is dispatched while another, unit %s, is %s (RW-8)", other.ID, other.Status)
	}
	if named := u.run.regs[fanOut].announced(); ev.Wakeup != named {
		c.wrong("I-10", e, "it names wakeup %d, and an arm of run_sync_unit would leave wakeup %d open (K-1)", ev.Wakeup, named)
	}

	if u.Status != events.UnitIsDispatching {
		u.AttemptDispatches, u.FirstDispatchedAt = 0, e.At
	}
	u.endAttempt()
	u.Dispatches, u.Wakeup, u.LastDispatchedAt = ev.Dispatch, ev.Wakeup, e.At
	u.AttemptDispatches++
	u.invitedSince, u.messageNode = true, events.NodeID{}
	c.move(e, u, events.UnitIsDispatching)
	c.checkCaps(e, u, "dispatch")
	c.tx.dispatched = append(c.tx.dispatched, dispatched{u, ev.Wakeup, e.Position})
}

// staleCause says why a dispatching unit may be dispatched again (U-4). Both causes may hold.
func (c *Checker) staleCause(e events.Envelope, u *unit, ev events.UnitDispatched) events.DispatchCause {
	switch ev.Cause {
	case events.DispatchIncarnationGone:
		if !c.messageGone(u) {
			c.wrong("I-2", e, "its message was not in the memory of an incarnation that is gone (U-4, N-3)")
		}
		return ev.Cause
	case events.DispatchStale:
		if s := c.slots.stale; s > 0 && u.LastDispatchedAt.Add(s) > e.At {
			c.wrong("I-2", e, "it was dispatched at %s and is not stale before %s (U-4)", u.LastDispatchedAt, u.LastDispatchedAt.Add(s))
		}
		return ev.Cause
	}
	return events.DispatchStale
}

// suspectAtWork is a crash suspect beside u that is running, or dispatching and not stale; nil: there is none (RW-8).
func (c *Checker) suspectAtWork(u *unit, now events.Micros) *unit {
	for _, other := range c.slots.flight {
		if !other.Suspect || other == u {
			continue
		}
		if stale, known := c.isStale(other, now); other.Status == events.UnitIsRunning || known && !stale {
			return other
		}
	}
	return nil
}

// messageGone: the message of a dispatching unit went through the memory of an incarnation that is gone (N-3).
func (c *Checker) messageGone(u *unit) bool { return c.gone(u.messageNode) }

// isStale reports a dispatching unit whose message must be taken for lost; known is false if the log does not say
// after what time that is.
func (c *Checker) isStale(u *unit, now events.Micros) (stale, known bool) {
	switch {
	case u.Status != events.UnitIsDispatching:
		return false, true
	case c.messageGone(u):
		return true, true
	}
	return u.LastDispatchedAt.Add(c.slots.stale) <= now, c.slots.stale > 0
}

// endOfDispatches is the first half of I-10, and R-2.
func (c *Checker) endOfDispatches() {
	for _, d := range c.tx.dispatched {
		r := d.u.run
		stream := events.UnitStream(d.u.ID)
		reg := r.regs[fanOut]
		switch at, n := reg.unknown(); {
		case n == 0:
			c.report("I-10", d.position, stream, "the unit was dispatched, and the transaction leaves run_sync_unit %s", reg.describe())
		case n != d.wakeup:
			c.report("I-10", d.position, stream, "the unit names wakeup %d, and run_sync_unit is left %s", d.wakeup, reg.describe())
		case at > c.tx.at && !(n == reg.Current && reg.Floor):
			c.report("I-2", d.position, stream, "the unit was dispatched, and wakeup %d of run_sync_unit is due at %s only (U-2)", n, at)
		}
		if r.Status == events.RunIsPlanned {
			c.report("I-2", d.position, stream, "the first unit of the run was dispatched, and the run does not say so in the transaction (R-2)")
		}
	}
	for _, r := range c.tx.started {
		began := false
		for _, d := range c.tx.dispatched {
			began = began || d.u.run == r
		}
		if !began {
			c.report("I-2", r.startedAt, events.RunStream(r.ID), "the dispatch of the run starts, and the transaction dispatches no unit of it (R-2)")
		}
	}
}

// endOfRetries is the second half of I-10: somebody will be woken when the next attempt is due.
func (c *Checker) endOfRetries() {
	for _, t := range c.tx.retried {
		reg := t.u.run.regs[dispatch]
		at, n := reg.unknown()
		switch {
		case n == 0:
			c.report("I-10", t.position, events.UnitStream(t.u.ID), "the unit is due again at %s, and the transaction leaves dispatch_sync_run %s", t.availableAt, reg.describe())
		case at > t.availableAt && !(n == reg.Current && reg.Floor):
			c.report("I-10", t.position, events.UnitStream(t.u.ID), "the unit is due again at %s, and wakeup %d of dispatch_sync_run at %s only", t.availableAt, n, at)
		}
	}
}

package check

import "github.com/towline-dev/towline/events"

// settledBy notes whose unit this transaction settles (U-5).
func (c *Checker) settledBy(e events.Envelope, u *unit) {
	c.tx.settlers = append(c.tx.settlers, settler{
		mention{e.Position, e.Stream, e.Event.EventType()}, worker{u.Worker, u.LeaseNode},
	})
}

// unitSucceeded checks U-7.
func (c *Checker) unitSucceeded(e events.Envelope, u *unit, ev events.UnitSucceeded) {
	c.checkHolder(e, u, ev.Attempt, ev.Token)
	c.settledBy(e, u)
	c.checkWatermarks(e, u, ev.Watermarks)
	u.endAttempt()
	u.Category, u.By = "", ""
	c.move(e, u, events.UnitHasSucceeded)
}

// unitFailed checks U-8 and U-12 to U-14.
func (c *Checker) unitFailed(e events.Envelope, u *unit, ev events.UnitFailed) {
	if ev.Attempt != u.Attempt && ev.By != events.ByWorker {
		c.wrong("I-2", e, "it ends attempt %d, and the unit was claimed %d times", ev.Attempt, u.Attempt)
	}
	if ev.By != events.ByWorker && ev.Token != "" {
		c.wrong("I-2", e, "it bears the token of a worker, and says it is by %s", ev.By)
	}
	switch ev.By {
	case events.ByWorker:
		c.checkHolder(e, u, ev.Attempt, ev.Token)
		c.settledBy(e, u)
		if lostWorker(ev.Category) || ev.Category == events.ReferenceFailed || ev.Category == events.NeverStarted {
			c.wrong("I-2", e, "a worker cannot fail its unit as %s (section 19)", ev.Category)
		}
		c.checkLimited(e, u, ev.Category)
	case events.ByReconciler, events.ByOperator:
		c.checkLost(e, u, ev)
	case events.ByDispatch:
		c.checkNeverStarted(e, u, ev)
	case events.ByReference:
		if u.Status != events.UnitIsPlanned || u.Plan.Tier != events.TierWorkItem || u.tier.failed == 0 || ev.Category != events.ReferenceFailed {
			c.wrong("I-2", e, "a %s unit that is %s fails as %s, with %d failed reference units of source %s (U-13)",
				u.Plan.Tier, u.Status, ev.Category, u.tier.failed, u.Plan.Source)
		}
	default:
		c.wrong("I-2", e, "nobody called %q ends units", ev.By)
	}
	u.endAttempt()
	u.Category, u.By = ev.Category, ev.By
	c.move(e, u, events.UnitHasFailed)
}

func lostWorker(c events.Category) bool {
	return c == events.WorkerLost || c == events.WorkerLostExhausted
}

// checkLost is U-12 with RW-4: a lost worker ends its unit only if U-11 does not apply, under the category that says why.
func (c *Checker) checkLost(e events.Envelope, u *unit, ev events.UnitFailed) {
	if u.Status != events.UnitIsRunning {
		c.wrong("I-2", e, "a lost worker ends a unit that is %s (U-12)", u.Status)
	}
	if released := u.expiry.cause == events.LeaseReleased; u.expiry.tx != 0 && released != (ev.By == events.ByOperator) {
		c.wrong("I-2", e, "its lease ended as %s, and it fails by %s (X-8)", u.expiry.cause, ev.By)
	}
	c.takeExpiry(e, u)
	want := events.WorkerLost
	if p, ok := policyFor(u, events.ExpiredLease); ok {
		want = events.WorkerLostExhausted
		if u.ExpiredLeaseRetries < p.MaxRetries {
			c.wrong("I-2", e, "the unit fails, and policy %q allows retry %d of %d (U-11, U-12)", p.Name, u.ExpiredLeaseRetries+1, p.MaxRetries)
			return
		}
	}
	if ev.Category != want {
		c.wrong("I-2", e, "its category is %s, and it must be %s (RW-4)", ev.Category, want)
	}
}

// checkNeverStarted is U-14.
func (c *Checker) checkNeverStarted(e events.Envelope, u *unit, ev events.UnitFailed) {
	const dispatches = 3
	if stale, known := c.isStale(u, e.At); u.Status != events.UnitIsDispatching || known && !stale {
		c.wrong("I-2", e, "the unit is given up as never started, and it is %s since %s and not stale (U-14)", u.Status, when(u.LastDispatchedAt))
	}
	after := c.settings(e.Node).NeverStartedAfter
	switch {
	case ev.Category != events.NeverStarted:
		c.wrong("I-2", e, "dispatch fails a unit as %s (U-14)", ev.Category)
	case u.AttemptDispatches < dispatches:
		c.wrong("I-2", e, "the unit is given up after %d dispatches of the attempt (U-14)", u.AttemptDispatches)
	case after < 0:
		c.wrong("I-2", e, "the unit is given up, and dispatch.never_started_after is 0: never (U-14)")
	case after > 0 && c.budgetSince(u.FirstDispatchedAt).Add(after) > e.At:
		c.wrong("I-2", e, "the unit is given up, first dispatched at %s, and a clock was last set forward at %s; dispatch.never_started_after is %s (U-14, CLK-8)",
			u.FirstDispatchedAt, when(c.stepped), after)
	case c.slots.stale > 0 && u.LastDispatchedAt.Add(2*c.slots.stale) < e.At:
		c.wrong("I-2", e, "the unit is given up, and its newest message went out at %s: it was held, not lost (U-14)", u.LastDispatchedAt)
	case !c.room(e, u):
		c.wrong("I-2", e, "the unit is given up while no slot is free for it (U-14)")
	}
	if why := c.held(e.Node, u, e.At); why != "" {
		c.wrong("I-2", e, "a unit is given up while %s (U-14)", why)
	}
}

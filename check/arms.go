package check

import "github.com/towline-dev/towline/events"

// armed checks O-S1 to O-S3 and O-S8.
func (c *Checker) armed(e events.Envelope, r *register, ev events.OutboxArmed) {
	c.mayArm(e, r, ev)
	n := r.announced()
	open, _ := r.unknown()
	switch {
	case ev.N != n:
		c.wrong("I-11", e, "it arms wakeup %d of a register that is %s, and the next wish is wakeup %d (O-2, O-6)", ev.N, r.describe(), n)
	case n <= r.Newest && n == r.Current && r.Floor:
		c.wrong("I-2", e, "it moves wakeup %d, and its time %s is a backoff, which an arm does not move (O-4)", n, open)
	case n <= r.Newest && ev.AvailableAt >= open:
		c.wrong("I-11", e, "it arms wakeup %d again for %s, and that is open and due at %s (O-4)", n, ev.AvailableAt, open)
	}
	if ev.AvailableAt == 0 {
		c.wrong("I-30", e, "wakeup %d is armed for no time", ev.N)
	}

	switch {
	case ev.N == r.Current && r.State == Pending:
		r.AvailableAt = ev.AvailableAt
	case ev.N == r.Next && r.Next != 0:
		r.NextAt = ev.AvailableAt
	case ev.N <= r.Newest: // a number that has ended; it stays so
	case r.State == Pending || r.State == Claimed:
		r.Newest, r.Next, r.NextAt = ev.N, ev.N, ev.AvailableAt
	default:
		r.Newest, r.Next, r.NextAt = ev.N, ev.N, ev.AvailableAt
		r.advance()
	}
}

// mayArm is the column "may be armed again" of section 7, with and O-3.
func (c *Checker) mayArm(e events.Envelope, r *register, ev events.OutboxArmed) {
	first := r.Newest == 0
	if r.State == Parked && ev.Cause == events.ArmMaterialized {
		c.wrong("I-2", e, "wakeup %d is parked, and materialization never arms a parked register (O-S8)", r.Current)
	}
	if ev.Cause == events.ArmRedriven {
		c.checkOperator(e, "", false, "")
		if r.State != Parked && !r.failedEffects() {
			c.wrong("I-2", e, "it redrives a register that is %s (O-18)", r.describe())
		}
	}
	switch r.Kind {
	case events.KindPostSync:
		c.mayArmPost(e, r, first)
		if !first && r.order() == events.PublishFirst {
			c.mayArmAgain(e, r, ev)
		}
		return
	case events.KindMessage:
		c.mayArmMessage(e, r, ev)
		return
	case events.KindDispatch:
		c.mayArmDispatch(e, r, ev, first)
	case events.KindUnit, events.KindFinalize:
		if ev.Cause != events.ArmRedriven {
			c.tx.announced = append(c.tx.announced, announced{r, e.Position})
		}
	}
	if r.run.Status.Terminal() {
		c.wrong("I-2", e, "nothing is owed, the run is %s (O-3)", r.run.Status)
	}
}

// announced is an arm, until the end of its transaction shows the change that it announces (O-3).
type announced struct {
	r        *register
	position events.Position
}

// endOfAnnounced: run_sync_unit is armed with a dispatch, and finalize_sync_run when no unit is open (section 7, U-21).
func (c *Checker) endOfAnnounced() {
	for _, a := range c.tx.announced {
		run := a.r.run
		if a.r.Kind == events.KindFinalize {
			switch open := run.Units.Open(); {
			case open > 0:
				c.report("I-2", a.position, a.r.stream, "finalize_sync_run is armed, and %d units of the run are open (U-21)", open)
			case run.Status == events.RunIsCancelled:
				c.report("I-2", a.position, a.r.stream, "finalize_sync_run is armed, and the transaction cancels the run (U-15)")
			}
			continue
		}
		found := false
		for _, d := range c.tx.dispatched {
			found = found || d.u.run == run
		}
		if !found {
			c.report("I-2", a.position, a.r.stream, "run_sync_unit is armed, and the transaction dispatches no unit of the run (O-3, section 7)")
		}
	}
}

// mayArmDispatch: wakeup 1 is the contract of the plan, behind its units and due now (R-1, P-6).
func (c *Checker) mayArmDispatch(e events.Envelope, r *register, ev events.OutboxArmed, first bool) {
	switch run := r.run; {
	case !first:
	case run.plannedTx != c.tx.position:
		c.wrong("I-2", e, "the first wakeup of the run is armed outside the transaction that plans it (R-1)")
	case len(run.units) < run.Total || run.Total == 0:
		c.wrong("I-2", e, "the first wakeup of the run is armed with %d of %d units planned (R-1)", len(run.units), run.Total)
	case ev.AvailableAt != e.At:
		c.wrong("I-2", e, "the first wakeup of the run is due at %s instead of now (R-1)", ev.AvailableAt)
	}
}

// mayArmPost: post_sync is armed by the end of its run, and in at_most_once mode once (I-8, I-13).
func (c *Checker) mayArmPost(e events.Envelope, r *register, first bool) {
	run := r.run
	switch {
	case !first && r.order() == events.MarkFirst:
		c.wrong("I-13", e, "an at-most-once post_sync is armed a second time, behind wakeup %d", r.Newest)
	case !run.Status.Terminal():
		c.wrong("I-8", e, "post_sync is armed, and the run is %s", run.Status)
	case !run.PostSyncOwed && run.endedTx != c.tx.position: // within that transaction the end of it says so
		c.wrong("I-8", e, "post_sync is armed, and the run owes none: %d units succeeded, %d targets", run.Units.Succeeded, len(run.Policy.Targets))
	}
	if first {
		run.postTx = c.tx.position
	}
}

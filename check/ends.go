package check

import "github.com/towline-dev/towline/events"

// checkEnd is what both ends of a run must have (I-7, I-8, R-3, R-4).
func (c *Checker) checkEnd(e events.Envelope, r *run, n events.Counts, owed bool) {
	if open := r.Units.Open(); open > 0 {
		c.wrong("I-7", e, "the run ends with %d open units: %d planned, %d dispatching, %d running, %d retrying",
			open, r.Units.Planned, r.Units.Dispatching, r.Units.Running, r.Units.Retrying)
	}
	if len(r.units) != r.Total {
		c.wrong("I-7", e, "the run ends with %d of its %d units", len(r.units), r.Total)
	}
	_, cancel := e.Event.(events.RunCancelled)
	counts := events.Counts{Total: r.Total, Succeeded: r.Units.Succeeded, Failed: r.Units.Failed, Cancelled: r.Units.Cancelled}
	if cancel && n.Total == 0 {
		n.Total = counts.Total // the catalogue gives RunCancelled no total
	}
	if n != counts {
		c.wrong("I-2", e, "it counts %+v, and its units make %+v (R-3)", n, counts)
	}
	if owed != r.owesPost() {
		c.wrong("I-8", e, "post_sync_owed is %t, with %d succeeded units and %d targets (R-9)", owed, r.Units.Succeeded, len(r.Policy.Targets))
	}
}

func (c *Checker) end(e events.Envelope, r *run, s events.RunStatus, reason string) {
	if !s.Terminal() {
		s = events.RunFailed // it was reported: no units make such an end
	}
	r.Status, r.Reason, r.CompletedAt, r.PostSyncOwed = s, reason, e.At, r.owesPost()
	r.endedTx, r.endedAt = c.tx.position, e.Position
	c.tx.ends = append(c.tx.ends, r)
	c.scheduledEnd(e, r)
}

// aggregate is R-6.
func aggregate(r *run) (events.RunStatus, string) {
	n := r.Units
	switch {
	case r.Total == 0:
		return events.RunFailed, events.ReasonNoUnits
	case n.Succeeded == r.Total:
		return events.RunSucceeded, ""
	case n.Succeeded > 0:
		return events.RunPartialFailed, ""
	case n.Cancelled == r.Total:
		return events.RunFailed, events.ReasonAllUnitsCancelled
	}
	return events.RunFailed, ""
}

// afterEnd takes what follows the end of a run: post_sync only (I-3).
func (c *Checker) afterEnd(e events.Envelope, r *run) {
	switch ev := e.Event.(type) {
	case events.RunFinalized, events.RunCancelled:
		c.wrong("I-7", e, "the run has ended as %s already", r.Status)
	case events.PostSyncStarted:
		c.checkPost(e, r, ev.Generation, ev.Target, ev.MessageID)
		p := r.post(ev.Target)
		switch {
		case r.mode() == events.ExactlyOnce:
			c.wrong("I-2", e, "the effect of target %q is taken, and in exactly_once mode the once-ledger says who runs it (HP-3)", ev.Target)
		case p.Started > 0:
			c.wrong("I-2", e, "the effect of target %q starts a second time (HP-2)", ev.Target)
		}
		p.Started++
		p.begunBy = e.Node
	case events.PostSyncCompleted:
		c.checkPost(e, r, ev.Generation, ev.Target, ev.MessageID)
		p := r.post(ev.Target)
		if p.Completed > 0 {
			c.wrong("I-2", e, "the effect of target %q completes a second time (HP-2, HP-3)", ev.Target)
		}
		c.checkEffect(e, r, p)
		p.Completed++
		p.begunBy = events.NodeID{}
	case events.PostSyncFailed:
		c.checkPost(e, r, ev.Generation, ev.Target, ev.MessageID)
		p := r.post(ev.Target)
		c.checkEffect(e, r, p)
		c.checkFailure(e, r, p, ev.MessageID)
		p.Failed++
		p.begunBy = events.NodeID{}
	default:
		c.wrong("I-3", e, "%s follows the end of the run, which is %s", e.Event.EventType(), r.Status)
	}
}

// endOfRuns is I-8, and R-4 for units that were cancelled for the sake of their run.
func (c *Checker) endOfRuns() {
	for _, r := range c.tx.ends {
		stream := events.RunStream(r.ID)
		if r.job == nil || r.job.closedTx != c.tx.position {
			c.report("I-8", r.endedAt, stream, "the run ended as %s, and its job %s was not closed in the transaction", r.Status, r.Job)
		}
		switch armed := r.postTx == c.tx.position; {
		case r.PostSyncOwed && !armed:
			c.report("I-8", r.endedAt, stream, "the run owes post_sync (%d units succeeded), and the transaction does not arm it", r.Units.Succeeded)
		case !r.PostSyncOwed && armed:
			c.report("I-8", r.endedAt, stream, "the run owes no post_sync (%d units succeeded, %d targets), and the transaction arms it", r.Units.Succeeded, len(r.Policy.Targets))
		}
	}
	for _, u := range c.tx.cancelled {
		if u.run.endedTx != c.tx.position || u.run.Status != events.RunIsCancelled {
			c.report("I-2", u.last, events.UnitStream(u.ID), "the unit was cancelled with its run, and the transaction does not cancel the run (R-4)")
		}
	}
}

// endOfDrained is I-9: whoever ends the last open unit of a run leaves a wakeup that cannot have been used up already.
func (c *Checker) endOfDrained() {
	for _, d := range c.tx.drained {
		r := d.run
		if r.Status.Terminal() || r.Units.Open() > 0 {
			continue
		}
		reg := r.regs[finalize]
		if reg == nil {
			c.report("I-9", d.position, d.stream, "the last open unit of the run ended, and finalize_sync_run was never armed")
			continue
		}
		at, n := reg.unknown()
		switch {
		case n == 0:
			c.report("I-9", d.position, d.stream,
				"the last open unit of the run ended, and finalize_sync_run is left %s: its wakeup may be used up already, and none waits", reg.describe())
		case at > c.tx.at && !(n == reg.Current && reg.Floor):
			c.report("I-2", d.position, d.stream,
				"the last open unit of the run ended, and wakeup %d of finalize_sync_run is due at %s only (U-21)", n, at)
		}
	}
}

// shrink lets go of the units of ended runs, but for what a late result is checked against.
func (c *Checker) shrink() {
	if c.opt.Keep {
		return
	}
	for _, r := range c.tx.ends {
		if r.Units.Open() > 0 || r.shrunk {
			continue // a fault that was reported; what its units do next must still be seen
		}
		for _, u := range r.units {
			c.ended[u.ID] = endedUnit{version: u.Version, attempt: u.Attempt, status: u.Status, late: u.Late}
			delete(c.units, u.ID)
		}
		r.units, r.busy, r.tiers, r.sources, r.shrunk = nil, nil, nil, nil, true
		r.Policy.Retry = nil
	}
}

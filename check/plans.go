package check

import "github.com/towline-dev/towline/events"

func (c *Checker) runPlanned(e events.Envelope, id events.RunID, ev events.RunPlanned) {
	r := &run{
		Run: Run{
			ID: id, Job: ev.Job, Sync: ev.Sync, TriggeredBy: ev.TriggeredBy, RetryOf: ev.RetryOf, Mode: ev.Mode,
			Policy: ev.Policy, Status: events.RunIsPlanned, Total: ev.TotalUnits, PlannedAt: e.At,
			Version: c.opened(e.Stream),
		},
		tiers: map[string]*tier{}, plannedTx: c.tx.position, plannedAt: e.Position,
		named: ev.Selection.Sources != nil || ev.TriggeredBy == events.TriggerRetry,
	}
	c.runs[id] = r
	c.runOrder = append(c.runOrder, r)
	c.tx.plans = append(c.tx.plans, r)
	c.version(e, &r.Version)

	if limit := c.settings(e.Node).MaxUnits; ev.TotalUnits < 0 || limit > 0 && ev.TotalUnits > limit {
		c.wrong("I-2", e, "a plan of %d units, and plan.max_units is %d (R-1)", ev.TotalUnits, limit)
	}
	switch j := c.jobs[ev.Job]; {
	case j == nil || j.openedTx != c.tx.position:
		c.wrong("I-2", e, "job %s was not opened before it in this transaction (R-10)", ev.Job)
	case j.planned != nil:
		c.wrong("I-2", e, "job %s has run %s already (R-10)", ev.Job, j.planned.ID)
	default:
		j.planned, r.job = r, j
	}
	c.checkRetryOf(e, ev)
	c.scheduledPlan(e, ev)
	if r.occurrence = ev.Occurrence; r.occurrence != "" {
		c.tx.occasioned = append(c.tx.occasioned, r)
	}
}

// endOfPlans is the order and the completeness of R-1, R-1a and R-10.
func (c *Checker) endOfPlans() {
	for _, r := range c.tx.plans {
		id := events.RunStream(r.ID)
		if len(r.units) != r.Total {
			c.report("I-2", r.plannedAt, id, "the run is planned with %d units, and the transaction holds %d (R-1)", r.Total, len(r.units))
		}
		switch {
		case r.Total > 0 && r.regs[dispatch] == nil:
			c.report("I-2", r.plannedAt, id, "the run is planned, and its dispatch_sync_run is not armed in the transaction (R-1)")
		case r.Total == 0 && !r.Status.Terminal():
			c.report("I-2", r.plannedAt, id, "the run has no units, and the transaction does not end it (R-1a)")
		}
		if r.job != nil && r.job.Run != r.ID {
			c.report("I-2", r.plannedAt, id, "the run is planned, and its job %s is not linked to it in the transaction (R-1)", r.Job)
		}
	}
	for _, j := range c.tx.jobs {
		if j.planned == nil {
			c.report("I-2", j.opened, events.JobStream(j.ID), "the job is opened, and the transaction plans no run for it (R-10)")
		}
	}
}

package check

import "github.com/towline-dev/towline/events"

// operatorCorruptions are faults of what a person did, U-15, O-18, O-21.
var operatorCorruptions = []corruption{
	{"I-2", "X-7: a cancelled run, and nobody is named", operator, func(s *script) *entry {
		return change(find[events.RunCancelled](s, 0), func(r *events.RunCancelled) { r.Actor = "" })
	}},
	{"I-2", "X-7: a cancelled run without a reason", operator, func(s *script) *entry {
		return change(find[events.RunCancelled](s, 0), func(r *events.RunCancelled) { r.Reason = "" })
	}},
	{"I-2", "X-7: a cancelled unit without a reason", operator, func(s *script) *entry {
		return change(find[events.UnitCancelled](s, 0), func(u *events.UnitCancelled) { u.Text = "" })
	}},
	{"I-2", "X-7: a released unit, and nobody is named", operator, func(s *script) *entry {
		e := find[events.UnitLeaseExpired](s, 0)
		e.actor = ""
		return e
	}},
	{"I-2", "X-7: a released unit without a reason", operator, func(s *script) *entry {
		return change(find[events.UnitLeaseExpired](s, 0), func(u *events.UnitLeaseExpired) { u.Reason = "" })
	}},
	{"I-2", "X-7: a wakeup that nobody parked", outboxTrouble, func(s *script) *entry {
		e := findIn[events.OutboxParked](s, reg(1, events.KindFinalize), 0)
		e.actor = ""
		return e
	}},
	{"I-2", "X-7: a parked wakeup without a reason", outboxTrouble, func(s *script) *entry {
		return change(findIn[events.OutboxParked](s, reg(1, events.KindFinalize), 0), func(p *events.OutboxParked) { p.Text = "" })
	}},
	{"I-2", "X-7: a wakeup that nobody redrove", outboxTrouble, func(s *script) *entry {
		e := findIn[events.OutboxArmed](s, reg(1, events.KindFinalize), 1)
		e.actor = ""
		return e
	}},
	{"I-2", "X-7: a publish that is resolved without a reason", postSyncs, func(s *script) *entry {
		return change(find[events.OutboxResolved](s, 0), func(r *events.OutboxResolved) { r.Reason = "" })
	}},
	{"I-2", "X-8: a released unit that fails by the reconciler", operator, func(s *script) *entry {
		return change(findIn[events.UnitFailed](s, unitStream(1, 1), 0), func(f *events.UnitFailed) { f.By = events.ByReconciler })
	}},
	{"I-2", "X-8: an operator fails what the reconciler found", lostWorkers, func(s *script) *entry {
		return change(findIn[events.UnitFailed](s, unitStream(1, 2), 0), func(f *events.UnitFailed) { f.By = events.ByOperator })
	}},
	{"I-2", "U-15: a reason that is none", operator, func(s *script) *entry {
		return change(find[events.UnitCancelled](s, 0), func(u *events.UnitCancelled) { u.Reason = "bored" })
	}},
	{"I-2", "U-15: a finalize wakeup with the cancel of its run", operator, func(s *script) *entry {
		c := findIn[events.RunCancelled](s, events.RunStream(runID(5)), 0)
		return s.before(c, reg(5, events.KindFinalize), events.OutboxArmed{N: 1, AvailableAt: c.at, Cause: events.ArmSettled})
	}},
	{"I-2", "O-18: a redrive behind the end of its run", parkedForEver, func(s *script) *entry {
		end := find[events.JobClosed](s, 0)
		e := s.alone(s.behind(end, reg(1, events.KindDispatch), events.OutboxArmed{N: 2, AvailableAt: end.at, Cause: events.ArmRedriven}))
		e.actor = "me"
		return e
	}},
	{"I-2", "O-21: a wakeup is parked behind the end of its run", operator, func(s *script) *entry {
		end := findIn[events.JobClosed](s, events.JobStream(jobID(5)), 0)
		e := s.alone(s.behind(end, reg(5, events.KindDispatch), events.OutboxParked{N: 1, Cause: events.ParkOperator, Text: "late"}))
		e.actor = "me"
		return e
	}},
	{"I-2", "X-6: a retry of no units", operator, func(s *script) *entry {
		return change(retryOfRun1(s), func(r *events.RunPlanned) { r.TotalUnits = 0 })
	}},
	{"I-2", "X-7: a cancelled unit, and nobody is named", operator, func(s *script) *entry {
		return change(find[events.UnitCancelled](s, 0), func(u *events.UnitCancelled) { u.Actor = "" })
	}},
	{"I-2", "X-7: a publish that nobody resolved", postSyncs, func(s *script) *entry {
		return change(find[events.OutboxResolved](s, 0), func(r *events.OutboxResolved) { r.Actor = "" })
	}},
	{"I-2", "X-4: a source is paused in the stream of the engine", operator, func(s *script) *entry {
		p := find[events.SourcePaused](s, 0)
		p.stream = events.EngineControlStream()
		return p
	}},
	{"I-2", "X-4: a pause of a source that is paused", operator, func(s *script) *entry {
		p := find[events.SourcePaused](s, 0)
		return s.alone(s.behind(p, p.stream, p.event))
	}},
}

package check

import "github.com/towline-dev/towline/events"

// planCorruptions are faults of plans, their jobs and what triggers them, P-2, U-1, X-6, J-1, J-2, I-22, I-23.
var planCorruptions = []corruption{
	{"I-2", "U-1: a unit behind the wakeup of its plan", fullRun, func(s *script) *entry {
		u := find[events.UnitPlanned](s, 2)
		s.swap(u, find[events.OutboxArmed](s, 0))
		return u
	}},
	{"I-2", "U-1: two units of one source, dataset and window", fullRun, func(s *script) *entry {
		return change(find[events.UnitPlanned](s, 2), func(u *events.UnitPlanned) { u.Source = "a" })
	}},
	{"I-2", "U-1: a unit that joins its run later", fullRun, func(s *script) *entry {
		u := s.work("d", "commits")
		u.Run, u.Ordinal = runID(1), 4
		return s.alone(s.before(find[events.UnitDispatched](s, 0), unitStream(1, 4), u))
	}},
	{"I-2", "P-2: an ordinal twice", fullRun, func(s *script) *entry {
		return change(find[events.UnitPlanned](s, 1), func(u *events.UnitPlanned) { u.Ordinal = 1 })
	}},
	{"I-2", "R-1: a unit is missing from the plan", fullRun, func(s *script) *entry {
		s.drop(find[events.UnitPlanned](s, 2))
		return find[events.RunPlanned](s, 0)
	}},
	{"I-2", "R-1: the plan arms nothing", lostWorkers, func(s *script) *entry {
		s.drop(find[events.OutboxArmed](s, 0))
		return find[events.RunPlanned](s, 0)
	}},
	{"I-2", "R-1: the plan is due later than now", fullRun, func(s *script) *entry {
		return change(find[events.OutboxArmed](s, 0), func(a *events.OutboxArmed) { a.AvailableAt++ })
	}},
	{"I-2", "R-1: the job is linked before the wakeup", fullRun, func(s *script) *entry {
		l := find[events.JobLinked](s, 0)
		s.swap(find[events.OutboxArmed](s, 0), l)
		return l
	}},
	{"I-2", "R-1: the job is not linked", fullRun, func(s *script) *entry {
		s.drop(find[events.JobLinked](s, 0))
		return find[events.RunPlanned](s, 0)
	}},
	{"I-2", "R-1: more units than a run may hold", fullRun, func(s *script) *entry {
		change(find[events.NodeStarted](s, 0), func(n *events.NodeStarted) { n.Config = []byte(`{"plan.max_units": 2}`) })
		return find[events.RunPlanned](s, 0)
	}},
	{"I-2", "R-10: a run without a job before it", fullRun, func(s *script) *entry {
		r := find[events.RunPlanned](s, 0)
		s.swap(find[events.JobOpened](s, 0), r)
		return r
	}},
	{"I-2", "R-10: a job without a run", fullRun, func(s *script) *entry {
		return s.alone(s.behind(find[events.NodeStarted](s, 0), events.JobStream(jobID(9)), events.JobOpened{Sync: "code"}))
	}},
	{"I-2", "R-1a: an empty run stays open", operator, func(s *script) *entry {
		s.drop(findIn[events.RunFinalized](s, events.RunStream(runID(3)), 0))
		return findIn[events.RunPlanned](s, events.RunStream(runID(3)), 0)
	}},
	{"I-2", "X-6: a retry of a run that is open", restart, func(s *script) *entry {
		return change(find[events.RunPlanned](s, 1), func(r *events.RunPlanned) { r.RetryOf = runID(1) })
	}},
	{"I-2", "X-6: a retry of a run that was never planned", operator, func(s *script) *entry {
		return change(retryOfRun1(s), func(r *events.RunPlanned) { r.RetryOf = runID(9) })
	}},
	{"I-2", "X-6: a retry of no run", operator, func(s *script) *entry {
		return change(retryOfRun1(s), func(r *events.RunPlanned) { r.RetryOf = events.RunID{} })
	}},
	{"I-2", "X-6: a retry that says that it is none", operator, func(s *script) *entry {
		return change(retryOfRun1(s), func(r *events.RunPlanned) { r.TriggeredBy = events.TriggerManual })
	}},
	{"I-2", "X-6: a retry of another sync", operator, func(s *script) *entry {
		return change(retryOfRun1(s), func(r *events.RunPlanned) { r.Sync = "mail" })
	}},
	{"I-2", "X-6: a retry of more than did not succeed", operator, func(s *script) *entry {
		return change(retryOfRun1(s), func(r *events.RunPlanned) { r.RetryOf = runID(4) })
	}},
	{"I-2", "X-7: a retry by nobody", operator, func(s *script) *entry {
		return change(findIn[events.JobOpened](s, events.JobStream(jobID(6)), 0), func(j *events.JobOpened) { j.Actor = "" })
	}},
	{"I-2", "R-10: one job for two runs", outboxTrouble, func(s *script) *entry {
		r := find[events.RunPlanned](s, 0)
		again := s.behind(s.lastOfTx(r), events.RunStream(runID(8)), events.RunPlanned{Job: jobID(1), TotalUnits: 1})
		u := s.work("a", "commits")
		u.Run, u.Ordinal = runID(8), 1
		s.behind(s.behind(again, unitStream(8, 1), u), reg(8, events.KindDispatch), events.OutboxArmed{N: 1, AvailableAt: r.at})
		return again
	}},
	{"I-2", "J-1: a job is closed twice", fullRun, func(s *script) *entry {
		e := find[events.JobClosed](s, 0)
		return s.behind(e, e.stream, e.event)
	}},
	{"I-2", "J-2: an occurrence that has ended is queued", around, func(s *script) *entry {
		e := find[events.OccurrenceSkipped](s, 0)
		return s.alone(s.behind(e, e.stream, events.OccurrenceQueued{}))
	}},
	{"I-22", "an occurrence is triggered twice", around, func(s *script) *entry {
		e := find[events.OccurrenceTriggered](s, 0)
		return s.alone(s.behind(e, e.stream, e.event))
	}},
	{"I-22", "an occurrence is triggered without its run", around, func(s *script) *entry {
		return s.alone(find[events.OccurrenceTriggered](s, 0))
	}},
	{"I-22", "a run of an occurrence that was not triggered", around, func(s *script) *entry {
		s.drop(find[events.OccurrenceTriggered](s, 0))
		return findIn[events.RunPlanned](s, events.RunStream(runID(2)), 0)
	}},
	{"I-23", "a key opens two jobs", around, func(s *script) *entry {
		return change(findIn[events.JobOpened](s, events.JobStream(jobID(2)), 0), func(j *events.JobOpened) { j.IdempotencyKey = "key" })
	}},
	{"I-2", "R-1: the plan arms its wakeup in a later transaction", lostWorkers, func(s *script) *entry {
		a := find[events.OutboxArmed](s, 0)
		s.move(a, find[events.OutboxClaimed](s, 0))
		return a
	}},
	{"I-2", "R-1: the wakeup before the last unit", fullRun, func(s *script) *entry {
		a := find[events.OutboxArmed](s, 0)
		s.swap(find[events.UnitPlanned](s, 2), a)
		return a
	}},
	{"I-2", "R-1: a wakeup of a plan without units", operator, func(s *script) *entry {
		end := findIn[events.RunFinalized](s, events.RunStream(runID(3)), 0)
		return s.before(end, reg(3, events.KindDispatch), events.OutboxArmed{N: 1, AvailableAt: end.at})
	}},
	{"I-2", "R-1: a run is planned twice", fullRun, func(s *script) *entry {
		return s.alone(s.before(find[events.UnitClaimed](s, 0), run1, find[events.RunPlanned](s, 0).event))
	}},
	{"I-2", "R-1: less than no units", operator, func(s *script) *entry {
		return change(findIn[events.RunPlanned](s, events.RunStream(runID(3)), 0), func(r *events.RunPlanned) { r.TotalUnits = -1 })
	}},
	{"I-2", "R-10: a run whose job was opened before", fullRun, func(s *script) *entry {
		s.alone(find[events.JobOpened](s, 0))
		return find[events.RunPlanned](s, 0)
	}},
	{"I-2", "U-1: a unit is planned twice", fullRun, func(s *script) *entry {
		return s.alone(s.before(find[events.UnitDispatched](s, 0), unitStream(1, 1), find[events.UnitPlanned](s, 0).event))
	}},
	{"I-2", "U-1: a unit of a run that was never planned", fullRun, func(s *script) *entry {
		return change(find[events.UnitPlanned](s, 1), func(u *events.UnitPlanned) { u.Run = runID(9) })
	}},
	{"I-2", "U-1: a unit joins a run that has ended", fullRun, func(s *script) *entry {
		return s.alone(s.behind(find[events.PostSyncStarted](s, 0), unitStream(1, 9), find[events.UnitPlanned](s, 0).event))
	}},
	{"I-2", "J-1: a job is opened twice", fullRun, func(s *script) *entry {
		j := find[events.JobOpened](s, 0)
		return s.behind(j, j.stream, j.event)
	}},
	{"I-2", "J-1: a job is linked twice", fullRun, func(s *script) *entry {
		l := find[events.JobLinked](s, 0)
		return s.behind(l, l.stream, l.event)
	}},
	{"I-2", "J-1: a job is linked that was never opened", fullRun, func(s *script) *entry {
		l := find[events.JobLinked](s, 0)
		l.stream = events.JobStream(jobID(9))
		return l
	}},
	{"I-2", "J-1: a job is linked to another run", fullRun, func(s *script) *entry {
		return change(find[events.JobLinked](s, 0), func(l *events.JobLinked) { l.Run = runID(9) })
	}},
	{"I-2", "J-1: a job is linked in a later transaction", fullRun, func(s *script) *entry {
		return s.alone(find[events.JobLinked](s, 0))
	}},
	{"I-2", "R-1a: a job is linked before the end of its empty run", operator, func(s *script) *entry {
		l := findIn[events.JobLinked](s, events.JobStream(jobID(3)), 0)
		s.swap(findIn[events.RunFinalized](s, events.RunStream(runID(3)), 0), l)
		return l
	}},
	{"I-2", "R-1a: a job is closed that was never linked", fullRun, func(s *script) *entry {
		s.drop(find[events.JobLinked](s, 0))
		return find[events.JobClosed](s, 0)
	}},
	{"I-2", "J-2: an occurrence that was skipped is rejected", around, func(s *script) *entry {
		e := find[events.OccurrenceSkipped](s, 0)
		return s.alone(s.behind(e, e.stream, events.OccurrenceRejected{}))
	}},
	{"I-2", "J-2: an occurrence is queued twice", around, func(s *script) *entry {
		e := find[events.OccurrenceQueued](s, 0)
		return s.alone(s.behind(e, e.stream, e.event))
	}},
	{"I-2", "DUR-5: a schedule mints in a restored hold", around, func(s *script) *entry {
		job := findIn[events.JobOpened](s, events.JobStream(jobID(2)), 0)
		s.alone(s.before(job, events.NodeStream(job.node), events.StoreRestored{Epoch: 2}))
		return find[events.OccurrenceTriggered](s, 0)
	}},
	{"I-22", "an occurrence is triggered twice in one transaction", around, func(s *script) *entry {
		e := find[events.OccurrenceTriggered](s, 0)
		return s.behind(e, e.stream, e.event)
	}},
	{"I-22", "an occurrence names another job", around, func(s *script) *entry {
		return change(find[events.OccurrenceTriggered](s, 0), func(o *events.OccurrenceTriggered) { o.Job = jobID(1) })
	}},
	{"I-22", "an occurrence names a run that was planned before", around, func(s *script) *entry {
		return change(find[events.OccurrenceTriggered](s, 0), func(o *events.OccurrenceTriggered) { o.Job, o.Run = jobID(1), runID(1) })
	}},
	{"I-2", "R-1: the job is linked before the last unit", fullRun, func(s *script) *entry {
		u, l := find[events.UnitPlanned](s, 2), find[events.JobLinked](s, 0)
		s.drop(u)
		s.insert(s.index(l)+1, u)
		return l
	}},
}

// retryOfRun1 is the plan of run 6 of the operator's scenario.
func retryOfRun1(s *script) *entry {
	return findIn[events.RunPlanned](s, events.RunStream(runID(6)), 0)
}

package check

import "github.com/towline-dev/towline/events"

// runCorruptions are faults at the end of a run and behind it, U-21, HP-1 to HP-5, K-4, K-8, I-7 to I-9.
var runCorruptions = []corruption{
	{"I-2", "U-21: finalize is armed for later", fullRun, func(s *script) *entry {
		a := findIn[events.OutboxArmed](s, reg(1, events.KindFinalize), 0)
		change(a, func(a *events.OutboxArmed) { a.AvailableAt++ })
		return findIn[events.UnitSucceeded](s, unitStream(1, 2), 0)
	}},
	{"I-2", "R-3: counts that the units do not make", fullRun, func(s *script) *entry {
		return change(find[events.RunFinalized](s, 0), func(f *events.RunFinalized) { f.Failed = 1 })
	}},
	{"I-2", "R-6: a status that the units do not make", operator, func(s *script) *entry {
		return change(find[events.RunFinalized](s, 0), func(f *events.RunFinalized) { f.Status = events.RunFailed })
	}},
	{"I-2", "R-4: a unit is cancelled with a run that goes on", operator, func(s *script) *entry {
		return change(findIn[events.UnitCancelled](s, unitStream(1, 2), 0), func(c *events.UnitCancelled) { c.Reason = "run_cancelled" })
	}},
	{"I-2", "HP-1: an effect before the end of the run", fullRun, func(s *script) *entry {
		e := find[events.PostSyncStarted](s, 0)
		s.move(e, find[events.RunFinalized](s, 0))
		return e
	}},
	{"I-2", "HP-1: an effect before the mark", fullRun, func(s *script) *entry {
		e := find[events.PostSyncStarted](s, 0)
		s.move(e, findIn[events.OutboxDispatched](s, reg(1, events.KindPostSync), 0))
		return e
	}},
	{"I-2", "HP-2: an effect that starts twice", fullRun, func(s *script) *entry {
		e := find[events.PostSyncStarted](s, 0)
		return s.alone(s.behind(e, e.stream, e.event))
	}},
	{"I-2", "HP-2: an effect that ends without a start", fullRun, func(s *script) *entry {
		s.drop(find[events.PostSyncStarted](s, 0))
		return find[events.PostSyncCompleted](s, 0)
	}},
	{"I-2", "HP-2: an effect that ends twice", fullRun, func(s *script) *entry {
		e := find[events.PostSyncCompleted](s, 0)
		return s.alone(s.behind(e, e.stream, e.event))
	}},
	{"I-2", "K-4: a generation that is not the run's", fullRun, func(s *script) *entry {
		return change(find[events.PostSyncStarted](s, 0), func(p *events.PostSyncStarted) { p.Generation += "2" })
	}},
	{"I-2", "K-8: a target that was not declared", fullRun, func(s *script) *entry {
		return change(find[events.PostSyncStarted](s, 0), func(p *events.PostSyncStarted) { p.Target, p.MessageID = "x", postID(1, 1, "x") })
	}},
	{"I-2", "K-8: a message that was never sent", fullRun, func(s *script) *entry {
		return change(find[events.PostSyncStarted](s, 0), func(p *events.PostSyncStarted) { p.MessageID = postID(1, 2, "report") })
	}},
	{"I-2", "HP-5: an effect is given up whose process lives", postSyncs, func(s *script) *entry {
		o := find[events.OutboxOutcome](s, 4)
		s.drop(find[events.NodeStarted](s, 1))
		return o
	}},
	{"I-2", "HP-5: an effect is given up that never began", postSyncs, func(s *script) *entry {
		o := find[events.OutboxOutcome](s, 4)
		s.drop(find[events.PostSyncStarted](s, 1))
		return o
	}},
	{"I-2", "HP-5: an effect whose process died was accepted", postSyncs, func(s *script) *entry {
		return change(find[events.OutboxOutcome](s, 4), func(o *events.OutboxOutcome) { o.Outcome = events.Accepted })
	}},
	{"I-13", "HP-5: an effect is given up twice", postSyncs, func(s *script) *entry {
		o := find[events.OutboxOutcome](s, 4)
		return s.alone(s.behind(o, o.stream, o.event))
	}},
	{"I-3", "a dispatch of a run that has ended", fullRun, func(s *script) *entry {
		return s.alone(s.behind(find[events.PostSyncStarted](s, 0), run1, events.RunDispatchStarted{}))
	}},
	{"I-7", "the end of a run with an open unit", fullRun, func(s *script) *entry {
		s.drop(findIn[events.UnitSucceeded](s, unitStream(1, 2), 0))
		return find[events.RunFinalized](s, 0)
	}},
	{"I-7", "two ends", fullRun, func(s *script) *entry {
		f := find[events.RunFinalized](s, 0)
		return s.behind(f, f.stream, f.event)
	}},
	{"I-7", "an end by finalize, then a cancel", fullRun, func(s *script) *entry {
		l := find[events.UnitLateResult](s, 0)
		return s.alone(s.before(l, run1, events.RunCancelled{}))
	}},
	{"I-8", "the job stays open", fullRun, func(s *script) *entry {
		s.drop(find[events.JobClosed](s, 0))
		return find[events.RunFinalized](s, 0)
	}},
	{"I-8", "the job is closed later", fullRun, func(s *script) *entry {
		j := find[events.JobClosed](s, 0)
		s.move(j, find[events.PostSyncStarted](s, 0))
		return j
	}},
	{"I-8", "the job is closed differently", fullRun, func(s *script) *entry {
		return change(find[events.JobClosed](s, 0), func(j *events.JobClosed) { j.Status = events.RunFailed })
	}},
	{"I-8", "post_sync is not armed", fullRun, func(s *script) *entry {
		s.drop(findIn[events.OutboxArmed](s, reg(1, events.KindPostSync), 0))
		return find[events.RunFinalized](s, 0)
	}},
	{"I-8", "post_sync is armed, and nothing succeeded", lostWorkers, func(s *script) *entry {
		f := findIn[events.RunFinalized](s, events.RunStream(runID(2)), 0)
		s.behind(f, reg(2, events.KindPostSync), events.OutboxArmed{N: 1, AvailableAt: f.at})
		return f
	}},
	{"I-8", "post_sync is armed later, and nothing succeeded", lostWorkers, func(s *script) *entry {
		j := findIn[events.JobClosed](s, events.JobStream(jobID(2)), 0)
		return s.alone(s.behind(j, reg(2, events.KindPostSync), events.OutboxArmed{N: 1, AvailableAt: j.at}))
	}},
	{"I-8", "post_sync is armed under an open run", fullRun, func(s *script) *entry {
		a := findIn[events.OutboxArmed](s, reg(1, events.KindPostSync), 0)
		s.move(a, find[events.RunFinalized](s, 0))
		return a
	}},
	{"I-8", "post_sync_owed is wrong", fullRun, func(s *script) *entry {
		return change(find[events.RunFinalized](s, 0), func(f *events.RunFinalized) { f.PostSyncOwed = false })
	}},
	{"I-9", "the last settle arms nothing", fullRun, func(s *script) *entry {
		s.drop(findIn[events.OutboxArmed](s, reg(1, events.KindFinalize), 0))
		return findIn[events.UnitSucceeded](s, unitStream(1, 2), 0)
	}},
	{"I-9", "swallowed: the last settle arms nothing while an older wakeup is claimed", fullRun, olderFinalize(nil)},
	{"I-9", "swallowed: the last settle arms nothing while an older wakeup may be published", fullRun,
		olderFinalize(func(s *script, claim *entry) {
			c := claim.event.(events.OutboxClaimed)
			s.alone(s.behind(claim, claim.stream, events.OutboxReleased{
				N: 1, Token: c.Token, Cause: events.ReleasePublishUnknown, AvailableAt: claim.at.Add(5 * second), Counted: true, MaybePublished: true,
			}))
		})},
	{"I-9", "the cascade that ends the last units arms nothing", lostWorkers, func(s *script) *entry {
		s.drop(findIn[events.OutboxArmed](s, reg(2, events.KindFinalize), 0))
		return findIn[events.UnitFailed](s, unitStream(2, 3), 0)
	}},
	{"I-2", "R-2: the run starts twice", fullRun, func(s *script) *entry {
		e := find[events.RunDispatchStarted](s, 0)
		return s.behind(e, e.stream, e.event)
	}},
	{"I-2", "R-6: a reason that the units do not make", operator, func(s *script) *entry {
		return change(findIn[events.RunFinalized](s, events.RunStream(runID(4)), 0), func(f *events.RunFinalized) { f.Reason = "" })
	}},
	{"I-2", "a run that was never planned", fullRun, func(s *script) *entry {
		e := find[events.RunDispatchStarted](s, 0)
		e.stream = events.RunStream(runID(9))
		return e
	}},
	{"I-7", "the end of a run that lacks a unit of its plan", fullRun, func(s *script) *entry {
		change(find[events.RunPlanned](s, 0), func(r *events.RunPlanned) { r.TotalUnits = 4 })
		return find[events.RunFinalized](s, 0)
	}},
	{"I-7", "a cancelled run with an open unit", operator, func(s *script) *entry {
		s.drop(findIn[events.UnitCancelled](s, unitStream(2, 3), 0))
		return findIn[events.RunCancelled](s, events.RunStream(runID(2)), 0)
	}},
	{"I-8", "a cancelled run says that it owes a post_sync", operator, func(s *script) *entry {
		return change(findIn[events.RunCancelled](s, events.RunStream(runID(2)), 0), func(r *events.RunCancelled) { r.PostSyncOwed = true })
	}},
	{"I-8", "the job is closed with other counts", fullRun, func(s *script) *entry {
		return change(find[events.JobClosed](s, 0), func(j *events.JobClosed) { j.Failed = 1 })
	}},
	{"I-8", "the job is closed before the run ends", fullRun, func(s *script) *entry {
		j := find[events.JobClosed](s, 0)
		s.swap(find[events.RunFinalized](s, 0), j)
		return j
	}},
	{"I-8", "post_sync is owed, and its policy has no target", fullRun, func(s *script) *entry {
		change(find[events.RunPlanned](s, 0), func(r *events.RunPlanned) { r.Policy.Targets = nil })
		return find[events.RunFinalized](s, 0)
	}},
	{"I-2", "HP-2: an effect fails behind its end", fullRun, func(s *script) *entry {
		e := find[events.PostSyncCompleted](s, 0)
		c := e.event.(events.PostSyncCompleted)
		return s.alone(s.behind(e, e.stream, events.PostSyncFailed{Generation: c.Generation, Target: c.Target, MessageID: c.MessageID}))
	}},
	{"I-2", "HP-2: an effect fails without a start", fullRun, func(s *script) *entry {
		s.drop(find[events.PostSyncStarted](s, 0))
		e := find[events.PostSyncCompleted](s, 0)
		c := e.event.(events.PostSyncCompleted)
		e.event = events.PostSyncFailed{Generation: c.Generation, Target: c.Target, MessageID: c.MessageID}
		return e
	}},
	{"I-2", "K-4: an effect completes under another generation", fullRun, func(s *script) *entry {
		return change(find[events.PostSyncCompleted](s, 0), func(p *events.PostSyncCompleted) { p.Generation += "2" })
	}},
	{"I-2", "K-4: an effect fails under another generation", exactlyOnce, func(s *script) *entry {
		return change(find[events.PostSyncFailed](s, 0), func(p *events.PostSyncFailed) { p.Generation += "2" })
	}},
	{"I-2", "K-8: a message of another kind", fullRun, func(s *script) *entry {
		return change(find[events.PostSyncStarted](s, 0), func(p *events.PostSyncStarted) { p.MessageID = "1.report" })
	}},
	{"I-2", "HP-5: an effect of another wakeup is given up", postSyncs, func(s *script) *entry {
		return change(find[events.OutboxOutcome](s, 4), func(o *events.OutboxOutcome) { o.N = 2 })
	}},
	{"I-2", "HP-5: an effect is given up before its publish has an outcome", postSyncs, func(s *script) *entry {
		o := find[events.OutboxOutcome](s, 4)
		s.swap(find[events.OutboxOutcome](s, 3), o)
		o.at = s.entries[s.index(o)-1].at
		return o
	}},
	{"I-2", "HP-5: an effect is given up that has ended", postSyncs, func(s *script) *entry {
		o := find[events.OutboxOutcome](s, 4)
		p := find[events.PostSyncStarted](s, 1)
		c := p.event.(events.PostSyncStarted)
		s.alone(s.behind(p, p.stream, events.PostSyncCompleted{Generation: c.Generation, Target: c.Target, MessageID: c.MessageID}))
		return o
	}},
	{"I-13", "HP-5: an effect is given up whose publish has no outcome", postSyncs, func(s *script) *entry {
		return change(find[events.OutboxOutcome](s, 4), func(o *events.OutboxOutcome) { o.Target = "x" })
	}},
	{"I-13", "HP-5: an effect is given up that is resolved", postSyncs, func(s *script) *entry {
		r := find[events.OutboxResolved](s, 1)
		return s.alone(s.behind(r, r.stream, find[events.OutboxOutcome](s, 4).event))
	}},
	{"I-2", "R-4: a unit is cancelled with a run that is finalized", operator, func(s *script) *entry {
		change(findIn[events.JobClosed](s, events.JobStream(jobID(2)), 0), func(j *events.JobClosed) { j.Status = events.RunFailed })
		findIn[events.RunCancelled](s, events.RunStream(runID(2)), 0).event = events.RunFinalized{
			Status: events.RunFailed, Reason: events.ReasonAllUnitsCancelled, Counts: events.Counts{Total: 3, Cancelled: 3},
		}
		return findIn[events.UnitCancelled](s, unitStream(2, 3), 0)
	}},
}

// olderFinalize plants the fault that "some open wakeup" cannot see: finalize was armed and claimed once before the
// last settle, so its message may be at work already and find the unit open; the settle relies on it.
func olderFinalize(then func(*script, *entry)) func(*script) *entry {
	return func(s *script) *entry {
		last := findIn[events.UnitSucceeded](s, unitStream(1, 2), 0)
		k := reg(1, events.KindFinalize)
		s.alone(s.before(last, k, events.OutboxArmed{N: 1, AvailableAt: last.at, Cause: events.ArmSettled}))
		// Its claim must look right at the moment of the claim: only the last unit is open, so it would be dropped;
		// that fault is another one and is named too.
		c := s.alone(s.before(last, k, events.OutboxClaimed{N: 1, Token: "f", ClaimExpiresAt: last.at.Add(minute), Attempt: 1, MessageCount: 1}))
		if then != nil {
			then(s, c)
		}
		s.drop(findIn[events.OutboxArmed](s, k, 1))
		return last
	}
}

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
		return change(find[events.PostSyncStarted](s, 0), func(p *events.PostSyncStarted) { p.Target = "x" })
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

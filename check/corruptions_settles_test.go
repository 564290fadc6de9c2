package check

import "github.com/towline-dev/towline/events"

// settleCorruptions are faults of settles and retries: U-7 to U-13, U-16, RL-4, RW-4, WM-2, WM-5, I-3, I-18 to I-20.
var settleCorruptions = []corruption{
	{"I-2", "RL-4: a cooldown that ends elsewhere than the deferral", retries, func(s *script) *entry {
		return change(find[events.UnitRetryScheduled](s, 0), func(r *events.UnitRetryScheduled) { r.CooldownUntil++ })
	}},
	{"I-2", "U-7: a success without its watermark", fullRun, func(s *script) *entry {
		return change(find[events.UnitSucceeded](s, 0), func(u *events.UnitSucceeded) { u.Watermarks = nil })
	}},
	{"I-2", "WM-2: a watermark short of the window", fullRun, func(s *script) *entry {
		return change(find[events.UnitSucceeded](s, 0), func(u *events.UnitSucceeded) { u.Watermarks[0].At-- })
	}},
	{"I-2", "WM-5: a watermark of another dataset", fullRun, func(s *script) *entry {
		return change(find[events.UnitSucceeded](s, 0), func(u *events.UnitSucceeded) {
			u.Watermarks = append(u.Watermarks, mark("a", "x", u.Watermarks[0].At))
		})
	}},
	{"I-2", "U-8: a worker that fails its unit as lost", lostWorkers, func(s *script) *entry {
		return change(findIn[events.UnitFailed](s, unitStream(2, 3), 0), func(f *events.UnitFailed) { f.Category = events.WorkerLost })
	}},
	{"I-2", "U-10: a retry that no policy declares", retries, func(s *script) *entry {
		return change(find[events.UnitRetryScheduled](s, 3), func(r *events.UnitRetryScheduled) { r.Cause = events.Timeout })
	}},
	{"I-2", "U-10: a retry beyond its maximum", retries, func(s *script) *entry {
		change(find[events.RunPlanned](s, 0), func(r *events.RunPlanned) { r.Policy.Retry[1].MaxRetries = 0 })
		return find[events.UnitRetryScheduled](s, 3)
	}},
	{"I-2", "U-10: a retry without its backoff", retries, func(s *script) *entry {
		return change(find[events.UnitRetryScheduled](s, 3), func(r *events.UnitRetryScheduled) { r.AvailableAt-- })
	}},
	{"I-2", "U-11: a retry without its backoff", lostWorkers, func(s *script) *entry {
		return change(find[events.UnitRetryScheduled](s, 0), func(r *events.UnitRetryScheduled) { r.AvailableAt++ })
	}},
	{"I-2", "U-12: a failure where a retry is allowed", lostWorkers, func(s *script) *entry {
		change(find[events.RunPlanned](s, 0), func(r *events.RunPlanned) { r.Policy.Retry[0].MaxRetries = 2 })
		return findIn[events.UnitFailed](s, unitStream(1, 1), 0)
	}},
	{"I-2", "RW-4: the wrong category", lostWorkers, func(s *script) *entry {
		return change(findIn[events.UnitFailed](s, unitStream(1, 1), 0), func(f *events.UnitFailed) { f.Category = events.WorkerLost })
	}},
	{"I-2", "U-13: nothing follows a failed reference", lostWorkers, func(s *script) *entry {
		s.drop(findIn[events.UnitFailed](s, unitStream(2, 2), 0))
		return findIn[events.UnitFailed](s, unitStream(2, 1), 0)
	}},
	{"I-2", "U-13: a unit fails for a reference that has not", lostWorkers, func(s *script) *entry {
		f := findIn[events.UnitFailed](s, unitStream(2, 2), 0)
		s.swap(f, findIn[events.UnitFailed](s, unitStream(2, 1), 0))
		return f
	}},
	{"I-2", "U-15: cancelled for a reference that was not", operator, func(s *script) *entry {
		c := findIn[events.UnitCancelled](s, unitStream(2, 2), 0)
		s.swap(c, findIn[events.UnitCancelled](s, unitStream(2, 1), 0))
		return c
	}},
	{"I-2", "U-16: a first hand-back that waits", retries, func(s *script) *entry {
		r := find[events.UnitRetryScheduled](s, 1)
		return change(r, func(r *events.UnitRetryScheduled) { r.AvailableAt++ })
	}},
	{"I-2", "U-16: a hand-back that is not counted", retries, func(s *script) *entry {
		return change(find[events.UnitRetryScheduled](s, 1), func(r *events.UnitRetryScheduled) { r.HandBacks = 0 })
	}},
	{"I-2", "section 6.1: a retry that was due before", retries, func(s *script) *entry {
		r := find[events.UnitRetryScheduled](s, 0)
		return change(r, func(u *events.UnitRetryScheduled) { u.AvailableAt, u.CooldownUntil = r.at-1, r.at-1 })
	}},
	{"I-2", "U-10: a retry that is not counted on", retries, func(s *script) *entry {
		return change(find[events.UnitRetryScheduled](s, 4), func(r *events.UnitRetryScheduled) { r.CategoryRetries = 1 })
	}},
	{"I-2", "6.1: a unit changes under a run that has ended", operator, func(s *script) *entry {
		c := findIn[events.UnitCancelled](s, unitStream(2, 3), 0)
		s.swap(c, find[events.RunCancelled](s, 0))
		return c
	}},
	{"I-3", "a renewal after the success", fullRun, func(s *script) *entry {
		u := findIn[events.UnitSucceeded](s, unitStream(1, 1), 0)
		r := find[events.UnitLeaseRenewed](s, 0)
		return s.alone(s.behind(s.lastOfTx(u), u.stream, r.event))
	}},
	{"I-3", "a second success, and the run has ended", fullRun, func(s *script) *entry {
		l := find[events.UnitLateResult](s, 0)
		return s.alone(s.behind(l, l.stream, findIn[events.UnitSucceeded](s, l.stream, 0).event))
	}},
	{"I-18", "a watermark that does not rise", operator, func(s *script) *entry {
		u := find[events.UnitSucceeded](s, 0)
		return change(u, func(u *events.UnitSucceeded) { u.Watermarks = append(u.Watermarks, u.Watermarks[0]) })
	}},
	{"I-18", "a watermark beyond the window", fullRun, func(s *script) *entry {
		return change(find[events.UnitSucceeded](s, 0), func(u *events.UnitSucceeded) { u.Watermarks[0].At++ })
	}},
	{"I-18", "a watermark of a backfill", restart, func(s *script) *entry {
		return change(find[events.UnitSucceeded](s, 0), func(u *events.UnitSucceeded) {
			u.Watermarks = []events.Watermark{mark("y", "work-items", 1)}
		})
	}},
	{"I-19", "a retry of a unit that is not eligible", lostWorkers, func(s *script) *entry {
		change(find[events.UnitPlanned](s, 0), func(u *events.UnitPlanned) { u.Surfaces = []string{"elsewhere"} })
		return find[events.UnitRetryScheduled](s, 0)
	}},
	{"I-19", "a retry beyond the maximum", lostWorkers, func(s *script) *entry {
		change(find[events.RunPlanned](s, 0), func(r *events.RunPlanned) { r.Policy.Retry[0].MaxRetries = 0 })
		return find[events.UnitRetryScheduled](s, 0)
	}},
	{"I-19", "a retry that is not counted", lostWorkers, func(s *script) *entry {
		return change(find[events.UnitRetryScheduled](s, 0), func(r *events.UnitRetryScheduled) { r.ExpiredLeaseRetries = 0 })
	}},
	{"I-19", "an expired lease without a decision", lostWorkers, func(s *script) *entry {
		s.drop(findIn[events.UnitFailed](s, unitStream(1, 2), 0))
		return findIn[events.UnitLeaseExpired](s, unitStream(1, 2), 0)
	}},
	{"I-19", "a decision without an expired lease", lostWorkers, func(s *script) *entry {
		s.drop(findIn[events.UnitLeaseExpired](s, unitStream(1, 2), 0))
		return findIn[events.UnitFailed](s, unitStream(1, 2), 0)
	}},
	{"I-19", "a decision in a later transaction", lostWorkers, func(s *script) *entry {
		f := findIn[events.UnitFailed](s, unitStream(1, 1), 0)
		s.alone(findIn[events.UnitLeaseExpired](s, unitStream(1, 1), 1))
		return f
	}},
	{"I-19", "something else follows the expiry", lostWorkers, func(s *script) *entry {
		l := find[events.UnitLeaseExpired](s, 0)
		token := find[events.UnitClaimed](s, 0).event.(events.UnitClaimed).Token
		return s.behind(l, l.stream, events.UnitLeaseRenewed{Attempt: 1, Token: token, LeaseExpiresAt: l.at.Add(minute)})
	}},
	{"I-20", "a deferral too many", retries, func(s *script) *entry {
		s.node1config(`{"rate_limit.max_deferrals": 1}`)
		return find[events.UnitRetryScheduled](s, 2)
	}},
	{"I-20", "a deferral beyond the time of its episode", retries, func(s *script) *entry {
		s.node1config(`{"rate_limit": {"max_wait": "90s"}}`)
		return find[events.UnitRetryScheduled](s, 2)
	}},
	{"I-20", "a deferral that is not counted", retries, func(s *script) *entry {
		return change(find[events.UnitRetryScheduled](s, 2), func(r *events.UnitRetryScheduled) { r.RateLimitDeferrals = 1 })
	}},
	{"I-20", "an episode that begins anew", retries, func(s *script) *entry {
		return change(find[events.UnitRetryScheduled](s, 2), func(r *events.UnitRetryScheduled) { r.RateLimitFirstAt++ })
	}},
	{"I-20", "an episode that another settle does not end", retries, func(s *script) *entry {
		return change(find[events.UnitRetryScheduled](s, 3), func(r *events.UnitRetryScheduled) { r.RateLimitDeferrals = 2 })
	}},
	{"I-30", "a retry at no time", retries, func(s *script) *entry {
		return change(find[events.UnitRetryScheduled](s, 0), func(r *events.UnitRetryScheduled) { r.AvailableAt = 0 })
	}},
	{"I-2", "U-11: a unit that was not claimed is tried again", lostWorkers, func(s *script) *entry {
		c := find[events.UnitClaimed](s, 0)
		return s.alone(s.before(c, c.stream, events.UnitRetryScheduled{Cause: events.ExpiredLease, AvailableAt: c.at.Add(minute), ExpiredLeaseRetries: 1}))
	}},
	{"I-2", "U-11: a lost worker ends another attempt", lostWorkers, func(s *script) *entry {
		return change(find[events.UnitRetryScheduled](s, 0), func(r *events.UnitRetryScheduled) { r.Attempt = 2 })
	}},
	{"I-2", "U-11: a lost worker ends its attempt itself", lostWorkers, func(s *script) *entry {
		return change(find[events.UnitRetryScheduled](s, 0), func(r *events.UnitRetryScheduled) { r.Token = "x" })
	}},
	{"I-2", "U-12: a lost worker ends a unit that waits", lostWorkers, func(s *script) *entry {
		c := findIn[events.UnitClaimed](s, unitStream(1, 2), 0)
		return s.alone(s.before(c, c.stream, events.UnitFailed{Category: events.WorkerLost, By: events.ByReconciler}))
	}},
	{"I-2", "U-12: a lost worker fails another attempt", lostWorkers, func(s *script) *entry {
		return change(findIn[events.UnitFailed](s, unitStream(1, 2), 0), func(f *events.UnitFailed) { f.Attempt = 2 })
	}},
	{"I-2", "U-12: a lost worker fails its unit itself", lostWorkers, func(s *script) *entry {
		return change(findIn[events.UnitFailed](s, unitStream(1, 2), 0), func(f *events.UnitFailed) { f.Token = "x" })
	}},
	{"I-2", "section 6.1: nobody ends a unit", lostWorkers, func(s *script) *entry {
		return change(findIn[events.UnitFailed](s, unitStream(2, 1), 0), func(f *events.UnitFailed) { f.By, f.Token = "x", "" })
	}},
	{"I-2", "U-8: a worker that fails its unit as lost for good", lostWorkers, func(s *script) *entry {
		return change(findIn[events.UnitFailed](s, unitStream(2, 3), 0), func(f *events.UnitFailed) { f.Category = events.WorkerLostExhausted })
	}},
	{"I-2", "U-8: a worker that fails its unit for its reference", lostWorkers, func(s *script) *entry {
		return change(findIn[events.UnitFailed](s, unitStream(2, 3), 0), func(f *events.UnitFailed) { f.Category = events.ReferenceFailed })
	}},
	{"I-2", "U-8: a worker that fails its unit as never started", lostWorkers, func(s *script) *entry {
		return change(findIn[events.UnitFailed](s, unitStream(2, 3), 0), func(f *events.UnitFailed) { f.Category = events.NeverStarted })
	}},
	{"I-2", "U-13: a unit fails for its reference under another category", lostWorkers, func(s *script) *entry {
		return change(findIn[events.UnitFailed](s, unitStream(2, 2), 0), func(f *events.UnitFailed) { f.Category = events.Auth })
	}},
	{"I-2", "U-13: a unit that was dispatched fails for a reference", lostWorkers, func(s *script) *entry {
		f := findIn[events.UnitFailed](s, unitStream(2, 2), 0)
		s.alone(s.before(findIn[events.UnitClaimed](s, unitStream(2, 1), 0), f.stream, to(1, 1, 1, events.DispatchPlanned)))
		return f
	}},
	{"I-2", "U-13: a reference fails for a reference", lostWorkers, func(s *script) *entry {
		change(findIn[events.UnitPlanned](s, unitStream(2, 2), 0), func(u *events.UnitPlanned) { u.Tier = events.TierReference })
		return findIn[events.UnitFailed](s, unitStream(2, 2), 0)
	}},
	{"I-2", "U-15: a unit that was dispatched is cancelled for a reference", operator, func(s *script) *entry {
		u := findIn[events.UnitCancelled](s, unitStream(2, 2), 0)
		s.alone(s.before(findIn[events.UnitCancelled](s, unitStream(2, 1), 0), u.stream, to(1, 1, 1, events.DispatchPlanned)))
		return u
	}},
	{"I-2", "U-15: a reference is cancelled for a reference", operator, func(s *script) *entry {
		change(findIn[events.UnitPlanned](s, unitStream(2, 2), 0), func(u *events.UnitPlanned) { u.Tier = events.TierReference })
		return findIn[events.UnitCancelled](s, unitStream(2, 2), 0)
	}},
	{"I-2", "U-16: the tenth hand-back in a row", retries, func(s *script) *entry {
		r := find[events.UnitRetryScheduled](s, 1)
		for n := 2; n <= 9; n++ {
			r = s.handBackAgain(r, n)
		}
		return s.handBackAgain(r, 10)
	}},
	{"I-2", "WM-5: a watermark of another source", fullRun, func(s *script) *entry {
		return change(find[events.UnitSucceeded](s, 0), func(u *events.UnitSucceeded) {
			u.Watermarks = append(u.Watermarks, mark("z", u.Watermarks[0].Dataset, u.Watermarks[0].At))
		})
	}},
	{"I-18", "a watermark beyond now", fullRun, func(s *script) *entry {
		change(find[events.UnitPlanned](s, 0), func(u *events.UnitPlanned) {
			u.Window = events.NewWindow(u.Window.From, u.Window.To.Add(24*hour.Std()))
		})
		u := find[events.UnitSucceeded](s, 0)
		return change(u, func(ev *events.UnitSucceeded) { ev.Watermarks[0].At = u.at + 1 })
	}},
	{"I-18", "a watermark of a unit of a backfill", fullRun, func(s *script) *entry {
		change(find[events.UnitPlanned](s, 0), func(u *events.UnitPlanned) { u.Mode = events.Backfill })
		return find[events.UnitSucceeded](s, 0)
	}},
	{"I-18", "a watermark of a run that is a backfill", fullRun, func(s *script) *entry {
		change(find[events.RunPlanned](s, 0), func(r *events.RunPlanned) { r.Mode = events.Backfill })
		return find[events.UnitSucceeded](s, 0)
	}},
	{"I-19", "a retry for another cause is counted as one for a lost lease", retries, func(s *script) *entry {
		return change(find[events.UnitRetryScheduled](s, 0), func(r *events.UnitRetryScheduled) { r.ExpiredLeaseRetries = 1 })
	}},
	{"I-20", "an episode that a hand-back moves", retries, func(s *script) *entry {
		return change(find[events.UnitRetryScheduled](s, 1), func(r *events.UnitRetryScheduled) { r.RateLimitFirstAt++ })
	}},
}

// handBackAgain claims the unit of a hand-back at once, and hands it back for the nth time in a row.
func (s *script) handBackAgain(e *entry, n int) *entry {
	last := s.lastOfTx(e)
	r := e.event.(events.UnitRetryScheduled)
	token := s.token()
	d := to(1, r.Attempt+1, r.Attempt+1, events.DispatchRetry)
	d.Wakeup = r.Attempt + 1
	wake := s.alone(s.behind(last, e.stream, d))
	armed := s.behind(wake, reg(1, events.KindUnit), events.OutboxArmed{N: d.Wakeup, AvailableAt: e.at, Cause: events.ArmDispatched})
	claim := s.alone(s.behind(armed, e.stream, events.UnitClaimed{
		Attempt: d.Attempt, Token: token, LeaseExpiresAt: e.at.Add(minute), LeaseEndsAt: e.at.Add(hour),
	}))
	r.Attempt, r.Token, r.HandBacks = d.Attempt, token, n
	return s.alone(s.behind(claim, e.stream, r))
}

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
		return change(find[events.UnitSucceeded](s, 0), func(u *events.UnitSucceeded) { u.Watermarks[0].Dataset = "x" })
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
		r := find[events.UnitRetryScheduled](s, 1)
		return change(r, func(u *events.UnitRetryScheduled) { u.AvailableAt = r.at - 1 })
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
}

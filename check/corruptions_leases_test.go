package check

import "github.com/towline-dev/towline/events"

// leaseCorruptions are faults of claims and leases: U-5, U-6, U-17, U-19, N-5, CLK-3, CLK-4, I-4 to I-6.
var leaseCorruptions = []corruption{
	{"I-2", "U-5: a claim of a unit that was not dispatched", fullRun, func(s *script) *entry {
		c := findIn[events.UnitClaimed](s, unitStream(1, 3), 0)
		c.stream = unitStream(1, 2)
		return c
	}},
	{"I-2", "U-5: a token twice", retries, func(s *script) *entry {
		old := find[events.UnitClaimed](s, 0).event.(events.UnitClaimed).Token
		return change(find[events.UnitClaimed](s, 1), func(c *events.UnitClaimed) { c.Token = old })
	}},
	{"I-2", "U-5: a lease that is too short", fullRun, func(s *script) *entry {
		return change(find[events.UnitClaimed](s, 0), func(c *events.UnitClaimed) { c.LeaseExpiresAt -= events.Micros(second) })
	}},
	{"I-2", "U-5: a claim in the transaction of a wakeup", fullRun, func(s *script) *entry {
		m := findIn[events.OutboxDispatched](s, reg(1, events.KindUnit), 0)
		find[events.UnitClaimed](s, 0).group = m.group
		return m
	}},
	{"I-2", "U-5: two claims in one transaction", fullRun, func(s *script) *entry {
		two := find[events.UnitClaimed](s, 1)
		two.group = find[events.UnitClaimed](s, 0).group
		return two
	}},
	{"I-2", "U-5: a claim with the settle of another worker", fullRun, func(s *script) *entry {
		change(findIn[events.UnitClaimed](s, unitStream(1, 3), 0), func(c *events.UnitClaimed) { c.Worker = "other" })
		return findIn[events.UnitSucceeded](s, unitStream(1, 3), 0)
	}},
	{"I-2", "U-5: a claim with a dispatch and no settle", fullRun, func(s *script) *entry {
		c := find[events.UnitClaimed](s, 0)
		d := s.entries[s.index(c)-1]
		a := s.before(c, reg(1, events.KindDispatch), events.OutboxArmed{N: 2, AvailableAt: d.at, Cause: events.ArmCapped})
		return a
	}},
	{"I-2", "U-6: two renewals at once", fullRun, func(s *script) *entry {
		r := find[events.UnitLeaseRenewed](s, 0)
		next := s.alone(s.behind(find[events.UnitLeaseRenewed](s, 1), r.stream, r.event))
		next.at = r.at + 1
		return change(next, func(l *events.UnitLeaseRenewed) { l.LeaseExpiresAt++ })
	}},
	{"I-2", "U-6: a renewal that is too short", fullRun, func(s *script) *entry {
		return change(find[events.UnitLeaseRenewed](s, 0), func(r *events.UnitLeaseRenewed) { r.LeaseExpiresAt-- })
	}},
	{"I-2", "U-6: a renewal of a unit that waits", retries, func(s *script) *entry {
		r := find[events.UnitRetryScheduled](s, 0)
		token := r.event.(events.UnitRetryScheduled).Token
		end := s.entries[s.index(r)+1]
		return s.alone(s.behind(end, r.stream, events.UnitLeaseRenewed{Attempt: 1, Token: token, LeaseExpiresAt: r.at.Add(minute)}))
	}},
	{"I-2", "U-17: a live lease expires", lostWorkers, func(s *script) *entry {
		l := find[events.UnitLeaseExpired](s, 0)
		s.shift(l, -90*second)
		return l
	}},
	{"I-2", "U-17: a lease of a living incarnation is taken away", lostWorkers, func(s *script) *entry {
		return change(find[events.UnitLeaseExpired](s, 0), func(l *events.UnitLeaseExpired) { l.Cause = events.LeaseIncarnationGone })
	}},
	{"I-2", "N-5: the lease of an API worker dies with a node", restart, func(s *script) *entry {
		u := find[events.UnitSucceeded](s, 0)
		at := findIn[events.UnitClaimed](s, unitStream(1, 2), 0).event.(events.UnitClaimed).LeaseExpiresAt
		return s.before(u, u.stream, events.UnitLeaseExpired{Attempt: 1, LeaseExpiresAt: at, Cause: events.LeaseIncarnationGone, LeaseNode: nodeID(2)})
	}},
	{"I-2", "U-17: a lease is said to be missing", lostWorkers, func(s *script) *entry {
		return change(find[events.UnitLeaseExpired](s, 0), func(l *events.UnitLeaseExpired) { l.Cause = events.LeaseMissing })
	}},
	{"I-2", "U-6: a renewal that moves nothing", fullRun, func(s *script) *entry {
		until := find[events.UnitClaimed](s, 0).event.(events.UnitClaimed).LeaseExpiresAt
		return change(find[events.UnitLeaseRenewed](s, 0), func(r *events.UnitLeaseRenewed) { r.LeaseExpiresAt = until })
	}},
	{"I-2", "U-19: late for an end of the unit that has not come", lostWorkers, func(s *script) *entry {
		return change(find[events.UnitLateResult](s, 0), func(l *events.UnitLateResult) { l.Reason = events.LateUnitTerminal })
	}},
	{"I-2", "U-19: an old attempt that is the newest", lostWorkers, func(s *script) *entry {
		return change(find[events.UnitLateResult](s, 0), func(l *events.UnitLateResult) { l.Reason = events.LateAttemptOld })
	}},
	{"I-2", "U-19: two late results of one attempt", fullRun, func(s *script) *entry {
		l := find[events.UnitLateResult](s, 0)
		return s.alone(s.behind(l, l.stream, l.event))
	}},
	{"I-2", "U-19: a late result of an attempt that was not made", lostWorkers, func(s *script) *entry {
		return change(find[events.UnitLateResult](s, 0), func(l *events.UnitLateResult) { l.Attempt = 2 })
	}},
	{"I-2", "U-19: late for an end that has not come", lostWorkers, func(s *script) *entry {
		return change(find[events.UnitLateResult](s, 0), func(l *events.UnitLateResult) { l.Reason = events.LateRunTerminal })
	}},
	{"I-4", "an attempt is left out", retries, func(s *script) *entry {
		return change(find[events.UnitClaimed](s, 1), func(c *events.UnitClaimed) { c.Attempt = 3 })
	}},
	{"I-4", "two live leases", fullRun, func(s *script) *entry {
		c := find[events.UnitClaimed](s, 0)
		n := s.alone(s.behind(c, c.stream, c.event))
		return change(n, func(c *events.UnitClaimed) { c.Attempt, c.Token = 2, "other" })
	}},
	{"I-4", "no dispatch between two claims", retries, func(s *script) *entry {
		s.drop(find[events.UnitDispatched](s, 1))
		return find[events.UnitClaimed](s, 1)
	}},
	{"I-5", "a settle with another token", fullRun, func(s *script) *entry {
		return change(find[events.UnitSucceeded](s, 0), func(u *events.UnitSucceeded) { u.Token = "other" })
	}},
	{"I-5", "a failure of an old attempt", retries, func(s *script) *entry {
		return change(find[events.UnitFailed](s, 0), func(f *events.UnitFailed) { f.Attempt = 4 })
	}},
	{"I-5", "a settle at the very end of the lease", fullRun, func(s *script) *entry {
		u := findIn[events.UnitSucceeded](s, unitStream(1, 1), 0)
		s.shift(u, minute-5*second)
		return u
	}},
	{"I-5", "a renewal after the lease", fullRun, func(s *script) *entry {
		r := find[events.UnitLeaseRenewed](s, 0)
		s.shift(r, 40*second)
		return r
	}},
	{"I-5", "a retry without the lease", retries, func(s *script) *entry {
		return change(find[events.UnitRetryScheduled](s, 0), func(r *events.UnitRetryScheduled) { r.Token = "other" })
	}},
	{"I-5", "a settle under the lease of a gone incarnation", restart, func(s *script) *entry {
		change(findIn[events.UnitClaimed](s, unitStream(1, 2), 0), func(c *events.UnitClaimed) { c.Remote = false })
		return find[events.UnitSucceeded](s, 0)
	}},
	{"I-5", "a grace is granted once", clock, func(s *script) *entry {
		r := find[events.UnitLeaseRenewed](s, 0)
		step := find[events.ClockStepped](s, 0)
		s.drop(r)
		s.alone(s.behind(step, step.stream, events.ClockStepped{Before: step.at, After: step.at.Add(hour), GraceUntil: step.at.Add(hour)}))
		u := find[events.UnitSucceeded](s, 0)
		s.shift(u, minute)
		return u
	}},
	{"I-6", "a lease beyond its lifetime", fullRun, func(s *script) *entry {
		return change(find[events.UnitClaimed](s, 0), func(c *events.UnitClaimed) { c.LeaseEndsAt++ })
	}},
	{"I-6", "a renewal beyond the lifetime", fullRun, func(s *script) *entry {
		return change(find[events.UnitLeaseRenewed](s, 0), func(r *events.UnitLeaseRenewed) { r.LeaseExpiresAt = r.LeaseExpiresAt.Add(hour) })
	}},
	{"I-6", "a renewal beyond the lifetime that a step has moved", clock, func(s *script) *entry {
		return change(find[events.UnitLeaseRenewed](s, 0), func(r *events.UnitLeaseRenewed) { r.LeaseExpiresAt = r.LeaseExpiresAt.Add(hour) })
	}},
	{"I-6", "a second grace for one attempt", clock, func(s *script) *entry {
		r := find[events.UnitLeaseRenewed](s, 0)
		return s.alone(s.behind(r, events.NodeStream(s.node), events.ClockStepped{Before: r.at, After: r.at.Add(hour), GraceUntil: r.at.Add(minute)}))
	}},
	{"I-6", "a grace longer than a lease", clock, func(s *script) *entry {
		return change(find[events.ClockStepped](s, 0), func(c *events.ClockStepped) { c.GraceUntil++ })
	}},
	{"I-2", "CLK-4: a grace shorter than the lease", clock, func(s *script) *entry {
		return change(find[events.ClockStepped](s, 0), func(c *events.ClockStepped) { c.GraceUntil-- })
	}},
	{"I-6", "a grace for no lease", clock, func(s *script) *entry {
		return change(find[events.ClockStepped](s, 0), func(c *events.ClockStepped) { c.Before = c.Before.Add(hour) })
	}},
	{"I-6", "a grace for a clock that went back", clock, func(s *script) *entry {
		return change(find[events.ClockStepped](s, 1), func(c *events.ClockStepped) { c.GraceUntil = c.Before.Add(minute) })
	}},
	{"I-6", "a grace by an operator's word", clock, func(s *script) *entry {
		return change(find[events.ClockStepped](s, 2), func(c *events.ClockStepped) { c.GraceUntil = c.Before.Add(minute) })
	}},
	{"I-2", "CLK-4: a step without the grace", clock, func(s *script) *entry {
		return change(find[events.ClockStepped](s, 0), func(c *events.ClockStepped) { c.GraceUntil = 0 })
	}},
	{"I-2", "CLK-3: a step behind a decision", clock, func(s *script) *entry {
		step := find[events.ClockStepped](s, 1)
		step.group = find[events.UnitLeaseRenewed](s, 0).group
		return step
	}},
	{"I-2", "U-5: a lease whose end is too early", fullRun, func(s *script) *entry {
		return change(find[events.UnitClaimed](s, 0), func(c *events.UnitClaimed) { c.LeaseEndsAt-- })
	}},
	{"I-2", "U-5: a claim without a token", retries, func(s *script) *entry {
		return change(find[events.UnitClaimed](s, 1), func(c *events.UnitClaimed) { c.Token = "" })
	}},
	{"I-2", "U-5: a claim with the failure of another worker", fullRun, func(s *script) *entry {
		change(findIn[events.UnitClaimed](s, unitStream(1, 3), 0), func(c *events.UnitClaimed) { c.Worker = "other" })
		e := findIn[events.UnitSucceeded](s, unitStream(1, 3), 0)
		e.event = events.UnitFailed{Attempt: 1, Token: e.event.(events.UnitSucceeded).Token, Category: events.Auth, By: events.ByWorker}
		return e
	}},
	{"I-2", "U-5: a claim with the hand-back of another worker", fullRun, func(s *script) *entry {
		change(findIn[events.UnitClaimed](s, unitStream(1, 3), 0), func(c *events.UnitClaimed) { c.Worker = "other" })
		e := findIn[events.UnitSucceeded](s, unitStream(1, 3), 0)
		e.event = events.UnitRetryScheduled{
			Attempt: 1, Token: e.event.(events.UnitSucceeded).Token, Cause: events.HandedBack, AvailableAt: e.at, HandBacks: 1,
		}
		return e
	}},
	{"I-2", "U-5: a claim with an expired lease of another unit", fullRun, func(s *script) *entry {
		return s.behind(find[events.UnitClaimed](s, 1), unitStream(1, 1), events.UnitLeaseExpired{Attempt: 1})
	}},
	{"I-2", "U-5: a claim with the lost worker of another unit", fullRun, func(s *script) *entry {
		c := findIn[events.UnitClaimed](s, unitStream(1, 2), 0)
		f := s.behind(c, unitStream(1, 9), events.UnitFailed{By: events.ByReconciler})
		s.behind(c, unitStream(1, 9), events.UnitLateResult{})
		return f
	}},
	{"I-2", "U-5: a claim with a cascade and no settle", fullRun, func(s *script) *entry {
		c := find[events.UnitClaimed](s, 0)
		s.behind(c, unitStream(1, 9), events.UnitPlanned{})
		return s.behind(c, unitStream(1, 9), events.UnitFailed{By: events.ByReference})
	}},
	{"I-2", "U-5: a claim with a refill and no settle", fullRun, func(s *script) *entry {
		c := find[events.UnitClaimed](s, 0)
		return s.behind(c, unitStream(1, 2), to(1, 1, 1, events.DispatchPlanned))
	}},
	{"I-2", "U-11: a lease of a unit that waits expires", lostWorkers, func(s *script) *entry {
		r := find[events.UnitRetryScheduled](s, 0)
		return s.behind(r, r.stream, events.UnitLeaseExpired{Attempt: 1, Cause: events.LeaseMissing})
	}},
	{"I-2", "U-11: the lease of another attempt expires", lostWorkers, func(s *script) *entry {
		return change(find[events.UnitLeaseExpired](s, 0), func(l *events.UnitLeaseExpired) { l.Attempt = 2 })
	}},
	{"I-2", "U-17: a lease expires for no reason", lostWorkers, func(s *script) *entry {
		return change(find[events.UnitLeaseExpired](s, 0), func(l *events.UnitLeaseExpired) { l.Cause = "x" })
	}},
	{"I-2", "U-17: the lease that expires had another end", lostWorkers, func(s *script) *entry {
		return change(find[events.UnitLeaseExpired](s, 0), func(l *events.UnitLeaseExpired) { l.LeaseExpiresAt++ })
	}},
	{"I-2", "U-17: the lease that expires was another node's", lostWorkers, func(s *script) *entry {
		return change(find[events.UnitLeaseExpired](s, 0), func(l *events.UnitLeaseExpired) { l.LeaseNode = nodeID(9) })
	}},
	{"I-2", "U-17: the lease that expires was not renewed then", lostWorkers, func(s *script) *entry {
		return change(find[events.UnitLeaseExpired](s, 0), func(l *events.UnitLeaseExpired) { l.LastRenewedAt = 1 })
	}},
	{"I-2", "U-19: a late result of attempt 0", lostWorkers, func(s *script) *entry {
		return change(find[events.UnitLateResult](s, 0), func(l *events.UnitLateResult) { l.Attempt = 0 })
	}},
	{"I-5", "a settle without a token, as its claim", fullRun, func(s *script) *entry {
		change(find[events.UnitClaimed](s, 0), func(c *events.UnitClaimed) { c.Token = "" })
		return change(find[events.UnitSucceeded](s, 0), func(u *events.UnitSucceeded) { u.Token = "" })
	}},
	{"I-6", "a lease that outlives its lifetime", fullRun, func(s *script) *entry {
		return change(find[events.UnitClaimed](s, 0), func(c *events.UnitClaimed) { c.LeaseExpiresAt = c.LeaseEndsAt + 1 })
	}},
}

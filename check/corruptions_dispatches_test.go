package check

import (
	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/events"
)

// dispatchCorruptions are faults of dispatches: U-2 to U-4, U-14, U-18, RL-5, B-1, I-10, I-17, I-21.
var dispatchCorruptions = []corruption{
	{"I-2", "U-2: a dispatch while the engine is paused", fullRun, func(s *script) *entry {
		d := find[events.UnitDispatched](s, 0)
		s.alone(s.before(d, events.EngineControlStream(), events.EnginePaused{Actor: "me"}))
		return d
	}},
	{"I-2", "U-2: a dispatch while the source is paused", operator, func(s *script) *entry {
		return s.behindInTx(find[events.UnitDispatched](s, 1), unitStream(1, 2), to(1, 1, 1, events.DispatchPlanned))
	}},
	{"I-2", "RL-5: a dispatch under a cooldown", retries, func(s *script) *entry {
		r := change(find[events.UnitRetryScheduled](s, 0), func(r *events.UnitRetryScheduled) { r.AvailableAt-- })
		change(s.lastOfTx(r), func(a *events.OutboxArmed) { a.AvailableAt-- })
		s.shift(s.entries[s.index(r)+2], -2*second) // the second that a relay takes, and one more
		return find[events.UnitDispatched](s, 1)
	}},
	{"I-2", "U-3: a retry before it is due", retries, func(s *script) *entry {
		r := find[events.UnitRetryScheduled](s, 3) // for the network, so no cooldown holds it too
		d := s.behindInTx(r, r.stream, to(1, 5, 5, events.DispatchRetry))
		return s.wakeup(d, 5)
	}},
	{"I-2", "U-4: a reclaim before the unit is stale", stale, func(s *script) *entry {
		s.node1config(`{"dispatch.stale": "17m"}`)
		return findIn[events.UnitDispatched](s, unitStream(1, 1), 1)
	}},
	{"I-2", "U-4: a reclaim for an incarnation that lives", stale, func(s *script) *entry {
		return change(findIn[events.UnitDispatched](s, unitStream(1, 1), 1), func(d *events.UnitDispatched) { d.Cause = events.DispatchIncarnationGone })
	}},
	{"I-2", "U-2: a cause that does not fit", fullRun, func(s *script) *entry {
		return change(find[events.UnitDispatched](s, 0), func(d *events.UnitDispatched) { d.Cause = events.DispatchStale })
	}},
	{"I-2", "U-2: a dispatch number twice", stale, func(s *script) *entry {
		return change(findIn[events.UnitDispatched](s, unitStream(1, 1), 1), func(d *events.UnitDispatched) { d.Dispatch = 1 })
	}},
	{"I-2", "U-2: an invitation to another attempt", fullRun, func(s *script) *entry {
		return change(find[events.UnitDispatched](s, 0), func(d *events.UnitDispatched) { d.Attempt = 2 })
	}},
	{"I-2", "B-1: a bucket that is not the unit's", fullRun, func(s *script) *entry {
		return change(find[events.UnitDispatched](s, 0), func(d *events.UnitDispatched) { d.Bucket = "git/heavy" })
	}},
	{"I-2", "U-18: a running unit is dispatched", fullRun, func(s *script) *entry {
		c := findIn[events.UnitClaimed](s, unitStream(1, 3), 0)
		return s.wakeup(s.alone(s.behind(c, c.stream, to(1, 2, 2, events.DispatchStale))), 2)
	}},
	{"I-2", "R-2: the first dispatch does not start the run", fullRun, func(s *script) *entry {
		s.drop(find[events.RunDispatchStarted](s, 0))
		return find[events.UnitDispatched](s, 0)
	}},
	{"I-2", "R-2: the run starts without a dispatch", fullRun, func(s *script) *entry {
		e := find[events.RunDispatchStarted](s, 0)
		s.before(findIn[events.OutboxClaimed](s, reg(1, events.KindDispatch), 0), run1, events.RunDispatchStarted{})
		s.alone(find[events.RunDispatchStarted](s, 0))
		s.drop(e)
		return find[events.RunDispatchStarted](s, 0)
	}},
	{"I-2", "U-14: given up too early", stale, func(s *script) *entry {
		change(find[events.NodeStarted](s, 0), func(n *events.NodeStarted) { n.Config = []byte(`{"dispatch.never_started_after": "3d"}`) })
		return find[events.UnitFailed](s, 0)
	}},
	{"I-2", "U-14: given up, and the knob says never", stale, func(s *script) *entry {
		change(find[events.NodeStarted](s, 0), func(n *events.NodeStarted) { n.Config = []byte(`{"dispatch.never_started_after": 0}`) })
		return find[events.UnitFailed](s, 0)
	}},
	{"I-2", "U-14: given up after two dispatches", stale, func(s *script) *entry {
		d := findIn[events.UnitDispatched](s, unitStream(1, 1), 2)
		s.drop(d)
		return find[events.UnitFailed](s, 0)
	}},
	{"I-2", "U-14: given up while its source is paused", stale, func(s *script) *entry {
		f := find[events.UnitFailed](s, 0)
		s.alone(s.before(f, events.SourceControlStream("a"), events.SourcePaused{Actor: "me"}))
		return f
	}},
	{"I-2", "U-14: given up while it is not stale", stale, func(s *script) *entry {
		s.node1config(`{"dispatch.stale": "2d"}`)
		return find[events.UnitFailed](s, 0)
	}},
	{"I-2", "U-14: given up under another category", stale, func(s *script) *entry {
		return change(find[events.UnitFailed](s, 0), func(f *events.UnitFailed) { f.Category = events.Timeout })
	}},
	{"I-2", "U-14: given up while no slot is free", stale, func(s *script) *entry {
		f := find[events.UnitFailed](s, 0)
		c := find[events.UnitClaimed](s, 0) // its lease outlives the other unit's day
		change(find[events.RunPlanned](s, 0), func(r *events.RunPlanned) {
			r.Policy.RunCap, r.Policy.Lease, r.Policy.Lifetime = 1, 72*hour, 72*hour
		})
		change(c, func(u *events.UnitClaimed) { u.LeaseExpiresAt, u.LeaseEndsAt = c.at.Add(72*hour), c.at.Add(72*hour) })
		return f
	}},
	{"I-2", "U-2: the message of a dispatch is armed for later", fullRun, func(s *script) *entry {
		change(findIn[events.OutboxArmed](s, reg(1, events.KindUnit), 1), func(a *events.OutboxArmed) { a.AvailableAt++ })
		return findIn[events.UnitDispatched](s, unitStream(1, 2), 0)
	}},
	{"I-2", "U-14: given up in the time that a clock skipped", stale, func(s *script) *entry {
		f := find[events.UnitFailed](s, 0)
		s.alone(s.before(f, events.NodeStream(s.node), events.ClockStepped{Before: f.at.Add(-hour), After: f.at}))
		return f
	}},
	{"I-10", "a dispatch arms nothing", fullRun, func(s *script) *entry {
		s.drop(findIn[events.OutboxArmed](s, reg(1, events.KindUnit), 1))
		return findIn[events.UnitDispatched](s, unitStream(1, 2), 0)
	}},
	{"I-10", "a dispatch names an older wakeup", fullRun, func(s *script) *entry {
		return s.wakeup(findIn[events.UnitDispatched](s, unitStream(1, 2), 0), 1)
	}},
	{"I-10", "a dispatch names the wakeup that is being published", fullRun, func(s *script) *entry {
		// The refill comes while wakeup 1 is claimed: its expansion is over, so the unit would travel with none.
		m := findIn[events.OutboxDispatched](s, reg(1, events.KindUnit), 0)
		d := findIn[events.UnitDispatched](s, unitStream(1, 2), 0)
		u := findIn[events.UnitSucceeded](s, unitStream(1, 1), 0)
		arm := findIn[events.OutboxArmed](s, reg(1, events.KindUnit), 1)
		s.drop(arm)
		s.move(m, find[events.OutboxClaimed](s, 2))
		m.at = s.entries[s.index(m)-1].at
		require.Less(s.t, s.index(u), s.index(d))
		return s.wakeup(d, 1)
	}},
	{"I-10", "a retry wakes nobody", lostWorkers, func(s *script) *entry {
		s.drop(findIn[events.OutboxArmed](s, reg(1, events.KindDispatch), 1))
		return find[events.UnitRetryScheduled](s, 0)
	}},
	{"I-10", "a retry wakes somebody too late", lostWorkers, func(s *script) *entry {
		change(findIn[events.OutboxArmed](s, reg(1, events.KindDispatch), 1), func(a *events.OutboxArmed) { a.AvailableAt++ })
		return find[events.UnitRetryScheduled](s, 0)
	}},
	{"I-17", "the bucket is full", fullRun, func(s *script) *entry {
		s.node1config(`{"dispatch.stale": "15m", "cap.bucket": 1}`)
		return find[events.UnitDispatched](s, 1)
	}},
	{"I-17", "the engine is full", fullRun, func(s *script) *entry {
		s.node1config(`{"dispatch.stale": "15m", "cap": {"engine": 1}}`)
		return find[events.UnitDispatched](s, 1)
	}},
	{"I-17", "the run is full", fullRun, func(s *script) *entry {
		change(find[events.RunPlanned](s, 0), func(r *events.RunPlanned) { r.Policy.RunCap = 1 })
		return find[events.UnitDispatched](s, 1)
	}},
	{"I-17", "a dispatch beside a lease that still lives", stale, func(s *script) *entry {
		s.node1config(`{"dispatch.stale": "24h", "cap": {"bucket.git/light": 1}}`)
		return find[events.UnitDispatched](s, 1)
	}},
	{"I-17", "a stale unit is claimed, and its slot was given away", stale, func(s *script) *entry {
		c := find[events.UnitClaimed](s, 0) // moved behind the reclaim of the other unit
		change(find[events.RunPlanned](s, 0), func(r *events.RunPlanned) { r.Policy.RunCap = 1 })
		d := findIn[events.UnitDispatched](s, unitStream(1, 1), 1)
		s.move(c, s.behind(s.lastOfTx(d), events.NodeStream(nodeID(1)), events.NodeRecovered{}))
		s.alone(find[events.NodeRecovered](s, 0))
		return change(c, func(u *events.UnitClaimed) { u.LeaseExpiresAt, u.LeaseEndsAt = c.at.Add(minute), c.at.Add(hour) })
	}},
	{"I-21", "a work item before its reference", fullRun, func(s *script) *entry {
		d := find[events.UnitDispatched](s, 1)
		d.stream = unitStream(1, 2)
		return d
	}},
	{"I-10", "a dispatch names the wakeup that its transaction arms behind an open one", fullRun, func(s *script) *entry {
		return s.wakeup(s.refillWhileClaiming(), 2)
	}},
	{"I-10", "a dispatch names an open wakeup that its transaction claims", fullRun, func(s *script) *entry {
		return s.wakeup(s.refillWhileClaiming(), 1)
	}},
	{"I-2", "U-14: given up before it was dispatched", stale, func(s *script) *entry {
		d := find[events.UnitDispatched](s, 0)
		return s.alone(s.before(d, d.stream, events.UnitFailed{Category: events.NeverStarted, By: events.ByDispatch}))
	}},
}

// refillWhileClaiming moves the second dispatch of the run into a later transaction, which claims the wakeup of the first
// and arms the next.
func (s *script) refillWhileClaiming() *entry {
	d := find[events.UnitDispatched](s, 1)
	c := findIn[events.OutboxClaimed](s, reg(1, events.KindUnit), 0)
	s.move(d, c)
	c.group = d.group
	s.behind(c, c.stream, events.OutboxArmed{N: 2, AvailableAt: d.at, Cause: events.ArmDispatched})
	return d
}

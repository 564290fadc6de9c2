package check

import "github.com/towline-dev/towline/events"

// held puts a restored hold around a transaction, and nothing else.
func (s *script) held(e *entry) *entry {
	s.alone(s.before(e, events.NodeStream(e.node), events.StoreRestored{Epoch: 2}))
	s.alone(s.behind(e, events.EngineControlStream(), events.RestoreHoldReleased{Actor: "me", Reason: "checked"}))
	return s.alone(e)
}

// nodeCorruptions are faults of incarnations, of the store, and of where an event stands: I-24, DUR-5.
var nodeCorruptions = []corruption{
	{"I-2", "DUR-5: a claim in a restored hold", around, func(s *script) *entry {
		s.drop(find[events.RestoreHoldReleased](s, 0))
		return findIn[events.OutboxClaimed](s, reg(3, events.KindDispatch), 0)
	}},
	{"I-2", "DUR-5: a unit is claimed in a restored hold", fullRun, func(s *script) *entry {
		return s.held(find[events.UnitClaimed](s, 0))
	}},
	{"I-2", "DUR-5: a claim from before the restore is marked in the hold", fullRun, func(s *script) *entry {
		return s.held(find[events.OutboxDispatched](s, 0))
	}},
	{"I-2", "DUR-5: an epoch twice", around, func(s *script) *entry {
		return change(find[events.StoreRestored](s, 0), func(r *events.StoreRestored) { r.Epoch = 1 })
	}},
	{"I-2", "an event in a stream of another family", fullRun, func(s *script) *entry {
		e := find[events.UnitClaimed](s, 0)
		e.stream = run1
		return e
	}},
	{"I-2", "a unit that was never planned", fullRun, func(s *script) *entry {
		e := find[events.UnitClaimed](s, 0)
		e.stream = unitStream(1, 9)
		return e
	}},
	{"I-24", "a dead incarnation goes on", restart, func(s *script) *entry {
		e := find[events.NodeRecovered](s, 0)
		n := s.alone(s.behind(e, reg(1, events.KindDispatch), events.OutboxArmed{N: 2, AvailableAt: e.at, Cause: events.ArmMaterialized}))
		n.node = nodeID(1)
		return n
	}},
	{"I-24", "an incarnation that never started", fullRun, func(s *script) *entry {
		e := find[events.UnitClaimed](s, 0)
		e.node = nodeID(7)
		return e
	}},
	{"I-24", "an incarnation goes on after its stop", fullRun, func(s *script) *entry {
		e := find[events.NodeStopped](s, 0)
		return s.alone(s.behind(e, e.stream, events.NodeRecovered{}))
	}},
	{"I-24", "nobody stands behind an engine event", fullRun, func(s *script) *entry {
		e := find[events.UnitClaimed](s, 0)
		e.node = events.NodeID{}
		return e
	}},
	{"I-24", "an incarnation starts twice", restart, func(s *script) *entry {
		r := find[events.NodeRecovered](s, 0)
		return s.alone(s.behind(r, r.stream, find[events.NodeStarted](s, 1).event))
	}},
	{"I-24", "an incarnation is started by another", fullRun, func(s *script) *entry {
		e := find[events.NodeStarted](s, 0)
		e.node = nodeID(9)
		return e
	}},
	{"I-2", "an event of a node in the stream of a unit", fullRun, func(s *script) *entry {
		c := find[events.UnitClaimed](s, 0)
		return s.alone(s.behind(c, c.stream, events.NodeRecovered{}))
	}},
	{"I-2", "an event of a node in the stream of a unit whose run has ended", fullRun, func(s *script) *entry {
		l := find[events.UnitLateResult](s, 0)
		return s.alone(s.before(l, l.stream, events.NodeRecovered{}))
	}},
	{"I-2", "an event of a node in the stream of a job", fullRun, func(s *script) *entry {
		l := find[events.JobLinked](s, 0)
		return s.alone(s.behind(l, l.stream, events.NodeRecovered{}))
	}},
	{"I-2", "an event of a node in the stream of a register", fullRun, func(s *script) *entry {
		c := find[events.OutboxClaimed](s, 0)
		return s.alone(s.behind(c, c.stream, events.NodeRecovered{}))
	}},
	{"I-2", "an event of a node in the stream of an occurrence", around, func(s *script) *entry {
		q := find[events.OccurrenceQueued](s, 0)
		return s.alone(s.behind(q, q.stream, events.NodeRecovered{}))
	}},
	{"I-2", "an event of a node in the stream of a schedule", around, func(s *script) *entry {
		d := find[events.ScheduleDefined](s, 0)
		return s.alone(s.behind(d, d.stream, events.NodeRecovered{}))
	}},
	{"I-2", "an event of a run in the stream of a node", restart, func(s *script) *entry {
		n := find[events.NodeStarted](s, 1)
		return s.alone(s.behind(n, n.stream, events.RunDispatchStarted{}))
	}},
	{"I-2", "an event of a node in the stream of a unit that is planned later", fullRun, func(s *script) *entry {
		return s.alone(s.behind(find[events.NodeStarted](s, 0), unitStream(1, 1), events.NodeRecovered{}))
	}},
}

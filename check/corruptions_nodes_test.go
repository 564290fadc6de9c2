package check

import "github.com/towline-dev/towline/events"

// nodeCorruptions are faults of incarnations, of the store, and of where an event stands: I-24, DUR-5.
var nodeCorruptions = []corruption{
	{"I-2", "DUR-5: a claim in a restored hold", around, func(s *script) *entry {
		s.drop(find[events.RestoreHoldReleased](s, 0))
		return findIn[events.OutboxClaimed](s, reg(3, events.KindDispatch), 0)
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
}

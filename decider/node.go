package decider

import (
	"encoding/json"

	"github.com/towline-dev/towline/events"
)

// Node is the fold of a node stream: one start of one process (N-1).
//
//	∅ ──NodeStarted──► up ──NodeRecovered──► up ──NodeStopped──► down
//
// ClockStepped changes only what is known of the clock, NodeConfigChanged only the values in force.
type Node struct {
	ID          events.NodeID
	Started     events.NodeStarted
	StartedAt   events.Micros
	Recovered   events.NodeRecovered
	RecoveredAt events.Micros
	StoppedAt   events.Micros
	Reason      string

	Config json.RawMessage // in force: that of the start, with every reload over it (CFG-3)

	Steps       int           // of its wall clock that are on record
	ConfirmedAt events.Micros // engine time when an operator last confirmed the wall clock; 0: nobody has
	Breakers    []Breaker     // open ones (O-16)
	Segment     string        // the newest that it has sealed
	Restored    int           // the epoch that it has begun (DUR-5); 0: none
}

// up reports an incarnation that has started and not stopped.
func (n Node) up() bool { return n.StartedAt != 0 && n.StoppedAt == 0 }

func (n Node) evolve(env events.Envelope) Node {
	switch e := env.Event.(type) {
	case events.NodeStarted:
		n.ID, _ = env.Stream.Node()
		n.Started, n.StartedAt, n.Config = e, env.At, e.Config
	case events.NodeConfigChanged:
		n = n.configChanged(e)
	case events.NodeRecovered:
		n.Recovered, n.RecoveredAt = e, env.At
	case events.ClockStepped:
		if e.Actor == "" {
			n.Steps++
		} else {
			n.ConfirmedAt = e.Before
		}
	case events.BreakerOpened:
		n = n.breakerOpened(env.At, e)
	case events.BreakerClosed:
		n = n.breakerClosed(e)
	case events.RunsArchived:
		n.Segment = e.Segment
	case events.StoreRestored:
		n.Restored = e.Epoch
	case events.NodeStopped:
		n.StoppedAt, n.Reason = env.At, e.Reason
	}
	return n
}

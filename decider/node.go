package decider

import "github.com/towline-dev/towline/events"

// Node is the fold of a node stream: one start of one process (N-1).
//
//	∅ ──NodeStarted──► up ──NodeRecovered──► up ──NodeStopped──► down
type Node struct {
	ID          events.NodeID
	Started     events.NodeStarted
	StartedAt   events.Micros
	Recovered   events.NodeRecovered
	RecoveredAt events.Micros
	StoppedAt   events.Micros
	Reason      string
}

func (n Node) evolve(env events.Envelope) Node {
	switch e := env.Event.(type) {
	case events.NodeStarted:
		n.ID, _ = env.Stream.Node()
		n.Started, n.StartedAt = e, env.At
	case events.NodeRecovered:
		n.Recovered, n.RecoveredAt = e, env.At
	case events.NodeStopped:
		n.StoppedAt, n.Reason = env.At, e.Reason
	}
	return n
}

package decider

import "github.com/towline-dev/towline/events"

// StartNode opens an incarnation, before anything else that it appends (N-1).
type StartNode struct {
	Node    events.NodeID
	Started events.NodeStarted
}

func (StartNode) Name() string              { return "start_node" }
func (c StartNode) Stream() events.StreamID { return events.NodeStream(c.Node) }
func (StartNode) Fresh() bool               { return true }

func (c StartNode) decide(s State) ([]events.Event, *Rejection) {
	if s.(Node).StartedAt != 0 {
		return nil, nil
	}
	return []events.Event{c.Started}, nil
}

// RecoverNode says that boot recovery has ended (N-4).
type RecoverNode struct {
	Node      events.NodeID
	Recovered events.NodeRecovered
}

func (RecoverNode) Name() string              { return "recover_node" }
func (c RecoverNode) Stream() events.StreamID { return events.NodeStream(c.Node) }
func (RecoverNode) Fresh() bool               { return false }

func (c RecoverNode) decide(s State) ([]events.Event, *Rejection) {
	n := s.(Node)
	if !n.up() || n.RecoveredAt != 0 {
		return nil, nil
	}
	return []events.Event{c.Recovered}, nil
}

// StopNode is a clean stop (N-6).
type StopNode struct {
	Node   events.NodeID
	Reason string
}

func (StopNode) Name() string              { return "stop_node" }
func (c StopNode) Stream() events.StreamID { return events.NodeStream(c.Node) }
func (StopNode) Fresh() bool               { return false }

func (c StopNode) decide(s State) ([]events.Event, *Rejection) {
	if !s.(Node).up() {
		return nil, nil
	}
	return []events.Event{events.NodeStopped{Reason: c.Reason}}, nil
}

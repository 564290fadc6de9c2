package decider

import "github.com/towline-dev/towline/events"

// RestoreStore begins a new life of a store that was put in the place of another (DUR-5). From here on nothing is sent until
// an operator ends the hold, and what is claimed is fenced above all that was claimed before.
type RestoreStore struct {
	Node  events.NodeID
	Epoch int
	Head  events.Position // of the copy
}

func (RestoreStore) Name() string              { return "restore_store" }
func (c RestoreStore) Stream() events.StreamID { return events.NodeStream(c.Node) }
func (RestoreStore) Fresh() bool               { return false }

func (c RestoreStore) decide(s State) ([]events.Event, *Rejection) {
	if n := s.(Node); !n.up() || n.Restored >= c.Epoch {
		return nil, nil
	}
	return []events.Event{events.StoreRestored{Epoch: c.Epoch, Head: c.Head}}, nil
}

// ReleaseHold is an operator's word that what a restored store would send may be sent (DUR-5). Number is that of the release,
// from 1 over all restores of a store, so that a word which comes twice releases no later hold.
type ReleaseHold struct {
	Number        int
	Actor, Reason string
}

func (ReleaseHold) Name() string            { return "release_hold" }
func (ReleaseHold) Stream() events.StreamID { return events.EngineControlStream() }
func (ReleaseHold) Fresh() bool             { return false }

func (c ReleaseHold) decide(s State) ([]events.Event, *Rejection) {
	if c.Number != s.(Control).Releases+1 {
		return nil, nil
	}
	return []events.Event{events.RestoreHoldReleased{Actor: c.Actor, Reason: c.Reason}}, nil
}

package decider

import "github.com/towline-dev/towline/events"

// LoseEffect says of an at_most_once effect that had begun, and whose process is gone, that nobody knows what became of it
// (HP-5). It is the last word on its target, whatever is known of the publish, so the register waits for a person. While
// the register is marked the publish has a word of its own to come (O-12), and this one comes behind it. What was sent and
// never begun has no process that could have done half of it, and stays as it is (C-46).
type LoseEffect struct {
	Owner    events.RunID
	Kind     events.Kind
	Target   string
	Begun    bool // PostSyncStarted is the newest event of the target, read in the deciding transaction
	NodeGone bool // the incarnation that wrote it is gone (N-3)
}

func (LoseEffect) Name() string              { return "lose_effect" }
func (c LoseEffect) Stream() events.StreamID { return events.RegisterStream(c.Owner, c.Kind) }
func (LoseEffect) Fresh() bool               { return false }

func (c LoseEffect) decide(s State) ([]events.Event, *Rejection) {
	r := s.(Register)
	if !c.Begun || !c.NodeGone || r.Status != RegisterIdle && r.Status != RegisterUnresolved {
		return nil, nil
	}
	o, known := r.Outcome(c.Target)
	if !known || o.Outcome == events.Unknown || r.resolved(c.Target) {
		return nil, nil
	}
	return []events.Event{events.OutboxOutcome{
		N: r.Closed, Target: c.Target, Outcome: events.Unknown, Cause: events.OutcomeProcessDied,
	}}, nil
}

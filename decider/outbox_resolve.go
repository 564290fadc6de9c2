package decider

import "github.com/towline-dev/towline/events"

// ResolveWakeup is an operator's word on the publish to one target of which nobody knows (O-17, O-S10). Whatever the word
// is, nothing is sent: the wakeup was closed by its mark and stays closed. The last unknown target ends the register's
// wait for a person. While an outcome may still come, the register is marked and cannot be resolved.
type ResolveWakeup struct {
	Owner   [16]byte
	Kind    events.Kind
	Target  string
	Outcome events.Resolution
	Actor   string
	Reason  string // bounded by the caller
}

func (ResolveWakeup) Name() string              { return "resolve_wakeup" }
func (c ResolveWakeup) Stream() events.StreamID { return events.RegisterStream(c.Owner, c.Kind) }
func (ResolveWakeup) Fresh() bool               { return false }

func (c ResolveWakeup) decide(s State) ([]events.Event, *Rejection) {
	r := s.(Register)
	o, known := r.Outcome(c.Target)
	switch {
	case r.Status != RegisterUnresolved:
		return nil, conflict(c, "it is "+r.describe()+", not unresolved")
	case !known || o.Outcome != events.Unknown:
		return nil, conflict(c, "the publish to that target is not unknown")
	case r.resolved(c.Target):
		return nil, conflict(c, "that target is resolved already")
	}
	return []events.Event{events.OutboxResolved{
		N: r.Closed, Target: c.Target, Outcome: c.Outcome, Actor: c.Actor, Reason: c.Reason,
	}}, nil
}

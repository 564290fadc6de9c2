package decider

import "github.com/towline-dev/towline/events"

// ResolveWakeup is an operator's word on the publish to one target of which nobody knows (O-17, O-S10). Whatever the word
// is, nothing is sent: the wakeup was closed by its mark and stays closed. The last unknown target ends the register's
// wait for a person. In a restored hold one that waits may be resolved as well: it may have been sent before the restore, which
// its log does not know, and with the word on it it is never sent. While an outcome may still come, the register is marked and cannot be resolved.
type ResolveWakeup struct {
	Owner   [16]byte
	Kind    events.Kind
	Target  string
	Outcome events.Resolution
	Held    bool // the store was restored, and nobody has released it: what waits may have been sent in its earlier life (DUR-5)
	Mode    events.DeliveryMode
	Actor   string
	Reason  string // bounded by the caller
}

func (ResolveWakeup) Name() string              { return "resolve_wakeup" }
func (c ResolveWakeup) Stream() events.StreamID { return events.RegisterStream(c.Owner, c.Kind) }
func (ResolveWakeup) Fresh() bool               { return false }

func (c ResolveWakeup) decide(s State) ([]events.Event, *Rejection) {
	r := s.(Register)
	if c.Held && r.Status == RegisterPending && DeliveryOf(c.Kind, c.Mode).Order == events.MarkFirst {
		return []events.Event{c.resolved(r.Current)}, nil // the whole wakeup, to whatever targets: one mark would have covered all
	}
	o, known := r.Outcome(c.Target)
	switch {
	case r.Status != RegisterUnresolved:
		return nil, conflict(c, "it is "+r.describe()+", not unresolved")
	case !known || o.Outcome != events.Unknown:
		return nil, conflict(c, "the publish to that target is not unknown")
	case r.resolved(c.Target):
		return nil, conflict(c, "that target is resolved already")
	}
	return []events.Event{c.resolved(r.Closed)}, nil
}

func (c ResolveWakeup) resolved(n int) events.Event {
	return events.OutboxResolved{N: n, Target: c.Target, Outcome: c.Outcome, Actor: c.Actor, Reason: c.Reason}
}

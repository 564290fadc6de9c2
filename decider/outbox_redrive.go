package decider

import "github.com/towline-dev/towline/events"

// RedriveWakeup publishes what is parked after all, or sends effects again that are held, or have failed and would wait for
// REC-10: it arms the next number now, with no attempt used (O-18, O-S8). The parked number closes with the next that closes,
// and the units that it announced travel with that one (K-1). What is delivered at most once is never redriven, whatever
// became of it.
type RedriveWakeup struct {
	Owner  [16]byte // a run, or a message
	Kind   events.Kind
	Mode   events.DeliveryMode // of post_sync
	At     events.Micros
	Over   bool   // the run has ended, its effects are done, or the message is settled: nothing is owed to it
	Failed bool   // an effect of an exactly_once post_sync has failed and is not done, held or not (REC-10)
	Reason string // of the operator; bounded by the caller; empty: none was given
}

func (RedriveWakeup) Name() string              { return "redrive_wakeup" }
func (c RedriveWakeup) Stream() events.StreamID { return events.RegisterStream(c.Owner, c.Kind) }
func (RedriveWakeup) Fresh() bool               { return false }

func (c RedriveWakeup) decide(s State) ([]events.Event, *Rejection) {
	r := s.(Register)
	switch {
	case DeliveryOf(c.Kind, c.Mode).Order == events.MarkFirst:
		return nil, conflict(c, "it is published at most once, and never again")
	case r.Status != RegisterParked && !(c.Failed && r.Status == RegisterIdle):
		return nil, conflict(c, "it is "+r.describe()+", not parked, and no exactly_once effect of it has failed")
	case c.Over:
		return nil, conflict(c, "what it announces is over: nothing is owed any more")
	}
	return []events.Event{events.OutboxArmed{
		N: r.Announce(), AvailableAt: c.At, Cause: events.ArmRedriven, Reason: c.Reason,
	}}, nil
}

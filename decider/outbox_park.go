package decider

import "github.com/towline-dev/towline/events"

// ParkWakeup stops the publish of a pending wakeup by an operator, until it is redriven or a new change arms the register
// (O-21, O-S7a). A wakeup that waits behind it takes its place. A mark_first wakeup is never parked, for nothing could
// redrive it; and what is claimed may be with a broker already.
type ParkWakeup struct {
	Owner  [16]byte // a run, or a message
	Kind   events.Kind
	Mode   events.DeliveryMode // of post_sync
	N      int                 // the number that the operator has seen pending, read in the same transaction
	Over   bool                // the run has ended, its effects are done, or the message is settled: nothing is owed to it
	Reason string              // of the operator; bounded by the caller
}

func (ParkWakeup) Name() string              { return "park_wakeup" }
func (c ParkWakeup) Stream() events.StreamID { return events.RegisterStream(c.Owner, c.Kind) }
func (ParkWakeup) Fresh() bool               { return false }

func (c ParkWakeup) decide(s State) ([]events.Event, *Rejection) {
	r := s.(Register)
	switch {
	case DeliveryOf(c.Kind, c.Mode).Order == events.MarkFirst:
		return nil, conflict(c, "it is published at most once, so nothing could publish it again")
	case r.Status != RegisterPending:
		return nil, conflict(c, "it is "+r.describe()+", not pending")
	case r.Current != c.N:
		return nil, conflict(c, "another wakeup has taken its place")
	case c.Over:
		return nil, conflict(c, "what it announces is over: nothing will be published")
	}
	return []events.Event{events.OutboxParked{
		N: r.Current, Cause: events.ParkOperator, Attempts: r.Attempts, Text: c.Reason,
	}}, nil
}

// describe is the state in a sentence.
func (r Register) describe() string {
	if r.Status == "" {
		return "never armed"
	}
	return string(r.Status)
}

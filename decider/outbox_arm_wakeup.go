package decider

import "github.com/towline-dev/towline/events"

// ArmWakeup wishes that somebody be woken at At (O-3). It belongs in the transaction of the change it announces.
//
// A wish is never swallowed and never travels under an id that a broker may know: while the current number is claimed
// or may have been published, the wish gets the next number and waits (O-6). While the current number is pending and
// surely unpublished, an earlier wish moves it and a later one is served by it (O-4).
type ArmWakeup struct {
	Owner events.RunID
	Kind  events.Kind
	Mode  events.DeliveryMode // of post_sync
	At    events.Micros
	Cause events.ArmCause
	New   bool // the register is surely new: no read
	Died  bool // of a message that is materialized: its process ended without a stop (M-16)
}

func (ArmWakeup) Name() string              { return "arm_wakeup" }
func (c ArmWakeup) Stream() events.StreamID { return events.RegisterStream(c.Owner, c.Kind) }
func (c ArmWakeup) Fresh() bool             { return c.New }

func (c ArmWakeup) decide(s State) ([]events.Event, *Rejection) {
	r := s.(Register)
	if !DeliveryOf(c.Kind, c.Mode).mayArm(r, c.Cause) {
		return nil, nil // K table
	}
	n := r.Announce()
	if at, open := r.OpenAt(); open {
		held := n == r.Current && r.Floor // a backoff is a floor
		if c.At >= at || held {
			return nil, nil
		}
	}
	return []events.Event{events.OutboxArmed{N: n, AvailableAt: c.At, Cause: c.Cause, Died: c.Died}}, nil
}

package decider

import "github.com/towline-dev/towline/events"

// NoteStep records that the wall clock of a process has stepped against its monotonic clock (CLK-3). It comes before
// anything else that its transaction decides.
type NoteStep struct {
	Node       events.NodeID
	Number     int           // of the step in this incarnation, from 1: the same step is recorded once
	Before     events.Micros // engine time as the monotonic clock alone would have it
	After      events.Micros // what the wall clock shows
	GraceUntil events.Micros // for the leases that were live at Before; 0: the step costs none of them anything (CLK-4)
}

func (NoteStep) Name() string              { return "note_step" }
func (c NoteStep) Stream() events.StreamID { return events.NodeStream(c.Node) }
func (NoteStep) Fresh() bool               { return false }

func (c NoteStep) decide(s State) ([]events.Event, *Rejection) {
	n := s.(Node)
	if !n.up() || c.Number != n.Steps+1 {
		return nil, nil
	}
	return []events.Event{events.ClockStepped{Before: c.Before, After: c.After, GraceUntil: c.GraceUntil}}, nil
}

// ConfirmClock is an operator's word that the wall clock is right although it lies before the newest event (CLK-7). There
// is nothing to confirm while it lies within the bound, or where it was confirmed to lie before.
type ConfirmClock struct {
	Node      events.NodeID
	At        events.Micros // engine time
	Wall      events.Micros
	Bound     events.Span // clock.step_bound
	Confirmed events.Span // how far the clock may lie behind by an earlier word; 0: there is none
	Actor     string
	Reason    string
}

func (ConfirmClock) Name() string              { return "confirm_clock" }
func (c ConfirmClock) Stream() events.StreamID { return events.NodeStream(c.Node) }
func (ConfirmClock) Fresh() bool               { return false }

func (c ConfirmClock) decide(s State) ([]events.Event, *Rejection) {
	n := s.(Node)
	if !n.up() || c.At <= n.ConfirmedAt || !IsBehind(c.Wall, c.At, c.Bound, c.Confirmed) {
		return nil, nil
	}
	return []events.Event{events.ClockStepped{Before: c.At, After: c.Wall, Actor: c.Actor, Reason: c.Reason}}, nil
}

// IsBehind reports a wall clock that lies further before engine time than the bound allows and than an operator has
// confirmed; confirmed 0: nobody has.
func IsBehind(wall, now events.Micros, bound, confirmed events.Span) bool {
	return now.Sub(wall) > max(confirmed, 0)+bound
}

package decider

import "github.com/towline-dev/towline/events"

// CancelUnit ends an open unit by an operator, with its run, or with the reference unit for which it waits (U-15). Its
// lease is void at once: nobody waits for the worker, which may be dead. A unit that is cancelled already stays as it is,
// and one that ended otherwise keeps its end.
type CancelUnit struct {
	Unit    events.UnitID
	RunOpen bool
	Reason  events.CancelReason
	Text    string // what the operator said of this unit; bounded by the caller
}

func (CancelUnit) Name() string              { return "cancel_unit" }
func (c CancelUnit) Stream() events.StreamID { return events.UnitStream(c.Unit) }
func (CancelUnit) Fresh() bool               { return false }

func (c CancelUnit) decide(s State) ([]events.Event, *Rejection) {
	u := s.(Unit)
	switch {
	case !u.Exists(), u.Status == events.UnitIsCancelled:
		return nil, nil
	case !u.Open():
		return nil, conflict(c, "it has ended as "+string(u.Status))
	case !c.RunOpen:
		return nil, nil
	case c.Reason == events.CancelledWithReference && (u.Status != events.UnitIsPlanned || u.Plan.Tier != events.TierWorkItem):
		return nil, nil // it does not wait
	}
	return []events.Event{events.UnitCancelled{Reason: c.Reason, Text: c.Text}}, nil
}

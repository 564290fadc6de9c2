package decider

import "github.com/towline-dev/towline/events"

// ReleaseUnit takes a running unit away from its worker, because an operator states that the worker is gone. What
// an expired lease would come to follows at once, so nobody waits for the time of a lease that is known to be dead; the
// worker's own settle is late from then on (U-19).
type ReleaseUnit struct {
	Unit     events.UnitID
	At       events.Micros
	RunOpen  bool
	Policies []events.RetryPolicy // frozen in the run
	Reason   string               // of the operator; bounded by the caller
}

func (ReleaseUnit) Name() string              { return "release_unit" }
func (c ReleaseUnit) Stream() events.StreamID { return events.UnitStream(c.Unit) }
func (ReleaseUnit) Fresh() bool               { return false }

func (c ReleaseUnit) decide(s State) ([]events.Event, *Rejection) {
	u := s.(Unit)
	switch {
	case !u.Exists() || u.Status != events.UnitIsRunning:
		return nil, conflict(c, "it is "+u.describe()+", not running")
	case !c.RunOpen:
		return nil, nil
	}
	expired := u.expired(events.LeaseReleased)
	expired.Reason = c.Reason
	return u.lost(expired, c.At, c.Policies, events.ByOperator, "an operator has released it"), nil
}

// describe is the state in a sentence.
func (u Unit) describe() string {
	if !u.Exists() {
		return "unknown"
	}
	return string(u.Status)
}

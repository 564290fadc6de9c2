package decider

import "github.com/towline-dev/towline/events"

// RecordOutcome notes what is known of the publish of a marked wakeup, once per target (O-12). A second word on the
// same target changes nothing: it is the caller's to count and log.
type RecordOutcome struct {
	Owner   events.RunID
	Kind    events.Kind
	N       int
	Target  string
	Outcome events.Outcome
	Cause   string
}

func (RecordOutcome) Name() string              { return "record_outcome" }
func (c RecordOutcome) Stream() events.StreamID { return events.RegisterStream(c.Owner, c.Kind) }
func (RecordOutcome) Fresh() bool               { return false }

func (c RecordOutcome) decide(s State) ([]events.Event, *Rejection) {
	r := s.(Register)
	if r.Status != RegisterMarked || r.Closed != c.N {
		return nil, nil
	}
	if _, known := r.Outcome(c.Target); known || r.resolved(c.Target) {
		return nil, nil
	}
	return []events.Event{events.OutboxOutcome{N: c.N, Target: c.Target, Outcome: c.Outcome, Cause: c.Cause}}, nil
}

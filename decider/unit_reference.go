package decider

import "github.com/towline-dev/towline/events"

// FailReference fails a work item that waits for a reference unit of its source that has failed (U-13, P-9).
type FailReference struct {
	Unit      events.UnitID
	RunOpen   bool
	Reference events.UnitID
}

func (FailReference) Name() string              { return "fail_reference" }
func (c FailReference) Stream() events.StreamID { return events.UnitStream(c.Unit) }
func (FailReference) Fresh() bool               { return false }

func (c FailReference) decide(s State) ([]events.Event, *Rejection) {
	u := s.(Unit)
	if !c.RunOpen || u.Status != events.UnitIsPlanned || u.Plan.Tier != events.TierWorkItem {
		return nil, nil
	}
	return []events.Event{events.UnitFailed{
		Category: events.ReferenceFailed, By: events.ByReference,
		Text: "reference unit " + c.Reference.String() + " of its source failed",
	}}, nil
}

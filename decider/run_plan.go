package decider

import "github.com/towline-dev/towline/events"

// PlanRun opens a run. A run without units is planned and ended in one step (R-1a): there is nothing to wait for, and
// "all of no units are done" must never be asked of a run that is still being planned.
type PlanRun struct {
	Run  events.RunID
	Plan events.RunPlanned
}

func (PlanRun) Name() string              { return "plan_run" }
func (c PlanRun) Stream() events.StreamID { return events.RunStream(c.Run) }
func (PlanRun) Fresh() bool               { return true }

func (c PlanRun) decide(s State) ([]events.Event, *Rejection) {
	if s.(Run).Exists() {
		return nil, nil
	}
	if c.Plan.TotalUnits > 0 {
		return []events.Event{c.Plan}, nil
	}
	return []events.Event{c.Plan, events.RunFinalized{Status: events.RunFailed, Reason: events.ReasonNoUnits}}, nil
}

// PlanUnit opens one unit of a run (U-1).
type PlanUnit struct {
	Unit events.UnitID
	Plan events.UnitPlanned
}

func (PlanUnit) Name() string              { return "plan_unit" }
func (c PlanUnit) Stream() events.StreamID { return events.UnitStream(c.Unit) }
func (PlanUnit) Fresh() bool               { return true }

func (c PlanUnit) decide(s State) ([]events.Event, *Rejection) {
	if s.(Unit).Exists() {
		return nil, nil
	}
	return []events.Event{c.Plan}, nil
}

// StartRun notes that the first unit of the run got a slot.
type StartRun struct {
	Run events.RunID
}

func (StartRun) Name() string              { return "start_run" }
func (c StartRun) Stream() events.StreamID { return events.RunStream(c.Run) }
func (StartRun) Fresh() bool               { return false }

func (c StartRun) decide(s State) ([]events.Event, *Rejection) {
	if s.(Run).Status != events.RunIsPlanned {
		return nil, nil
	}
	return []events.Event{events.RunDispatchStarted{}}, nil
}

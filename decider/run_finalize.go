package decider

import "github.com/towline-dev/towline/events"

// FinalizeRun ends a run whose units have all ended. On a terminal run, and while a unit is open, it does
// nothing: the settle of the last open unit arms finalize under a new number (U-21), so nothing is lost by waiting.
type FinalizeRun struct {
	Run    events.RunID
	Counts events.Counts // of ended units, read in the same transaction; how many there are is the plan's to say
}

func (FinalizeRun) Name() string              { return "finalize_run" }
func (c FinalizeRun) Stream() events.StreamID { return events.RunStream(c.Run) }
func (FinalizeRun) Fresh() bool               { return false }

func (c FinalizeRun) decide(s State) ([]events.Event, *Rejection) {
	r := s.(Run)
	n := c.Counts
	n.Total = r.Plan.TotalUnits
	if !r.Open() || n.Succeeded+n.Failed+n.Cancelled < n.Total {
		return nil, nil
	}
	status, reason := Aggregate(n)
	return []events.Event{events.RunFinalized{
		Status: status, Reason: reason, Counts: n, PostSyncOwed: r.owesPost(n),
	}}, nil
}

// owesPost is R-9: somebody must be told of a success, if there is one and a target to tell.
func (r Run) owesPost(n events.Counts) bool { return n.Succeeded > 0 && len(r.Plan.Policy.Targets) > 0 }

// Aggregate is the status of a run whose units have ended.
func Aggregate(n events.Counts) (events.RunStatus, string) {
	switch {
	case n.Total == 0:
		return events.RunFailed, events.ReasonNoUnits
	case n.Succeeded == n.Total:
		return events.RunSucceeded, ""
	case n.Succeeded == 0 && n.Cancelled == n.Total:
		return events.RunFailed, events.ReasonAllUnitsCancelled
	case n.Succeeded == 0:
		return events.RunFailed, ""
	}
	return events.RunPartialFailed, ""
}

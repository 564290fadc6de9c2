package decider

import "github.com/towline-dev/towline/events"

// CancelRun ends a run by an operator. The caller has cancelled its open units before it in the same
// transaction; while one is open nothing happens, because no run ends over an open unit. A run that is cancelled
// already stays as it is, and one that ended otherwise keeps its end.
type CancelRun struct {
	Run    events.RunID
	Counts events.Counts // of ended units, read in the same transaction; how many there are is the plan's to say
	Actor  string
	Reason string // of the operator; bounded by the caller
}

func (CancelRun) Name() string              { return "cancel_run" }
func (c CancelRun) Stream() events.StreamID { return events.RunStream(c.Run) }
func (CancelRun) Fresh() bool               { return false }

func (c CancelRun) decide(s State) ([]events.Event, *Rejection) {
	r := s.(Run)
	n := c.Counts
	n.Total = r.Plan.TotalUnits
	switch {
	case !r.Exists(), r.Status == events.RunIsCancelled:
		return nil, nil
	case !r.Open():
		return nil, conflict(c, "it has ended as "+string(r.Status))
	case n.Succeeded+n.Failed+n.Cancelled < n.Total:
		return nil, nil
	}
	return []events.Event{events.RunCancelled{
		Actor: c.Actor, Reason: c.Reason, Counts: n, PostSyncOwed: r.owesPost(n),
	}}, nil
}

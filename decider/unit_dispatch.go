package decider

import (
	"strconv"

	"github.com/towline-dev/towline/events"
)

// DispatchUnit gives a unit a slot (U-2, U-3, U-4). Which units get one is Choose's to say; this rule says whether the
// unit is in a state for it.
type DispatchUnit struct {
	Unit        events.UnitID
	At          events.Micros
	RunOpen     bool
	Wakeup      int         // of run_sync_unit: Register.Announce in the same transaction (K-1)
	StaleAfter  events.Span // dispatch.stale
	MessageGone bool        // the unit's message lived in an incarnation that is gone; never so while its wakeup is open (N-4)
}

func (DispatchUnit) Name() string              { return "dispatch_unit" }
func (c DispatchUnit) Stream() events.StreamID { return events.UnitStream(c.Unit) }
func (DispatchUnit) Fresh() bool               { return false }

func (c DispatchUnit) decide(s State) ([]events.Event, *Rejection) {
	u := s.(Unit)
	if !c.RunOpen {
		return nil, nil
	}
	gone := c.MessageGone && u.Wakeup != c.Wakeup
	var cause events.DispatchCause
	switch {
	case u.Status == events.UnitIsPlanned:
		cause = events.DispatchPlanned
	case u.Status == events.UnitIsRetrying && u.AvailableAt <= c.At:
		cause = events.DispatchRetry
	case u.Stale(c.At, c.StaleAfter, false):
		cause = events.DispatchStale
	case u.Stale(c.At, c.StaleAfter, gone):
		cause = events.DispatchIncarnationGone
	default:
		return nil, nil
	}
	return []events.Event{events.UnitDispatched{
		Dispatch: u.Dispatches + 1, Wakeup: c.Wakeup, Attempt: u.Attempt + 1, Cause: cause, Bucket: u.Bucket(),
	}}, nil
}

// ReclaimsBeforeNeverStarted is how often a unit must have been dispatched in one attempt before it can be given up
// as never started (U-14), and how many reclaims send it behind the units that were never tried (HD-3).
const ReclaimsBeforeNeverStarted = 3

// FailNeverStarted gives up a unit that nobody ever claimed, in spite of repeated dispatch (U-14). A unit that was
// held rather than lost is never failed by it: the caller leaves out what is held, and asks only with a slot free; and
// one whose newest message is older than two stale periods, because it was held meanwhile or the engine was down, is
// dispatched once more first.
type FailNeverStarted struct {
	Unit         events.UnitID
	At           events.Micros
	RunOpen      bool
	StaleAfter   events.Span
	MessageGone  bool
	NeverStarted events.Span   // dispatch.never_started_after; 0: never
	Stepped      events.Micros // when a clock was last set forward; 0: never (CLK-8)
}

func (FailNeverStarted) Name() string              { return "fail_never_started" }
func (c FailNeverStarted) Stream() events.StreamID { return events.UnitStream(c.Unit) }
func (FailNeverStarted) Fresh() bool               { return false }

func (c FailNeverStarted) decide(s State) ([]events.Event, *Rejection) {
	u := s.(Unit)
	if !c.RunOpen || !u.Stale(c.At, c.StaleAfter, c.MessageGone) || u.LastDispatchedAt.Add(2*c.StaleAfter) < c.At ||
		!IsNeverStarted(u.AttemptDispatches, max(u.FirstDispatchedAt, c.Stepped), c.At, c.NeverStarted) {
		return nil, nil
	}
	return []events.Event{events.UnitFailed{
		Attempt: u.Attempt, Category: events.NeverStarted, By: events.ByDispatch, Retries: u.Retries(),
		Text: "no claim in " + strconv.Itoa(u.AttemptDispatches) + " dispatches since " + u.FirstDispatchedAt.String(),
	}}, nil
}

// IsNeverStarted is the age and the count of U-14. since is the first dispatch of the attempt, or when a clock was set
// forward behind it: what it skipped was no time in which somebody could have started the unit (CLK-8).
func IsNeverStarted(dispatches int, since, now events.Micros, after events.Span) bool {
	return after > 0 && dispatches >= ReclaimsBeforeNeverStarted && since.Add(after) <= now
}

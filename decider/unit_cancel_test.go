package decider

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/events"
)

func cancelUnit(reason events.CancelReason) CancelUnit {
	return CancelUnit{Unit: theUnit, RunOpen: true, Reason: reason, Text: "wrong window"}
}

// U-15, X-2: a unit is cancelled in every open state; its lease is void, and nothing of a retry is left.
func TestAUnitIsCancelledInEveryOpenState(t *testing.T) {
	for name, given := range map[string][]happening{
		"planned": dispatching()[:1], "dispatching": dispatching(), "running": running(), "retrying": retrying(),
		"running, its lease expired": running(),
	} {
		t.Run(name, func(t *testing.T) {
			got := decide(t, givenUnit(given...), cancelUnit(events.CancelledAlone))
			require.Equal(t, []events.Event{events.UnitCancelled{Reason: events.CancelledAlone, Text: "wrong window"}}, got)
			u := givenUnit(and(given, then(hour, got)...)...)
			require.Equal(t, events.UnitIsCancelled, u.Status)
			require.Equal(t, events.CancelledAlone, u.Cancelled)
			require.Equal(t, events.ByOperator, u.By)
			require.Equal(t, Lease{}, u.Lease)
			require.Zero(t, u.AvailableAt)
			require.Equal(t, t0.Add(hour), u.SettledAt)
		})
	}
}

// U-18, X-2: what was cancelled stays so, and what ended otherwise keeps its end; in a run that has ended nothing is open.
func TestACancelOfAUnitThatHasEnded(t *testing.T) {
	requireNothing(t, givenUnit(), cancelUnit(events.CancelledAlone))
	requireNothing(t, givenUnit(ended()[events.UnitIsCancelled]...), cancelUnit(events.CancelledAlone))
	for _, s := range []events.UnitStatus{events.UnitHasSucceeded, events.UnitHasFailed} {
		require.Empty(t, requireRefused(t, givenUnit(ended()[s]...), cancelUnit(events.CancelledWithRun), ErrConflict))
	}
	over := cancelUnit(events.CancelledAlone)
	over.RunOpen = false
	requireNothing(t, givenUnit(running()...), over)
}

// U-15, SC-157: only a planned work item waits for a reference unit, so only it is cancelled with one.
func TestOnlyWhatWaitsIsCancelledWithItsReference(t *testing.T) {
	require.Len(t, decide(t, givenUnit(dispatching()[:1]...), cancelUnit(events.CancelledWithReference)), 1)
	reference := thePlan
	reference.Tier = events.TierReference
	for _, hs := range [][]happening{{at(0, reference)}, dispatching(), running(), retrying()} {
		requireNothing(t, givenUnit(hs...), cancelUnit(events.CancelledWithReference))
	}
}

// U-19, SC-276: of a cancel and a settle the first wins; the other is refused, and the state never changes again.
func TestOfACancelAndASettleTheFirstWins(t *testing.T) {
	cancelled := and(running(), at(second, events.UnitCancelled{Reason: events.CancelledAlone}))
	require.Equal(t, []events.Event{events.UnitLateResult{
		Attempt: 1, Outcome: "succeeded", Reason: events.LateUnitTerminal, Text: events.LateResultText,
	}}, requireRefused(t, givenUnit(cancelled...), complete(2*second), ErrLeaseLost))

	done := and(running(), then(second, decide(t, givenUnit(running()...), complete(second)))...)
	require.Empty(t, requireRefused(t, givenUnit(done...), cancelUnit(events.CancelledAlone), ErrConflict))
}

package decider

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/events"
)

func counts(total, succeeded, failed, cancelled int) events.Counts {
	return events.Counts{Total: total, Succeeded: succeeded, Failed: failed, Cancelled: cancelled}
}

// R-6, SC-220 to SC-222, SC-230: the status of a run from those of its units.
func TestTheStatusOfARunFollowsItsUnits(t *testing.T) {
	for _, tt := range []struct {
		counts events.Counts
		status events.RunStatus
		reason string
	}{
		{counts(0, 0, 0, 0), events.RunFailed, "no_sync_units_planned"},
		{counts(3, 3, 0, 0), events.RunSucceeded, ""},
		{counts(3, 0, 3, 0), events.RunFailed, ""},
		{counts(3, 0, 0, 3), events.RunFailed, "all_units_cancelled"},
		{counts(3, 0, 1, 2), events.RunFailed, ""},
		{counts(3, 1, 2, 0), events.RunPartialFailed, ""},
		{counts(3, 2, 0, 1), events.RunPartialFailed, ""},
		{counts(3, 1, 1, 1), events.RunPartialFailed, ""},
	} {
		status, reason := Aggregate(tt.counts)
		require.Equal(t, tt.status, status, "%+v", tt.counts)
		require.Equal(t, tt.reason, reason, "%+v", tt.counts)
	}
}

// SC-220: the end of a run says what follows.
func TestARunEndsWhenAllUnitsHave(t *testing.T) {
	for _, status := range [][]happening{
		{at(0, plannedRun(3))}, {at(0, plannedRun(3)), at(second, events.RunDispatchStarted{})},
	} {
		got := decide(t, givenRun(status...), FinalizeRun{Run: theRun, Counts: counts(3, 1, 1, 1)})
		require.Equal(t, []events.Event{events.RunFinalized{
			Status: events.RunPartialFailed, Counts: counts(3, 1, 1, 1), PostSyncOwed: true,
		}}, got)
		r := givenRun(and(status, then(minute, got)...)...)
		require.Equal(t, []any{events.RunPartialFailed, counts(3, 1, 1, 1), true, t0.Add(minute)}, []any{r.Status, r.Counts, r.PostSyncOwed, r.CompletedAt})
	}
}

// R-9, K-8, SC-063: nothing follows a run without a success, nor one whose sync declares no target.
func TestPostSyncIsOwedForASuccessWithATarget(t *testing.T) {
	owed := func(plan events.RunPlanned, n events.Counts) bool {
		return decide(t, givenRun(at(0, plan)), FinalizeRun{Run: theRun, Counts: n})[0].(events.RunFinalized).PostSyncOwed
	}
	none := plannedRun(2)
	none.Policy.Targets = nil
	require.True(t, owed(plannedRun(2), counts(2, 1, 1, 0)))
	require.False(t, owed(plannedRun(2), counts(2, 0, 2, 0)))
	require.False(t, owed(none, counts(2, 2, 0, 0)))
}

// HF-1, HF-2, R-7, R-8, SC-225, SC-229: while a unit is open, and after the end, finalize writes nothing.
func TestFinalizeWaitsForEveryUnitAndHappensOnce(t *testing.T) {
	open, all := FinalizeRun{Run: theRun, Counts: counts(3, 2, 0, 0)}, FinalizeRun{Run: theRun, Counts: counts(3, 3, 0, 0)}
	requireNothing(t, givenRun(at(0, plannedRun(3))), open)
	requireNothing(t, givenRun(), all)
	for _, end := range []events.Event{
		events.RunFinalized{Status: events.RunSucceeded}, events.RunFinalized{Status: events.RunFailed}, events.RunCancelled{Actor: "ada"},
	} {
		requireNothing(t, givenRun(at(0, plannedRun(3)), at(second, end)), all)
	}
}

// R-8, HC-50: how many units there are is what the plan says. Counts that were read of a part, or not at all, end nothing.
func TestFinalizeBelievesThePlanNotTheCaller(t *testing.T) {
	r := givenRun(at(0, plannedRun(3)))
	for _, n := range []events.Counts{{}, counts(1, 1, 0, 0), counts(2, 1, 1, 0), counts(0, 2, 0, 0)} {
		requireNothing(t, r, FinalizeRun{Run: theRun, Counts: n})
	}
	got := decide(t, r, FinalizeRun{Run: theRun, Counts: counts(0, 3, 0, 0)})
	require.Equal(t, []events.Event{events.RunFinalized{
		Status: events.RunSucceeded, Counts: counts(3, 3, 0, 0), PostSyncOwed: true,
	}}, got)
}

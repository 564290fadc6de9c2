package decider

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/events"
)

// R-1, U-1: a plan opens the run and each of its units, once.
func TestAPlanOpensARunAndItsUnits(t *testing.T) {
	run := PlanRun{Run: theRun, Plan: plannedRun(2)}
	require.Equal(t, []events.Event{plannedRun(2)}, decide(t, Run{}, run))
	r := givenRun(at(0, plannedRun(2)))
	require.Equal(t, events.RunIsPlanned, r.Status)
	require.Equal(t, theRun, r.ID)
	require.True(t, r.Exists() && r.Open())
	requireNothing(t, r, run)
	require.True(t, run.Fresh())

	unit := PlanUnit{Unit: theUnit, Plan: thePlan}
	require.Equal(t, []events.Event{thePlan}, decide(t, Unit{}, unit))
	require.Equal(t, theUnit, givenUnit(at(0, thePlan)).ID)
	requireNothing(t, givenUnit(at(0, thePlan)), unit)
	require.True(t, unit.Fresh())
}

// R-1a, P-5, R-6, SC-079: a plan without units is ended by the same decision, and owes nothing.
func TestAPlanWithoutUnitsIsEndedAtOnce(t *testing.T) {
	got := decide(t, Run{}, PlanRun{Run: theRun, Plan: plannedRun(0)})
	require.Equal(t, []events.Event{
		plannedRun(0), events.RunFinalized{Status: events.RunFailed, Reason: "no_sync_units_planned"},
	}, got)
	r := givenRun(then(0, got)...)
	require.False(t, r.Open())
	require.False(t, r.PostSyncOwed)
	requireNothing(t, r, PlanRun{Run: theRun, Plan: plannedRun(0)})
}

// the first dispatched unit starts the run, once.
func TestARunIsStartedOnce(t *testing.T) {
	c := StartRun{Run: theRun}
	require.Equal(t, []events.Event{events.RunDispatchStarted{}}, decide(t, givenRun(at(0, plannedRun(1))), c))
	started := []happening{at(0, plannedRun(1)), at(second, events.RunDispatchStarted{})}
	require.Equal(t, events.RunIsDispatching, givenRun(started...).Status)
	require.Equal(t, t0.Add(second), givenRun(started...).StartedAt)
	requireNothing(t, givenRun(started...), c)
	requireNothing(t, givenRun(), c)
	requireNothing(t, givenRun(at(0, plannedRun(0)), at(0, events.RunFinalized{Status: events.RunFailed})), c)
}

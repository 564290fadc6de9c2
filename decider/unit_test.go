package decider

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/events"
)

// CLK-1: a lease is live strictly before its end; U-17: and only while somebody holds it.
func TestALeaseIsLiveUntilItsEnd(t *testing.T) {
	u := givenUnit(running()...)
	require.True(t, u.LeaseLive(t0.Add(lease-micro), false))
	require.False(t, u.LeaseLive(t0.Add(lease), false))
	require.False(t, u.LeaseLive(t0, true), "its incarnation is gone")
	require.False(t, givenUnit(retrying()...).LeaseLive(t0, false))
	require.False(t, Unit{}.LeaseLive(t0, false))
}

// CLK-1, U-4: stale is inclusive, counted from the newest dispatch, and only while dispatching.
func TestAUnitIsStaleFromItsTimeOn(t *testing.T) {
	u := givenUnit(and(dispatching(), at(minute, dispatched(2, 1, 2, events.DispatchStale)))...)
	require.False(t, u.Stale(t0.Add(minute+staleAfter-micro), staleAfter, false))
	require.True(t, u.Stale(t0.Add(minute+staleAfter), staleAfter, false))
	require.True(t, u.Stale(t0.Add(minute), staleAfter, true))
	require.False(t, givenUnit(running()...).Stale(t0.Add(hour), staleAfter, true))
	require.False(t, givenUnit(dispatching()[:1]...).Stale(t0.Add(hour), staleAfter, true))
}

// U-18: the diagram of the unit, as the fold has it.
func TestTheUnitFollowsItsDiagram(t *testing.T) {
	hs := secondAttempt()
	for i, want := range []events.UnitStatus{
		"", events.UnitIsPlanned, events.UnitIsDispatching, events.UnitIsRunning, events.UnitIsRunning, // the expiry itself changes nothing
		events.UnitIsRetrying, events.UnitIsDispatching, events.UnitIsRunning,
	} {
		u := givenUnit(hs[:i]...)
		require.Equal(t, want, u.Status, "after %d events", i)
		require.Equal(t, want != "", u.Exists())
		require.Equal(t, want != "", u.Open())
		require.Equal(t, want == events.UnitIsRunning, u.Lease != Lease{}, "a lease exactly while running")
		require.Equal(t, want == events.UnitIsRetrying, u.AvailableAt != 0, "a time exactly while retrying")
	}
	for status, hs := range ended() {
		u := givenUnit(hs...)
		require.Equal(t, status, u.Status)
		require.True(t, u.Exists())
		require.False(t, u.Open())
		require.Equal(t, t0.Add(second), u.SettledAt)
	}
}

// I-4: attempts rise by one with each claim; the text of a retry is gone once the unit has succeeded.
func TestASuccessForgetsTheTroubleBefore(t *testing.T) {
	u := givenUnit(and(secondAttempt(), at(4*minute-second, events.UnitSucceeded{Attempt: 2, Token: tokenB}))...)
	require.Equal(t, 2, u.Attempt)
	require.Empty(t, u.Category)
	require.Empty(t, u.Text)
	require.Equal(t, 1, u.ExpiredLeaseRetries, "its history stays")
}

// B-2: the slot of a unit counts against provider and cost class.
func TestTheBucketOfAUnit(t *testing.T) {
	require.Equal(t, events.Bucket("linear/medium"), givenUnit(at(0, thePlan)).Bucket())
}

// U-20: category counts stay sorted, and an older state keeps its own.
func TestCategoryCountsAreSortedAndCopied(t *testing.T) {
	old := []CategoryRetry{{"b", 1}, {"d", 1}}
	for _, tt := range []struct {
		add  CategoryRetry
		want []CategoryRetry
	}{
		{CategoryRetry{"a", 1}, []CategoryRetry{{"a", 1}, {"b", 1}, {"d", 1}}},
		{CategoryRetry{"c", 1}, []CategoryRetry{{"b", 1}, {"c", 1}, {"d", 1}}},
		{CategoryRetry{"e", 1}, []CategoryRetry{{"b", 1}, {"d", 1}, {"e", 1}}},
		{CategoryRetry{"b", 2}, []CategoryRetry{{"b", 2}, {"d", 1}}},
		{CategoryRetry{"d", 2}, []CategoryRetry{{"b", 1}, {"d", 2}}},
	} {
		require.Equal(t, tt.want, withCategoryRetry(old, tt.add))
		require.Equal(t, []CategoryRetry{{"b", 1}, {"d", 1}}, old)
	}
}

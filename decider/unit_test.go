package decider

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/events"
)

// CLK-1: a lease is live strictly before its end; U-17: and only while somebody holds it.
func TestALeaseIsLiveUntilItsEnd(t *testing.T) {
	u := givenUnit(running()...)
	require.True(t, u.LeaseLive(t0.Add(lease-micro), false, Grace{}))
	require.False(t, u.LeaseLive(t0.Add(lease), false, Grace{}))
	require.False(t, u.LeaseLive(t0, true, Grace{}), "its incarnation is gone")
	require.False(t, givenUnit(retrying()...).LeaseLive(t0, false, Grace{}))
	require.False(t, Unit{}.LeaseLive(t0, false, Grace{}))
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

// L-8: the views show what the fold keeps, so it keeps all that its events say, at each step of a unit that is tried twice.
func TestTheUnitKeepsWhatItsEventsSay(t *testing.T) {
	hs := []happening{at(-minute, thePlan)}
	u := Unit{ID: theUnit, Plan: thePlan, Status: events.UnitIsPlanned, PlannedAt: t0.Add(-minute)}
	require.Equal(t, u, givenUnit(hs...))

	hs = and(hs, at(0, dispatched(1, 1, 1, events.DispatchPlanned)), at(second, claimed(second, 1, tokenA)),
		at(30*second, events.UnitLeaseRenewed{Attempt: 1, Token: tokenA, LeaseExpiresAt: t0.Add(90 * second)}))
	u.Status, u.Dispatches, u.AttemptDispatches, u.Wakeup = events.UnitIsRunning, 1, 1, 1
	u.FirstDispatchedAt, u.LastDispatchedAt = t0, t0
	u.Attempt, u.Claimed, u.ClaimedAt, u.LastRenewedAt = 1, 3, t0.Add(second), t0.Add(30*second)
	u.Lease = Lease{Token: tokenA, ExpiresAt: t0.Add(90 * second), EndsAt: t0.Add(second + lifetime), Node: nodeA, Worker: "w"}
	require.Equal(t, u, givenUnit(hs...))

	hs = and(hs, at(40*second, events.UnitRetryScheduled{
		Attempt: 1, Token: tokenA, Cause: events.Network, Text: "reset", AvailableAt: t0.Add(minute), ExpiredLeaseRetries: 1,
		RateLimitDeferrals: 2, RateLimitFirstAt: t0, HandBacks: 3, CategoryRetries: 4,
	}))
	u.Status, u.Lease, u.AvailableAt, u.Category, u.Text = events.UnitIsRetrying, Lease{}, t0.Add(minute), events.Network, "reset"
	u.ExpiredLeaseRetries, u.RateLimitDeferrals, u.RateLimitFirstAt, u.HandBacks = 1, 2, t0, 3
	u.CategoryRetries = []CategoryRetry{{events.Network, 4}}
	u.Settled = []Settlement{{1, tokenA, OutcomeFailed}}
	require.Equal(t, u, givenUnit(hs...))
	require.Equal(t, 7, u.Retries())

	hs = and(hs, at(minute, dispatched(2, 2, 2, events.DispatchRetry)), at(2*minute, claimed(2*minute, 2, tokenB)))
	u.Status, u.AvailableAt, u.Dispatches, u.Wakeup = events.UnitIsRunning, 0, 2, 2
	u.FirstDispatchedAt, u.LastDispatchedAt = t0.Add(minute), t0.Add(minute)
	u.Attempt, u.Claimed, u.ClaimedAt, u.LastRenewedAt = 2, 7, t0.Add(2*minute), 0
	u.Lease = Lease{Token: tokenB, ExpiresAt: t0.Add(3 * minute), EndsAt: t0.Add(2*minute + lifetime), Node: nodeA, Worker: "w"}
	require.Equal(t, u, givenUnit(hs...))

	u.Lease, u.RateLimitDeferrals, u.RateLimitFirstAt, u.SettledAt = Lease{}, 0, 0, t0.Add(150*second)
	good, bad, cancelled := u, u, u
	result := events.Result{Rows: 9}
	good.Status, good.Category, good.Text, good.Result, good.Duration = events.UnitHasSucceeded, "", "", result, 30*second
	good.Settled = []Settlement{{1, tokenA, OutcomeFailed}, {2, tokenB, OutcomeSucceeded}}
	require.Equal(t, good, givenUnit(and(hs, at(150*second, events.UnitSucceeded{
		Attempt: 2, Token: tokenB, Result: result, Duration: 30 * second,
	}))...))
	bad.Status, bad.Category, bad.Text, bad.By, bad.Result = events.UnitHasFailed, events.Auth, "refused", events.ByWorker, result
	bad.Settled = []Settlement{{1, tokenA, OutcomeFailed}, {2, tokenB, OutcomeFailed}}
	require.Equal(t, bad, givenUnit(and(hs, at(150*second, events.UnitFailed{
		Attempt: 2, Token: tokenB, Category: events.Auth, Text: "refused", By: events.ByWorker, Result: result,
	}))...))
	cancelled.Status, cancelled.By, cancelled.Cancelled = events.UnitIsCancelled, events.ByOperator, events.CancelledAlone
	require.Equal(t, cancelled, givenUnit(and(hs, at(150*second, events.UnitCancelled{Actor: "ada", Reason: "unit_cancelled"}))...))
}

// B-2: the slot of a unit counts against provider and cost class.
func TestTheBucketOfAUnit(t *testing.T) {
	require.Equal(t, events.Bucket("linear/medium"), givenUnit(at(0, thePlan)).Bucket())
}

// U-20: category counts stay sorted, and an older state keeps its own.
func TestCategoryCountsAreSortedAndCopied(t *testing.T) {
	require.Empty(t, givenUnit(retrying()...).CategoryRetries, "a hand-back is no retry of a category")
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

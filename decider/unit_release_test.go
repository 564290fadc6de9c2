package decider

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/events"
)

func releaseUnit(after events.Span, policies ...events.RetryPolicy) ReleaseUnit {
	return ReleaseUnit{Unit: theUnit, At: t0.Add(after), RunOpen: true, Policies: policies, Reason: "its host is gone"}
}

// X-8, U-11, U-12, RW-4: a release ends a live lease and decides as an expired lease would, with the operator's word
// beside it.
func TestAReleaseDecidesAsAnExpiredLease(t *testing.T) {
	expired := events.UnitLeaseExpired{
		Attempt: 1, LeaseExpiresAt: t0.Add(lease), Cause: events.LeaseReleased, LeaseNode: nodeA, Reason: "its host is gone",
	}
	failed := events.UnitFailed{Attempt: 1, Category: events.WorkerLost, By: events.ByOperator, Text: "an operator has released it"}
	exhausted := failed
	exhausted.Category = events.WorkerLostExhausted
	for name, tt := range map[string]struct {
		policies []events.RetryPolicy
		then     events.Event
	}{
		"no policy": {nil, failed},
		"spent":     {[]events.RetryPolicy{Linear(0, minute)}, exhausted},
		"eligible": {[]events.RetryPolicy{Linear(1, minute)}, events.UnitRetryScheduled{
			Attempt: 1, Cause: events.ExpiredLease, AvailableAt: t0.Add(second + minute), ExpiredLeaseRetries: 1,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			got := decide(t, givenUnit(running()...), releaseUnit(second, tt.policies...))
			require.Equal(t, []events.Event{expired, tt.then}, got)
			u := givenUnit(and(running(), then(second, got)...)...)
			requireRefused(t, u, complete(2*second), ErrLeaseLost)
			requireRefused(t, u, releaseUnit(2*second), ErrConflict)
		})
	}
}

// a lease that is over may be released, too: the reconciler has not come yet.
func TestAnExpiredLeaseMayBeReleased(t *testing.T) {
	require.Len(t, decide(t, givenUnit(running()...), releaseUnit(hour)), 2)
}

// only a running unit has a worker.
func TestOnlyARunningUnitIsReleased(t *testing.T) {
	for name, hs := range map[string][]happening{
		"no such unit": nil, "planned": dispatching()[:1], "dispatching": dispatching(), "retrying": retrying(),
		"succeeded": ended()[events.UnitHasSucceeded], "failed": ended()[events.UnitHasFailed], "cancelled": ended()[events.UnitIsCancelled],
	} {
		t.Run(name, func(t *testing.T) {
			require.Empty(t, requireRefused(t, givenUnit(hs...), releaseUnit(second), ErrConflict))
		})
	}
	over := releaseUnit(second)
	over.RunOpen = false
	requireNothing(t, givenUnit(running()...), over)
}

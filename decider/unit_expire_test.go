package decider

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/events"
)

func expire(after events.Span, policies ...events.RetryPolicy) ExpireLease {
	return ExpireLease{Unit: theUnit, At: t0.Add(after), RunOpen: true, Policies: policies}
}

// U-12, RW-1, SC-197: without a policy a lost worker fails its unit, and the loss is on record before its decision.
func TestALostWorkerFailsItsUnit(t *testing.T) {
	given := and(running(), at(30*second, events.UnitLeaseRenewed{Attempt: 1, Token: tokenA, LeaseExpiresAt: t0.Add(90 * second)}))
	require.Equal(t, []events.Event{
		events.UnitLeaseExpired{
			Attempt: 1, LeaseExpiresAt: t0.Add(90 * second), LastRenewedAt: t0.Add(30 * second), Cause: events.LeaseExpired,
			LeaseNode: nodeA,
		},
		events.UnitFailed{
			Attempt: 1, Category: events.WorkerLost, By: events.ByReconciler, Text: "no settle before the lease ended (expired)",
		},
	}, decide(t, givenUnit(given...), expire(90*second)))
}

// U-11, SC-202, SC-203: an eligible unit is tried again after the policy's backoff, with one more on the count.
func TestALostWorkerOfAnEligibleUnitIsARetry(t *testing.T) {
	got := decide(t, givenUnit(running()...), expire(lease, Linear(1, minute)))
	require.Equal(t, []events.Event{
		events.UnitLeaseExpired{Attempt: 1, LeaseExpiresAt: t0.Add(lease), Cause: events.LeaseExpired, LeaseNode: nodeA},
		events.UnitRetryScheduled{
			Attempt: 1, Cause: events.ExpiredLease, AvailableAt: t0.Add(lease + minute), ExpiredLeaseRetries: 1,
		},
	}, got)
	u := givenUnit(and(running(), then(lease, got)...)...)
	require.Equal(t, events.UnitIsRetrying, u.Status)
	require.Equal(t, Lease{}, u.Lease, "the lease is cleared")
	require.Equal(t, t0.Add(lease+minute), u.AvailableAt)
}

// CLK-1, REC-6, SC-200, SC-201, SC-209 to SC-211, SC-214: a lease is over exactly at its end; what was settled or renewed
// since is left alone.
func TestALeaseThatIsLiveIsLeftAlone(t *testing.T) {
	renewed := and(running(), at(59*second, events.UnitLeaseRenewed{Attempt: 1, Token: tokenA, LeaseExpiresAt: t0.Add(119 * second)}))
	over := expire(lease)
	over.RunOpen = false
	for name, tt := range map[string]struct {
		given   []happening
		command ExpireLease
	}{
		"a microsecond is left": {running(), expire(lease - micro)},
		"renewed since":         {renewed, expire(lease)},
		"settled since":         {ended()[events.UnitHasSucceeded], expire(lease)},
		"retried since":         {retrying(), expire(lease)},
		"dispatching":           {dispatching(), expire(hour)},
		"no such unit":          {nil, expire(hour)},
		"its run has ended":     {running(), over},
	} {
		t.Run(name, func(t *testing.T) { requireNothing(t, givenUnit(tt.given...), tt.command) })
	}
	require.Len(t, decide(t, givenUnit(running()...), expire(lease)), 2, "exactly at its end")
}

// U-17, SC-212: a running unit without a lease counts as expired, at any time.
func TestARunningUnitWithoutALeaseIsExpired(t *testing.T) {
	bare := events.UnitClaimed{Attempt: 1, Token: tokenA}
	got := decide(t, givenUnit(and(dispatching(), at(0, bare))...), expire(0))
	require.Equal(t, events.LeaseMissing, got[0].(events.UnitLeaseExpired).Cause)
	require.Zero(t, got[0].(events.UnitLeaseExpired).LeaseExpiresAt)
	require.Equal(t, events.WorkerLost, got[1].(events.UnitFailed).Category)
}

// N-3, N-5: a lease dies with its incarnation, unless it belongs to a worker of the API.
func TestALeaseDiesWithItsIncarnation(t *testing.T) {
	gone := expire(second)
	gone.NodeGone = true
	got := decide(t, givenUnit(running()...), gone)
	require.Equal(t, events.LeaseIncarnationGone, got[0].(events.UnitLeaseExpired).Cause)
	require.Equal(t, nodeA, got[0].(events.UnitLeaseExpired).LeaseNode)

	remote := claimed(0, 1, tokenA)
	remote.Remote = true
	u := givenUnit(and(dispatching(), at(0, remote))...)
	requireNothing(t, u, gone)
	gone.At = t0.Add(lease)
	require.Equal(t, events.LeaseExpired, decide(t, u, gone)[0].(events.UnitLeaseExpired).Cause)
}

// RW-4, SC-205, SC-206, SC-216: below the maximum a retry, at it exhausted, and a maximum of zero is exhausted at once.
func TestRetriesOfLostWorkersAreCounted(t *testing.T) {
	hs := running()
	for n := 1; n <= 2; n++ {
		after := events.Span(n) * 10 * minute
		got := decide(t, givenUnit(hs...), expire(after, Linear(2, minute)))
		require.Equal(t, n, got[1].(events.UnitRetryScheduled).ExpiredLeaseRetries)
		hs = and(and(hs, then(after, got)...),
			at(after+minute, dispatched(n+1, n+1, n+1, events.DispatchRetry)),
			at(after+minute, claimed(after+minute, n+1, tokenA)))
	}
	got := decide(t, givenUnit(hs...), expire(40*minute, Linear(2, minute)))
	require.Equal(t, events.UnitFailed{
		Attempt: 3, Category: events.WorkerLostExhausted, By: events.ByReconciler, Retries: 2,
		Text: "no settle before the lease ended (expired)",
	}, got[1])

	got = decide(t, givenUnit(running()...), expire(lease, Linear(0, minute)))
	require.Equal(t, events.WorkerLostExhausted, got[1].(events.UnitFailed).Category)
}

// RL-3, U-20, SC-217: other retries do not count, and the loss ends a rate-limit episode and a row of hand-backs.
func TestOtherRetriesDoNotCountAgainstLostWorkers(t *testing.T) {
	given := and(running(),
		at(second, events.UnitRetryScheduled{
			Attempt: 1, Token: tokenA, Cause: events.RateLimit, AvailableAt: t0.Add(minute), RateLimitDeferrals: 9,
			RateLimitFirstAt: t0, HandBacks: 9,
		}),
		at(minute, dispatched(2, 2, 2, events.DispatchRetry)), at(minute, claimed(minute, 2, tokenB)))
	got := decide(t, givenUnit(given...), expire(minute+lease, Linear(1, minute)))
	require.Equal(t, events.UnitRetryScheduled{
		Attempt: 2, Cause: events.ExpiredLease, AvailableAt: t0.Add(2*minute + lease), ExpiredLeaseRetries: 1,
	}, got[1])
	u := givenUnit(and(given, then(minute+lease, got)...)...)
	require.Zero(t, u.RateLimitDeferrals)
	require.Zero(t, u.RateLimitFirstAt)
	require.Zero(t, u.HandBacks)
}

// RW-3, CLK-1: a backoff for ever is not a retry in the past.
func TestAnEndlessBackoffStaysInTheFuture(t *testing.T) {
	got := decide(t, givenUnit(running()...), expire(lease, Linear(1, math.MaxInt64)))
	require.Greater(t, got[1].(events.UnitRetryScheduled).AvailableAt, t0.Add(lease))
}

// RW-8: a unit whose process died under it is a suspect from its last retry until its next settle. A lease that ended in
// another way, and a retry that is not the last, make none.
func TestALostProcessLeavesSuspects(t *testing.T) {
	suspect := func(maxRetries int, change func(*ExpireLease)) bool {
		c := expire(second, Linear(maxRetries, minute))
		c.NodeGone = true
		if change != nil {
			change(&c)
		}
		got := decide(t, givenUnit(running()...), c)
		retry := got[1].(events.UnitRetryScheduled)
		require.Equal(t, retry.Suspect, givenUnit(and(running(), then(second, got)...)...).Suspect)
		return retry.Suspect
	}
	require.True(t, suspect(1, nil))
	require.False(t, suspect(2, nil), "it has a retry left")
	require.False(t, suspect(1, func(c *ExpireLease) { c.NodeGone, c.At = false, t0.Add(lease) }), "its lease expired")

	gone := expire(second, Linear(1, minute))
	gone.NodeGone = true
	given := and(running(), then(second, decide(t, givenUnit(running()...), gone))...)
	given = and(given, at(2*minute, dispatched(2, 2, 2, events.DispatchRetry)), at(2*minute, claimed(2*minute, 2, tokenB)))
	require.True(t, givenUnit(given...).Suspect, "also while it is at work")
	for name, end := range map[string]events.Event{
		"success":   events.UnitSucceeded{Attempt: 2, Token: tokenB},
		"failure":   events.UnitFailed{Attempt: 2, Token: tokenB, Category: events.Auth},
		"hand-back": events.UnitRetryScheduled{Attempt: 2, Token: tokenB, Cause: events.HandedBack, AvailableAt: t0.Add(3 * minute), ExpiredLeaseRetries: 1},
	} {
		require.False(t, givenUnit(and(given, at(2*minute+second, end))...).Suspect, name)
	}
}

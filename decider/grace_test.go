package decider

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/events"
)

// theGrace is what a step of an hour leaves that was seen at a time: one lease, and a lifetime that ends an hour later.
func theGrace(now events.Micros) Grace {
	return Grace{Until: now.Add(lease), Ends: now.Add(lifetime)}
}

func renewIn(g Grace, after events.Span) RenewLease {
	c := renew(after)
	c.Grace = g
	return c
}

// CLK-4, U-17: under a grace the lease is live until its end, and not at it; no grace revives the lease of a gone
// incarnation, or of a unit that is not running.
func TestAGraceKeepsALeaseAlive(t *testing.T) {
	u, g := givenUnit(running()...), theGrace(t0.Add(hour))
	require.True(t, u.LeaseLive(t0.Add(hour+lease-micro), false, g))
	require.False(t, u.LeaseLive(t0.Add(hour+lease), false, g))
	require.False(t, u.LeaseLive(t0.Add(hour), true, g))
	require.False(t, givenUnit(retrying()...).LeaseLive(t0.Add(hour), false, g))
	require.True(t, u.LeaseLive(t0.Add(30*second), false, Grace{Until: t0.Add(20 * second)}), "it never shortens one")
	left, lifetimeLeft := u.Lease.Left(t0.Add(hour), g)
	require.Equal(t, []events.Span{lease, lifetime}, []events.Span{left, lifetimeLeft})
}

// CLK-4, U-6, U-7 to U-10, U-16, I-5: every write of a worker counts under the grace, and none at its end.
func TestAWorkerWritesUnderAGrace(t *testing.T) {
	g := theGrace(t0.Add(hour))
	for _, write := range []func(after events.Span) Command{
		func(after events.Span) Command { return renewIn(g, after) },
		func(after events.Span) Command { c := complete(after); c.Grace = g; return c },
		func(after events.Span) Command { c := fail(after, events.Auth); c.Grace = g; return c },
		func(after events.Span) Command { c := handBack(after); c.Grace = g; return c },
	} {
		require.Len(t, decide(t, givenUnit(running()...), write(hour+lease-micro)), 1)
		requireRefused(t, givenUnit(running()...), write(hour+lease), ErrLeaseLost)
	}
}

// CLK-4, U-6, I-6: a renewal under the grace gives a whole lease, and renewals go on until the lifetime that has moved
// with the clock.
func TestRenewalsGoOnBehindAGrace(t *testing.T) {
	g := theGrace(t0.Add(hour))
	got := decide(t, givenUnit(running()...), renewIn(g, hour+20*second))
	require.Equal(t, []events.Event{renewedTo(hour + 20*second + lease)}, got)

	near := and(running(), at(2*hour-50*second, renewedTo(2*hour-20*second)))
	require.Equal(t, []events.Event{renewedTo(2 * hour)}, decide(t, givenUnit(near...), renewIn(g, 2*hour-21*second)))
}

// CLK-4, REC-6: the reconciler leaves a lease alone under its grace, and takes it at the end.
func TestAGraceEnds(t *testing.T) {
	c := expire(hour)
	c.Grace = theGrace(t0.Add(hour))
	requireNothing(t, givenUnit(running()...), c)
	c.At = t0.Add(hour + lease - micro)
	requireNothing(t, givenUnit(running()...), c)
	c.At = t0.Add(hour + lease)
	require.Equal(t, events.LeaseExpired, decide(t, givenUnit(running()...), c)[0].(events.UnitLeaseExpired).Cause)
	c.At, c.NodeGone = t0.Add(hour), true
	require.Equal(t, events.LeaseIncarnationGone, decide(t, givenUnit(running()...), c)[0].(events.UnitLeaseExpired).Cause)
}

// CLK-8, RL-2: nor is it time in which a unit waited for a rate limit: what is left of the budget begins anew at the step.
func TestAStepSpendsNoBudget(t *testing.T) {
	c := spentBy(3 * hour)
	require.IsType(t, events.UnitFailed{}, decide(t, givenUnit(deferred(2)...), inGrace(c))[0])
	c.Limit.Stepped = t0.Add(3*hour - minute)
	got := decide(t, givenUnit(deferred(2)...), inGrace(c))[0].(events.UnitRetryScheduled)
	require.Equal(t, t0.Add(3*hour+30*second), got.AvailableAt)
	require.Equal(t, t0.Add(-hour), got.RateLimitFirstAt)
	c.Limit.After = 5 * hour
	got = decide(t, givenUnit(deferred(2)...), inGrace(c))[0].(events.UnitRetryScheduled)
	require.Equal(t, t0.Add(5*hour-minute), got.AvailableAt, "cut to two hours since the step")
}

// inGrace is c under a lease that is live whenever it comes.
func inGrace(c FailUnit) FailUnit {
	c.Grace = theGrace(c.At)
	return c
}

// CLK-8, U-14: time that a clock has skipped is no time in which nobody came: the age begins anew at the step.
func TestAStepStartsNobodysDay(t *testing.T) {
	c := neverStarted(24 * hour)
	require.Len(t, decide(t, givenUnit(neverClaimed()...), c), 1)
	c.Stepped = c.At.Add(-24*hour + micro)
	requireNothing(t, givenUnit(neverClaimed()...), c)
	c.Stepped--
	require.Len(t, decide(t, givenUnit(neverClaimed()...), c), 1)
}

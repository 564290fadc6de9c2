package decider

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/events"
)

func claim(after events.Span) ClaimUnit {
	return ClaimUnit{
		Unit: theUnit, At: t0.Add(after), RunOpen: true, Token: tokenB, Lease: lease, Lifetime: lifetime, Worker: "w",
		StaleAfter: staleAfter, SlotFree: true,
	}
}

// U-5: a claim opens the next attempt, with a lease that ends at the latest with the lifetime.
func TestAClaimOpensTheNextAttempt(t *testing.T) {
	require.Equal(t, []events.Event{events.UnitClaimed{
		Attempt: 1, Token: tokenB, Worker: "w", LeaseExpiresAt: t0.Add(second + lease), LeaseEndsAt: t0.Add(second + lifetime),
	}}, decide(t, givenUnit(dispatching()...), claim(second)))

	again := and(retrying(), at(70*second, dispatched(2, 2, 2, events.DispatchRetry)))
	got := decide(t, givenUnit(again...), claim(80*second))
	require.Equal(t, 2, got[0].(events.UnitClaimed).Attempt)
}

// U-5: lease_expires_at = min(now + lease, lease_ends_at).
func TestALeaseIsNeverLongerThanTheLifetime(t *testing.T) {
	c := claim(0)
	c.Lease, c.Lifetime = 2*hour, hour
	got := decide(t, givenUnit(dispatching()...), c)[0].(events.UnitClaimed)
	require.Equal(t, t0.Add(hour), got.LeaseExpiresAt)
	require.Equal(t, t0.Add(hour), got.LeaseEndsAt)
}

// U-5, HU-1, HU-9, SC-166 to SC-169: each guard alone makes the unit not claimable. A duplicate message ends here.
func TestAUnitIsClaimedOnlyWhileItWaitsForAWorker(t *testing.T) {
	for name, tt := range map[string]struct {
		given  []happening
		change func(*ClaimUnit)
		want   error
	}{
		"no such unit":              {given: nil, want: ErrNotClaimable},
		"planned":                   {given: dispatching()[:1], want: ErrNotClaimable},
		"running":                   {given: running(), want: ErrNotClaimable},
		"succeeded":                 {given: ended()[events.UnitHasSucceeded], want: ErrNotClaimable},
		"failed":                    {given: ended()[events.UnitHasFailed], want: ErrNotClaimable},
		"cancelled":                 {given: ended()[events.UnitIsCancelled], want: ErrNotClaimable},
		"run has ended":             {given: dispatching(), change: func(c *ClaimUnit) { c.RunOpen = false }, want: ErrNotClaimable},
		"retrying, not due":         {given: retrying(), change: func(c *ClaimUnit) { c.At = t0.Add(70*second - micro) }, want: ErrTooEarly},
		"retrying, due":             {given: retrying(), change: func(c *ClaimUnit) { c.At = t0.Add(70 * second) }, want: ErrNotClaimable},
		"stale, its slot is taken":  {given: dispatching(), change: func(c *ClaimUnit) { c.At, c.SlotFree = t0.Add(staleAfter), false }, want: ErrNotClaimable},
		"lost, its slot is taken":   {given: dispatching(), change: func(c *ClaimUnit) { c.MessageGone, c.SlotFree = true, false }, want: ErrNotClaimable},
		"run has ended, retrying":   {given: retrying(), change: func(c *ClaimUnit) { c.RunOpen = false }, want: ErrNotClaimable},
		"claimed under our own eye": {given: running(), change: func(c *ClaimUnit) { c.Token = tokenA }, want: ErrNotClaimable},
	} {
		t.Run(name, func(t *testing.T) {
			c := claim(second)
			if tt.change != nil {
				tt.change(&c)
			}
			require.Empty(t, requireRefused(t, givenUnit(tt.given...), c, tt.want))
		})
	}
}

// U-5, SC-134: a unit that still holds its slot needs no free one; a stale one does, and then any message starts it.
func TestASlotIsAskedForOnlyOnceTheUnitIsStale(t *testing.T) {
	for name, change := range map[string]func(*ClaimUnit){
		"fresh, no slot free":     func(c *ClaimUnit) { c.At, c.SlotFree = t0.Add(staleAfter-micro), false },
		"stale, a slot is free":   func(c *ClaimUnit) { c.At = t0.Add(staleAfter) },
		"lost, a slot is free":    func(c *ClaimUnit) { c.MessageGone = true },
		"very stale, slot free":   func(c *ClaimUnit) { c.At = t0.Add(23 * hour) },
		"exactly at its dispatch": func(c *ClaimUnit) { c.At, c.SlotFree = t0, false },
	} {
		t.Run(name, func(t *testing.T) {
			c := claim(second)
			change(&c)
			require.Len(t, decide(t, givenUnit(dispatching()...), c), 1)
		})
	}
}

// N-5, SC-258: a lease that was claimed over the API belongs to no incarnation, so no restart ends it.
func TestARemoteLeaseBelongsToNoIncarnation(t *testing.T) {
	c := claim(second)
	c.Remote = true
	u := givenUnit(and(dispatching(), then(second, decide(t, givenUnit(dispatching()...), c))...)...)
	require.True(t, u.Lease.Node.IsZero())
	require.True(t, u.LeaseLive(t0.Add(2*second), true, Grace{}), "a restart must not void it")

	c.Remote = false
	u = givenUnit(and(dispatching(), then(second, decide(t, givenUnit(dispatching()...), c))...)...)
	require.Equal(t, nodeA, u.Lease.Node)
	require.False(t, u.LeaseLive(t0.Add(2*second), true, Grace{}))
}

// D-8: the fence is the position of the claim.
func TestTheClaimKeepsItsPositionForTheFence(t *testing.T) {
	require.Equal(t, events.Position(3), givenUnit(running()...).Claimed)
}

package decider

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/events"
)

func renew(after events.Span) RenewLease {
	return RenewLease{Unit: theUnit, At: t0.Add(after), RunOpen: true, Attempt: 1, Token: tokenA, Lease: lease}
}

func renewedTo(until events.Span) events.UnitLeaseRenewed {
	return events.UnitLeaseRenewed{Attempt: 1, Token: tokenA, LeaseExpiresAt: t0.Add(until)}
}

// U-6, SC-172: a third of the lease after the claim, and after each renewal, the lease moves to now + lease.
func TestALeaseIsRenewedOnceAThird(t *testing.T) {
	u := givenUnit(running()...)
	requireNothing(t, u, renew(20*second-micro))
	require.Equal(t, []events.Event{renewedTo(80 * second)}, decide(t, u, renew(20*second)))
	require.Equal(t, []events.Event{renewedTo(lease - micro + lease)}, decide(t, u, renew(lease-micro)), "while a microsecond is left")

	u = givenUnit(and(running(), at(20*second, renewedTo(80*second)))...)
	requireNothing(t, u, renew(40*second-micro))
	require.Equal(t, []events.Event{renewedTo(100 * second)}, decide(t, u, renew(40*second)))
}

// U-6, SC-173, C-18: no renewal goes beyond the lifetime, and at its end the lease is over.
func TestALeaseIsNeverRenewedBeyondItsLifetime(t *testing.T) {
	near := and(running(), at(lifetime-50*second, renewedTo(lifetime-20*second)))
	require.Equal(t, []events.Event{renewedTo(lifetime)}, decide(t, givenUnit(near...), renew(lifetime-21*second)))

	last := and(near, at(lifetime-21*second, renewedTo(lifetime)))
	requireNothing(t, givenUnit(last...), renew(lifetime-micro))
	require.Empty(t, requireRefused(t, givenUnit(last...), renew(lifetime), ErrLeaseLost))
}

// U-6: a lease that was configured shorter meanwhile is not moved back.
func TestARenewalNeverShortensALease(t *testing.T) {
	c := renew(20 * second)
	c.Lease = 30 * second
	requireNothing(t, givenUnit(running()...), c)
}

// U-6, X-1, SC-174, SC-194: whoever does not hold the live lease is told so, and nothing is written.
func TestARenewalWithoutTheLeaseIsRefused(t *testing.T) {
	with := func(after events.Span, change func(*RenewLease)) RenewLease {
		c := renew(after)
		change(&c)
		return c
	}
	noChange := func(*RenewLease) {}
	for name, tt := range map[string]struct {
		given   []happening
		command RenewLease
		reason  events.LateReason
	}{
		"run has ended":      {running(), with(30*second, func(c *RenewLease) { c.RunOpen = false }), events.LateRunTerminal},
		"unit has ended":     {ended()[events.UnitHasFailed], with(30*second, noChange), events.LateUnitTerminal},
		"unit cancelled":     {ended()[events.UnitIsCancelled], with(30*second, noChange), events.LateUnitTerminal},
		"no such unit":       {nil, with(0, noChange), events.LateUnitTerminal},
		"older attempt":      {running(), with(30*second, func(c *RenewLease) { c.Attempt = 0 }), events.LateAttemptOld},
		"later attempt":      {running(), with(30*second, func(c *RenewLease) { c.Attempt = 2 }), events.LateAttemptOld},
		"other token":        {running(), with(30*second, func(c *RenewLease) { c.Token = tokenB }), events.LateLeaseLost},
		"no token":           {running(), with(30*second, func(c *RenewLease) { c.Token = "" }), events.LateLeaseLost},
		"exactly at its end": {running(), with(lease, noChange), events.LateLeaseLost},
		"given back":         {retrying(), with(30*second, noChange), events.LateLeaseLost},
		"not claimed":        {dispatching(), with(30*second, func(c *RenewLease) { c.Attempt = 0 }), events.LateLeaseLost},
	} {
		t.Run(name, func(t *testing.T) {
			got, rejection := Decide(givenUnit(tt.given...), tt.command)
			require.Empty(t, got)
			require.Equal(t, &Rejection{Command: "renew_lease", Reason: string(tt.reason), Err: ErrLeaseLost}, rejection)
		})
	}
}

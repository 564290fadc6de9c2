package decider

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/events"
)

// U-16, SC-186: a unit given back is due at once the first time, and no other count moves.
func TestAUnitGivenBackIsDueAtOnce(t *testing.T) {
	given := and(running(),
		at(second, events.UnitRetryScheduled{
			Attempt: 1, Token: tokenA, Cause: events.RateLimit, AvailableAt: t0.Add(minute), ExpiredLeaseRetries: 1,
			RateLimitDeferrals: 2, RateLimitFirstAt: t0.Add(second),
		}),
		at(minute, dispatched(2, 2, 2, events.DispatchRetry)), at(minute, claimed(minute, 2, tokenA)))
	c := handBack(minute + second)
	c.Attempt = 2
	require.Equal(t, []events.Event{events.UnitRetryScheduled{
		Attempt: 2, Token: tokenA, Cause: events.HandedBack, Text: "shutdown", AvailableAt: t0.Add(minute + second), HandBacks: 1,
		ExpiredLeaseRetries: 1, RateLimitDeferrals: 2, RateLimitFirstAt: t0.Add(second),
	}}, decide(t, givenUnit(given...), c))
}

// U-16, SC-187: the second hand-back in a row waits, the waits grow, and the tenth ends the unit.
func TestHandBacksInARowWaitLongerAndEnd(t *testing.T) {
	hs := dispatching()[:1]
	base := []events.Span{0, 5, 10, 20, 40, 80, 160, 300, 300}
	for n := 1; n <= 10; n++ {
		after := events.Span(n) * 10 * minute
		hs = and(hs, at(after, dispatched(n, n, n, events.DispatchRetry)), at(after, claimed(after, n, tokenA)))
		c := handBack(after)
		c.Attempt = n
		got := decide(t, givenUnit(hs...), c)
		hs = and(hs, then(after, got)...)
		if n == 10 {
			require.Equal(t, []events.Event{events.UnitFailed{
				Attempt: 10, Token: tokenA, Category: events.ProviderError, By: events.ByWorker, Text: "handed back 10 times in a row: shutdown",
			}}, got)
			return
		}
		retry := got[0].(events.UnitRetryScheduled)
		wait, least := retry.AvailableAt.Sub(t0.Add(after)), base[n-1]*second
		require.Equal(t, n, retry.HandBacks)
		require.GreaterOrEqual(t, wait, least, "hand-back %d", n)
		require.LessOrEqual(t, wait, least+least/10, "hand-back %d", n)
	}
}

// E-3: what a rule says in its own words fits into the smallest error.max_bytes, and what it adds to a reason into the
// room that it asks for. Rules cut no text.
func TestWhatRulesSayIsBounded(t *testing.T) {
	const smallest = 64 // error.max_bytes
	tried := givenUnit(neverClaimed()...)
	tried.AttemptDispatches = 9_999_999
	nineTimes := givenUnit(running()...)
	nineTimes.HandBacks = MaxHandBacks - 1
	last := handBack(second)
	last.Reason = strings.Repeat("x", smallest-HandBackRoom)
	orphan := expire(0)
	orphan.NodeGone = true
	for _, tt := range []struct {
		given   Unit
		command Command
	}{
		{tried, neverStarted(24 * hour)},
		{nineTimes, last},
		{givenUnit(running()...), expire(lease)},
		{givenUnit(running()...), orphan},
		{givenUnit(at(0, thePlan)), FailReference{Unit: theUnit, RunOpen: true, Reference: theReference}},
	} {
		got := decide(t, tt.given, tt.command)
		require.LessOrEqual(t, len(got[len(got)-1].(events.UnitFailed).Text), smallest, "%s", tt.command.Name())
	}
	require.LessOrEqual(t, len(events.LateResultText), smallest)
}

// U-16: a row is broken by any other settle.
func TestAnotherSettleBreaksTheRowOfHandBacks(t *testing.T) {
	given := and(running(),
		at(second, events.UnitRetryScheduled{Attempt: 1, Token: tokenA, Cause: events.HandedBack, AvailableAt: t0, HandBacks: 9}),
		at(minute, dispatched(2, 2, 2, events.DispatchRetry)), at(minute, claimed(minute, 2, tokenA)),
		at(2*minute, events.UnitRetryScheduled{Attempt: 2, Cause: events.ExpiredLease, AvailableAt: t0, ExpiredLeaseRetries: 1}),
		at(3*minute, dispatched(3, 3, 3, events.DispatchRetry)), at(3*minute, claimed(3*minute, 3, tokenA)))
	c := handBack(3*minute + second)
	c.Attempt = 3
	require.Equal(t, 1, decide(t, givenUnit(given...), c)[0].(events.UnitRetryScheduled).HandBacks)
}

// U-16, U-19: only the holder of the live lease may give a unit back.
func TestOnlyTheHolderGivesBack(t *testing.T) {
	for name, c := range map[string]HandBackUnit{
		"at the end of the lease": handBack(lease),
		"run has ended":           {Unit: theUnit, At: t0, Attempt: 1, Token: tokenA},
	} {
		t.Run(name, func(t *testing.T) {
			require.Len(t, requireRefused(t, givenUnit(running()...), c, ErrLeaseLost), 1)
		})
	}
}

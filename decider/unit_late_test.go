package decider

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/events"
)

func handBack(after events.Span) HandBackUnit {
	return HandBackUnit{
		Unit: theUnit, At: t0.Add(after), RunOpen: true, Attempt: 1, Token: tokenA, Reason: "shutdown",
		Backoff: Backoff{Base: 5 * second, Cap: 5 * minute},
	}
}

// secondAttempt is a unit whose first worker was lost and whose second claimed it with token B at t0 + 3 min.
func secondAttempt() []happening {
	return and(running(),
		at(lease, events.UnitLeaseExpired{Attempt: 1, LeaseExpiresAt: t0.Add(lease), Cause: events.LeaseExpired}),
		at(lease, events.UnitRetryScheduled{Attempt: 1, Cause: events.ExpiredLease, AvailableAt: t0.Add(2 * minute), ExpiredLeaseRetries: 1}),
		at(2*minute, dispatched(2, 2, 2, events.DispatchRetry)),
		at(3*minute, claimed(3*minute, 2, tokenB)))
}

// U-19, SC-176, SC-177, SC-268: a settle that does not hold its lease changes nothing, is recorded, and is refused.
func TestALateSettleIsRecordedAndRefused(t *testing.T) {
	lost := and(running(),
		at(lease, events.UnitLeaseExpired{Attempt: 1, LeaseExpiresAt: t0.Add(lease), Cause: events.LeaseExpired}),
		at(lease, events.UnitFailed{Attempt: 1, Category: events.WorkerLost, By: events.ByReconciler}))
	over := complete(second)
	over.RunOpen = false
	for name, tt := range map[string]struct {
		given   []happening
		command Command
		outcome string
		reason  events.LateReason
	}{
		"success after the loss":      {lost, complete(2 * minute), "succeeded", events.LateUnitTerminal},
		"failure after the loss":      {lost, fail(2*minute, events.Auth), "failed", events.LateUnitTerminal},
		"hand-back after the loss":    {lost, handBack(2 * minute), "handed_back", events.LateUnitTerminal},
		"success of an older attempt": {secondAttempt(), complete(4 * minute), "succeeded", events.LateAttemptOld},
		"lease is over, nobody saw":   {running(), complete(lease), "succeeded", events.LateLeaseLost},
		"given away, not claimed":     {secondAttempt()[:6], complete(2 * minute), "succeeded", events.LateLeaseLost},
		"run has ended":               {running(), over, "succeeded", events.LateRunTerminal},
		"cancelled":                   {ended()[events.UnitIsCancelled], complete(2 * second), "succeeded", events.LateUnitTerminal},
	} {
		t.Run(name, func(t *testing.T) {
			before := givenUnit(tt.given...)
			record := requireRefused(t, before, tt.command, ErrLeaseLost)
			require.Equal(t, []events.Event{events.UnitLateResult{
				Attempt: 1, Outcome: tt.outcome, Reason: tt.reason, Text: "late result, refused",
			}}, record)

			after := givenUnit(and(tt.given, then(4*minute, record)...)...)
			require.Equal(t, []int{1}, after.Late)
			after.Late = nil
			require.Equal(t, before, after, "nothing else changes")
		})
	}
}

// U-19, SC-178, SC-365: one record per attempt, however often and in whatever order they come.
func TestALateSettleIsRecordedOncePerAttempt(t *testing.T) {
	hs := and(secondAttempt(),
		at(4*minute, events.UnitLeaseExpired{Attempt: 2, LeaseExpiresAt: t0.Add(4 * minute), Cause: events.LeaseExpired}),
		at(4*minute, events.UnitFailed{Attempt: 2, Category: events.WorkerLostExhausted, By: events.ByReconciler}))
	late := func(attempt int, token events.Token) []events.Event {
		c := complete(5 * minute)
		c.Attempt, c.Token = attempt, token
		record := requireRefused(t, givenUnit(hs...), c, ErrLeaseLost)
		hs = and(hs, then(5*minute, record)...)
		return record
	}
	require.Len(t, late(2, tokenB), 1)
	require.Len(t, late(1, tokenA), 1)
	for range 3 {
		require.Empty(t, late(1, tokenA))
		require.Empty(t, late(2, tokenB))
	}
	require.Equal(t, []int{2, 1}, givenUnit(hs...).Late)
}

// U-19: a settle for an attempt that was never opened has no record to leave, nor has one for a unit that is not there.
func TestASettleOfAnAttemptThatNeverWasIsOnlyRefused(t *testing.T) {
	for _, attempt := range []int{-1, 0, 2, 99} {
		c := complete(second)
		c.Attempt = attempt
		require.Empty(t, requireRefused(t, givenUnit(running()...), c, ErrLeaseLost), "attempt %d", attempt)
	}
	require.Empty(t, requireRefused(t, givenUnit(), complete(second), ErrLeaseLost))
}

// U-19: a stranger cannot use up the one record of a worker that is still at work.
func TestAStrangerLeavesNoRecordOnALiveAttempt(t *testing.T) {
	stranger := complete(second)
	stranger.Token = "guessed"
	require.Empty(t, requireRefused(t, givenUnit(running()...), stranger, ErrLeaseLost))
	require.Len(t, decide(t, givenUnit(running()...), complete(2*second)), 1, "the worker is not disturbed")
}

// HU-9, SC-195: repeating the accepted settle of an attempt gives the first answer again; another one is late.
func TestRepeatingAnAcceptedSettleIsNoLateResult(t *testing.T) {
	tenth := and(running()[:2], at(0, events.UnitRetryScheduled{Cause: events.HandedBack, AvailableAt: t0, HandBacks: 9}),
		at(0, dispatched(2, 1, 2, events.DispatchRetry)), at(0, claimed(0, 1, tokenA)))
	retried := fail(second, events.Network)
	retried.Policies = []events.RetryPolicy{retryOn(1, events.Network)}
	for name, tt := range map[string]struct {
		given   []happening
		settle  Command
		another Command
	}{
		"success":         {running(), complete(second), fail(2*second, events.Auth)},
		"failure":         {running(), fail(second, events.Auth), complete(2 * second)},
		"declared retry":  {running(), retried, complete(2 * second)},
		"hand-back":       {running(), handBack(second), complete(2 * second)},
		"tenth hand-back": {tenth, handBack(second), complete(2 * second)},
	} {
		t.Run(name, func(t *testing.T) {
			settled := givenUnit(and(tt.given, then(second, decide(t, givenUnit(tt.given...), tt.settle))...)...)
			requireNothing(t, settled, tt.settle)
			require.Len(t, requireRefused(t, settled, tt.another, ErrLeaseLost), 1)
		})
	}
}

// HU-9, U-16: only the tenth hand-back was accepted as a failure. Behind any other end a hand-back is late.
func TestAHandBackIsNoRepetitionOfAnotherEnd(t *testing.T) {
	failed := and(running(), then(second, decide(t, givenUnit(running()...), fail(second, events.Auth)))...)
	nine := and(running()[:1], at(0, events.UnitRetryScheduled{Cause: events.HandedBack, AvailableAt: t0, HandBacks: 9}),
		at(0, dispatched(2, 1, 2, events.DispatchRetry)), at(0, claimed(0, 1, tokenA)))
	lost := and(nine, at(lease, events.UnitLeaseExpired{Attempt: 1}),
		at(lease, events.UnitFailed{Attempt: 1, Category: events.WorkerLost, By: events.ByReconciler}))
	for _, given := range [][]happening{failed, lost} {
		require.Len(t, requireRefused(t, givenUnit(given...), handBack(2*minute), ErrLeaseLost), 1)
	}
}

// U-19, HU-9: the answer of an attempt stays, also when a later attempt has been settled meanwhile.
func TestAnAcceptedSettleCanBeRepeatedAfterTheNextAttempt(t *testing.T) {
	first := handBack(10 * second)
	hs := and(running(), then(10*second, decide(t, givenUnit(running()...), first))...)
	hs = and(hs, at(minute, dispatched(2, 2, 2, events.DispatchRetry)), at(minute, claimed(minute, 2, tokenB)))
	requireNothing(t, givenUnit(hs...), first)

	hs = and(hs, at(2*minute-second, events.UnitSucceeded{Attempt: 2, Token: tokenB}))
	requireNothing(t, givenUnit(hs...), first)
	stranger := first
	stranger.Token = tokenB
	require.Len(t, requireRefused(t, givenUnit(hs...), stranger, ErrLeaseLost), 1)
}

package decider

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/events"
)

func take(after events.Span) ClaimWakeup {
	return ClaimWakeup{
		Owner: theRun, Kind: events.KindDispatch, At: t0.Add(after), Token: tokenB, ExpiresAt: t0.Add(after + minute), Messages: 1,
		MaxAttempts: 20,
	}
}

// O-7, O-5, SC-015, SC-018: a claim has a token, an end, and the number of the attempt that it uses.
func TestADueWakeupIsClaimed(t *testing.T) {
	got := decide(t, givenRegister(events.KindDispatch, at(0, armed(1, 0))), take(second))
	require.Equal(t, []events.Event{taken(1, 1, tokenB, second)}, got)
	r := givenRegister(events.KindDispatch, and([]happening{at(0, armed(1, 0))}, then(second, got)...)...)
	require.Equal(t, Claim{Token: tokenB, ExpiresAt: t0.Add(second + minute), Node: nodeA, Messages: 1}, r.Claim)

	again := and(claimedRegister(), at(second, released(1, tokenA, events.ReleaseRefused, second, false)))
	require.Equal(t, 2, decide(t, givenRegister(events.KindDispatch, again...), take(minute))[0].(events.OutboxClaimed).Attempt)
}

// O-7, CLK-1, M-3, SC-016, SC-017: what is not pending or not due is left alone; exactly at its time it is due.
func TestOnlyADueWakeupIsClaimed(t *testing.T) {
	for name, given := range map[string][]happening{
		"never armed":              nil,
		"not due by a microsecond": {at(0, armed(1, second+micro))},
		"claimed":                  claimedRegister(),
		"claimed, one waits":       and(claimedRegister(), at(0, armed(2, 0))),
		"in its backoff":           and(claimedRegister(), at(0, released(1, tokenA, events.ReleaseRefused, 0, false))),
		"idle":                     and(claimedRegister(), at(0, published(1, tokenA))),
		"parked":                   and(claimedRegister(), at(0, released(1, tokenA, events.ReleaseRefused, 0, false)), at(0, events.OutboxParked{N: 1})),
	} {
		t.Run(name, func(t *testing.T) { requireNothing(t, givenRegister(events.KindDispatch, given...), take(second)) })
	}
	require.Len(t, decide(t, givenRegister(events.KindDispatch, at(0, armed(1, second))), take(second)), 1)
}

// O-8: what is no longer owed is claimed and dropped in one decision, so that nothing is published for it.
func TestWhatIsNoLongerOwedIsClaimedAndDropped(t *testing.T) {
	c := take(second)
	c.Drop = events.DropRunTerminal
	got := decide(t, givenRegister(events.KindDispatch, at(0, armed(1, 0))), c)
	require.Equal(t, []events.Event{
		taken(1, 1, tokenB, second), events.OutboxDropped{N: 1, Token: tokenB, Reason: events.DropRunTerminal},
	}, got)
	r := givenRegister(events.KindDispatch, and([]happening{at(0, armed(1, 0))}, then(second, got)...)...)
	require.Equal(t, RegisterIdle, r.Status)
	require.Equal(t, 1, r.Closed)
	require.Equal(t, t0.Add(second), r.LastClosedAt)
}

// spent is wakeup 1 after so many counted attempts, due again at t0 + 5 s.
func spent(attempts int) []happening {
	hs := []happening{at(0, armed(1, 0))}
	for n := 1; n <= attempts; n++ {
		hs = and(hs, at(0, taken(1, n, tokenA, 0)), at(0, released(1, tokenA, events.ReleaseRefused, 0, false)))
	}
	return hs
}

// O-7, O-15, O-S7b, I-12, I-30: attempts are a bound, which the last one reaches and none passes. A wakeup that a higher
// maximum left beyond it is parked, where a person sees it.
func TestAWakeupIsNotClaimedBeyondItsAttempts(t *testing.T) {
	c := take(minute)
	c.MaxAttempts = 3
	got := decide(t, givenRegister(events.KindDispatch, spent(2)...), c)
	require.Equal(t, 3, got[0].(events.OutboxClaimed).Attempt)
	for _, attempts := range []int{3, 4} {
		given := spent(attempts)
		got = decide(t, givenRegister(events.KindDispatch, given...), c)
		require.Equal(t, []events.Event{events.OutboxParked{N: 1, Cause: events.ParkAttempts, Attempts: attempts}}, got)
		parked := givenRegister(events.KindDispatch, and(given, then(minute, got)...)...)
		require.Equal(t, RegisterParked, parked.Status)
		requireNothing(t, parked, c)
	}
}

// O-15, O-8, HD-6: but one that is no longer owed is dropped even then, so that the time of a retry for which it stood, too,
// is armed behind it; a parked register would keep nobody's time.
func TestASpentWakeupForNothingIsDropped(t *testing.T) {
	c := take(minute)
	c.MaxAttempts, c.Drop = 3, events.DropNothingOwed
	given := spent(5)
	got := decide(t, givenRegister(events.KindDispatch, given...), c)
	require.Equal(t, []events.Event{
		taken(1, 6, tokenB, minute), events.OutboxDropped{N: 1, Token: tokenB, Reason: events.DropNothingOwed},
	}, got)
	require.Equal(t, RegisterIdle, givenRegister(events.KindDispatch, and(given, then(minute, got)...)...).Status)
}

// O-7, O-15: a mark_first wakeup that was never marked cannot have been published, so its attempts are no bound.
func TestAMarkFirstWakeupIsClaimedWhateverItsAttempts(t *testing.T) {
	c := take(minute)
	c.Kind, c.Mode, c.MaxAttempts = events.KindPostSync, events.AtMostOnce, 3
	got := decide(t, givenRegister(events.KindPostSync, spent(7)...), c)
	require.Equal(t, 8, got[0].(events.OutboxClaimed).Attempt)
}

// O-7: what was read for one number is no reason to claim another.
func TestAClaimIsForTheNumberThatWasRead(t *testing.T) {
	shed := events.OutboxReleased{N: 1, Token: tokenA, Cause: events.ReleaseShed, AvailableAt: t0.Add(second)}
	given := and(claimedRegister(), at(second, armed(2, second)), at(second, shed))
	c := take(minute)
	c.N, c.Drop = 1, events.DropNothingOwed
	got := decide(t, givenRegister(events.KindDispatch, given...), c)
	require.Len(t, got, 2)
	after := givenRegister(events.KindDispatch, and(given, then(minute, got)...)...)
	require.Equal(t, 2, after.Current)
	requireNothing(t, after, c)
}

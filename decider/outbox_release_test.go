package decider

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/events"
)

var theBackoff = Backoff{Base: 5 * second, Cap: 5 * minute}

func release(after events.Span, cause events.ReleaseCause) ReleaseWakeup {
	return ReleaseWakeup{
		Owner: theRun, Kind: events.KindDispatch, At: t0.Add(after), N: 1, Token: tokenA, Cause: cause, Counted: true,
		Text: "no route", Backoff: theBackoff, MaxAttempts: 20,
	}
}

// wait is the backoff of an attempt of wakeup 1 of a kind.
func wait(k events.Kind, attempt int) events.Span {
	return theBackoff.After(MessageID(theRun, k, 1), attempt)
}

// O-11, O-13, SC-023: a refused publish is released with backoff, cause and text; the number stays current.
func TestARefusedPublishIsReleasedWithBackoff(t *testing.T) {
	got := decide(t, givenRegister(events.KindDispatch, claimedRegister()...), release(second, events.ReleaseRefused))
	require.Equal(t, []events.Event{events.OutboxReleased{
		N: 1, Token: tokenA, Cause: events.ReleaseRefused, Counted: true, Text: "no route",
		AvailableAt: t0.Add(second + wait(events.KindDispatch, 1)),
	}}, got)
	r := givenRegister(events.KindDispatch, and(claimedRegister(), then(second, got)...)...)
	require.Equal(t, []any{RegisterPending, 1, 1, "refused", "no route"}, []any{r.Status, r.Current, r.Attempts, r.LastCause, r.LastText})
}

// O-11, O-6, SC-027: what ended unknown may be known to a broker, and its attempt is spent, whatever the caller says.
func TestAnUnknownPublishMayBeKnownToABroker(t *testing.T) {
	c := release(second, events.ReleasePublishUnknown)
	c.Counted, c.MaybePublished = false, false
	got := decide(t, givenRegister(events.KindDispatch, claimedRegister()...), c)[0].(events.OutboxReleased)
	require.True(t, got.Counted)
	require.True(t, got.MaybePublished)
	require.Equal(t, t0.Add(second+wait(events.KindDispatch, 1)), got.AvailableAt)
}

// O-6: one accepted message of a fan-out is enough for a broker to know the number.
func TestAFanOutThatFailedHalfWayMayBeKnown(t *testing.T) {
	c := release(second, events.ReleaseRefused)
	c.MaybePublished = true
	require.True(t, decide(t, givenRegister(events.KindDispatch, claimedRegister()...), c)[0].(events.OutboxReleased).MaybePublished)
}

// O-5, O-20, SC-035, SC-036, SC-047: a claim without a publish gives its attempt back, and is due at once.
func TestAnUncountedReleaseGivesTheAttemptBack(t *testing.T) {
	for cause, due := range map[events.ReleaseCause]events.Span{
		events.ReleaseShed: 0, events.ReleaseShutdown: 0,
		events.ReleaseRefused: wait(events.KindDispatch, 1), // B-8: a full queue burns no attempt, and is no hot loop
	} {
		c := release(second, cause)
		c.Counted = false
		got := decide(t, givenRegister(events.KindDispatch, claimedRegister()...), c)
		require.Equal(t, t0.Add(second+due), got[0].(events.OutboxReleased).AvailableAt, cause)
		r := givenRegister(events.KindDispatch, and(claimedRegister(), then(second, got)...)...)
		require.Zero(t, r.Attempts, cause)
		require.False(t, r.MaybePublished, cause)
	}
}

// B-8: a refusal that burns no attempt waits the first backoff, however many attempts were burnt before.
func TestAFullQueueWaitsTheFirstBackoff(t *testing.T) {
	c := release(second, events.ReleaseRefused)
	c.Counted = false
	got := decide(t, givenRegister(events.KindDispatch, lastAttempt()...), c)
	require.Equal(t, t0.Add(second+wait(events.KindDispatch, 1)), got[0].(events.OutboxReleased).AvailableAt)
}

// O-20: a fan-out that has begun is released counted, so it waits like any other attempt that failed.
func TestAFanOutThatWasCutShortWaitsItsBackoff(t *testing.T) {
	for _, cause := range []events.ReleaseCause{events.ReleaseShed, events.ReleaseShutdown} {
		c := release(second, cause)
		c.MaybePublished = true
		got := decide(t, givenRegister(events.KindDispatch, claimedRegister()...), c)
		require.Equal(t, t0.Add(second+wait(events.KindDispatch, 1)), got[0].(events.OutboxReleased).AvailableAt, cause)
	}
}

// O-9, M-10, SC-022: only the holder of the live claim may release it.
func TestAReleaseWithoutTheClaimIsRefused(t *testing.T) {
	other, number := release(second, events.ReleaseRefused), release(second, events.ReleaseRefused)
	other.Token, number.N = tokenB, 2
	for name, tt := range map[string]struct {
		given   []happening
		command ReleaseWakeup
	}{
		"exactly at its end": {claimedRegister(), release(minute, events.ReleaseRefused)},
		"other token":        {claimedRegister(), other},
		"other number":       {claimedRegister(), number},
		"not claimed":        {claimedRegister()[:1], release(0, events.ReleaseShed)},
		"marked already":     {and(claimedRegister(), at(0, published(1, tokenA))), release(second, events.ReleaseRefused)},
	} {
		t.Run(name, func(t *testing.T) {
			require.Empty(t, requireRefused(t, givenRegister(events.KindDispatch, tt.given...), tt.command, ErrClaimLost))
		})
	}
}

// ending is what a reconciler sends for a claim that it takes for dead. It knows neither number nor token.
func ending(after events.Span, cause events.ReleaseCause, gone bool) ReleaseWakeup {
	c := release(after, cause)
	c.N, c.Token, c.Text, c.NodeGone = 0, "", "", gone
	return c
}

// O-14, O-S6, N-4, REC-13, SC-037: anybody may end a dead claim; with backoff if it expired, at once if its node is gone.
func TestADeadClaimIsReleased(t *testing.T) {
	endless := []happening{at(0, armed(1, 0)), at(0, events.OutboxClaimed{N: 1, Token: tokenA, Attempt: 1})}
	for name, tt := range map[string]struct {
		given   []happening
		command ReleaseWakeup
		due     events.Span
	}{
		"expired exactly now": {claimedRegister(), ending(minute, events.ReleaseClaimExpired, false), minute + wait(events.KindDispatch, 1)},
		"without an end":      {endless, ending(0, events.ReleaseClaimExpired, false), wait(events.KindDispatch, 1)},
		"incarnation gone":    {claimedRegister(), ending(second, events.ReleaseIncarnationGone, true), second},
	} {
		t.Run(name, func(t *testing.T) {
			got := decide(t, givenRegister(events.KindDispatch, tt.given...), tt.command)
			require.Equal(t, []events.Event{events.OutboxReleased{
				N: 1, Token: tokenA, Cause: tt.command.Cause, AvailableAt: t0.Add(tt.due), Counted: true, MaybePublished: true,
			}}, got)
		})
	}
}

// O-14, REC-13: a claim that is alive, or was settled since it was found, is left alone.
func TestALiveClaimIsLeftAlone(t *testing.T) {
	for name, tt := range map[string]struct {
		given   []happening
		command ReleaseWakeup
	}{
		"a microsecond is left": {claimedRegister(), ending(minute-micro, events.ReleaseClaimExpired, false)},
		"node is alive":         {claimedRegister(), ending(second, events.ReleaseIncarnationGone, false)},
		"not claimed":           {claimedRegister()[:1], ending(hour, events.ReleaseClaimExpired, true)},
		"closed since":          {and(claimedRegister(), at(0, published(1, tokenA))), ending(hour, events.ReleaseClaimExpired, true)},
	} {
		t.Run(name, func(t *testing.T) { requireNothing(t, givenRegister(events.KindDispatch, tt.given...), tt.command) })
	}
	marked := givenRegister(events.KindPostSync, and(claimedRegister(), at(0, marked(1, tokenA, 1)))...)
	c := ending(hour, events.ReleaseClaimExpired, true)
	c.Kind, c.Mode = events.KindPostSync, events.AtMostOnce
	requireNothing(t, marked, c)
}

// O-6: a claim that died after an unknown publish hides it from nobody: the flag and the attempt do not depend on the caller.
func TestTheDeathOfAClaimAlwaysCounts(t *testing.T) {
	for cause, gone := range map[events.ReleaseCause]bool{events.ReleaseClaimExpired: false, events.ReleaseIncarnationGone: true} {
		c := ending(minute, cause, gone)
		c.Counted, c.MaybePublished = false, false
		got := decide(t, givenRegister(events.KindDispatch, claimedRegister()...), c)[0].(events.OutboxReleased)
		require.True(t, got.Counted, cause)
		require.True(t, got.MaybePublished, cause)
	}
}

// O-6, C-21, SC-056: a mark_first claim without a mark was surely not published, however it ended.
func TestAMarkFirstClaimWithoutAMarkWasNotPublished(t *testing.T) {
	for cause, gone := range map[events.ReleaseCause]bool{events.ReleaseClaimExpired: false, events.ReleaseIncarnationGone: true} {
		c := ending(minute, cause, gone)
		c.Kind, c.Mode, c.MaybePublished = events.KindPostSync, events.AtMostOnce, true
		require.False(t, decide(t, givenRegister(events.KindPostSync, claimedRegister()...), c)[0].(events.OutboxReleased).MaybePublished, cause)
	}
}

// lastAttempt is wakeup 1 claimed with token A at t0 for the third time.
func lastAttempt() []happening { return and(spent(2), at(0, taken(1, 3, tokenA, 0))) }

// O-15, O-S7, SC-029, SC-030, SC-256: at the last attempt, or when the refusal is for ever, the number is parked.
func TestSpentOrPermanentMeansParked(t *testing.T) {
	spentNow := release(second, events.ReleaseRefused)
	spentNow.MaxAttempts = 3
	permanent := release(second, events.ReleaseRefused)
	permanent.Permanent = true
	both := spentNow
	both.Permanent = true
	givenBack := permanent // its other messages met an open breaker (O-16)
	givenBack.Counted = false
	died := ending(minute, events.ReleaseIncarnationGone, true)
	died.MaxAttempts = 3
	lowered := spentNow
	lowered.MaxAttempts = 1
	for name, tt := range map[string]struct {
		given   []happening
		command ReleaseWakeup
		cause   events.ParkCause
		tries   int
	}{
		"last attempt":             {lastAttempt(), spentNow, events.ParkAttempts, 3},
		"maximum was lowered":      {lastAttempt(), lowered, events.ParkAttempts, 3},
		"permanent, first attempt": {claimedRegister(), permanent, events.ParkPermanent, 1},
		"permanent, given back":    {claimedRegister(), givenBack, events.ParkPermanent, 0},
		"both":                     {lastAttempt(), both, events.ParkPermanent, 3},
		"restart loop (SC-256)":    {lastAttempt(), died, events.ParkAttempts, 3},
	} {
		t.Run(name, func(t *testing.T) {
			got := decide(t, givenRegister(events.KindDispatch, tt.given...), tt.command)
			require.Len(t, got, 2)
			require.IsType(t, events.OutboxReleased{}, got[0])
			require.Equal(t, events.OutboxParked{N: 1, Cause: tt.cause, Attempts: tt.tries, Text: tt.command.Text}, got[1])
			r := givenRegister(events.KindDispatch, and(tt.given, then(second, got)...)...)
			require.Equal(t, RegisterParked, r.Status)
			require.Equal(t, string(tt.cause), r.LastCause)
		})
	}
}

// O-15: one attempt below the maximum, or an attempt given back, does not park.
func TestOneAttemptBelowTheMaximumIsTriedAgain(t *testing.T) {
	c := release(second, events.ReleaseRefused)
	c.MaxAttempts = 4
	require.Len(t, decide(t, givenRegister(events.KindDispatch, lastAttempt()...), c), 1)
	c.MaxAttempts, c.Counted = 3, false
	require.Len(t, decide(t, givenRegister(events.KindDispatch, lastAttempt()...), c), 1)
}

// O-15, O-8: nothing owed any more → dropped, not parked; but what may be tried again is only released.
func TestNothingOwedIsDroppedNotParked(t *testing.T) {
	c := release(second, events.ReleaseRefused)
	c.Drop = events.DropRunTerminal
	require.IsType(t, events.OutboxReleased{}, decide(t, givenRegister(events.KindDispatch, claimedRegister()...), c)[0])

	dropped := []events.Event{events.OutboxDropped{N: 1, Token: tokenA, Reason: events.DropRunTerminal}}
	c.MaxAttempts = 1
	require.Equal(t, dropped, decide(t, givenRegister(events.KindDispatch, claimedRegister()...), c))
	c.MaxAttempts, c.Permanent = 20, true
	require.Equal(t, dropped, decide(t, givenRegister(events.KindDispatch, claimedRegister()...), c))
}

// O-15: a mark_first wakeup that was never marked is not parked; it stays pending with backoff.
func TestAMarkFirstWakeupIsNeverParked(t *testing.T) {
	c := release(second, events.ReleaseRefused)
	c.Kind, c.Mode, c.MaxAttempts, c.Permanent = events.KindPostSync, events.AtMostOnce, 1, true
	for _, c.Drop = range []events.DropReason{"", events.DropNothingOwed} {
		got := decide(t, givenRegister(events.KindPostSync, claimedRegister()...), c)
		require.Len(t, got, 1)
		require.Equal(t, t0.Add(second+wait(events.KindPostSync, 1)), got[0].(events.OutboxReleased).AvailableAt)
	}
}

// O-13, SC-024: 5, 10, 20, 40, 80, 160, 300, 300 … seconds, plus at most a tenth.
func TestBackoffDoublesUpToItsCap(t *testing.T) {
	for i, base := range []events.Span{5, 10, 20, 40, 80, 160, 300, 300, 300} {
		got, least := theBackoff.After("id", i+1), base*second
		require.GreaterOrEqual(t, got, least, "attempt %d", i+1)
		require.LessOrEqual(t, got, least+least/10, "attempt %d", i+1)
	}
}

// O-13, SC-025, HC-47: the jitter is a fixed hash, so a replay agrees; neighbours and attempts spread, also at the cap.
func TestJitterIsFixedAndSpreads(t *testing.T) {
	seen := map[events.Span]int{}
	for i := range 1000 {
		id := MessageID(events.RunID{15: byte(i), 14: byte(i >> 8)}, events.KindDispatch, 1)
		require.Equal(t, theBackoff.After(id, 9), theBackoff.After(id, 9))
		seen[(theBackoff.After(id, 9)-5*minute)/second]++ // one bucket a second, 30 of them
	}
	for bucket, n := range seen {
		require.LessOrEqual(t, n, 100, "second %d holds too many", bucket)
	}
	require.NotEqual(t, theBackoff.After("id", 7), theBackoff.After("id", 8), "the cap is the same, the jitter is not")
}

// O-13, I-31: a replay decides byte for byte the same, so the hash and its rounding never change.
func TestTheBackoffOfAnIdIsFrozen(t *testing.T) {
	id, odd := MessageID(theRun, events.KindDispatch, 1), Backoff{Base: 1_234_567, Cap: 300_000_001}
	require.Equal(t, []events.Span{1_254_196, 2_622_713, 307_770_001, 304_770_001, 5_079_500}, []events.Span{
		odd.After(id, 1), odd.After(id, 2), odd.After(id, 9), odd.After(id, 65_537), theBackoff.After(id, 1),
	})
}

// O-13: no attempt count and no knob makes a backoff negative, endless to compute, or less than its base.
func TestABackoffSurvivesAnyKnobAndAnyCount(t *testing.T) {
	for name, tt := range map[string]struct {
		backoff Backoff
		attempt int
		least   events.Span
	}{
		"attempt zero":          {theBackoff, 0, 5 * second},
		"a million attempts":    {theBackoff, 1_000_000, 5 * minute},
		"greatest count":        {theBackoff, math.MaxInt, 5 * minute},
		"no base":               {Backoff{Cap: minute}, math.MaxInt, 0},
		"no backoff":            {Backoff{}, math.MaxInt, 0},
		"base above cap":        {Backoff{Base: hour, Cap: minute}, 1, minute},
		"cap near the end":      {Backoff{Base: second, Cap: math.MaxInt64}, math.MaxInt, math.MaxInt64 / 2},
		"everything at the end": {Backoff{Base: math.MaxInt64, Cap: math.MaxInt64}, 2, math.MaxInt64 / 2},
	} {
		t.Run(name, func(t *testing.T) {
			got := tt.backoff.After("id", tt.attempt)
			require.GreaterOrEqual(t, got, tt.least)
			require.GreaterOrEqual(t, t0.Add(got), t0, "never in the past")
		})
	}
}

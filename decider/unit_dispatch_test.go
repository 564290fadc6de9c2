package decider

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/events"
)

func dispatch(after events.Span) DispatchUnit {
	return DispatchUnit{Unit: theUnit, At: t0.Add(after), RunOpen: true, Wakeup: 7, StaleAfter: staleAfter}
}

// U-2, U-3, U-4, U-18, SC-131, SC-148: which states may get a slot, and what the event says of it.
func TestDispatchGivesASlotToWhatMayHaveOne(t *testing.T) {
	lost := dispatch(second)
	lost.MessageGone = true
	lostAndStale := dispatch(staleAfter)
	lostAndStale.MessageGone = true
	for name, tt := range map[string]struct {
		given   []happening
		command DispatchUnit
		want    events.UnitDispatched
	}{
		"planned":                   {dispatching()[:1], dispatch(0), dispatched(1, 1, 7, events.DispatchPlanned)},
		"retrying, due exactly now": {retrying(), dispatch(70 * second), dispatched(2, 2, 7, events.DispatchRetry)},
		"stale exactly now":         {dispatching(), dispatch(staleAfter), dispatched(2, 1, 7, events.DispatchStale)},
		"stale for a second":        {dispatching(), dispatch(staleAfter + second), dispatched(2, 1, 7, events.DispatchStale)},
		"its message is gone":       {dispatching(), lost, dispatched(2, 1, 7, events.DispatchIncarnationGone)},
		"gone and stale":            {dispatching(), lostAndStale, dispatched(2, 1, 7, events.DispatchStale)},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, []events.Event{tt.want}, decide(t, givenUnit(tt.given...), tt.command))
		})
	}
}

// U-2, U-3, U-4, U-18, SC-128, SC-129, SC-131, SC-135, SC-148: each guard alone leaves the unit as it is, without an error:
// somebody was faster.
func TestDispatchLeavesAloneWhatMayNotHaveASlot(t *testing.T) {
	ended := ended()
	over := dispatch(0)
	over.RunOpen = false
	for name, tt := range map[string]struct {
		given   []happening
		command DispatchUnit
	}{
		"no such unit":              {nil, dispatch(0)},
		"run has ended":             {dispatching()[:1], over},
		"retrying, not due":         {retrying(), dispatch(70*second - micro)},
		"dispatching, not stale":    {dispatching(), dispatch(staleAfter - micro)},
		"running":                   {running(), dispatch(23 * hour)},
		"succeeded":                 {ended[events.UnitHasSucceeded], dispatch(hour)},
		"failed":                    {ended[events.UnitHasFailed], dispatch(hour)},
		"cancelled":                 {ended[events.UnitIsCancelled], dispatch(hour)},
		"claimed since it was seen": {and(dispatching(), at(staleAfter, claimed(staleAfter, 1, tokenA))), dispatch(staleAfter)},
	} {
		t.Run(name, func(t *testing.T) {
			requireNothing(t, givenUnit(tt.given...), tt.command)
		})
	}
}

// N-4: a unit whose wakeup is still open is not lost: it will be published as it is. So a unit that was dispatched
// again, under the wakeup that this transaction leaves open, is not dispatched once more for the same loss.
func TestAUnitIsDispatchedOnceForALostMessage(t *testing.T) {
	c := dispatch(second)
	c.MessageGone = true
	first := decide(t, givenUnit(dispatching()...), c)
	require.Len(t, first, 1)
	requireNothing(t, givenUnit(and(dispatching(), then(second, first)...)...), c)
}

// U-3, U-4: a stale reclaim keeps the time of the first dispatch; a new attempt sets it anew and counts from one.
func TestReclaimsKeepTheAgeOfTheirAttempt(t *testing.T) {
	u := givenUnit(and(dispatching(),
		at(staleAfter, dispatched(2, 1, 2, events.DispatchStale)),
		at(2*staleAfter, dispatched(3, 1, 3, events.DispatchStale)))...)
	require.Equal(t, t0, u.FirstDispatchedAt)
	require.Equal(t, t0.Add(2*staleAfter), u.LastDispatchedAt)
	require.Equal(t, 3, u.AttemptDispatches)
	require.Equal(t, 3, u.Dispatches)
	require.Equal(t, 3, u.Wakeup)

	u = givenUnit(and(retrying(), at(70*second, dispatched(2, 2, 2, events.DispatchRetry)))...)
	require.Equal(t, t0.Add(70*second), u.FirstDispatchedAt)
	require.Equal(t, 1, u.AttemptDispatches)
	require.Equal(t, 2, u.Dispatches)
	require.Zero(t, u.AvailableAt, "available_at is set exactly while retrying")
}

// neverClaimed is a unit dispatched three times since t0.
func neverClaimed() []happening {
	return and(dispatching(),
		at(8*hour, dispatched(2, 1, 2, events.DispatchStale)),
		at(24*hour-20*minute, dispatched(3, 1, 3, events.DispatchStale)))
}

func neverStarted(after events.Span) FailNeverStarted {
	return FailNeverStarted{
		Unit: theUnit, At: t0.Add(after), RunOpen: true, StaleAfter: staleAfter, NeverStarted: 24 * hour,
	}
}

// U-14, SC-136: a unit that nobody ever claimed is given up exactly a day after its first dispatch, whatever the reclaims did.
func TestAUnitThatNobodyEverClaimedIsGivenUp(t *testing.T) {
	require.Equal(t, []events.Event{events.UnitFailed{
		Category: events.NeverStarted, By: events.ByDispatch,
		Text: "no claim in 3 dispatches since 2026-03-02T08:00:00.000000Z",
	}}, decide(t, givenUnit(neverClaimed()...), neverStarted(24*hour)))
}

// U-14: each guard alone keeps the unit.
func TestAUnitIsNotGivenUpBeforeItsTime(t *testing.T) {
	with := func(after events.Span, change func(*FailNeverStarted)) FailNeverStarted {
		c := neverStarted(after)
		change(&c)
		return c
	}
	for name, tt := range map[string]struct {
		given   []happening
		command FailNeverStarted
	}{
		"one microsecond early":   {neverClaimed(), neverStarted(24*hour - micro)},
		"dispatched twice only":   {neverClaimed()[:3], neverStarted(24 * hour)},
		"not stale again yet":     {and(neverClaimed(), at(24*hour, dispatched(4, 1, 4, events.DispatchStale))), neverStarted(24*hour + staleAfter - micro)},
		"never, by configuration": {neverClaimed(), with(48*hour, func(c *FailNeverStarted) { c.NeverStarted = 0 })},
		"run has ended":           {neverClaimed(), with(24*hour, func(c *FailNeverStarted) { c.RunOpen = false })},
		"claimed at last":         {and(neverClaimed(), at(24*hour-minute, claimed(24*hour-minute, 1, tokenA))), neverStarted(24 * hour)},
		"held, or the engine was down, since its newest message went out": {
			and(neverClaimed()[:3], at(9*hour, dispatched(3, 1, 3, events.DispatchStale))), neverStarted(24 * hour),
		},
		"no such unit": {nil, neverStarted(24 * hour)},
		"failed":       {ended()[events.UnitHasFailed], neverStarted(48 * hour)},
	} {
		t.Run(name, func(t *testing.T) {
			requireNothing(t, givenUnit(tt.given...), tt.command)
		})
	}
}

// U-14: count and age belong to the attempt, so a unit that once worked starts afresh.
func TestGivingUpLooksAtTheCurrentAttemptOnly(t *testing.T) {
	given := and(neverClaimed(),
		at(24*hour-minute, claimed(24*hour-minute, 1, tokenA)),
		at(24*hour-second, events.UnitRetryScheduled{Attempt: 1, Token: tokenA, Cause: events.HandedBack, AvailableAt: t0.Add(24*hour - second)}),
		at(24*hour, dispatched(4, 2, 4, events.DispatchRetry)))
	requireNothing(t, givenUnit(given...), neverStarted(24*hour+20*minute))
}

// U-14, X-4, X-9: a unit that was held for days, not lost, is dispatched once more before anybody gives it up; one
// stale period later it is given up, if nobody has claimed it then.
func TestAHeldUnitIsDispatchedBeforeItIsGivenUp(t *testing.T) {
	const resumed = 96 * hour
	given := neverClaimed()
	requireNothing(t, givenUnit(given...), neverStarted(resumed))
	require.Len(t, decide(t, givenUnit(neverClaimed()...), neverStarted(24*hour+10*minute)), 1, "its message is two stale periods old")
	requireNothing(t, givenUnit(neverClaimed()...), neverStarted(24*hour+10*minute+micro))
	given = and(given, at(resumed, dispatched(4, 1, 4, events.DispatchStale)))
	requireNothing(t, givenUnit(given...), neverStarted(resumed+staleAfter-micro))
	require.Len(t, decide(t, givenUnit(given...), neverStarted(resumed+staleAfter)), 1)
}

// U-14: the message that was lost with its incarnation makes a unit stale like any other.
func TestALostMessageCountsAsStaleForGivingUp(t *testing.T) {
	given := and(neverClaimed(), at(24*hour, dispatched(4, 1, 4, events.DispatchStale)))
	c := neverStarted(24*hour + second)
	requireNothing(t, givenUnit(given...), c)
	c.MessageGone = true
	require.Len(t, decide(t, givenUnit(given...), c), 1)
}

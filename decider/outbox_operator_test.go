package decider

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/events"
)

func park() ParkWakeup {
	return ParkWakeup{Owner: theRun, Kind: events.KindDispatch, N: 1, Reason: "the broker is being replaced"}
}

func redrive(after events.Span) RedriveWakeup {
	return RedriveWakeup{Owner: theRun, Kind: events.KindDispatch, At: t0.Add(after), Reason: "it is back"}
}

func resolve(target string, o events.Resolution) ResolveWakeup {
	return ResolveWakeup{Owner: theRun, Kind: events.KindPostSync, Target: target, Outcome: o, Actor: "ada", Reason: "asked the receiver"}
}

// parkedRegister is wakeup 1, parked by an operator at t0 + 1 s.
func parkedRegister() []happening {
	return and(claimedRegister()[:1], at(second, events.OutboxParked{N: 1, Cause: events.ParkOperator, Text: "x"}))
}

// O-21, O-S7a: what is pending is parked, with its attempts and the operator's word; a wish that waits takes its place.
func TestWhatIsPendingIsParked(t *testing.T) {
	parked := func(attempts int) events.OutboxParked {
		return events.OutboxParked{N: 1, Cause: events.ParkOperator, Attempts: attempts, Text: "the broker is being replaced"}
	}
	got := decide(t, givenRegister(events.KindDispatch, claimedRegister()[:1]...), park())
	require.Equal(t, []events.Event{parked(0)}, got)
	r := givenRegister(events.KindDispatch, and(claimedRegister()[:1], then(second, got)...)...)
	require.Equal(t, RegisterParked, r.Status)
	require.Equal(t, "the broker is being replaced", r.LastText)

	waiting := and(claimedRegister(), at(0, released(1, tokenA, events.ReleasePublishUnknown, 0, true)), at(second, armed(2, minute)))
	got = decide(t, givenRegister(events.KindDispatch, waiting...), park())
	require.Equal(t, []events.Event{parked(1)}, got)
	r = givenRegister(events.KindDispatch, and(waiting, then(second, got)...)...)
	require.Equal(t, RegisterPending, r.Status)
	require.Equal(t, 2, r.Current)
	require.Empty(t, requireRefused(t, r, park(), ErrConflict), "the number that the operator saw is parked already")
}

// O-21: what is claimed may be with a broker; what is at rest or over has nothing to park.
func TestOnlyWhatIsPendingIsParked(t *testing.T) {
	idle := and(claimedRegister(), at(second, published(1, tokenA)))
	for name, hs := range map[string][]happening{"never armed": nil, "claimed": claimedRegister(), "idle": idle, "parked": parkedRegister()} {
		require.Empty(t, requireRefused(t, givenRegister(events.KindDispatch, hs...), park(), ErrConflict), name)
	}
	over := park()
	over.Over = true
	require.Empty(t, requireRefused(t, givenRegister(events.KindDispatch, claimedRegister()[:1]...), over, ErrConflict))
	post := park()
	post.Kind, post.Mode = events.KindPostSync, events.AtMostOnce
	require.Empty(t, requireRefused(t, givenRegister(events.KindPostSync, claimedRegister()[:1]...), post, ErrConflict),
		"nothing could redrive it")
}

// O-18, O-S8, O-2, SC-031: a redrive opens the next number now, with no attempt used; the parked one closes with it (K-1).
func TestARedriveOpensTheNextNumber(t *testing.T) {
	for name, hs := range map[string][]happening{
		"by an operator": parkedRegister(),
		"spent": and(claimedRegister(), at(0, released(1, tokenA, events.ReleaseRefused, 0, true)),
			at(0, events.OutboxParked{N: 1, Cause: events.ParkAttempts, Attempts: 1})),
	} {
		t.Run(name, func(t *testing.T) {
			got := decide(t, givenRegister(events.KindDispatch, hs...), redrive(minute))
			require.Equal(t, []events.Event{events.OutboxArmed{
				N: 2, AvailableAt: t0.Add(minute), Cause: events.ArmRedriven, Reason: "it is back",
			}}, got)
			r := givenRegister(events.KindDispatch, and(hs, then(minute, got)...)...)
			require.Equal(t, RegisterPending, r.Status)
			require.Equal(t, [4]int{2, 0, 0, 0}, [4]int{r.Current, r.Closed, r.Attempts, r.Next})
			require.False(t, r.MaybePublished)
			require.Empty(t, requireRefused(t, r, redrive(minute), ErrConflict), "it is parked no more")
		})
	}
}

// O-18, SC-070: what is not parked, what is owed no more, and what is delivered at most once is not redriven.
func TestWhatIsNotRedriven(t *testing.T) {
	for name, hs := range map[string][]happening{"never armed": nil, "pending": claimedRegister()[:1], "claimed": claimedRegister()} {
		require.Empty(t, requireRefused(t, givenRegister(events.KindDispatch, hs...), redrive(0), ErrConflict), name)
	}
	over := redrive(0)
	over.Over = true
	require.Empty(t, requireRefused(t, givenRegister(events.KindDispatch, parkedRegister()...), over, ErrConflict))
	post := redrive(0)
	post.Kind, post.Mode = events.KindPostSync, events.AtMostOnce
	for _, hs := range [][]happening{markedFor(outcome("a", events.Unknown), outcome("b", events.Unknown)), markedFor(), parkedRegister()} {
		require.Empty(t, requireRefused(t, givenRegister(events.KindPostSync, hs...), post, ErrConflict))
	}
}

// O-17, O-S10, K-8, SC-054: each unknown target is resolved by itself; the last ends the wait, and nothing is sent.
func TestEachUnknownTargetIsResolvedByItself(t *testing.T) {
	hs := markedFor(outcome("a", events.Unknown), outcome("b", events.Unknown))
	first := decide(t, givenRegister(events.KindPostSync, hs...), resolve("b", events.ResolvedDelivered))
	require.Equal(t, []events.Event{events.OutboxResolved{
		N: 1, Target: "b", Outcome: events.ResolvedDelivered, Actor: "ada", Reason: "asked the receiver",
	}}, first)
	hs = and(hs, then(minute, first)...)
	r := givenRegister(events.KindPostSync, hs...)
	require.Equal(t, RegisterUnresolved, r.Status)
	require.Empty(t, requireRefused(t, r, resolve("b", events.ResolvedLost), ErrConflict), "the first word stands")

	hs = and(hs, then(minute, decide(t, r, resolve("a", events.ResolvedLost)))...)
	r = givenRegister(events.KindPostSync, hs...)
	require.Equal(t, RegisterIdle, r.Status)
	require.Equal(t, 1, r.Closed)
	require.Equal(t, []Resolution{
		{"b", events.ResolvedDelivered, "ada", "asked the receiver"}, {"a", events.ResolvedLost, "ada", "asked the receiver"},
	}, r.Resolved)
	requireNothing(t, r, ArmWakeup{Owner: theRun, Kind: events.KindPostSync, Mode: events.AtMostOnce, At: t0, Cause: events.ArmMaterialized})
}

// O-17, SC-055: what is not unresolved is not resolved: no word is wanted, or an outcome may still come.
func TestOnlyWhatIsUnresolvedIsResolved(t *testing.T) {
	for name, hs := range map[string][]happening{
		"never armed": nil, "pending": claimedRegister()[:1], "claimed": claimedRegister(),
		"marked":              markedFor(outcome("a", events.Unknown)),
		"all are known":       markedFor(outcome("a", events.Refused), outcome("b", events.Accepted)),
		"the target is known": markedFor(outcome("a", events.Accepted), outcome("b", events.Unknown)),
	} {
		require.Empty(t, requireRefused(t, givenRegister(events.KindPostSync, hs...), resolve("a", events.ResolvedLost), ErrConflict), name)
	}
	unknown := givenRegister(events.KindPostSync, markedFor(outcome("a", events.Unknown), outcome("b", events.Unknown))...)
	require.Empty(t, requireRefused(t, unknown, resolve("c", events.ResolvedLost), ErrConflict), "no such target")
}

// O-12: of a late outcome and a resolve the log decides: behind the last outcome only the operator has a word.
func TestALateOutcomeDoesNotUndoAResolve(t *testing.T) {
	hs := markedFor(outcome("a", events.Unknown), outcome("b", events.Accepted))
	requireNothing(t, givenRegister(events.KindPostSync, hs...), record("a", events.Accepted, ""))
	hs = and(hs, then(minute, decide(t, givenRegister(events.KindPostSync, hs...), resolve("a", events.ResolvedLost)))...)
	requireNothing(t, givenRegister(events.KindPostSync, hs...), record("a", events.Accepted, ""))
}

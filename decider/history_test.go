package decider

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/events"
)

// Rules are tested in three steps: given is a stream folded from events, when is one command, then is what it decides.

const (
	t0 = events.Micros(1_772_438_400_000_000) // 2026-03-02T08:00:00Z

	micro  = events.Span(1)
	second = 1_000_000 * micro
	minute = 60 * second
	hour   = 60 * minute
)

var (
	theRun  = events.RunID{0: 1, 15: 1}
	theUnit = events.UnitID{0: 1, 15: 2}
	theJob  = events.JobID{0: 1, 15: 3}
	nodeA   = events.NodeID{0: 1, 15: 0xA}
	nodeB   = events.NodeID{0: 1, 15: 0xB}
)

// happening is an event at its time, by the node that wrote it.
type happening struct {
	at    events.Micros
	node  events.NodeID
	event events.Event
}

// at is something that node A wrote so long after t0.
func at(after events.Span, e events.Event) happening {
	return happening{at: t0.Add(after), node: nodeA, event: e}
}

// by is the same thing, written by another node.
func (h happening) by(n events.NodeID) happening {
	h.node = n
	return h
}

// and is a history with more behind it; the shorter one stays what it is.
func and(hs []happening, more ...happening) []happening {
	return append(hs[:len(hs):len(hs)], more...)
}

// history is a stream as the store would hold it.
func history(id events.StreamID, hs ...happening) []events.Envelope {
	log := make([]events.Envelope, len(hs))
	for i, h := range hs {
		log[i] = events.Envelope{
			Position: events.Position(i + 1), Tx: events.Position(i + 1), Stream: id, Version: events.Version(i + 1),
			At: h.at, Meta: events.Meta{Node: h.node}, Event: h.event,
		}
	}
	return log
}

func givenUnit(hs ...happening) Unit {
	id := events.UnitStream(theUnit)
	return Fold(id, history(id, hs...)).(Unit)
}

func givenRun(hs ...happening) Run {
	id := events.RunStream(theRun)
	return Fold(id, history(id, hs...)).(Run)
}

func givenRegister(k events.Kind, hs ...happening) Register {
	id := events.RegisterStream(theRun, k)
	return Fold(id, history(id, hs...)).(Register)
}

func givenJob(hs ...happening) Job {
	id := events.JobStream(theJob)
	return Fold(id, history(id, hs...)).(Job)
}

func givenNode(hs ...happening) Node {
	id := events.NodeStream(nodeA)
	return Fold(id, history(id, hs...)).(Node)
}

// then is what a command decides, as the next happenings of its stream.
func then(after events.Span, decided []events.Event) []happening {
	hs := make([]happening, len(decided))
	for i, e := range decided {
		hs[i] = at(after, e)
	}
	return hs
}

// decide is what a command decides when nobody is refused.
func decide(t testing.TB, s State, c Command) []events.Event {
	t.Helper()
	got, rejection := Decide(s, c)
	require.Nil(t, rejection)
	return got
}

// requireNothing: nothing to do is success.
func requireNothing(t testing.TB, s State, c Command) {
	t.Helper()
	got, rejection := Decide(s, c)
	require.Nil(t, rejection)
	require.Empty(t, got)
}

// requireRefused: the caller no longer holds what it thinks it holds. It returns the record of the refusal, if any.
func requireRefused(t testing.TB, s State, c Command, want error) []events.Event {
	t.Helper()
	got, rejection := Decide(s, c)
	require.NotNil(t, rejection)
	require.ErrorIs(t, rejection, want)
	require.Equal(t, c.Name(), rejection.Command)
	require.NotEmpty(t, rejection.Reason)
	return got
}

// The usual unit: a backfill of Linear's work items, which the shipped policy may try again.
var thePlan = events.UnitPlanned{
	Run: theRun, Ordinal: 1, Source: "team", Provider: "linear", Dataset: "work-items",
	Tier: events.TierWorkItem, Cost: events.CostMedium, Mode: events.Backfill,
	Window:   events.NewWindow(t0.Time().AddDate(0, 0, -14), t0.Time()),
	Surfaces: []string{"work-items", "work-item-labels"},
}

const (
	lease      = minute
	lifetime   = hour
	staleAfter = 15 * minute
	tokenA     = events.Token("token-a")
	tokenB     = events.Token("token-b")
)

func dispatched(n, attempt, wakeup int, cause events.DispatchCause) events.UnitDispatched {
	return events.UnitDispatched{Dispatch: n, Wakeup: wakeup, Attempt: attempt, Cause: cause, Bucket: "linear/medium"}
}

// claimed is a lease of a minute from a claim so long after t0.
func claimed(after events.Span, attempt int, t events.Token) events.UnitClaimed {
	return events.UnitClaimed{
		Attempt: attempt, Token: t, Worker: "w", LeaseExpiresAt: t0.Add(after + lease), LeaseEndsAt: t0.Add(after + lifetime),
	}
}

// dispatching is a unit dispatched at t0, under wakeup 1.
func dispatching() []happening {
	return []happening{at(-minute, thePlan), at(0, dispatched(1, 1, 1, events.DispatchPlanned))}
}

// running is a unit claimed at t0 by attempt 1 with token A, until t0 + 1 min.
func running() []happening {
	return and(dispatching(), at(0, claimed(0, 1, tokenA)))
}

// retrying is a unit that its worker gave back at t0 + 10 s, due again at t0 + 70 s.
func retrying() []happening {
	return and(running(), at(10*second, events.UnitRetryScheduled{
		Attempt: 1, Token: tokenA, Cause: events.HandedBack, AvailableAt: t0.Add(70 * second), HandBacks: 1,
	}))
}

// ended are the three ways in which a unit ends.
func ended() map[events.UnitStatus][]happening {
	return map[events.UnitStatus][]happening{
		events.UnitHasSucceeded: and(running(), at(second, events.UnitSucceeded{Attempt: 1, Token: tokenA})),
		events.UnitHasFailed:    and(running(), at(second, events.UnitFailed{Attempt: 1, Token: tokenA, Category: events.Auth, By: events.ByWorker})),
		events.UnitIsCancelled:  and(running(), at(second, events.UnitCancelled{Actor: "ada", Reason: "unit_cancelled"})),
	}
}

func plannedRun(units int) events.RunPlanned {
	return events.RunPlanned{
		Job: theJob, Sync: "work", TriggeredBy: events.TriggerManual, Mode: events.Backfill, TotalUnits: units,
		Policy: events.Policy{
			Lease: lease, Lifetime: lifetime, Countdown: minute, RunCap: 16, PostSync: events.AtMostOnce, Targets: []string{"activity", "digest"},
		},
	}
}

func armed(n int, after events.Span) events.OutboxArmed {
	return events.OutboxArmed{N: n, AvailableAt: t0.Add(after), Cause: events.ArmPlanned}
}

// taken is a relay's claim for a minute from so long after t0.
func taken(n, attempt int, t events.Token, after events.Span) events.OutboxClaimed {
	return events.OutboxClaimed{N: n, Token: t, ClaimExpiresAt: t0.Add(after + minute), Attempt: attempt, MessageCount: 1}
}

func published(n int, t events.Token) events.OutboxDispatched {
	return events.OutboxDispatched{N: n, Token: t, Order: events.PublishFirst, Transport: events.TransportLocal, MessageCount: 1}
}

func marked(n int, t events.Token, messages int) events.OutboxDispatched {
	return events.OutboxDispatched{N: n, Token: t, Order: events.MarkFirst, Transport: "nats", MessageCount: messages}
}

// released is a counted release with a backoff of 5 s.
func released(n int, t events.Token, cause events.ReleaseCause, after events.Span, maybe bool) events.OutboxReleased {
	return events.OutboxReleased{
		N: n, Token: t, Cause: cause, AvailableAt: t0.Add(after + 5*second), Counted: true, MaybePublished: maybe,
	}
}

// claimedRegister is wakeup 1, armed and claimed at t0 with token A until t0 + 1 min.
func claimedRegister() []happening {
	return []happening{at(0, armed(1, 0)), at(0, taken(1, 1, tokenA, 0))}
}

package decider

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/events"
)

var theMessage = events.MessageID{0: 1, 15: 5}

func givenTopic(hs ...happening) Topic {
	id := events.AppStream("t")
	return Fold(id, history(id, hs...)).(Topic)
}

func submittedMessage() []happening {
	return []happening{at(0, events.MessageSubmitted{Message: theMessage}).by(events.NodeID{})}
}

func rejected() RejectMessage {
	return RejectMessage{Topic: "t", Message: theMessage, Taken: true, Category: events.InvalidPayload, Text: "no"}
}

func imported(s Imported) ImportWakeup {
	return ImportWakeup{Owner: events.RunID(theMessage), At: t0, Available: t0.Add(minute), State: s, Token: tokenA, Text: "20 attempts"}
}

// J-3, M-2: a message is added once, and is over once.
func TestAMessageIsAddedOnceAndOverOnce(t *testing.T) {
	submit := SubmitMessage{Topic: "t", Message: events.MessageSubmitted{Message: theMessage, Key: "k"}}
	require.Equal(t, []events.Event{submit.Message}, decide(t, Topic{}, submit))
	other := events.MessageID{0: 1, 15: 6}
	for name, tt := range map[string]struct {
		given []happening
		want  MessageStatus
	}{
		"open":     {submittedMessage(), MessageOpen},
		"handled":  {and(submittedMessage(), at(1, events.MessageHandled{Message: theMessage})), MessageHandled},
		"rejected": {and(submittedMessage(), at(1, events.MessageRejected{Message: theMessage})), MessageRejected},
	} {
		given := givenTopic(and([]happening{at(0, events.MessageSubmitted{Message: other})}, tt.given...)...)
		require.Equal(t, tt.want, given.Message(theMessage).Status, name)
		require.Equal(t, MessageOpen, given.Message(other).Status, name)
		requireNothing(t, given, submit)
		if tt.want != MessageOpen {
			requireNothing(t, given, rejected())
		}
	}
}

// M-8, M-11, J-3: a message that was taken by a relay can be rejected; one that was never submitted or published cannot.
func TestAPublishedMessageCanBeRejected(t *testing.T) {
	require.Equal(t, []events.Event{events.MessageRejected{Message: theMessage, Category: events.InvalidPayload, Text: "no"}},
		decide(t, givenTopic(submittedMessage()...), rejected()))
	requireNothing(t, Topic{}, rejected())
	untaken := rejected()
	untaken.Taken = false
	requireNothing(t, givenTopic(submittedMessage()...), untaken)
}

// M-1, L-3: the transaction that submits a message arms it, at once or for its own time.
func TestASubmittedMessageIsArmed(t *testing.T) {
	for available, want := range map[events.Micros]events.Micros{0: t0, t0 - 1: t0, t0.Add(hour): t0.Add(hour)} {
		env := history(events.AppStream("t"), at(0, events.MessageSubmitted{Message: theMessage, AvailableAt: available}))[0]
		require.Equal(t, []Command{ArmWakeup{
			Owner: events.RunID(theMessage), Kind: events.KindMessage, At: want, Cause: events.ArmMessage,
		}}, React(env, Topic{}, nil))
	}
}

// M-11, O-S7c, O-S8: a consumer gives up a message wherever its delivery finds the register, and a redrive begins anew. What was
// surely never published, what is over, and what waits for a person already, is left alone.
func TestAMessageWhoseConsumerFailsIsParked(t *testing.T) {
	fail := FailMessage{Owner: theMessage, Text: "no"}
	claimed := []happening{at(0, armed(1, 0)), at(0, taken(1, 1, tokenA, 0))}
	closed := and(claimed, at(second, published(1, tokenA)))
	maybe := and(claimed, at(second, released(1, tokenA, events.ReleaseClaimExpired, second, true)))
	for name, given := range map[string][]happening{"closed": closed, "claimed": claimed, "may be published": maybe} {
		before := givenMessageRegister(given...)
		got := decide(t, before, fail)
		require.Equal(t, []events.Event{
			events.OutboxParked{N: 1, Cause: events.ParkHandlerFailed, Attempts: before.Attempts, Text: "no"},
		}, got, name)
		given = and(given, then(minute, got)...)
		parked := givenMessageRegister(given...)
		require.Equal(t, RegisterParked, parked.Status, name)
		requireNothing(t, parked, fail)
		gone := Redrive{Now: t0.Add(hour), CloserGone: true}
		require.False(t, gone.Materialize(events.KindMessage, parked), "%s: a person's", name)
		again := decide(t, parked, RedriveWakeup{Owner: theMessage, Kind: events.KindMessage, At: t0.Add(hour)})
		require.Equal(t, []events.Event{events.OutboxArmed{N: 2, AvailableAt: t0.Add(hour), Cause: events.ArmRedriven}}, again, name)
		require.Equal(t, RegisterPending, givenMessageRegister(and(given, then(hour, again)...)...).Status, name)
	}
	over := fail
	over.Over = true
	requireNothing(t, givenMessageRegister(closed...), over)
	requireNothing(t, givenMessageRegister(), fail)
	requireNothing(t, givenMessageRegister(at(0, armed(1, 0))), fail)
}

// M-11, O-9: a consumer that is faster than the mark takes nothing from the relay: the mark finds that it is done.
func TestAMarkBehindAConsumerThatGaveUpIsNothing(t *testing.T) {
	given := []happening{at(0, armed(1, 0)), at(0, taken(1, 1, tokenA, 0))}
	given = and(given, then(second, decide(t, givenMessageRegister(given...), FailMessage{Owner: theMessage}))...)
	late := MarkWakeup{Owner: events.RunID(theMessage), Kind: events.KindMessage, At: t0.Add(second), N: 1, Token: tokenA}
	requireNothing(t, givenMessageRegister(given...), late)
	late.Token = tokenB
	require.Empty(t, requireRefused(t, givenMessageRegister(given...), late, ErrClaimLost))
}

func givenMessageRegister(hs ...happening) Register {
	id := events.MessageStream(theMessage)
	return Fold(id, history(id, hs...)).(Register)
}

// Section 7, REC-11, O-18: a message is armed once; behind that by an operator, and by the materialization that has found
// it dead in a process. Nothing else arms it again.
func TestAMessageIsArmedAgainByRedriveOnly(t *testing.T) {
	claimed := []happening{at(0, armed(1, 0)), at(0, taken(1, 1, tokenA, 0))}
	parked := and(claimed, at(0, released(1, tokenA, events.ReleaseRefused, 0, false)), at(0, events.OutboxParked{N: 1, Cause: events.ParkAttempts}))
	for name, given := range map[string][]happening{"idle": and(claimed, at(second, published(1, tokenA))), "parked": parked} {
		for cause, again := range map[events.ArmCause]bool{events.ArmMessage: false, events.ArmMaterialized: true, events.ArmRedriven: true} {
			c := ArmWakeup{Owner: events.RunID(theMessage), Kind: events.KindMessage, At: t0.Add(minute), Cause: cause}
			got := decide(t, givenMessageRegister(given...), c)
			if again {
				require.Equal(t, []events.Event{events.OutboxArmed{N: 2, AvailableAt: t0.Add(minute), Cause: cause}}, got, name)
			} else {
				require.Empty(t, got, name)
			}
		}
	}
}

// REC-11, N-3: what makes an in-process message lost. A broker keeps its own; a parked one is a person's.
func TestAMessageThatDiedInAProcessIsLost(t *testing.T) {
	closed := func(transport string) Register {
		p := published(1, tokenA)
		p.Transport = transport
		return givenMessageRegister(at(0, armed(1, 0)), at(0, taken(1, 1, tokenA, 0)), at(second, p))
	}
	local := closed(events.TransportLocal)
	gone := Redrive{Now: t0.Add(minute), Stale: staleAfter, CloserGone: true}
	shared := Redrive{Now: local.LastClosedAt.Add(staleAfter), Stale: staleAfter, CloserShared: true}
	early := shared
	early.Now--
	for i, tt := range []struct {
		redrive  Redrive
		register Register
		want     bool
	}{
		{gone, local, true}, {gone, closed("nats"), false}, {gone, Register{}, false},
		{gone, givenMessageRegister(at(0, armed(1, 0))), false},
		{Redrive{Now: t0.Add(24 * hour), Stale: staleAfter}, local, false},
		{shared, local, true}, {early, local, false}, {shared, closed("nats"), false},
	} {
		require.Equal(t, tt.want, tt.redrive.Materialize(events.KindMessage, tt.register), "%d", i)
	}
}

// M-7, O-14, I-30: whatever an older outbox has left, the register is in a state that a scan selects or a person sees.
func TestATakenOverMessageIsInNoForgottenState(t *testing.T) {
	for state, want := range map[Imported]struct {
		status RegisterStatus
		at     events.Micros
		cause  string
	}{
		ImportPending:    {RegisterPending, t0.Add(minute), ""},
		ImportInProgress: {RegisterPending, t0.Add(minute), "migration_no_claim_time"},
		ImportSpent:      {RegisterParked, 0, "operator"},
	} {
		r := givenMessageRegister(then(0, decide(t, Register{}, imported(state)))...)
		require.Equal(t, want.status, r.Status, state)
		require.Equal(t, want.at, r.AvailableAt, state)
		require.Equal(t, want.cause, r.LastCause, state)
		require.Zero(t, r.Attempts, state)
		requireNothing(t, r, imported(state))
	}
	past := imported(ImportPending)
	past.Available = 1
	require.Equal(t, t0, decide(t, Register{}, past)[0].(events.OutboxArmed).AvailableAt)
}

// M-7: what is taken over together does not come back together: no tenth of the span holds much more than its share.
func TestWhatIsTakenOverIsSpread(t *testing.T) {
	const over, n = 300 * second, 10_000
	var tenths [10]int
	for i := range n {
		d := Spread(fmt.Sprint("old/", i), over)
		require.GreaterOrEqual(t, d, events.Span(0))
		require.Less(t, d, over)
		require.Equal(t, d, Spread(fmt.Sprint("old/", i), over))
		tenths[d*10/over]++
	}
	for _, count := range tenths {
		require.InDelta(t, n/10, count, n/50)
	}
	require.Zero(t, Spread("x", 0))
}

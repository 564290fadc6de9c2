package decider

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/events"
)

func arm(after events.Span) ArmWakeup {
	return ArmWakeup{Owner: theRun, Kind: events.KindDispatch, At: t0.Add(after), Cause: events.ArmPlanned}
}

// O-1, O-2, O-3, SC-001: the first wish is number 1, pending at the time asked for, with no attempt used.
func TestTheFirstArmIsNumberOne(t *testing.T) {
	got := decide(t, givenRegister(events.KindDispatch), arm(second))
	require.Equal(t, []events.Event{armed(1, second)}, got)
	r := givenRegister(events.KindDispatch, then(0, got)...)
	require.Equal(t, RegisterPending, r.Status)
	require.Zero(t, r.Attempts)
	require.Equal(t, [16]byte(theRun), r.Owner)

	fresh := arm(second)
	fresh.New = true
	require.True(t, fresh.Fresh())
	require.False(t, arm(second).Fresh())
}

// O-4, O-6, SC-003 to SC-012, SC-368: what a wish appends, by the state of the register.
func TestAWishIsNeverSwallowedAndNeverTravelsUnderAKnownId(t *testing.T) {
	waiting := and(claimedRegister(), at(second, armed(2, minute)))
	unknown := and(claimedRegister(), at(second, released(1, tokenA, events.ReleasePublishUnknown, second, true)))
	refused := and(claimedRegister(), at(second, released(1, tokenA, events.ReleaseRefused, second, false)))
	shed := and(claimedRegister(), at(second, events.OutboxReleased{N: 1, Token: tokenA, Cause: events.ReleaseShed, AvailableAt: t0.Add(minute)}))
	for name, tt := range map[string]struct {
		given []happening
		after events.Span
		want  int // number; 0: nothing is appended
	}{
		"pending, later":                          {[]happening{at(0, armed(1, minute))}, 90 * second, 0},
		"pending, the same time":                  {[]happening{at(0, armed(1, minute))}, minute, 0},
		"pending, a microsecond earlier":          {[]happening{at(0, armed(1, minute))}, minute - micro, 1},
		"idle, its old time is not kept (SC-004)": {and(claimedRegister(), at(second, published(1, tokenA))), hour, 2},
		"idle after a drop":                       {and(claimedRegister(), at(second, events.OutboxDropped{N: 1, Token: tokenA})), 0, 2},
		"claimed (SC-005)":                        {claimedRegister(), hour, 2},
		"claimed, one waits, later (SC-010)":      {waiting, minute, 0},
		"claimed, one waits, earlier":             {waiting, minute - micro, 2},
		"backoff is a floor (SC-011)":             {refused, 2 * second, 0},
		"a far backoff too":                       {refused, 0, 0},
		"later than a backoff":                    {refused, hour, 0},
		"an uncounted release is no floor":        {shed, second, 1},
		"perhaps published (SC-008)":              {unknown, 0, 2},
		"perhaps published, one waits":            {and(unknown, at(second, armed(2, minute))), minute, 0},
		"perhaps published, one waits, earlier":   {and(unknown, at(second, armed(2, minute))), second, 2},
		"parked (SC-012)":                         {and(refused, at(second, events.OutboxParked{N: 1, Cause: events.ParkAttempts})), minute, 2},
	} {
		t.Run(name, func(t *testing.T) {
			var want []events.Event
			if tt.want > 0 {
				want = []events.Event{armed(tt.want, tt.after)}
			}
			require.Equal(t, want, decide(t, givenRegister(events.KindDispatch, tt.given...), arm(tt.after)))
		})
	}
}

// K-3, SC-008: the wish behind a number that a broker may know is published under an id of its own.
func TestTheWaitingWishHasAnIdOfItsOwn(t *testing.T) {
	hs := and(claimedRegister(), at(second, released(1, tokenA, events.ReleasePublishUnknown, second, true)), at(second, armed(2, second)))
	hs = and(hs, at(minute, taken(1, 2, tokenA, minute)), at(minute, published(1, tokenA)))
	r := givenRegister(events.KindDispatch, hs...)
	require.Equal(t, 2, r.Current)
	require.NotEqual(t, MessageID(theRun, events.KindDispatch, 1), MessageID(theRun, events.KindDispatch, r.Current))
}

// O-S1, I-13, SC-062: post_sync at most once has one wakeup in its life, whatever became of it.
func TestPostSyncIsArmedOnce(t *testing.T) {
	c := ArmWakeup{Owner: theRun, Kind: events.KindPostSync, Mode: events.AtMostOnce, At: t0, Cause: events.ArmFinalized}
	require.Len(t, decide(t, givenRegister(events.KindPostSync), c), 1)
	marked := and(claimedRegister(), at(second, marked(1, tokenA, 1)))
	for name, given := range map[string][]happening{
		"pending":    {at(0, armed(1, hour))},
		"claimed":    claimedRegister(),
		"released":   and(claimedRegister(), at(second, released(1, tokenA, events.ReleaseClaimExpired, second, false))),
		"marked":     marked,
		"delivered":  and(marked, at(second, outcome("", events.Accepted))),
		"lost":       and(marked, at(second, outcome("", events.Refused))),
		"unresolved": and(marked, at(second, outcome("", events.Unknown))),
	} {
		t.Run(name, func(t *testing.T) { requireNothing(t, givenRegister(events.KindPostSync, given...), c) })
	}
}

package decider

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/events"
)

// lostTimes is a message with which so many processes have died: with the mark, and without it, in turn.
func lostTimes(n int) []happening {
	hs := []happening{at(0, armed(1, 0))}
	for i, wakeup := 0, 1; i < n; i++ {
		hs = and(hs, at(0, taken(wakeup, 1, tokenA, 0)))
		if i%2 == 1 {
			hs = and(hs, at(0, released(wakeup, tokenA, events.ReleaseIncarnationGone, 0, true)))
			continue
		}
		wakeup++
		hs = and(hs, at(0, published(wakeup-1, tokenA)),
			at(0, events.OutboxArmed{N: wakeup, AvailableAt: t0, Cause: events.ArmMaterialized, Died: true}))
	}
	return hs
}

// M-16: the log counts with how many processes in a row a message was lost, before and behind its mark. A clean stop is none,
// and a redrive begins anew.
func TestTheLogCountsTheProcessesThatDiedWithAMessage(t *testing.T) {
	for n := range 5 {
		r := givenMessageRegister(lostTimes(n)...)
		require.Equal(t, n, r.Lost)
		require.Equal(t, n >= 2, r.Suspect())
	}
	stopped := and(lostTimes(0), at(0, taken(1, 1, tokenA, 0)), at(0, published(1, tokenA)),
		at(0, events.OutboxArmed{N: 2, AvailableAt: t0, Cause: events.ArmMaterialized}))
	require.Zero(t, givenMessageRegister(stopped...).Lost)
	again := and(lostTimes(3), at(0, events.OutboxParked{N: 2, Cause: events.ParkCrashSuspect}),
		at(0, events.OutboxArmed{N: 3, AvailableAt: t0, Cause: events.ArmRedriven}))
	require.Zero(t, givenMessageRegister(again...).Lost)
}

// M-16, O-15, O-S7d: at its claim a message is parked with which too many processes have died, unless it is over. What goes to a
// broker is not bounded by that.
func TestAMessageThatTakesTooManyProcessesWithItIsParked(t *testing.T) {
	c := take(minute)
	c.Kind, c.MaxAttempts, c.MaxLosses = events.KindMessage, 20, 3
	require.IsType(t, events.OutboxClaimed{}, decide(t, givenMessageRegister(lostTimes(2)...), c)[0])
	given := givenMessageRegister(lostTimes(3)...)
	got := decide(t, given, c)
	require.Equal(t, []events.Event{events.OutboxParked{
		N: given.Current, Cause: events.ParkCrashSuspect, Attempts: given.Attempts, Text: "3 processes in a row have died with it",
	}}, got)
	over := c
	over.Drop = events.DropNothingOwed
	require.IsType(t, events.OutboxDropped{}, decide(t, given, over)[1])
	c.MaxLosses = 0
	require.IsType(t, events.OutboxClaimed{}, decide(t, given, c)[0])
}

package decider

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/events"
)

func step(number int, forward events.Span) NoteStep {
	return NoteStep{Node: nodeA, Number: number, Before: t0, After: t0.Add(forward)}
}

// confirm is an operator's word on a clock that lies so far behind.
func confirm(behind events.Span) ConfirmClock {
	return ConfirmClock{Node: nodeA, At: t0, Wall: t0.Add(-behind), Bound: 30 * second, Actor: "ada", Reason: "the other one was wrong"}
}

// CLK-3: each step of an incarnation is recorded once, in order, with what it leaves to the leases.
func TestAStepIsRecordedOnce(t *testing.T) {
	up := []happening{at(0, events.NodeStarted{})}
	first := step(1, hour)
	first.GraceUntil = t0.Add(hour + minute)
	got := decide(t, givenNode(up...), first)
	require.Equal(t, []events.Event{events.ClockStepped{Before: t0, After: t0.Add(hour), GraceUntil: t0.Add(hour + minute)}}, got)
	requireNothing(t, givenNode(up...), step(2, hour))

	up = and(up, then(hour, got)...)
	requireNothing(t, givenNode(up...), first)
	require.Equal(t, []events.Event{events.ClockStepped{Before: t0, After: t0.Add(-hour)}}, decide(t, givenNode(up...), step(2, -hour)))
	require.Equal(t, 1, givenNode(up...).Steps)
}

// CLK-3, N-1: an incarnation that is not up has no clock.
func TestAStepOfAnIncarnationThatIsNotUp(t *testing.T) {
	for _, c := range []Command{step(1, hour), confirm(hour)} {
		requireNothing(t, givenNode(), c)
		requireNothing(t, givenNode(at(0, events.NodeStarted{}), at(second, events.NodeStopped{})), c)
	}
}

// CLK-7: an operator's word is recorded with who and why, while there is something to confirm: the clock is behind by
// more than the bound, and by more than the bound beyond what is confirmed already. It is no step.
func TestAnOperatorConfirmsTheClock(t *testing.T) {
	up := []happening{at(0, events.NodeStarted{})}
	requireNothing(t, givenNode(up...), confirm(30*second))
	requireNothing(t, givenNode(up...), confirm(-hour))
	require.Len(t, decide(t, givenNode(up...), confirm(30*second+micro)), 1)
	got := decide(t, givenNode(up...), confirm(hour))
	require.Equal(t, []events.Event{events.ClockStepped{
		Before: t0, After: t0.Add(-hour), Actor: "ada", Reason: "the other one was wrong",
	}}, got)

	require.Zero(t, givenNode(and(up, then(second, got)...)...).Steps)
	known := confirm(hour + 30*second)
	known.Confirmed = hour
	requireNothing(t, givenNode(up...), known)
	known.Wall--
	require.Len(t, decide(t, givenNode(up...), known), 1)
}

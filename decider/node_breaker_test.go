package decider

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/events"
)

func opened(transport string, until events.Span) events.BreakerOpened {
	return events.BreakerOpened{
		Transport: transport, Cause: "no route", Until: t0.Add(until), Kinds: []events.Kind{events.KindDispatch},
	}
}

func nodeUp(hs ...happening) []happening { return and([]happening{at(0, events.NodeStarted{})}, hs...) }

// O-16: each transport has a breaker of its own, which opens, opens anew for longer, and closes.
func TestABreakerOpensAnewAndCloses(t *testing.T) {
	hs := nodeUp()
	for _, c := range []Command{
		OpenBreaker{Node: nodeA, Opened: opened("nats", 10*second)},
		OpenBreaker{Node: nodeA, Opened: opened("redis", 10*second)},
		OpenBreaker{Node: nodeA, Opened: opened("nats", 30*second)},
		CloseBreaker{Node: nodeA, Closed: events.BreakerClosed{Transport: "redis"}},
	} {
		got := decide(t, givenNode(hs...), c)
		require.Len(t, got, 1)
		hs = and(hs, then(events.Span(len(hs))*second, got)...)
		requireNothing(t, givenNode(hs...), c)
	}
	require.Equal(t, []Breaker{{
		Transport: "nats", Cause: "no route", Since: t0.Add(second), Until: t0.Add(30 * second), Kinds: []events.Kind{events.KindDispatch},
	}}, givenNode(hs...).Breakers, "since it opened first")
}

// O-16: what is closed is not closed again, an older word opens nothing, and a node that is not up has no breaker.
func TestABreakerDoesNothingTwice(t *testing.T) {
	closing := CloseBreaker{Node: nodeA, Closed: events.BreakerClosed{Transport: "nats"}}
	opening := OpenBreaker{Node: nodeA, Opened: opened("nats", 10*second)}
	requireNothing(t, givenNode(nodeUp()...), closing)
	requireNothing(t, givenNode(nodeUp(at(second, opened("redis", minute)))...), closing)
	requireNothing(t, givenNode(nodeUp(at(second, opened("nats", minute)))...), opening)
	requireNothing(t, givenNode(), opening)
	stopped := nodeUp(at(second, opened("redis", minute)), at(2*second, events.NodeStopped{}))
	requireNothing(t, givenNode(stopped...), opening)
	requireNothing(t, givenNode(stopped...), CloseBreaker{Node: nodeA, Closed: events.BreakerClosed{Transport: "redis"}})
}

package decider

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/events"
)

// N-1, N-4, N-6: a node starts, recovers and stops, each once.
func TestANodeStartsRecoversAndStopsOnce(t *testing.T) {
	start := StartNode{Node: nodeA, Started: events.NodeStarted{Host: "box", StoreMode: events.StoreExclusive}}
	recovered, stop := RecoverNode{Node: nodeA, Recovered: events.NodeRecovered{Leases: 2}}, StopNode{Node: nodeA, Reason: "signal"}
	var hs []happening
	for _, c := range []Command{start, recovered, stop} {
		got := decide(t, givenNode(hs...), c)
		require.Len(t, got, 1, c.Name())
		hs = and(hs, then(second, got)...)
		requireNothing(t, givenNode(hs...), c)
	}
	n := givenNode(hs...)
	require.Equal(t, []any{nodeA, t0.Add(second), t0.Add(second), t0.Add(second), "signal"}, []any{n.ID, n.StartedAt, n.RecoveredAt, n.StoppedAt, n.Reason})
	require.Equal(t, start.Started, n.Started)
	require.Equal(t, recovered.Recovered, n.Recovered)
	require.True(t, start.Fresh())
}

// N-1: nothing of an incarnation comes before its start, and no recovery behind its stop.
func TestANodeThatHasNotStartedOrHasStoppedDoesNothing(t *testing.T) {
	requireNothing(t, givenNode(), RecoverNode{Node: nodeA})
	requireNothing(t, givenNode(), StopNode{Node: nodeA})
	stopped := givenNode(at(0, events.NodeStarted{}), at(second, events.NodeStopped{}))
	requireNothing(t, stopped, RecoverNode{Node: nodeA})
	requireNothing(t, stopped, StartNode{Node: nodeA})
}

package decider

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/events"
)

// CFG-3: a reload is one event with its difference, and one that changes nothing is none.
func TestAReloadIsItsDifference(t *testing.T) {
	up := []happening{at(0, events.NodeStarted{Config: json.RawMessage(`{"cap.run":16,"relay.batch":50}`)})}
	change := ChangeConfig{Node: nodeA, Config: json.RawMessage(`{"cap.buckets":{"git/heavy":2},"cap.run":4,"relay.batch":50}`), Actor: "SIGHUP"}
	got := decide(t, givenNode(up...), change)
	require.Equal(t, []events.Event{
		events.NodeConfigChanged{Changed: json.RawMessage(`{"cap.buckets":{"git/heavy":2},"cap.run":4}`), Actor: "SIGHUP"},
	}, got)
	hs := and(up, then(second, got)...)
	require.JSONEq(t, string(change.Config), string(givenNode(hs...).Config))
	requireNothing(t, givenNode(hs...), change)
	requireNothing(t, givenNode(up...), ChangeConfig{Node: nodeA, Config: json.RawMessage(`{"cap.run":16}`)})
	requireNothing(t, givenNode(), change)
	requireNothing(t, givenNode(and(up, at(second, events.NodeStopped{}))...), change)
}

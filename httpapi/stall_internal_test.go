package httpapi

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/node"
	"github.com/towline-dev/towline/relay"
)

// Surfaces 5.1: no loop counts as stalled before three intervals, however short health.stall_after is, and none before that.
func TestWhenALoopCountsAsStalled(t *testing.T) {
	n, err := node.Open(t.Context(), node.Config{
		Store: filepath.Join(t.TempDir(), "towline.db"), Unsynced: true, Knobs: towline.Knobs{ReconcileInterval: 2 * time.Minute},
	})
	require.NoError(t, err)
	for after, want := range map[time.Duration]time.Duration{0: 6 * time.Minute, 5 * time.Minute: 6 * time.Minute, time.Hour: time.Hour} {
		s, err := New(Config{Node: n, StallAfter: after})
		require.NoError(t, err)
		require.Equal(t, want, s.stallLimit(), "%s", after)
		require.NoError(t, s.Close())
	}
	require.NoError(t, n.Close())
}

// failing is a node of which one loop has failed for long.
type failing struct {
	Node
	loop string
}

func (f failing) Loops() []relay.Loop {
	return []relay.Loop{{Name: f.loop, FailingSince: f.Engine().Now().Time().Add(-time.Hour), Error: "no room"}}
}

// Surfaces 5.1, N-8: a loop that fails makes the node unready, but for the one that archives: everything else works without it.
func TestOnlyTheArchiveMayFailInAReadyNode(t *testing.T) {
	n, err := node.Open(t.Context(), node.Config{Store: filepath.Join(t.TempDir(), "towline.db"), Unsynced: true})
	require.NoError(t, err)
	for loop, want := range map[string]string{node.LoopPrune: "degraded", "reconcile": "unavailable", "relay/local": "unavailable"} {
		s, err := New(Config{Node: failing{n, loop}})
		require.NoError(t, err)
		got := s.readiness(t.Context())
		require.Equal(t, want, got.Status, loop)
		require.Equal(t, "loop_stalled", got.Reasons[0].What, loop)
		require.Equal(t, loop, got.Reasons[0].ID)
		require.Contains(t, got.Reasons[0].Text, "no room")
		require.NoError(t, s.Close())
	}
	require.NoError(t, n.Close())
}

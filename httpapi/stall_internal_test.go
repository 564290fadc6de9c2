package httpapi

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/node"
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

package node_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/internal/enginetest"
	"github.com/towline-dev/towline/node"
	"github.com/towline-dev/towline/projections"
	"github.com/towline-dev/towline/store"
)

// AS-1, AS-4: a past stands beside the store until it is closed, and leaves nothing behind, also where it is refused. It
// ends with its node.
func TestAPastLeavesNothingBehind(t *testing.T) {
	path := filepath.Join(t.TempDir(), "towline.db")
	n, err := node.Open(t.Context(), node.Config{Store: path, Unsynced: true})
	require.NoError(t, err)
	scratches := func() []string {
		found, err := filepath.Glob(path + "-verify-*")
		require.NoError(t, err)
		return found
	}
	head := enginetest.Head(t, n.Engine())
	_, err = n.AsOf(t.Context(), head+1)
	require.ErrorIs(t, err, towline.ErrNotFound)
	require.Empty(t, scratches())

	first, err := n.AsOf(t.Context(), 1)
	require.NoError(t, err)
	second, err := n.AsOf(t.Context(), head)
	require.NoError(t, err)
	require.Len(t, scratches(), 2)
	for past, recovered := range map[*towline.Past]bool{first: false, second: true} {
		require.NoError(t, past.View(t.Context(), func(v projections.View) error {
			nodes, err := v.Nodes(10)
			require.Len(t, nodes, 1)
			require.NoError(t, err)
			history, err := v.Stream(events.NodeStream(nodes[0].Incarnation))
			require.Equal(t, recovered, len(history) == 2)
			return err
		}))
	}
	require.NoError(t, first.Close())
	require.NoError(t, first.Close())
	require.Len(t, scratches(), 1)
	require.NoError(t, n.Close())
	require.ErrorIs(t, second.View(t.Context(), func(v projections.View) error {
		_, err := v.Stream(events.EngineControlStream())
		return err
	}), store.ErrClosed)
	require.NoError(t, second.Close())
	require.Empty(t, scratches())
}

package docs_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/node"
	"github.com/towline-dev/towline/sink"
)

// AS-1, AS-3, AS-6: the program of OPERATING.md tells what happened to a run, and how far it was at a time.
func TestWhatHappenedToARun(t *testing.T) {
	dir := t.TempDir()
	n := open(t, node.Config{Store: filepath.Join(dir, "towline.db"), Syncs: []node.Sync{readings(sink.Discard, writes)}})
	var planned towline.Planned
	var before, after strings.Builder
	while(t, n, func() {
		planned = plan(t, n, towline.RunSpec{Sync: "readings"})
		_, err := n.Engine().Wait(t.Context(), planned.Run)
		require.NoError(t, err)
		require.NoError(t, tell(t.Context(), n, planned.Run, time.Now(), &after))
		require.ErrorIs(t, tell(t.Context(), n, planned.Run, time.Now().Add(-time.Hour), &before), towline.ErrNotFound)
	})
	require.Empty(t, before.String())
	require.Contains(t, after.String(), "run: dispatching → succeeded")
	require.NotContains(t, after.String(), "died")
	var page, early strings.Builder
	require.NoError(t, tellFile(t.Context(), filepath.Join(dir, "towline.db"), planned.Run, 0, &page))
	require.Contains(t, page.String(), "nothing but the plan happened")
	require.ErrorIs(t, tellFile(t.Context(), filepath.Join(dir, "towline.db"), planned.Run, 1, &early), towline.ErrNotFound)
	require.Empty(t, early.String())
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range left {
		require.False(t, e.IsDir(), "%s: the folder of a past goes with it", e.Name())
	}
}

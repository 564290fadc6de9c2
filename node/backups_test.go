package node_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/node"
	"github.com/towline-dev/towline/store/sqlite"
)

// A running node copies its store when the newest copy is old enough, over restarts too, keeps as many as it should, and says
// which is the newest. Each is a good store.
func TestANodeMakesBackups(t *testing.T) {
	dir := t.TempDir()
	store := filepath.Join(dir, "towline.db")
	kept := func() []sqlite.BackupFile {
		all, err := sqlite.Backups(store, filepath.Join(dir, "backup"))
		require.NoError(t, err)
		return all
	}
	run := func(now time.Time, every time.Duration, until func(*node.Node) bool) {
		n, err := node.Open(t.Context(), node.Config{
			Store: store, Syncs: []node.Sync{works(nothingToDo)}, Logger: quiet(), Unsynced: true, Now: func() time.Time { return now },
			Monotonic: func() time.Duration { return now.Sub(before) }, Backups: node.Backups{Every: every, Keep: 2},
		})
		require.NoError(t, err)
		r := start(t, n)
		waitFor(t, n, func() bool { return until(n) })
		r.end()
	}
	at := before.AddDate(1, 0, 0)
	for i := range 3 {
		at = at.Add(time.Hour)
		run(at, time.Hour, func(n *node.Node) bool { return n.BackupState().Newest.Equal(at) && len(kept()) == min(i+1, 2) })
	}
	require.Len(t, kept(), 2)
	require.Equal(t, at, kept()[1].At)
	run(at.Add(59*time.Minute), time.Hour, func(n *node.Node) bool { return n.BackupState().Newest.Equal(at) })
	require.Equal(t, at, kept()[1].At, "it is not old enough")
	_, err := node.Restore(t.Context(), kept()[1].Path, filepath.Join(dir, "restored.db"), node.RestoreOptions{})
	require.NoError(t, err)
}

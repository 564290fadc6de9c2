package node_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/node"
	"github.com/towline-dev/towline/store/sqlite"
)

// A running node copies its store when the newest copy is old enough, over restarts too, keeps as many as it should, and says
// which is the newest. Each is a good store.
func TestANodeMakesBackups(t *testing.T) {
	dir := t.TempDir()
	store := filepath.Join(dir, "towline.db")
	kept := func() []sqlite.BackupFile {
		all, err := sqlite.Backups(t.Context(), store, filepath.Join(dir, "backup"))
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

// A copy that was made while the clock ran ahead holds up the next one for one time between two, however far it ran, and is the
// first to go.
func TestABackupFromTheFutureHoldsUpNone(t *testing.T) {
	dir := t.TempDir()
	store, future := filepath.Join(dir, "towline.db"), time.Now().AddDate(10, 0, 0)
	run := func(now func() time.Time, every time.Duration, until func(node.BackupState) bool) {
		n := start(t, open(t, node.Config{
			Store: store, Syncs: []node.Sync{works(nothingToDo)}, Now: now, Backups: node.Backups{Every: every, Keep: 1},
		}))
		waitFor(t, n.Node, func() bool { return until(n.BackupState()) })
		n.end()
	}
	run(func() time.Time { return future }, time.Hour, func(b node.BackupState) bool { return !b.Newest.IsZero() })
	kept := func() []sqlite.BackupFile {
		all, err := sqlite.Backups(t.Context(), store, filepath.Join(dir, "backup"))
		require.NoError(t, err)
		return all
	}
	require.Len(t, kept(), 1)
	require.Equal(t, 10, kept()[0].At.Year()-time.Now().Year())
	run(time.Now, 1100*time.Millisecond, func(b node.BackupState) bool {
		all := kept()
		return len(all) == 1 && all[0].At.Before(future.AddDate(-1, 0, 0))
	})
}

// DUR-5: while a restored store is held, its node makes backups and removes none: those of the earlier life are what a person
// looks for then.
func TestAHeldStoreKeepsItsBackups(t *testing.T) {
	dir := t.TempDir()
	store, at := filepath.Join(dir, "towline.db"), before.AddDate(1, 0, 0)
	kept := func() []sqlite.BackupFile {
		all, err := sqlite.Backups(t.Context(), store, filepath.Join(dir, "backup"))
		require.NoError(t, err)
		return all
	}
	run := func(until func(*node.Node) bool) {
		at = at.Add(time.Hour)
		n, err := node.Open(t.Context(), node.Config{
			Store: store, Syncs: []node.Sync{works(nothingToDo)}, Logger: quiet(), Unsynced: true, Now: func() time.Time { return at },
			Monotonic: func() time.Duration { return at.Sub(before) }, Backups: node.Backups{Every: time.Hour, Keep: 1},
		})
		require.NoError(t, err)
		r := start(t, n)
		waitFor(t, n, func() bool { return until(n) })
		r.end()
	}
	made := func(n *node.Node) bool { return n.BackupState().Newest.Equal(at) }
	run(made)
	first := kept()[0]
	_, err := node.Restore(t.Context(), first.Path, store, node.RestoreOptions{})
	require.NoError(t, err)
	run(made)
	require.Len(t, kept(), 2)
	require.Equal(t, first.Path, kept()[0].Path)
	run(func(n *node.Node) bool {
		if _, held, err := n.Engine().Hold(t.Context()); err == nil && held {
			_, err = n.Engine().ReleaseHold(t.Context(), towline.Actor{Name: "ada", Reason: "looked"})
			require.NoError(t, err)
		}
		return made(n)
	})
	run(made)
	require.Len(t, kept(), 1)
	require.Equal(t, at, kept()[0].At)
}

// In shared mode the nodes of a store share its backups. One that could not make its own says so only until another node has made
// one, and what a killed process has left in the folder goes with the next.
func TestABackupOfAnotherNodeWillDo(t *testing.T) {
	dir := t.TempDir()
	store, folder, elsewhere := filepath.Join(dir, "towline.db"), filepath.Join(dir, "folder"), t.TempDir()
	require.NoError(t, os.Symlink(filepath.Join(dir, "towline.db"), folder)) // to a file
	now := before.AddDate(1, 0, 0)
	n, err := node.Open(t.Context(), node.Config{
		Store: store, Syncs: []node.Sync{works(nothingToDo)}, Logger: quiet(), Unsynced: true, Now: func() time.Time { return now },
		Monotonic: func() time.Duration { return now.Sub(before) }, Backups: node.Backups{Every: 10 * time.Millisecond, Dir: folder},
	})
	require.NoError(t, err)
	r := start(t, n)
	waitFor(t, n, func() bool { return n.BackupState().Error != "" })
	made := filepath.Join(elsewhere, sqlite.BackupName(store, now))
	_, err = node.Backup(t.Context(), store, made, node.BackupOptions{})
	require.NoError(t, err)
	require.NoError(t, os.Symlink(elsewhere, folder+"-new"))
	require.NoError(t, os.Rename(folder+"-new", folder))
	waitFor(t, n, func() bool { return n.BackupState().Error == "" })
	require.Equal(t, filepath.Join(folder, filepath.Base(made)), n.BackupState().Path)
	r.end()
}

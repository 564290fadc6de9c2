package node_test

import (
	"compress/gzip"
	"context"
	"database/sql"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/node"
	"github.com/towline-dev/towline/store"
	"github.com/towline-dev/towline/store/sqlite"
)

// previousStore unpacks a store of level 1 that was written before there were backups: a run of ten units over two sources,
// which has ended, and a pause of the engine.
func previousStore(t *testing.T) (path string, log []events.Envelope) {
	t.Helper()
	path = unpackPrevious(t)
	return path, logAt(t, path)
}

// unpackPrevious is that store as it was left.
func unpackPrevious(t *testing.T) string {
	t.Helper()
	packed, err := os.Open(filepath.Join("..", "testfixtures", "stores", "level-1.db.gz"))
	require.NoError(t, err)
	defer packed.Close()
	from, err := gzip.NewReader(packed)
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "towline.db")
	to, err := os.Create(path)
	require.NoError(t, err)
	_, err = io.Copy(to, from) //nolint:gosec // the file is ours
	require.NoError(t, err)
	require.NoError(t, to.Close())
	return path
}

// DUR-5, DUR-8: a backup is what was copied: to verify it only reads it, so the copy of a store of an earlier release has no table
// of this one.
func TestABackupIsNotMigrated(t *testing.T) {
	path := unpackPrevious(t)
	copied := filepath.Join(filepath.Dir(path), "copy.db")
	_, err := node.Backup(t.Context(), path, copied, node.BackupOptions{})
	require.NoError(t, err)
	tables := func(path string) (names []string) {
		db, err := sql.Open("sqlite", "file:"+path+"?mode=ro&immutable=1")
		require.NoError(t, err)
		defer func() { require.NoError(t, db.Close()) }()
		rows, err := db.Query(`SELECT type || ' ' || name || ' ' || coalesce(sql, '') FROM sqlite_schema ORDER BY 1`)
		require.NoError(t, err)
		defer rows.Close()
		for rows.Next() {
			var name string
			require.NoError(t, rows.Scan(&name))
			names = append(names, name)
		}
		require.NoError(t, rows.Err())
		return names
	}
	was := tables(path)
	require.NotEmpty(t, was)
	require.Equal(t, was, tables(copied))
	logAt(t, copied)
	require.NotEqual(t, was, tables(copied), "a start adds some, so this test can see it")
}

func logAt(t *testing.T, path string) (log []events.Envelope) {
	t.Helper()
	s, err := sqlite.Open(t.Context(), path, sqlite.Options{})
	require.NoError(t, err)
	require.NoError(t, s.Read(t.Context(), func(r store.Reader) error {
		for e, err := range r.Log(t.Context(), 0) {
			require.NoError(t, err)
			log = append(log, e)
		}
		return nil
	}))
	require.NoError(t, s.Close())
	return log
}

// DUR-7, L-7, L-8: a store that an earlier state of its level has written opens, keeps its log and its level, shows what it
// showed, and goes on; so does a copy of it that is restored.
func TestAStoreOfAnEarlierRelease(t *testing.T) {
	path, before := previousStore(t)
	require.NotEmpty(t, before)
	copied := filepath.Join(filepath.Dir(path), "copy.db")
	_, err := node.Backup(t.Context(), path, copied, node.BackupOptions{})
	require.NoError(t, err)
	restored := filepath.Join(filepath.Dir(path), "restored.db")
	_, err = node.Restore(t.Context(), copied, restored, node.RestoreOptions{})
	require.NoError(t, err)
	for _, path := range []string{path, restored} {
		n, err := node.Open(t.Context(), node.Config{Store: path, Syncs: []node.Sync{works(nothingToDo)}, Logger: quiet(), Unsynced: true})
		require.NoError(t, err)
		requireGood(t, n)
		runs := allRuns(t, n)
		require.Len(t, runs, 1)
		require.Equal(t, events.RunSucceeded, runs[0].Status)
		require.Equal(t, runs[0].Total, runs[0].Succeeded)
		_, err = n.Engine().Plan(context.Background(), towline.RunSpec{Sync: "days"})
		require.NoError(t, err)
		require.NoError(t, n.Close())
		i, err := sqlite.Look(t.Context(), path)
		require.NoError(t, err)
		require.Equal(t, 1, i.Level)
		require.Equal(t, before, logAt(t, path)[:len(before)])
	}
}

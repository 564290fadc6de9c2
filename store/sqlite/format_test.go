package sqlite

import (
	"bytes"
	"context"
	"database/sql"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/store"
)

// folder is every file of a directory but for SQLite's index of a WAL, which is no data.
func folder(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		if filepath.Ext(e.Name()) == ".db-shm" {
			continue
		}
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		require.NoError(t, err)
		out[e.Name()] = string(b)
	}
	return out
}

// makeDB makes a database of another program.
func makeDB(t *testing.T, path string, statements ...string) {
	t.Helper()
	db, err := sql.Open(driverName, "file:"+path)
	require.NoError(t, err)
	for _, s := range statements {
		_, err := db.Exec(s)
		require.NoError(t, err)
	}
	require.NoError(t, db.Close())
}

// DUR-3, DUR-7: what is not a store, or a newer one, is refused in one sentence, and nothing is left of the attempt:
// no changed byte, no WAL, no lock.
func TestForeignFilesAreRefused(t *testing.T) {
	text := func(s string) func(*testing.T, string) {
		return func(t *testing.T, path string) { require.NoError(t, os.WriteFile(path, []byte(s), 0o644)) }
	}
	database := func(statements ...string) func(*testing.T, string) {
		return func(t *testing.T, path string) { makeDB(t, path, statements...) }
	}
	for name, tt := range map[string]struct {
		make func(*testing.T, string)
		says string
	}{
		"a short text":              {text("hello"), "is not an SQLite database"},
		"a long text":               {text(string(bytes.Repeat([]byte("hello "), 1000))), "is not an SQLite database"},
		"a cut header":              {text("SQLite format 3\x00"), "is not an SQLite database"},
		"a database without a name": {database(`CREATE TABLE t (a)`), "is an SQLite database, but not a store of Towline"},
		"the same with a WAL":       {database(`PRAGMA journal_mode = wal`, `CREATE TABLE t (a)`), "is an SQLite database, but not a store of Towline"},
		"another program":           {database(`PRAGMA application_id = 252006673`, `CREATE TABLE t (a)`), "belongs to another program (application id 0xf055111)"},
		"a newer level":             {database(`PRAGMA application_id = 1414485836`, `PRAGMA user_version = 7`), "has format level 7, and this release reads levels 1 to 2: open it with a newer release"},
		"no level":                  {database(`PRAGMA application_id = 1414485836`), "has format level 0"},
	} {
		for mode, o := range map[string]Options{"exclusive": {}, "shared": {Shared: true}} {
			t.Run(name+"/"+mode, func(t *testing.T) {
				path := filepath.Join(t.TempDir(), "towline.db")
				tt.make(t, path)
				before := folder(t, filepath.Dir(path))
				_, err := Open(context.Background(), path, o)
				require.ErrorIs(t, err, store.ErrFormat)
				require.ErrorContains(t, err, path+" "+tt.says)
				require.Equal(t, before, folder(t, filepath.Dir(path)))
			})
		}
	}
}

// DUR-7: the level counts also where a crash left it in the WAL, and that WAL is left as it is.
func TestALevelInTheWALIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "towline.db")
	s := open(t, path, Options{})
	require.NoError(t, appendNext(s, 1))
	require.NoError(t, s.Close())
	c := start(t, "raise", path)
	require.Equal(t, "ready", c.line(t))
	c.kill(t)
	require.Error(t, c.cmd.Wait())
	before := folder(t, filepath.Dir(path))
	require.NotEmpty(t, before["towline.db-wal"])
	_, err := Open(context.Background(), path, Options{})
	require.ErrorIs(t, err, store.ErrFormat)
	require.ErrorContains(t, err, "format level 7")
	after := folder(t, filepath.Dir(path))
	for _, name := range []string{"towline.db", "towline.db-wal"} {
		require.Equal(t, before[name], after[name], name)
	}
}

// What cannot be opened at all is no format error, and names the path.
func TestPathsThatAreNoFile(t *testing.T) {
	dir := t.TempDir()
	for _, path := range []string{dir, filepath.Join(dir, "missing", "towline.db")} {
		_, err := Open(context.Background(), path, Options{})
		require.ErrorContains(t, err, path)
		require.NotErrorIs(t, err, store.ErrFormat)
		require.NotErrorIs(t, err, store.ErrLocked)
	}
}

// DUR-7: a migration that a newer release of the same level has left is no error, and is not undone.
func TestAMigrationOfANewerRelease(t *testing.T) {
	path := filepath.Join(t.TempDir(), "towline.db")
	s := open(t, path, Options{})
	_, err := s.DB().Exec(`INSERT INTO schema_migrations (version_id, is_applied) VALUES (99, 1)`)
	require.NoError(t, err)
	_, err = s.DB().Exec(`ALTER TABLE event_types ADD COLUMN later TEXT`)
	require.NoError(t, err)
	_, err = s.DB().Exec(`INSERT INTO event_types (type, name) VALUES (60000, 'FromTheFuture')`)
	require.NoError(t, err)
	require.NoError(t, s.Close())
	again := open(t, path, Options{})
	require.NoError(t, appendNext(again, 1))
	var name string
	require.NoError(t, again.DB().QueryRow(`SELECT name FROM event_types WHERE type = 60000`).Scan(&name))
	require.Equal(t, "FromTheFuture", name)
}

// DUR-7: a store of an older release lacks the last migration and the names of newer events. Each opening that finds
// something missing makes it.
func TestAStoreOfAnOlderReleaseIsBroughtUpToDate(t *testing.T) {
	for what, older := range map[string]struct{ undo, there string }{
		"a migration": {
			`DROP TRIGGER events_no_delete; DROP TABLE segment_pages; DROP TABLE archived_streams; DROP TABLE segments;
			 CREATE TRIGGER events_no_delete BEFORE DELETE ON events BEGIN SELECT RAISE(ABORT, 'the log is append-only'); END;
			 DELETE FROM schema_migrations WHERE version_id = 6`,
			`SELECT count(*) = 1 FROM sqlite_schema WHERE name = 'segment_pages'`,
		},
		"all migrations but their table": { // a process died before the first of them
			`DROP VIEW log; DROP VIEW feed_groups_view; DROP TABLE events; DROP TABLE event_types; DROP TABLE stream_families; DROP TABLE ulid_digits;
			 DROP TABLE _towline_once; DROP TABLE feed_groups; DROP VIEW restores_view; DROP TABLE restores; DROP TABLE segment_pages; DROP TABLE archived_streams; DROP TABLE segments; DELETE FROM schema_migrations WHERE version_id > 0`,
			`SELECT count(*) = 1 FROM sqlite_schema WHERE name = 'log'`,
		},
		"the name of an event":  {`DELETE FROM event_types WHERE type = 1`, `SELECT count(*) = 1 FROM event_types WHERE type = 1`},
		"a family of streams":   {`DELETE FROM stream_families WHERE prefix LIKE 'run/%'`, `SELECT count(*) = 1 FROM stream_families WHERE prefix LIKE 'run/%'`},
		"nothing, for contrast": {`SELECT 1`, `SELECT count(*) > 0 FROM event_types`},
	} {
		t.Run(what, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "towline.db")
			require.NoError(t, open(t, path, Options{}).Close())
			makeDB(t, path, older.undo)
			s := open(t, path, Options{})
			var there bool
			require.NoError(t, s.DB().QueryRow(older.there).Scan(&there))
			require.True(t, there)
			require.NoError(t, appendNext(s, 1))
			require.Len(t, readAll(t, s), 1)
		})
	}
}

// HC-56: opening a store that is up to date writes nothing.
func TestOpeningWritesNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "towline.db")
	s := open(t, path, Options{})
	require.NoError(t, appendNext(s, 1))
	require.NoError(t, s.Close())
	before := folder(t, filepath.Dir(path))
	again := open(t, path, Options{})
	require.Len(t, readAll(t, again), 1)
	require.NoError(t, again.Write(context.Background(), func(tx store.Tx) error { return nil }))
	require.NoError(t, again.Close())
	after := folder(t, filepath.Dir(path))
	require.Equal(t, before["towline.db"], after["towline.db"])
}

// HC-24: after a clean stop the WAL is empty or gone, also if the application has left connections behind.
func TestTheWALIsGoneAfterClose(t *testing.T) {
	path := filepath.Join(t.TempDir(), "towline.db")
	s := open(t, path, Options{})
	for n := range 20 {
		require.NoError(t, appendNext(s, n))
	}
	require.NoError(t, s.Write(context.Background(), func(tx store.Tx) error {
		require.NoError(t, tx.Exec(`CREATE TABLE t (a INTEGER)`))
		require.NoError(t, tx.Exec(`INSERT INTO t VALUES ($1)`, 1))
		return tx.Query(func(store.Row) error { return nil }, `SELECT a FROM t`)
	}))
	conn, err := s.DB().Conn(context.Background())
	require.NoError(t, err)
	defer conn.Close()
	require.Len(t, readAll(t, s), 20)
	require.NoError(t, s.Close())
	if info, err := os.Stat(path + "-wal"); err == nil {
		require.Zero(t, info.Size())
	}
	require.NotContains(t, folder(t, filepath.Dir(path)), "towline.db-journal")
}

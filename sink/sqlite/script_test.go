package sqlite_test

import (
	"context"
	"database/sql"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

const activity = `
-- one row for each run
CREATE TABLE IF NOT EXISTS activity (month TEXT, readings INTEGER, run TEXT, generation INTEGER);
INSERT INTO activity (month, readings, run, generation)
SELECT substr(window, 1, 7), count(*), :run, :generation
FROM readings
GROUP BY 1;
CREATE TRIGGER IF NOT EXISTS kept BEFORE DELETE ON activity BEGIN SELECT RAISE(ABORT, 'activity is kept'); END;
`

// K-7: a post_sync script is one transaction over any number of statements, and knows run and generation.
func TestAScriptIsOneTransaction(t *testing.T) {
	d := file(t)
	commit(t, d, scope(1, day), 1, "a", "b")
	args := []any{sql.Named("run", "R1"), sql.Named("generation", 3)}
	require.NoError(t, d.Script(context.Background(), activity, args...))
	require.NoError(t, d.Script(context.Background(), activity, args...))
	require.Equal(t, []string{"2024-03|2|R1|3", "2024-03|2|R1|3"}, query(t, d, `SELECT * FROM activity`))

	require.ErrorContains(t, d.Script(context.Background(), activity+`SELECT * FROM missing;`, args...), "no such table")
	require.ErrorContains(t, d.Script(context.Background(), activity), `missing named argument "run"`)
	require.ErrorContains(t, d.Script(context.Background(), activity+`DELETE FROM activity;`, args...), "activity is kept")
	require.Len(t, query(t, d, `SELECT * FROM activity`), 2, "nothing of a script that failed stays")
}

// K-7: a script cannot leave its transaction, reach another file or the settings, or change a table of the sink.
func TestAScriptCannotBreakItsFrame(t *testing.T) {
	const frame, file2, setting = "remove BEGIN, COMMIT and ROLLBACK", "cannot attach another file", "a script cannot set PRAGMA "
	fence, windows, state := "may read _towline_fence and not change it", "may read _towline_windows and not change it", "may read _towline_state and not change it"
	d := file(t)
	commit(t, d, scope(1, day), 1, "a")
	before := query(t, d, `SELECT sql FROM sqlite_schema`)
	for _, tc := range []struct{ script, want string }{
		{`COMMIT; CREATE TABLE y (a)`, frame},
		{`ROLLBACK`, frame},
		{`BEGIN`, frame},
		{`/* */ end`, frame},
		{`ATTACH ':memory:' AS other`, file2},
		{`DETACH main`, file2},
		{`VACUUM`, "cannot VACUUM from within a transaction"},
		{`VACUUM INTO '/dev/null'`, "cannot VACUUM from within a transaction"},
		{`SELECT load_extension('x')`, "not authorized"},

		{`UPDATE _towline_fence SET fence = 'z'`, fence},
		{`DELETE FROM _towline_windows`, windows},
		{`REPLACE INTO _towline_state SELECT * FROM _towline_state`, state},
		{`DROP TABLE _TOWLINE_STATE`, state},
		{`ALTER TABLE _towline_fence ADD COLUMN x TEXT`, fence},
		{`ALTER TABLE _towline_fence RENAME TO fences`, fence},
		{`DROP TRIGGER _towline_fence_never_falls`, fence},
		{`CREATE TRIGGER t AFTER INSERT ON _towline_windows BEGIN DELETE FROM _towline_fence; END`, windows},
		{`CREATE TEMP TRIGGER t AFTER INSERT ON _towline_fence BEGIN SELECT 1; END`, fence},
		{`CREATE UNIQUE INDEX i ON _towline_fence (dataset)`, fence},
		{`CREATE TABLE _towline_x (a)`, "may read _towline_x and not change it"},
		{`CREATE VIEW _Towline_v AS SELECT 1`, "may read _Towline_v and not change it"},
		{`CREATE VIRTUAL TABLE _towline_f USING fts5(a)`, "may read _towline_f and not change it"},
		{`CREATE TEMP TABLE _towline_fence (a)`, fence},
		{`ALTER TABLE readings RENAME TO _towline_readings`, "whose names start with _towline"},

		// A trigger acts when an attempt fires it, and is refused when it is made.
		{`CREATE TRIGGER t AFTER INSERT ON readings BEGIN DELETE FROM _towline_fence; END`, fence + ", as the trigger or view t would"},
		{`CREATE TRIGGER t AFTER DELETE ON readings BEGIN UPDATE _towline_fence SET fence = 'z'; END`, fence},
		{`CREATE TRIGGER t AFTER UPDATE OF data ON readings BEGIN DELETE FROM _towline_state; END`, state},
		{`CREATE TEMP TRIGGER t AFTER DELETE ON readings BEGIN DELETE FROM _towline_fence; END; DELETE FROM readings`, fence},
		{`CREATE TABLE b (a); CREATE TRIGGER t AFTER INSERT ON readings BEGIN INSERT INTO b VALUES (1); END;
		  CREATE TRIGGER u AFTER INSERT ON b BEGIN DELETE FROM _towline_fence; END`, fence},
		{`CREATE VIEW v AS SELECT * FROM _towline_fence; CREATE TRIGGER t INSTEAD OF DELETE ON v BEGIN DELETE FROM _towline_fence; END`, fence},

		// The schema and the pages below it.
		{`PRAGMA writable_schema = ON; DELETE FROM sqlite_schema WHERE name = '_towline_fence'`, setting + "writable_schema"},
		{`PRAGMA main.Writable_Schema(1)`, setting},
		{`DELETE FROM sqlite_schema WHERE name = '_towline_fence'`, "may not be modified"},
		{`PRAGMA schema_version = 1`, setting + "schema_version"},
		{`UPDATE sqlite_dbpage SET data = zeroblob(4096) WHERE pgno = 2`, "read-only"},
		{`CREATE VIRTUAL TABLE p USING sqlite_dbpage; UPDATE p SET data = zeroblob(4096) WHERE pgno = 2`, "read-only"},
		{`PRAGMA journal_mode = DELETE`, setting},
		{`PRAGMA synchronous = OFF`, setting},
		{`PRAGMA locking_mode = EXCLUSIVE`, setting},
		{`PRAGMA hard_heap_limit = 1000`, setting}, // of the process
	} {
		require.ErrorContains(t, d.Script(context.Background(), `CREATE TABLE x (a); `+tc.script), tc.want, tc.script)
		require.Equal(t, before, query(t, d, `SELECT sql FROM sqlite_schema`), tc.script)
		require.Len(t, query(t, d, `SELECT * FROM _towline_fence`), 1, tc.script)
	}
	commit(t, d, scope(2, day), 2, "a") // no rule of a script is left on a connection of an attempt
}

// K-7: what stays within the transaction is the script's own affair.
func TestWhatAScriptMayDo(t *testing.T) {
	for _, script := range []string{
		`SAVEPOINT s; CREATE TABLE x AS SELECT * FROM _towline_fence; ROLLBACK TO s; RELEASE s`,
		`CREATE VIEW late AS SELECT * FROM _towline_fence WHERE attempt > 1`,
		`CREATE TABLE t (n INTEGER PRIMARY KEY AUTOINCREMENT); INSERT INTO t VALUES (NULL); ALTER TABLE t ADD COLUMN m INTEGER NOT NULL DEFAULT 1; ALTER TABLE t RENAME TO u`,
		`CREATE VIRTUAL TABLE words USING fts5(word); INSERT INTO words SELECT key FROM readings`,
		`PRAGMA user_version = 5; PRAGMA defer_foreign_keys = ON; PRAGMA table_info(_towline_fence); SELECT * FROM pragma_index_list('readings'); PRAGMA journal_mode`,
		`CREATE INDEX readings_by_key ON readings (key); ANALYZE; REINDEX; PRAGMA optimize`,
		`CREATE TABLE seen (key, fence); CREATE TRIGGER t AFTER INSERT ON readings BEGIN INSERT INTO seen SELECT NEW.key, fence FROM _towline_fence; END`,
		`CREATE TRIGGER t AFTER INSERT ON readings BEGIN INSERT INTO not_there_yet VALUES (1); END; DROP TRIGGER t`,
		`DELETE FROM readings; DROP TABLE readings`,
	} {
		d := file(t)
		commit(t, d, scope(1, day), 1, "a")
		require.NoError(t, d.Script(context.Background(), script), script)
		commit(t, d, scope(2, day), 2, "a", "b")
		require.Equal(t, []string{"harbour|a|2024-03-01|2", "harbour|b|2024-03-01|2"}, query(t, d, readings))
	}
}

// HU-4: an ended context refuses a script before it begins.
func TestAScriptUnderAnEndedContext(t *testing.T) {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	d := file(t)
	require.ErrorIs(t, d.Script(ended, `CREATE TABLE x (a)`), context.Canceled)
	require.NoError(t, d.Script(context.Background(), `CREATE TABLE x (a)`))
}

// HU-5: reading makes no file and changes none.
func TestDBOnlyReads(t *testing.T) {
	path := filepath.Join(t.TempDir(), "readings.db")
	d := at(t, path)
	_, err := d.DB(context.Background())
	require.ErrorContains(t, err, "open "+path+" for reading")
	require.NoFileExists(t, path)
	commit(t, d, scope(1, day), 1, "a")
	db, err := d.DB(context.Background())
	require.NoError(t, err)
	_, err = db.Exec(`DELETE FROM readings`)
	require.Error(t, err)
	require.Len(t, query(t, d, readings), 1)
}

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

// K-7: a script cannot leave its transaction, reach another file, or move a fence.
func TestAScriptCannotBreakItsFrame(t *testing.T) {
	d := file(t)
	commit(t, d, scope(1, day), 1, "a")
	for script, want := range map[string]string{
		`CREATE TABLE x (a); COMMIT; CREATE TABLE y (a);`:                   "remove BEGIN, COMMIT and ROLLBACK",
		`CREATE TABLE x (a); ROLLBACK;`:                                     "remove BEGIN, COMMIT and ROLLBACK",
		`CREATE TABLE x (a); /* */ end;`:                                    "remove BEGIN, COMMIT and ROLLBACK",
		`CREATE TABLE x (a); ATTACH ':memory:' AS other;`:                   "cannot attach another file",
		`CREATE TABLE x (a); UPDATE _towline_fence SET fence = 'z';`:        "may read _towline_fence and not change it",
		`CREATE TABLE x (a); DELETE FROM _towline_windows;`:                 "may read _towline_windows and not change it",
		`CREATE TABLE x (a); DROP TABLE _TOWLINE_STATE;`:                    "may read _towline_state and not change it",
		`CREATE TABLE x (a); ALTER TABLE _towline_fence ADD COLUMN x TEXT;`: "may read _towline_fence and not change it",
	} {
		require.ErrorContains(t, d.Script(context.Background(), script), want)
		require.Empty(t, query(t, d, `SELECT name FROM sqlite_schema WHERE name IN ('x', 'y')`))
	}
	require.NoError(t, d.Script(context.Background(), `
SAVEPOINT s;
CREATE TABLE x AS SELECT * FROM _towline_fence;
RELEASE s;`))
	require.Len(t, query(t, d, `SELECT * FROM x`), 1)
	commit(t, d, scope(2, day), 2, "a") // no rule of the script is left on a connection of an attempt
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

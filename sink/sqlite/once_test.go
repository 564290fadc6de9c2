package sqlite_test

import (
	"context"
	"database/sql"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// K-6, SC-066, SC-067: the ledger row of a script commits with what it has done, or not at all; a script whose key has
// committed is not run again, whatever it says by then.
func TestAScriptRunsOncePerKey(t *testing.T) {
	ctx := context.Background()
	d := file(t)
	commit(t, d, scope(1, day), 1, "a", "b")
	args := []any{sql.Named("run", "R1"), sql.Named("generation", 3)}
	once := func(key, script string) (bool, error) { return d.ScriptOnce(ctx, key, script, args...) }

	_, err := once("R1.1.index", activity+`SELECT * FROM missing;`)
	require.ErrorContains(t, err, "no such table")
	require.Empty(t, query(t, d, `SELECT key FROM _towline_once`), "nothing of a script that failed stays")
	first, err := once("R1.1.index", activity)
	require.NoError(t, err)
	require.True(t, first)
	for range 3 {
		first, err = once("R1.1.index", activity+`SELECT * FROM missing;`)
		require.NoError(t, err)
		require.False(t, first)
	}
	first, err = once("R2.1.index", activity)
	require.NoError(t, err)
	require.True(t, first)
	require.Len(t, query(t, d, `SELECT * FROM activity`), 2)
	require.Equal(t, []string{"R1.1.index", "R2.1.index"}, query(t, d, `SELECT key FROM _towline_once`))
	_, err = once("", activity)
	require.ErrorContains(t, err, "key of the once-ledger is empty")
}

// K-6: a script may read the ledger and not change it.
func TestAScriptCannotTouchTheLedger(t *testing.T) {
	d := file(t)
	commit(t, d, scope(1, day), 1, "a")
	for _, script := range []string{
		`DELETE FROM _towline_once`, `INSERT INTO _towline_once (key) VALUES ('x')`, `DROP TABLE _towline_once`,
		`CREATE TRIGGER t AFTER INSERT ON readings BEGIN DELETE FROM _towline_once; END`,
	} {
		_, err := d.ScriptOnce(context.Background(), "k", script)
		require.ErrorContains(t, err, "may read _towline_once and not change it", script)
	}
	require.Empty(t, query(t, d, `SELECT * FROM _towline_once`))
}

// K-6: of deliveries that come side by side, from two openers of one file, one runs the script.
func TestScriptsOfOneKeySideBySide(t *testing.T) {
	d := file(t)
	commit(t, d, scope(1, day), 1, "a")
	other := at(t, d.Path())
	const each = 8
	var wg sync.WaitGroup
	firsts := make(chan bool, 2*each)
	for range each {
		for _, to := range []interface {
			ScriptOnce(context.Context, string, string, ...any) (bool, error)
		}{d, other} {
			wg.Go(func() {
				first, err := to.ScriptOnce(context.Background(), "k", `CREATE TABLE IF NOT EXISTS x (n); INSERT INTO x VALUES (1)`)
				if err == nil {
					firsts <- first
				}
			})
		}
	}
	wg.Wait()
	close(firsts)
	n := 0
	for first := range firsts {
		if first {
			n++
		}
	}
	require.Equal(t, 1, n)
	require.Len(t, query(t, d, `SELECT * FROM x`), 1)
}

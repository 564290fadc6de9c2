package towline_test

import (
	"context"
	"database/sql"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/internal/dbtest"
)

// onceDatabases are those that Once knows.
var onceDatabases = map[string]func(t *testing.T) *sql.DB{
	"SQLite": func(t *testing.T) *sql.DB {
		db, err := sql.Open("sqlite", "file:"+filepath.Join(t.TempDir(), "own.db")+"?_pragma=busy_timeout(5000)")
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, db.Close()) })
		return db
	},
	"PostgreSQL": func(t *testing.T) *sql.DB { return dbtest.PostgreSQL(t) },
	"MariaDB": func(t *testing.T) *sql.DB {
		return dbtest.MariaDB(t, "clientFoundRows=true") // so that rows which were found are counted as changed
	},
}

// K-6: effect and ledger row commit together or not at all, in every database that Once knows; keys are told apart byte by
// byte, and a second delivery waits for whoever is at it.
func TestOnceInOtherDatabases(t *testing.T) {
	for name, open := range onceDatabases {
		t.Run(name, func(t *testing.T) {
			ctx, db := t.Context(), open(t)
			dbtest.Exec(t, db, `CREATE TABLE effects (n INTEGER)`)
			for range 2 {
				require.NoError(t, towline.MakeOnce(ctx, db))
			}
			enter := func(key string) (*sql.Tx, bool) {
				t.Helper()
				tx, err := db.BeginTx(ctx, nil)
				require.NoError(t, err)
				first, err := towline.Once(ctx, tx, key)
				require.NoError(t, err)
				if first {
					_, err = tx.Exec(`INSERT INTO effects VALUES (1)`)
					require.NoError(t, err)
				}
				return tx, first
			}
			undone, first := enter("a")
			require.True(t, first)
			require.NoError(t, undone.Rollback())
			require.Zero(t, count(t, db, "effects"), "what is undone leaves no row")
			for i, key := range []string{"a", "A", "a ", "ä"} {
				tx, first := enter(key)
				require.True(t, first, "%q", key)
				require.NoError(t, tx.Commit())
				tx, first = enter(key)
				require.False(t, first, "%q", key)
				require.NoError(t, tx.Commit())
				require.Equal(t, i+1, count(t, db, "effects"))
			}

			tx, first := enter("b")
			require.True(t, first)
			second := enterBeside(ctx, db, "b")
			require.NoError(t, tx.Commit())
			require.Equal(t, entered{}, <-second)

			if name != "SQLite" {
				dbtest.Exec(t, db, `DROP TABLE _towline_once`)
				tx, err := db.BeginTx(ctx, nil)
				require.NoError(t, err)
				_, err = towline.Once(ctx, tx, "c")
				require.ErrorContains(t, err, "call MakeOnce before")
				require.NoError(t, tx.Rollback())
			}
			if name == "MariaDB" {
				tx, err := db.BeginTx(ctx, nil)
				require.NoError(t, err)
				_, err = towline.Once(ctx, tx, strings.Repeat("x", 256))
				require.ErrorContains(t, err, "want at most 255")
				require.NoError(t, tx.Rollback())
			}
			cancelled, cancel := context.WithCancel(ctx)
			cancel()
			require.Error(t, towline.MakeOnce(cancelled, db))
		})
	}
}

package towline_test

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline"
)

// onceDatabases are those that Once knows. A test on one that is not there is skipped, unless TOWLINE_TEST_SERVICES says that
// it must be there.
var onceDatabases = map[string]func(t *testing.T) *sql.DB{
	"SQLite": func(t *testing.T) *sql.DB {
		return reach(t, "sqlite", "file:"+filepath.Join(t.TempDir(), "own.db")+"?_pragma=busy_timeout(5000)")
	},
	"PostgreSQL": func(t *testing.T) *sql.DB {
		at := cmp.Or(os.Getenv("TOWLINE_TEST_POSTGRES"), "postgres://postgres@127.0.0.1:5432/postgres?sslmode=disable")
		name, server := freshName(), reach(t, "pgx", at)
		execIn(t, server, `CREATE SCHEMA `+name)
		t.Cleanup(func() { execIn(t, server, `DROP SCHEMA `+name+` CASCADE`) })
		return reach(t, "pgx", at+"&search_path="+name)
	},
	"MariaDB": func(t *testing.T) *sql.DB {
		at := cmp.Or(os.Getenv("TOWLINE_TEST_MYSQL"), "root@tcp(127.0.0.1:3306)/")
		name, server := freshName(), reach(t, "mysql", at)
		execIn(t, server, `CREATE DATABASE `+name)
		t.Cleanup(func() { execIn(t, server, `DROP DATABASE `+name) })
		return reach(t, "mysql", at+name+"?clientFoundRows=true") // so that rows which were found are counted as changed
	},
}

func freshName() string { return fmt.Sprintf("towline_once_%d_%d", os.Getpid(), time.Now().UnixNano()) }

func execIn(t *testing.T, db *sql.DB, query string) {
	t.Helper()
	_, err := db.Exec(query)
	require.NoError(t, err)
}

func reach(t *testing.T, driver, at string) *sql.DB {
	t.Helper()
	db, err := sql.Open(driver, at)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	if err := db.Ping(); err != nil && os.Getenv("TOWLINE_TEST_SERVICES") != "require" {
		t.Skipf("no database answers at %s: %v", at, err)
	} else {
		require.NoError(t, err)
	}
	return db
}

// K-6: effect and ledger row commit together or not at all, in every database that Once knows; keys are told apart byte by
// byte, and a second delivery waits for whoever is at it.
func TestOnceInOtherDatabases(t *testing.T) {
	for name, open := range onceDatabases {
		t.Run(name, func(t *testing.T) {
			ctx, db := t.Context(), open(t)
			execIn(t, db, `CREATE TABLE effects (n INTEGER)`)
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
			second := make(chan bool, 1)
			go func() {
				tx, err := db.BeginTx(ctx, nil)
				if err != nil {
					return
				}
				first, err := towline.Once(ctx, tx, "b")
				if err == nil && tx.Commit() == nil {
					second <- first
				}
			}()
			require.NoError(t, tx.Commit())
			require.False(t, <-second)

			if name != "SQLite" {
				execIn(t, db, `DROP TABLE _towline_once`)
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

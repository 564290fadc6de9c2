package towline_test

import (
	"context"
	"database/sql"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline"

	_ "modernc.org/sqlite"
)

// ledgers are the databases that keep one: the store, and one of the caller, in which there is none yet.
func ledgers(t *testing.T, w *workshop) map[string]*sql.DB {
	t.Helper()
	own, err := sql.Open("sqlite", "file:"+filepath.Join(t.TempDir(), "own.db")+"?_pragma=busy_timeout(5000)")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, own.Close()) })
	dbs := map[string]*sql.DB{"the store": w.file.DB(), "a database of the caller": own}
	for _, db := range dbs {
		_, err := db.Exec(`CREATE TABLE effects (n INTEGER)`)
		require.NoError(t, err)
	}
	return dbs
}

func count(t *testing.T, db *sql.DB, table string) (n int) {
	t.Helper()
	require.NoError(t, db.QueryRow(`SELECT count(*) FROM `+table).Scan(&n))
	return n
}

// K-6, SC-066, SC-067: effect and ledger row commit together or not at all; the second insert tells the caller to skip. So
// it is in the store, and in a database that the caller brings, whose table is made by the first use.
func TestOnce(t *testing.T) {
	for name, db := range ledgers(t, newWorkshop(t)) {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			effect := func(key string, commit bool) (first bool) {
				t.Helper()
				tx, err := db.BeginTx(ctx, nil)
				require.NoError(t, err)
				first, err = towline.Once(ctx, tx, key)
				require.NoError(t, err)
				if first {
					_, err = tx.Exec(`INSERT INTO effects VALUES (1)`)
					require.NoError(t, err)
				}
				if commit {
					require.NoError(t, tx.Commit())
				} else {
					require.NoError(t, tx.Rollback())
				}
				return first
			}
			require.True(t, effect("a", false))
			require.Zero(t, count(t, db, "effects"), "what is undone leaves no row")
			require.True(t, effect("a", true))
			for range 3 {
				require.False(t, effect("a", true))
			}
			require.True(t, effect("b", true))
			require.Equal(t, 2, count(t, db, "effects"))
			require.Equal(t, 2, count(t, db, "_towline_once"))

			tx, err := db.BeginTx(ctx, nil)
			require.NoError(t, err)
			_, err = towline.Once(ctx, tx, "")
			require.ErrorContains(t, err, "the key is empty")
			require.NoError(t, tx.Rollback())
			_, err = towline.Once(ctx, tx, "c")
			require.ErrorIs(t, err, sql.ErrTxDone)
		})
	}
}

// entered is what Once has said in a transaction that has committed, or why it did not.
type entered struct {
	first bool
	err   error
}

// enterBeside asks Once in a transaction of its own, beside the caller's.
func enterBeside(ctx context.Context, db *sql.DB, key string) <-chan entered {
	out := make(chan entered, 1)
	go func() {
		var e entered
		defer func() { out <- e }()
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			e.err = err
			return
		}
		defer tx.Rollback()
		if e.first, e.err = towline.Once(ctx, tx, key); e.err == nil {
			e.err = tx.Commit()
		}
	}()
	return out
}

// K-6: a second delivery that comes while the first is at work waits for it, also in a transaction that was not begun as
// immediate, and finds its work done.
func TestOnceWaitsForWhoeverIsAtIt(t *testing.T) {
	for name, db := range ledgers(t, newWorkshop(t)) {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			warm, err := db.BeginTx(ctx, nil) // the table is there
			require.NoError(t, err)
			_, err = towline.Once(ctx, warm, "warm")
			require.NoError(t, err)
			require.NoError(t, warm.Commit())

			tx, err := db.BeginTx(ctx, nil)
			require.NoError(t, err)
			first, err := towline.Once(ctx, tx, "a")
			require.NoError(t, err)
			require.True(t, first)
			second := enterBeside(ctx, db, "a")
			require.NoError(t, tx.Commit())
			require.Equal(t, entered{}, <-second)
		})
	}
}

// K-6, L-8: the ledger of the store is made with it, in the form that Once would make; it is no view, so a rebuild, a restart
// and a missing view leave it alone.
func TestTheLedgerOfTheStoreIsNoView(t *testing.T) {
	w := newWorkshop(t)
	db := w.file.DB()
	var schema string
	require.NoError(t, db.QueryRow(`SELECT sql FROM sqlite_schema WHERE name = '_towline_once'`).Scan(&schema))
	plain := func(s string) string {
		s = strings.ReplaceAll(s, "IF NOT EXISTS ", "")
		return strings.Join(strings.Fields(s), " ")
	}
	require.Equal(t, plain(towline.OnceTable), plain(schema))
	tx, err := db.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	first, err := towline.Once(t.Context(), tx, "a")
	require.NoError(t, err)
	require.True(t, first)
	require.NoError(t, tx.Commit())

	require.NoError(t, w.e.Rebuild(context.Background()))
	require.Equal(t, 1, count(t, db, "_towline_once"))
	w.sql(`DELETE FROM projection`)
	w.crash()
	require.Equal(t, 1, count(t, w.file.DB(), "_towline_once"))
}

//go:build unix

package node_test

import (
	"context"
	"database/sql"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/internal/dbtest"
)

// K-6, K-9: a function may have its effect in another database; the ledger is made there, and commits with it.
func TestAFunctionInAnotherDatabase(t *testing.T) {
	for name, open := range map[string]func(*testing.T) *sql.DB{
		"PostgreSQL": func(t *testing.T) *sql.DB { return dbtest.PostgreSQL(t) },
		"MariaDB":    func(t *testing.T) *sql.DB { return dbtest.MariaDB(t) },
	} {
		t.Run(name, func(t *testing.T) {
			db := open(t)
			dbtest.Exec(t, db, `CREATE TABLE effects (n INTEGER)`)
			_, got := followedBy(t, towline.ExactlyOnce, towline.Target{Name: "index", DB: db, Func: func(ctx context.Context, tx *sql.Tx, _ towline.Post) error {
				_, err := tx.ExecContext(ctx, `INSERT INTO effects VALUES (1)`)
				return err
			}})
			require.Equal(t, decider.PostCompleted, got.Effect, got.Text)
			var effects, keys int
			require.NoError(t, db.QueryRow(`SELECT (SELECT count(*) FROM effects), (SELECT count(*) FROM _towline_once)`).Scan(&effects, &keys))
			require.Equal(t, []int{1, 1}, []int{effects, keys})
		})
	}
}

//go:build unix

package node_test

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"os"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/decider"
)

// K-6, K-9: a function may have its effect in another database; the ledger is made there, and commits with it.
func TestAFunctionInAnotherDatabase(t *testing.T) {
	name := fmt.Sprintf("towline_post_%d_%d", os.Getpid(), time.Now().UnixNano())
	for _, c := range []struct{ name, driver, at, make, drop, args string }{
		{"PostgreSQL", "pgx", cmp.Or(os.Getenv("TOWLINE_TEST_POSTGRES"), "postgres://postgres@127.0.0.1:5432/postgres?sslmode=disable"),
			`CREATE SCHEMA ` + name, `DROP SCHEMA ` + name + ` CASCADE`, "&search_path=" + name},
		{"MariaDB", "mysql", cmp.Or(os.Getenv("TOWLINE_TEST_MYSQL"), "root@tcp(127.0.0.1:3306)/"), `CREATE DATABASE ` + name, `DROP DATABASE ` + name, name},
	} {
		t.Run(c.name, func(t *testing.T) {
			server, err := sql.Open(c.driver, c.at)
			require.NoError(t, err)
			defer server.Close()
			if err := server.Ping(); err != nil && os.Getenv("TOWLINE_TEST_SERVICES") != "require" {
				t.Skipf("no database answers at %s: %v", c.at, err)
			}
			_, err = server.Exec(c.make)
			require.NoError(t, err)
			defer func() { _, _ = server.Exec(c.drop) }()
			db, err := sql.Open(c.driver, c.at+c.args)
			require.NoError(t, err)
			defer db.Close()
			_, err = db.Exec(`CREATE TABLE effects (n INTEGER)`)
			require.NoError(t, err)
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

// Package dbtest opens real databases for tests of what Towline writes into those of an application. Each test gets a
// schema of its own, which goes with it.
package dbtest

import (
	"cmp"
	"database/sql"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql" // the drivers that the servers are reached by
	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"
)

// Where the servers are, unless TOWLINE_TEST_POSTGRES and TOWLINE_TEST_MYSQL say so.
const (
	postgres = "postgres://postgres@127.0.0.1:5432/postgres?sslmode=disable"
	mariaDB  = "root@tcp(127.0.0.1:3306)/"
)

// PostgreSQL is an empty schema of its own. The test is skipped if no server answers, unless TOWLINE_TEST_SERVICES says
// "require".
func PostgreSQL(t testing.TB) *sql.DB {
	t.Helper()
	at, name := cmp.Or(os.Getenv("TOWLINE_TEST_POSTGRES"), postgres), fresh()
	server := answering(t, "pgx", at)
	Exec(t, server, `CREATE SCHEMA `+name)
	t.Cleanup(func() { Exec(t, server, `DROP SCHEMA `+name+` CASCADE`) })
	return answering(t, "pgx", at+"&search_path="+name)
}

// MariaDB is an empty database of its own, opened with parameters of its driver, as "clientFoundRows=true". It is skipped
// as PostgreSQL is.
func MariaDB(t testing.TB, parameters ...string) *sql.DB {
	t.Helper()
	at, name := cmp.Or(os.Getenv("TOWLINE_TEST_MYSQL"), mariaDB), fresh()
	server := answering(t, "mysql", at)
	Exec(t, server, `CREATE DATABASE `+name)
	t.Cleanup(func() { Exec(t, server, `DROP DATABASE `+name) })
	return answering(t, "mysql", at+name+"?"+strings.Join(parameters, "&"))
}

// Exec runs a statement that must not fail.
func Exec(t testing.TB, db *sql.DB, query string) {
	t.Helper()
	_, err := db.Exec(query)
	require.NoError(t, err)
}

func fresh() string { return fmt.Sprintf("towline_test_%d_%d", os.Getpid(), time.Now().UnixNano()) }

func answering(t testing.TB, driver, at string) *sql.DB {
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

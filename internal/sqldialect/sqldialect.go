// Package sqldialect tells the SQL databases apart into which a caller lets Towline write: the fence of sink.Guard, and the
// once-ledger.
package sqldialect

import (
	"context"
	"database/sql"
	"strings"
)

// Dialect is what a database understands.
type Dialect int

// The dialects. MariaDB is MySQL, and CockroachDB is PostgreSQL.
const (
	SQLite Dialect = iota
	PostgreSQL
	MySQL
)

// Of asks the database. Only SQLite does not know the function, and to it the error of a query is harmless; PostgreSQL would
// take nothing more in this transaction. It reads nothing there, so it takes no lock.
func Of(ctx context.Context, q interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}) Dialect {
	var version string
	err := q.QueryRowContext(ctx, `SELECT version()`).Scan(&version)
	switch {
	case err != nil:
		return SQLite
	case strings.Contains(version, "PostgreSQL"), strings.Contains(version, "Cockroach"):
		return PostgreSQL
	}
	return MySQL
}

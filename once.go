package towline

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/towline-dev/towline/internal/sqldialect"
)

// OnceTable holds the once-ledger of a SQLite database. The store has it from its first start on (it is no view: a rebuild
// leaves it alone), sink/sqlite makes it in the file of the sink, and Once in any other file, all of them alike. MakeOnce
// makes it elsewhere.
//
// Towline removes no row of it. A row is as good as the effect is: it must stay for as long as a message of its key may
// come again, which a broker decides, and for as long as the run's targets are not all completed. One row is about 100
// bytes for each run and target. Who must remove some removes the oldest, by at.
const OnceTable = `
CREATE TABLE IF NOT EXISTS _towline_once (
  key TEXT PRIMARY KEY CHECK (key <> ''),                              -- of the effect, as Post.Key has it
  at  TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))    -- UTC, for people
) STRICT, WITHOUT ROWID`

// The same table of other databases, for MakeOnce. In MySQL key is a word of its own, and text is compared without regard to
// case and to spaces at its end: bytes are not.
const (
	oncePostgres = `
CREATE TABLE IF NOT EXISTS _towline_once (
  key TEXT COLLATE "C" PRIMARY KEY CHECK (key <> ''),
  at  TIMESTAMPTZ NOT NULL DEFAULT now()
)`
	onceMySQL = "CREATE TABLE IF NOT EXISTS _towline_once (" +
		"`key` VARBINARY(255) NOT NULL PRIMARY KEY, at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP) ENGINE = InnoDB"
	onceKeyMaxMySQL = 255 // bytes
)

// onceDialect is where the databases differ.
type onceDialect struct{ table, there, insert string }

var (
	onceInSQLite = onceDialect{OnceTable, `SELECT key FROM _towline_once WHERE 1 = 0`,
		`INSERT INTO _towline_once (key) VALUES ($1) ON CONFLICT (key) DO NOTHING`}
	onceInPostgres = onceDialect{oncePostgres, onceInSQLite.there, onceInSQLite.insert}
	// IGNORE says by the count of rows whether it has inserted one, also to a driver that counts those that it has found.
	onceInMySQL = onceDialect{onceMySQL, "SELECT `key` FROM _towline_once WHERE 1 = 0", "INSERT IGNORE INTO _towline_once (`key`) VALUES (?)"}
)

// onceDialectOf is the dialect of a database.
func onceDialectOf(ctx context.Context, q interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}) onceDialect {
	switch sqldialect.Of(ctx, q) {
	case sqldialect.PostgreSQL:
		return onceInPostgres
	case sqldialect.MySQL:
		return onceInMySQL
	}
	return onceInSQLite
}

// MakeOnce makes the once-ledger in a SQLite, PostgreSQL, CockroachDB, MySQL or MariaDB database where it is missing, so
// that Once finds it. The handler of post_sync calls it for Target.DB; who calls Once elsewhere than in SQLite calls it once
// before. Where the table is there it needs no right to make one.
func MakeOnce(ctx context.Context, db *sql.DB) error {
	d := onceDialectOf(ctx, db)
	there := func() bool {
		rows, err := db.QueryContext(ctx, d.there)
		if err != nil {
			return false
		}
		defer rows.Close()
		return !rows.Next() && rows.Err() == nil
	}
	if there() {
		return nil
	}
	_, err := db.ExecContext(ctx, d.table)
	if err != nil && there() { // somebody else made it meanwhile, which PostgreSQL tells as an error
		return nil
	}
	if err != nil {
		return fmt.Errorf("make the once-ledger: %w", err)
	}
	return nil
}

// Once enters the key of an effect into the once-ledger of the database of tx: the store (Node.DB), or one of the caller, in
// SQLite, PostgreSQL, CockroachDB, MySQL or MariaDB (K-6). first says that nobody did before, so the caller does the effect in
// the same transaction; else the effect has committed already, and the caller skips it. Both commit together or not at all.
//
// The key of a post_sync is Post.Key; that of an application message is its message id. MySQL takes at most 255 bytes. Call it
// before anything else in tx: so a transaction that was not begun as immediate takes the write lock at once, and another
// delivery waits for it instead of doing the work beside it. In SQLite it makes the ledger where it is missing; elsewhere
// MakeOnce has to have made it, because MySQL would end tx with it.
func Once(ctx context.Context, tx *sql.Tx, key string) (first bool, err error) {
	if key == "" {
		return false, errors.New("once: the key is empty")
	}
	d := onceDialectOf(ctx, tx)
	if d == onceInMySQL && len(key) > onceKeyMaxMySQL {
		return false, fmt.Errorf("once: the key has %d bytes: want at most %d", len(key), onceKeyMaxMySQL)
	}
	first, err = d.enter(ctx, tx, key)
	if err == nil {
		return first, nil
	}
	if d != onceInSQLite {
		return false, fmt.Errorf("once %q: %w; if its table is missing, call MakeOnce before", key, err)
	}
	// The table is missing, or it is a fault that will come again. It is not made first: in a transaction that was not
	// begun as immediate that would be a read, and the insert behind it might be refused.
	if _, missing := tx.ExecContext(ctx, OnceTable); missing != nil {
		return false, fmt.Errorf("once %q: %w", key, errors.Join(err, missing))
	}
	if first, err = d.enter(ctx, tx, key); err != nil {
		return false, fmt.Errorf("once %q: %w", key, err)
	}
	return first, nil
}

func (d onceDialect) enter(ctx context.Context, tx *sql.Tx, key string) (bool, error) {
	r, err := tx.ExecContext(ctx, d.insert, key)
	if err != nil {
		return false, err
	}
	n, err := r.RowsAffected()
	return n == 1, err
}

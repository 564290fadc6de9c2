package towline

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// OnceTable holds the once-ledger of a SQLite database. The store has it from its first start on (it is no view: a rebuild
// leaves it alone), sink/sqlite makes it in the file of the sink, and Once in any other database, all of them alike.
//
// Towline removes no row of it. A row is as good as the effect is: it must stay for as long as a message of its key may
// come again, which a broker decides, and for as long as the run's targets are not all completed. One row is about 100
// bytes for each run and target. Who must remove some removes the oldest, by at.
const OnceTable = `
CREATE TABLE IF NOT EXISTS _towline_once (
  key TEXT PRIMARY KEY CHECK (key <> ''),                              -- of the effect, as Post.Key has it
  at  TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))    -- UTC, for people
) STRICT, WITHOUT ROWID`

// Once enters the key of an effect into the once-ledger of the database of tx: the store (Node.DB), or any other SQLite
// database of the caller (K-6). first says that nobody did before, so the caller does the effect in the same transaction;
// else the effect has committed already, and the caller skips it. Both commit together or not at all.
//
// The key of a post_sync is Post.Key; that of an application message is its message id. Call it before anything else in tx:
// so a transaction that was not begun as immediate takes the write lock at once, and another delivery waits for it instead
// of doing the work beside it.
func Once(ctx context.Context, tx *sql.Tx, key string) (first bool, err error) {
	if key == "" {
		return false, errors.New("once: the key is empty")
	}
	first, err = enterOnce(ctx, tx, key)
	if err == nil {
		return first, nil
	}
	// The table is missing, or it is a fault that will come again. It is not made first: in a transaction that was not
	// begun as immediate that would be a read, and the insert behind it might be refused.
	if _, missing := tx.ExecContext(ctx, OnceTable); missing != nil {
		return false, fmt.Errorf("once %q: %w", key, errors.Join(err, missing))
	}
	if first, err = enterOnce(ctx, tx, key); err != nil {
		return false, fmt.Errorf("once %q: %w", key, err)
	}
	return first, nil
}

func enterOnce(ctx context.Context, tx *sql.Tx, key string) (bool, error) {
	r, err := tx.ExecContext(ctx, `INSERT INTO _towline_once (key) VALUES ($1) ON CONFLICT (key) DO NOTHING`, key)
	if err != nil {
		return false, err
	}
	n, err := r.RowsAffected()
	return n == 1, err
}

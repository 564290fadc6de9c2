package sqlite

import (
	"context"
	"database/sql"
	"errors"

	"github.com/towline-dev/towline/sink"
)

// once is the once-ledger of the file (K-6). Its name keeps it from scripts, as those of the other tables of the sink. No
// row is removed: one is as good as the effect is.
const once = `CREATE TABLE IF NOT EXISTS _towline_once (
	key TEXT PRIMARY KEY CHECK (key <> ''),
	at TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')) -- UTC, for people
) STRICT, WITHOUT ROWID`

var _ sink.OnceScripter = (*Destination)(nil)

// ScriptOnce is Script, but for a script that has committed under the key before: that is not run again, and first is
// false. The key is entered in the transaction of the script.
func (d *Destination) ScriptOnce(ctx context.Context, key, script string, args ...any) (first bool, err error) {
	if key == "" {
		return false, errors.New("script: the key of the once-ledger is empty")
	}
	err = d.inScript(ctx, func(conn *sql.Conn) error {
		if first, err = d.enter(conn, key); err != nil || !first {
			return err
		}
		return runScript(conn, script, args)
	})
	return first && err == nil, err
}

// enter reports that the key is new.
func (d *Destination) enter(conn *sql.Conn, key string) (bool, error) {
	r, err := conn.ExecContext(context.Background(), `
INSERT INTO _towline_once (key, at)
VALUES ($1, $2)
ON CONFLICT (key) DO NOTHING`, key, d.now().UTC().Format(timestamp))
	if err != nil {
		return false, err
	}
	n, err := r.RowsAffected()
	return n == 1, err
}

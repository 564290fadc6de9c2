package sink

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"fmt"
	"regexp"
	"time"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/internal/sqldialect"
)

// GuardSchema makes the table of Guard, if it is missing. One statement for SQLite, PostgreSQL, MySQL and MariaDB; run it
// once, before the first Guard, and outside of its transaction: MySQL commits whatever is open when a table is made.
//
// The key is a hash of the scope, because databases do not agree on which names are one: to some the case of a letter, or
// a space at the end, makes no difference. The other columns are for people.
const GuardSchema = `CREATE TABLE IF NOT EXISTS towline_fences (
  scope_key    VARCHAR(64) NOT NULL PRIMARY KEY,
  source       TEXT        NOT NULL,
  dataset      TEXT        NOT NULL,
  window_name  TEXT        NOT NULL,
  fence        VARCHAR(64) NOT NULL,
  store        VARCHAR(64) NOT NULL,
  run          VARCHAR(32) NOT NULL,
  unit         VARCHAR(32) NOT NULL,
  attempt      INTEGER     NOT NULL,
  committed_at VARCHAR(32) NOT NULL
)`

// Guard is the fence for tables of your own: it refuses an attempt of which a newer one has written the same source,
// dataset and window, in your transaction. Call it before anything else in that transaction, and roll back when it returns
// an error:
//
//	tx, err := db.BeginTx(ctx, nil)
//	…
//	err = sink.Guard(ctx, tx, unit.Scope())
//	…                                        // replace the rows of unit.Source and unit.Window
//	err = tx.Commit()
//
// The fence of the attempt is written with your rows, and is kept or undone with them. Until your transaction ends, another
// one at the same scope waits in its Guard. The database is SQLite, PostgreSQL, or MySQL or MariaDB with InnoDB; the table
// is GuardSchema. In SQLite a transaction that has read before its Guard may be refused as busy where it meets another
// writer, however long it would wait.
//
// Errors: one that wraps ErrFenced or ErrForeign, as those of a sink; a fault of the database, behind which the same unit
// may be tried again. After ErrForeign, if the other store is gone for good, delete its rows of towline_fences.
//
// The sink of a sync that writes this way is Guarded, if the transaction replaces what an earlier attempt has written; give
// its dataset a Retry then, for a worker that is killed. One that adds to what is there has the sink Discard, and no Retry.
func Guard(ctx context.Context, tx *sql.Tx, s Scope) error {
	if err := guard(ctx, tx, s); err != nil {
		return fmt.Errorf("guard %s/%s/%s: %w", s.Source, s.Dataset, s.Window.Name(), err)
	}
	return nil
}

func guard(ctx context.Context, tx *sql.Tx, s Scope) error {
	if s.Fence == "" || s.Source == "" || s.Dataset == "" {
		return fmt.Errorf("source %q, dataset %q and fence %q must all be given: use the scope of the unit", s.Source, s.Dataset, s.Fence)
	}
	if len(s.Store) > maxStore {
		return fmt.Errorf("store %.80q… is longer than %d bytes", s.Store, maxStore) // IGNORE would cut it
	}
	g := guarding{tx: tx, scope: s, speaks: dialectOf(ctx, tx), at: time.Now().UTC().Format("2006-01-02T15:04:05.000000Z")}
	if s.Store != "" { // a store is the owner of its datasets, whatever the window
		owner, err := g.owner(ctx)
		if err != nil {
			return err
		}
		if owner.store != s.Store {
			return owner.foreign()
		}
	}
	window := s.Window.Name()
	if err := g.insert(ctx, window, g.speaks.take); err != nil {
		return err
	}
	stored, err := g.read(ctx, window, g.speaks.alone)
	switch {
	case err != nil:
		return err
	case stored.store != "" && s.Store != "" && stored.store != s.Store:
		return stored.foreign()
	case stored.fence > s.Fence:
		return fmt.Errorf("%w: fence %s, unit %s, attempt %d, at %s", ErrFenced, stored.fence, stored.unit, stored.attempt, stored.at)
	}
	return g.write(ctx)
}

const maxStore = 64 // bytes of a name in towline_fences

// guarding is one Guard.
type guarding struct {
	tx     *sql.Tx
	scope  Scope
	speaks dialect
	at     string
}

// guardRow is what is stored at a scope.
type guardRow struct {
	fence           events.Fence
	store, unit, at string
	attempt         int
}

func (r guardRow) foreign() error {
	return fmt.Errorf("%w: store %s, at %s: go on with that store, or, if it is gone for good, delete its rows of towline_fences", ErrForeign, r.store, r.at)
}

// ownerWindow is the row that says to which store a dataset of a source belongs. No window has this name.
const ownerWindow = ""

// owner is the row of the store that owns the dataset, which is this one if there was none. It never changes. Units of other
// windows read it, too, and must not wait for each other.
func (g guarding) owner(ctx context.Context) (guardRow, error) {
	if err := g.insert(ctx, ownerWindow, g.speaks.share); err != nil {
		return guardRow{}, err
	}
	return g.read(ctx, ownerWindow, g.speaks.shared)
}

// insert makes the row of a window, unless it is there.
func (g guarding) insert(ctx context.Context, window string, as insertion) error {
	s := g.scope
	query := as.begin + ` INTO towline_fences (scope_key, source, dataset, window_name, fence, store, run, unit, attempt, committed_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) ` + as.end
	_, err := g.tx.ExecContext(ctx, g.speaks.write(query), guardKey(s, window), s.Source, s.Dataset, window, string(s.Fence), s.Store,
		s.Run.String(), s.Unit.String(), s.Attempt, g.at)
	if err != nil {
		return fmt.Errorf("write the fence: %w (the table is towline_fences; sink.GuardSchema makes it)", err)
	}
	return nil
}

func (g guarding) read(ctx context.Context, window, lock string) (r guardRow, err error) {
	query := `SELECT fence, store, unit, attempt, committed_at FROM towline_fences WHERE scope_key = $1` + lock
	err = g.tx.QueryRowContext(ctx, g.speaks.write(query), guardKey(g.scope, window)).Scan(&r.fence, &r.store, &r.unit, &r.attempt, &r.at)
	if err != nil {
		return r, fmt.Errorf("read the fence: %w (the table is towline_fences; sink.GuardSchema makes it)", err)
	}
	return r, nil
}

func (g guarding) write(ctx context.Context) error {
	s := g.scope
	const update = `UPDATE towline_fences SET fence = $1, store = $2, run = $3, unit = $4, attempt = $5, committed_at = $6 WHERE scope_key = $7`
	_, err := g.tx.ExecContext(ctx, g.speaks.write(update), string(s.Fence), s.Store, s.Run.String(), s.Unit.String(), s.Attempt, g.at,
		guardKey(s, s.Window.Name()))
	if err != nil {
		return fmt.Errorf("write the fence: %w", err)
	}
	return nil
}

// guardKey is of a fixed length, and differs where a byte differs.
func guardKey(s Scope, window string) string {
	h := sha256.New()
	for _, part := range []string{s.Source, s.Dataset, window} {
		fmt.Fprintf(h, "%d:%s", len(part), part)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// dialect is where the databases differ.
type dialect struct {
	take, share   insertion // of a row that is to be changed, and of one that is only read
	alone, shared string    // of a query: until the transaction ends, nobody else, or nobody alone
	questions     bool      // placeholders have no numbers
}

// insertion leaves a row that is there as it is.
type insertion struct{ begin, end string }

var (
	orNothing       = insertion{"INSERT", "ON CONFLICT DO NOTHING"}
	sqliteDialect   = dialect{take: orNothing, share: orNothing} // any write locks the file
	postgresDialect = dialect{take: orNothing, share: orNothing, alone: " FOR UPDATE", shared: " FOR SHARE"}
	// IGNORE locks a row that is there as shared, and two of those who then want it alone dead-lock; the other way locks it
	// for one. A query without a lock would show what the tables were when the transaction began to read, also behind a
	// wait, and one with a lock that finds nothing locks what lies between two rows.
	mysqlDialect = dialect{
		take: insertion{"INSERT", "ON DUPLICATE KEY UPDATE scope_key = scope_key"}, share: insertion{begin: "INSERT IGNORE"},
		alone: " FOR UPDATE", shared: " LOCK IN SHARE MODE", questions: true,
	}
)

// dialectOf is the dialect of the database of tx.
func dialectOf(ctx context.Context, tx *sql.Tx) dialect {
	switch sqldialect.Of(ctx, tx) {
	case sqldialect.PostgreSQL:
		return postgresDialect
	case sqldialect.MySQL:
		return mysqlDialect
	}
	return sqliteDialect
}

var numbered = regexp.MustCompile(`\$[0-9]+`)

// write puts a statement, whose placeholders stand in order, as the dialect has it.
func (d dialect) write(query string) string {
	if d.questions {
		return numbered.ReplaceAllString(query, "?")
	}
	return query
}

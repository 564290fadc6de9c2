package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/store"
)

// fill lets the file grow by so many pages and no more, which SQLite reports as a full disk.
func fill(t *testing.T, s *Store, pages int) {
	t.Helper()
	require.NoError(t, s.Write(context.Background(), func(store.Tx) error { return nil }), "there is a connection")
	var now int
	require.NoError(t, s.DB().QueryRow(`PRAGMA page_count`).Scan(&now))
	require.NoError(t, s.writer.s.set("max_page_count", now+pages))
}

func large(id events.StreamID) func(store.Tx) error {
	return appendTo(id, 0, events.UnitLateResult{Text: strings.Repeat("large ", 10_000)})
}

// ErrUnavailable: a full disk at the flush undoes the whole group, says so to each of its callers, and leaves a store
// that goes on when there is room again.
func TestAFullDiskAtTheCommit(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "towline.db"), Options{})
	var voids int
	s.Attach(store.Hooks{OnVoid: func() { voids++ }})
	require.NoError(t, appendNext(s, 1))
	for range 3 {
		fill(t, s, 2)
		require.ErrorIs(t, s.Write(context.Background(), large(unit(2))), store.ErrUnavailable)
	}
	require.Equal(t, 3, voids)
	require.Len(t, readAll(t, s), 1)
	// The connection was replaced, and with it the bound.
	require.NoError(t, s.Write(context.Background(), large(unit(2))))
	require.NoError(t, appendNext(s, 2))
	require.Len(t, readAll(t, s), 3)
}

// N-8: a commit that the disk has refused is remembered, with the time of the first, until one that writes something succeeds;
// one that writes nothing says nothing. A try is a commit that changes nothing.
func TestARefusedCommitIsRemembered(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "towline.db"), Options{})
	require.NoError(t, appendNext(s, 1))
	require.Nil(t, s.Fault())
	var first *Fault
	for range 2 {
		fill(t, s, 2)
		require.ErrorIs(t, s.Write(context.Background(), large(unit(2))), store.ErrUnavailable)
		require.NotNil(t, s.Fault())
		require.ErrorIs(t, classify(s.Fault().Err), store.ErrUnavailable)
		if first == nil {
			first = s.Fault()
		}
		require.Equal(t, first.Since, s.Fault().Since)
		require.NoError(t, s.Write(context.Background(), func(store.Tx) error { return nil }))
		require.NotNil(t, s.Fault())
	}
	before := s.Stats().Commits
	require.NoError(t, s.Try(context.Background()))
	require.Nil(t, s.Fault())
	require.Equal(t, before+1, s.Stats().Commits)
	require.Len(t, readAll(t, s), 1)
	require.ErrorAs(t, s.Write(context.Background(), appendTo(unit(1), 0, renewed(1))), new(*store.ConflictError))
	require.Nil(t, s.Fault(), "a conflict is no fault of the disk")
	left, err := filepath.Glob(s.Path() + trySuffix + "*")
	require.NoError(t, err)
	require.Empty(t, left)
}

// L-2: when SQLite rolls the commit back under a transaction that goes on regardless, nothing of what it does later
// may reach the file: there is no transaction around it any more.
func TestAFullDiskThatIsIgnored(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "towline.db"), Options{})
	require.NoError(t, s.Write(context.Background(), func(tx store.Tx) error {
		return tx.Exec(`CREATE TABLE t (n INTEGER, text TEXT)`)
	}))
	require.NoError(t, appendNext(s, 1))
	fill(t, s, 2)
	var first error
	err := s.Write(context.Background(), func(tx store.Tx) error {
		require.NoError(t, appendTo(unit(2), 0, renewed(1))(tx))
		require.NoError(t, tx.Exec(`INSERT INTO t VALUES (1, 'small')`))
		first = tx.Exec(`INSERT INTO t VALUES (2, $1)`, strings.Repeat("large ", 10_000))
		for _, later := range []error{
			tx.Exec(`INSERT INTO t VALUES (3, 'small')`),
			tx.Query(func(store.Row) error { return nil }, `SELECT 1`),
			appendTo(unit(3), 0, renewed(1))(tx),
		} {
			require.Equal(t, first, later)
		}
		_, err := tx.Stream(unit(1))
		require.Equal(t, first, err)
		_, err = tx.After(0, 1)
		require.Equal(t, first, err)
		return nil
	})
	require.ErrorIs(t, first, store.ErrUnavailable)
	require.ErrorIs(t, err, store.ErrUnavailable)
	require.Len(t, readAll(t, s), 1)
	var rows int
	require.NoError(t, s.DB().QueryRow(`SELECT count(*) FROM t`).Scan(&rows))
	require.Zero(t, rows)
	require.NoError(t, appendNext(s, 2))
	require.Len(t, readAll(t, s), 2)
}

// A connection that cannot be opened again makes the store unavailable, not broken.
func TestTheWriterComesBack(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "towline.db"), Options{})
	require.NoError(t, appendNext(s, 1))
	reopen := s.writer.open
	tries := 0
	s.writer.open = func() (*session, error) {
		if tries++; tries <= 2 {
			return nil, fmt.Errorf("%w: no descriptors", store.ErrUnavailable)
		}
		return reopen()
	}
	s.writer.discard()
	for range 2 {
		require.ErrorIs(t, appendNext(s, 2), store.ErrUnavailable)
	}
	require.NoError(t, appendNext(s, 2))
	require.Len(t, readAll(t, s), 2)
	require.Equal(t, 3, tries)
}

// L-1: what Exec and Query may do, and what not. SQLite is asked when a statement is prepared, by name, not by text.
func TestWhatStatementsMayDo(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "towline.db"), Options{})
	exec := func(query string) error {
		return s.Write(context.Background(), func(tx store.Tx) error { return tx.Exec(query) })
	}
	for _, allowed := range []string{
		`CREATE TABLE t (id INTEGER PRIMARY KEY, events TEXT, position INTEGER REFERENCES events (position)) STRICT`,
		`CREATE INDEX t_events ON t (events) WHERE events IS NOT NULL`,
		`CREATE VIEW v AS SELECT ` + ULIDText("events") + ` AS id FROM t`,
		`CREATE TRIGGER t_checked BEFORE INSERT ON t WHEN NEW.id = 0 BEGIN SELECT RAISE(ABORT, 'zero'); END`,
		`INSERT INTO t (id, events) VALUES (1, 'a'); UPDATE t SET events = 'b'; DELETE FROM t WHERE id = 2`,
		`INSERT INTO t (id) SELECT position FROM events`,
		`ALTER TABLE t ADD COLUMN more TEXT`,
		`ALTER TABLE t RENAME TO u`,
		`DROP VIEW v`,
		`DROP TABLE u`,
	} {
		require.NoError(t, exec(allowed), allowed)
	}
	require.NoError(t, exec(`CREATE TABLE t (id INTEGER PRIMARY KEY)`))
	for _, refused := range []string{
		`INSERT INTO EVENTS (position, tx, stream, version, at, type, schema, data) VALUES (1, 1, X'4041', 1, 1, 1, 1, '{}')`,
		`DELETE FROM main."events"`,
		`CREATE INDEX mine ON events (at)`,
		`CREATE TRIGGER mine AFTER INSERT ON events BEGIN SELECT 1; END`,
		`CREATE TRIGGER mine AFTER INSERT ON t BEGIN INSERT INTO event_types VALUES (1, 'x'); END; INSERT INTO t VALUES (9)`,
		`DROP TRIGGER events_no_delete`,
		`ALTER TABLE events ADD COLUMN mine TEXT`,
		`DROP VIEW log`,
		`DELETE FROM ulid_digits`,
		`INSERT INTO schema_migrations (version_id, is_applied) VALUES (2, 1)`,
		`PRAGMA synchronous = off`,
		`ATTACH 'other.db' AS other`,
		`END`,
	} {
		require.Error(t, exec(refused), refused)
	}
	require.NoError(t, s.Write(context.Background(), func(tx store.Tx) error {
		for _, refused := range []string{`INSERT INTO t VALUES (1) RETURNING id`, `DELETE FROM t`, `CREATE TABLE w (a)`, `PRAGMA synchronous = off`, `COMMIT`} {
			require.Error(t, tx.Query(func(store.Row) error { return nil }, refused), refused)
		}
		return nil
	}))
	require.NoError(t, appendNext(s, 1))
	require.Len(t, readAll(t, s), 1)
	_, err := os.Stat("other.db")
	require.True(t, errors.Is(err, os.ErrNotExist))
}

// A program that builds its queries at run time loses the cache of statements, not its memory.
func TestStatementsAreBounded(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "towline.db"), Options{})
	require.NoError(t, s.Write(context.Background(), func(tx store.Tx) error {
		for i := range 2 * maxLent {
			n := 0
			require.NoError(t, tx.Query(func(row store.Row) error { return row.Scan(&n) }, fmt.Sprint("SELECT ", i)))
			require.Equal(t, i, n)
			require.LessOrEqual(t, len(s.writer.s.queries.lent), maxLent)
		}
		return appendTo(unit(1), 0, renewed(1))(tx)
	}))
}

// L-6, CLK-2: the transactions of an application may append with SQL, but not out of order; the writer sees what they
// did, and remembers nothing that it made untrue.
func TestTheApplicationAppends(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "towline.db"), Options{Now: func() events.Micros { return 1000 }})
	require.NoError(t, appendNext(s, 0))
	insert := func(position, version, at int) error {
		_, err := s.DB().Exec(`INSERT INTO events (position, tx, stream, version, at, type, schema, data)
			SELECT $1, $1, stream, $2, $3, type, schema, data FROM events WHERE position = 1`, position, version, at)
		return err
	}
	for name, err := range map[string]error{
		"gap in positions": insert(3, 2, 1000),
		"gap in versions":  insert(2, 3, 1000),
		"back in time":     insert(2, 2, 999),
		"a version twice":  insert(2, 1, 1000),
	} {
		require.Error(t, err, name)
	}
	require.NoError(t, insert(2, 2, 5000))
	err := s.Write(context.Background(), appendTo(unit(1), 1, renewed(1)))
	var conflict *store.ConflictError
	require.ErrorAs(t, err, &conflict)
	require.EqualValues(t, 2, conflict.Actual)
	require.NoError(t, s.Write(context.Background(), func(tx store.Tx) error {
		require.EqualValues(t, 5000, tx.Now())
		return appendTo(unit(1), 2, renewed(1))(tx)
	}))
	require.Len(t, readAll(t, s), 3)
}

// HC-24: readers that never leave a pause keep the WAL from starting over; above its bound the writer makes the pause.
func TestTheWALIsBounded(t *testing.T) {
	const bound = 1 << 20
	path := filepath.Join(t.TempDir(), "towline.db")
	s := open(t, path, Options{walBytes: bound})
	ctx := context.Background()
	size := func() int64 {
		info, err := os.Stat(path + "-wal")
		require.NoError(t, err)
		return info.Size()
	}
	// The next reader begins before the one before it ends.
	overlap := make(chan struct{})
	last := make(chan error, 1)
	last <- nil
	next := func() {
		begun := make(chan error)
		mine, ended := make(chan struct{}), make(chan error, 1)
		go func() {
			ended <- s.Read(ctx, func(r store.Reader) error {
				_, _, err := r.Head()
				begun <- err
				<-mine
				return err
			})
		}()
		require.NoError(t, <-begun)
		close(overlap)
		require.NoError(t, <-last)
		overlap, last = mine, ended
	}
	n := byte(0)
	grow := func() {
		for range walLookEvery {
			n++
			require.NoError(t, s.Write(ctx, large(events.RunStream(events.RunID{15: n}))))
		}
	}
	next()
	grow()
	require.Greater(t, size(), int64(bound), "the reader is in the way")
	next()
	close(overlap)
	require.NoError(t, <-last)
	grow()
	require.LessOrEqual(t, size(), int64(bound))
	require.Len(t, readAll(t, s), 2*walLookEvery)
}

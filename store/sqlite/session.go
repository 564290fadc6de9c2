package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"

	modernc "modernc.org/sqlite"

	"github.com/towline-dev/towline/store"
)

// driverName is under which the driver registered itself.
const driverName = "sqlite"

// session is one connection with its prepared statements, and the seam to the driver: reading and writing know only
// this. Only queries take a context, and those of the writer pass one that never ends: a context interrupts the
// connection, and what it interrupts may be a commit (L-11).
//
// Queries go through database/sql for its conversions. Statements that return nothing are most of what the writer does
// and need none, so they go to the driver directly.
type session struct {
	db          *sql.DB // of this one connection
	conn        *sql.Conn
	busyTimeout int // milliseconds
	guard       guard
	execs       *statements[rawStmt]
	queries     *statements[*sql.Stmt]
	values      []driver.NamedValue // of the statement that runs, kept for their capacity
	ran         int64               // statements, since the owner last looked
	rolledBack  bool                // a transaction was rolled back as a whole, whoever asked for it; its owner resets it
}

func openSession(ctx context.Context, name string, busyTimeout int) (_ *session, err error) {
	db, err := sql.Open(driverName, name)
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	s := &session{db: db, busyTimeout: busyTimeout}
	s.execs = newStatements(s.prepareExec)
	s.queries = newStatements(s.prepareQuery)
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	if s.conn, err = db.Conn(ctx); err != nil {
		return nil, classify(err)
	}
	return s, s.conn.Raw(func(c any) error {
		c.(modernc.HookRegisterer).RegisterRollbackHook(func() { s.rolledBack = true })
		return c.(modernc.AuthorizerRegisterer).RegisterAuthorizer(s.guard.authorize)
	})
}

func (s *session) prepareQuery(query string) (*sql.Stmt, error) {
	return s.conn.PrepareContext(context.Background(), query)
}

// exec runs a statement of this package.
func (s *session) exec(query string, args ...any) error {
	stmt, err := s.execs.get(mayAll, query)
	if err == nil {
		err = s.execRaw(stmt, args)
	}
	return classify(err)
}

// query runs a query of this package.
func (s *session) query(ctx context.Context, scan func(store.Row) error, query string, args ...any) error {
	stmt, err := s.queries.get(mayAll, query)
	if err != nil {
		return classify(err)
	}
	s.ran++
	return each(ctx, stmt, scan, args)
}

// execLent runs a statement that came from outside, and may touch what is not the log.
func (s *session) execLent(query string, args ...any) error {
	defer s.guard.lend(mayChange)()
	stmt, err := s.execs.get(mayChange, query)
	if err == nil {
		err = s.execRaw(stmt, args)
	}
	if isNotAllowed(err) {
		return fmt.Errorf("a statement here may change tables, but not the log, the transaction or the connection: %w", err)
	}
	return classify(err)
}

// queryLent runs a query that came from outside, and changes nothing.
func (s *session) queryLent(ctx context.Context, scan func(store.Row) error, query string, args ...any) error {
	defer s.guard.lend(mayRead)()
	stmt, err := s.queries.get(mayRead, query)
	if err == nil {
		s.ran++
		err = each(ctx, stmt, scan, args)
	}
	if isNotAllowed(err) {
		return fmt.Errorf("a query here may only read: %w", err)
	}
	return classify(err)
}

// close finalizes every statement; one left open would keep SQLite from its last checkpoint.
func (s *session) close() error {
	errs := []error{s.execs.close(), s.queries.close()}
	if s.conn != nil {
		errs = append(errs, s.conn.Close())
	}
	return errors.Join(append(errs, s.db.Close())...)
}

// each calls scan for every row of a result and closes it.
func each(ctx context.Context, stmt *sql.Stmt, scan func(store.Row) error, args []any) error {
	rows, err := stmt.QueryContext(ctx, args...)
	if err != nil {
		return classify(err)
	}
	defer rows.Close()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	return classify(rows.Err())
}

// truncateWAL copies the WAL to the database and empties it. It waits so many milliseconds for others who use it;
// then it has done what it could, which is no error.
func (s *session) truncateWAL(wait int) error {
	if err := s.set("busy_timeout", wait); err != nil {
		return err
	}
	return errors.Join(s.set("wal_checkpoint", "TRUNCATE"), s.set("busy_timeout", s.busyTimeout))
}

// set runs a pragma, whose answer is of no interest, on this connection.
func (s *session) set(pragma string, value any) error {
	return s.exec(fmt.Sprintf("PRAGMA %s(%v)", pragma, value))
}

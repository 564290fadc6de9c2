// Package sqlite is the sink into one SQLite file. Each surface of a unit is a table.
//
//	sqlite.File("readings.db")
//
// needs no declaration: Put(ctx, "readings", key, row) goes to a table readings(source, key, data, window), with the
// row as JSON in data. A table of one's own shape is declared with Tables.
//
// An attempt gathers its rows in a temporary table of its own connection, which SQLite keeps in an unnamed file: the
// destination stays free for others while the provider works, memory is flat, and a killed process leaves nothing
// behind. (SQLite chooses the folder of that file: SQLITE_TMPDIR, TMPDIR, /var/tmp or /tmp.) Commit moves them in one transaction, together with the fence, the state and a line about the window. Rows
// that did not change are not written again.
//
// The tables whose names start with _towline belong to the sink and may be read by anyone.
package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	sqlite "modernc.org/sqlite"

	"github.com/towline-dev/towline/sink"
)

// Destination is one SQLite file. It is safe for concurrent use, and several processes may write to one file.
type Destination struct {
	path   string
	mode   Mode
	tables map[string]*table // declared ones, by surface
	now    func() time.Time
	wait   time.Duration
	broken error // a mistake in the options; every call answers with it

	pool *sql.DB
	read *sql.DB
	// turn lets one writer of this process at a time into SQLite. The others wait here, in order and under their
	// context, instead of in the busy handler, which is neither.
	turn chan struct{}
	file atomic.Pointer[os.FileInfo] // the file that holds the tables of the sink; nil: not known yet
}

// Option changes what File makes.
type Option func(*Destination)

// Tables declares the shape of surfaces. Other surfaces go to tables of the generic shape.
func Tables(ts ...Table) Option {
	return func(d *Destination) {
		for _, t := range ts {
			compiled, err := t.compile(false)
			if err == nil && d.tables[t.Name] != nil {
				err = fmt.Errorf("table %s is declared twice", t.Name)
			}
			d.broken = errors.Join(d.broken, err)
			d.tables[t.Name] = compiled
		}
	}
}

// Write sets the mode of every table that does not set its own. The default is ReplaceWindow.
func Write(m Mode) Option { return func(d *Destination) { d.mode = m } }

// Now sets the clock of committed_at. The default is time.Now.
func Now(now func() time.Time) Option { return func(d *Destination) { d.now = now } }

// Wait sets how long a write waits for another program that holds the file. The default is 30 s; a context that ends
// earlier ends it earlier.
func Wait(wait time.Duration) Option { return func(d *Destination) { d.wait = wait } }

// busyWait is how long one try for the write lock lasts. Between tries the context is looked at.
const busyWait = 250 * time.Millisecond

// idleConns keep their schema and prepared pages for the next attempt: a third of the cost of a small unit.
const idleConns = 4

// File is the destination at path. It opens nothing: the file is made by the first Open, and a mistake in the options
// is an error of that call.
func File(path string, opts ...Option) *Destination {
	d := &Destination{
		mode: ReplaceWindow, tables: make(map[string]*table), now: time.Now, wait: 30 * time.Second,
		turn: make(chan struct{}, 1),
	}
	d.path, d.broken = filepath.Abs(path) // a program may change its folder later
	for _, o := range opts {
		o(d)
	}
	if !d.mode.known() {
		d.broken = errors.Join(d.broken, unknownMode(d.mode))
	}
	// Pragmas go into the DSN, since every connection needs them. The temporary tables must be files, not memory.
	dsn := fileURL(d.path) + "?_pragma=busy_timeout(" + fmt.Sprint(busyWait.Milliseconds()) + ")" +
		"&_pragma=temp_store(FILE)&_pragma=foreign_keys(1)"
	d.pool = open(dsn + "&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=wal_autocheckpoint(4000)")
	d.pool.SetMaxIdleConns(idleConns)
	d.read = open(dsn + "&mode=rw&_pragma=query_only(1)")
	return d
}

func fileURL(path string) string {
	path = filepath.ToSlash(path)
	if !strings.HasPrefix(path, "/") {
		path = "/" + path // a drive letter
	}
	return (&url.URL{Scheme: "file", Path: path}).String()
}

func open(dsn string) *sql.DB {
	db, err := sql.Open("sqlite", dsn)
	if err != nil {
		panic(fmt.Sprintf("sqlite driver: %v", err)) // it is registered by the import above
	}
	return db
}

// Path is the absolute path of the file.
func (d *Destination) Path() string { return d.path }

// Fenced reports that an older attempt is refused in the transaction of the write.
func (d *Destination) Fenced() bool { return true }

// DB is read-only access to the file, for queries. It does not make the file. Do not close it; Close does.
func (d *Destination) DB(ctx context.Context) (*sql.DB, error) {
	if d.broken != nil {
		return nil, d.broken
	}
	if err := d.read.PingContext(ctx); err != nil {
		return nil, fmt.Errorf("open %s for reading: %w", d.path, err)
	}
	return d.read, nil
}

// Close ends the use of the file. Attempts that are still open fail.
func (d *Destination) Close() error { return errors.Join(d.pool.Close(), d.read.Close()) }

// Open begins one attempt at one scope. Errors: one that wraps sink.ErrFenced; a declared table that the file has in
// another shape; a scope that a table cannot hold.
func (d *Destination) Open(ctx context.Context, s sink.Scope) (sink.Writer, error) {
	if d.broken != nil {
		return nil, d.broken
	}
	if s.Fence == "" || s.Source == "" || s.Dataset == "" {
		return nil, fmt.Errorf("open %s: source %q, dataset %q and fence %q must all be given", d.path, s.Source, s.Dataset, s.Fence)
	}
	w := &writer{d: d, scope: s, window: s.Window.Name()}
	for _, surface := range s.Surfaces {
		t, err := d.table(surface)
		if err != nil {
			return nil, err
		}
		if err := t.takes(w.window); err != nil {
			return nil, err
		}
		w.stages = append(w.stages, &stage{table: t})
	}
	var err error
	if w.file, err = d.setup(ctx); err != nil {
		return nil, err
	}
	if w.conn, err = d.conn(ctx); err != nil {
		return nil, err
	}
	if err := w.begin(); err != nil {
		return nil, errors.Join(err, w.Abort())
	}
	return w, nil
}

// table is the declared shape of a surface, else the generic one.
func (d *Destination) table(surface string) (*table, error) {
	t := d.tables[surface]
	if t == nil {
		var err error
		if t, err = genericTable(surface).compile(true); err != nil {
			return nil, err
		}
	}
	if t.Mode == "" {
		moded := *t
		moded.Mode = d.mode
		return &moded, nil
	}
	return t, nil
}

// Script runs a SQL script of any number of statements in one transaction; it is what a post_sync action does. Every
// statement sees all args, so named ones serve best: sql.Named("run", …) is :run.
//
// The script may read the tables of the sink and not change them, and it must not end the transaction or attach
// another file.
func (d *Destination) Script(ctx context.Context, script string, args ...any) error {
	if d.broken != nil {
		return d.broken
	}
	if _, err := d.setup(ctx); err != nil {
		return err
	}
	conn, err := d.conn(ctx)
	if err != nil {
		return err
	}
	// The script may have left anything behind, temporary tables too: its connection is never used again.
	defer discard(conn)
	err = d.transact(ctx, conn, func() error {
		var refused error
		if err := authorize(conn, func(a action) error {
			refused = errors.Join(refused, a.scriptError())
			return refused
		}); err != nil {
			return err
		}
		_, err := conn.ExecContext(context.Background(), script, args...)
		if clearErr := authorize(conn, nil); err == nil {
			err = clearErr
		}
		if refused != nil {
			return refused
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("script on %s: %w", d.path, err)
	}
	return nil
}

// action is what a statement asks SQLite for.
type action struct {
	code  sqlite.AuthorizerActionCode
	table string
}

func (a action) scriptError() error {
	switch a.code {
	case sqlite.AuthTransaction:
		return errors.New("the script runs in one transaction already: remove BEGIN, COMMIT and ROLLBACK from it")
	case sqlite.AuthAttach, sqlite.AuthDetach:
		return errors.New("a script cannot attach another file: one transaction over two files is not all or nothing")
	case sqlite.AuthInsert, sqlite.AuthUpdate, sqlite.AuthDelete, sqlite.AuthDropTable, sqlite.AuthAlterTable:
		if reserved(a.table) && !strings.HasPrefix(strings.ToLower(a.table), "sqlite_") {
			return fmt.Errorf("a script may read %s and not change it", a.table)
		}
	}
	return nil
}

// authorize asks allow about every action that the connection compiles from now on; nil ends it. SQLite itself knows
// what a statement does, so no text is searched for words.
func authorize(conn *sql.Conn, allow func(action) error) error {
	return conn.Raw(func(c any) error {
		r, ok := c.(sqlite.AuthorizerRegisterer)
		if !ok {
			return fmt.Errorf("driver %T has no authorizer", c)
		}
		if allow == nil {
			return r.RegisterAuthorizer(nil)
		}
		return r.RegisterAuthorizer(func(code sqlite.AuthorizerActionCode, arg1, arg2, _, _ string) sqlite.AuthorizerReturnCode {
			a := action{code: code, table: arg1}
			if code == sqlite.AuthAlterTable {
				a.table = arg2
			}
			if allow(a) != nil {
				return sqlite.AuthorizerDeny
			}
			return sqlite.AuthorizerOK
		})
	})
}

// conn is a connection of its own. A caller's context bounds the wait and never reaches a statement: an interrupt in
// the middle would race with a commit and leave the connection unusable.
func (d *Destination) conn(ctx context.Context) (*sql.Conn, error) {
	var conn *sql.Conn
	err := d.whileBusy(ctx, func() (err error) {
		conn, err = d.pool.Conn(context.Background())
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", d.path, err)
	}
	return conn, nil
}

// discard closes a connection for good instead of giving it back to the pool.
func discard(conn *sql.Conn) {
	_ = conn.Raw(func(any) error { return driver.ErrBadConn })
	_ = conn.Close()
}

// transact runs fn in one write transaction. ctx bounds the wait for the lock; fn and the commit are not interrupted.
// After an error nothing of fn is kept, unless the commit itself failed: see writer.landed.
func (d *Destination) transact(ctx context.Context, conn *sql.Conn, fn func() error) error {
	select {
	case d.turn <- struct{}{}:
		defer func() { <-d.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	return d.transactInTurn(ctx, conn, fn)
}

func (d *Destination) transactInTurn(ctx context.Context, conn *sql.Conn, fn func() error) error {
	if err := d.whileBusy(ctx, func() error { return exec(conn, `BEGIN IMMEDIATE`) }); err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	if err := fn(); err != nil {
		// Some faults, a full disk among them, have ended the transaction already. Then there is nothing to undo.
		_ = exec(conn, `ROLLBACK`)
		return err
	}
	if err := exec(conn, `COMMIT`); err != nil {
		_ = exec(conn, `ROLLBACK`)
		return &commitError{err}
	}
	return nil
}

// commitError says that COMMIT itself failed, the one fault after which the outcome must be looked up.
type commitError struct{ err error }

func (e *commitError) Error() string { return "commit: " + e.err.Error() }
func (e *commitError) Unwrap() error { return e.err }

// sqliteBusy is the primary result code of "another connection holds the lock".
const sqliteBusy = 5

// whileBusy tries again as long as another program holds the file, up to d.wait. SQLite does the waiting, busyWait
// for each try.
func (d *Destination) whileBusy(ctx context.Context, try func() error) error {
	for start := time.Now(); ; {
		if err := ctx.Err(); err != nil {
			return err
		}
		err := try()
		var e *sqlite.Error
		if !errors.As(err, &e) || e.Code()&0xff != sqliteBusy {
			return err
		}
		if time.Since(start) > d.wait {
			return fmt.Errorf("%s is held by another program for longer than %v: end that program's transaction: %w", d.path, d.wait, err)
		}
	}
}

func exec(conn *sql.Conn, query string, args ...any) error {
	_, err := conn.ExecContext(context.Background(), query, args...)
	return err
}

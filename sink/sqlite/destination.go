// Package sqlite is the sink into one SQLite file. Each surface of a unit is a table.
//
//	sqlite.File("readings.db")
//
// needs no declaration: Put(ctx, "readings", key, row) goes to a table readings(source, key, data, window), with the
// row as JSON in data. A table of one's own shape is declared with Tables.
//
// An attempt gathers its rows in a temporary table of its own connection, which SQLite keeps in an unnamed file: the
// destination stays free for others while the provider works, memory is flat, and a killed process leaves nothing
// behind. (SQLite chooses the folder of that file: SQLITE_TMPDIR, TMPDIR, /var/tmp or /tmp.) Commit moves them in one
// transaction, together with the fence, the state and a line about the window. Rows that did not change are not written
// again.
//
// A scope belongs to the Towline store that has written it. Another store is refused there with sink.ErrForeign, unless
// the file is opened with TakeOver.
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
	"sync"
	"sync/atomic"
	"time"

	sqlite "modernc.org/sqlite"

	"github.com/towline-dev/towline/sink"
)

// Destination is one SQLite file. It is safe for concurrent use, and several processes may write to one file.
type Destination struct {
	path   string
	mode   Mode
	tables map[string]*table // declared ones, by fold(surface)
	now    func() time.Time
	wait   time.Duration
	// takeOver: what another store has written is older than anything of this one.
	takeOver bool
	broken   error // a mistake in the options; every call answers with it

	pool *sql.DB
	read *sql.DB
	// turn lets one writer of this process at a time into SQLite. The others wait here, in order and under their
	// context, instead of in the busy handler, which is neither.
	turn chan struct{}
	file atomic.Pointer[os.FileInfo] // the file that holds the tables of the sink; nil: not known yet
	seen atomic.Pointer[os.FileInfo] // the file that DB gave access to last; nil: none yet
	idle sync.Mutex                  // held while connections become idle, or are closed because they are
}

// Option changes what File makes.
type Option func(*Destination)

// Tables declares the shape of surfaces. Other surfaces go to tables of the generic shape.
func Tables(ts ...Table) Option {
	return func(d *Destination) {
		for _, t := range ts {
			compiled, err := t.compile(false)
			if err == nil && d.tables[fold(t.Name)] != nil {
				err = fmt.Errorf("table %s is declared twice", t.Name)
			}
			d.broken = errors.Join(d.broken, err)
			d.tables[fold(t.Name)] = compiled
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

// TakeOver lets a store go on where another one has written. What the other left at a scope, or a store that is not
// known, counts as older than anything of this one, and the next commit there overwrites it. The default is to refuse,
// with sink.ErrForeign.
//
// It is for the heir of a store that is gone for good: lost, deleted, or begun anew on purpose. Do not use it while the
// other store lives: each would overwrite the other, and no fence could say which attempt is the newer one. Where this
// store has written already it does nothing, so it may stay set.
func TakeOver() Option { return func(d *Destination) { d.takeOver = true } }

// busyWait is how long one try for the write lock lasts. Between tries the context is looked at.
const busyWait = 250 * time.Millisecond

// idleConns keep their schema and prepared pages for the next attempt: a third of the cost of a small unit.
const idleConns = 4

// readFor is how long a connection for reading lives. So also who keeps the value of DB reads a file that was replaced
// no longer than this.
const readFor = time.Minute

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
		"&_pragma=temp_store(FILE)&_pragma=foreign_keys(1)&_defensive=1" // no script edits sqlite_schema or raw pages
	d.pool = open(dsn + "&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=wal_autocheckpoint(4000)")
	d.pool.SetMaxIdleConns(idleConns)
	d.read = open(dsn + "&mode=rw&_pragma=query_only(1)")
	d.read.SetMaxIdleConns(idleConns)
	d.read.SetConnMaxLifetime(readFor)
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

// DB is read-only access to the file, for queries. It does not make the file. Do not close it; Close does. Ask for it
// again rather than keep it: that notices a file that was replaced.
func (d *Destination) DB(ctx context.Context) (*sql.DB, error) {
	if d.broken != nil {
		return nil, d.broken
	}
	info, err := os.Stat(d.path)
	if err != nil {
		return nil, fmt.Errorf("open %s for reading: %w", d.path, err)
	}
	if last := d.seen.Swap(&info); last != nil && !os.SameFile(*last, info) {
		d.closeIdle(d.read)
	}
	if err := d.read.PingContext(ctx); err != nil {
		return nil, fmt.Errorf("open %s for reading: %w", d.path, err)
	}
	return d.read, nil
}

// Close ends the use of the file. Attempts that are still open fail.
func (d *Destination) Close() error { return errors.Join(d.pool.Close(), d.read.Close()) }

// Open begins one attempt at one scope. Errors: one that wraps sink.ErrFenced or sink.ErrForeign; a declared table that
// the file has in another shape; a scope that a table cannot hold.
func (d *Destination) Open(ctx context.Context, s sink.Scope) (sink.Writer, error) {
	if d.broken != nil {
		return nil, d.broken
	}
	if s.Fence == "" || s.Source == "" || s.Dataset == "" {
		return nil, fmt.Errorf("open %s: source %q, dataset %q and fence %q must all be given", d.path, s.Source, s.Dataset, s.Fence)
	}
	if d.takeOver && s.Store == "" {
		return nil, fmt.Errorf("open %s: TakeOver needs a scope that names its store, else its own fences count as those of another", d.path)
	}
	w := &writer{d: d, scope: s, window: s.Window.Name()}
	for _, surface := range s.Surfaces {
		if err := w.addStage(surface); err != nil {
			return nil, err
		}
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
	t := d.tables[fold(surface)]
	switch {
	case t == nil:
		var err error
		if t, err = genericTable(surface).compile(true); err != nil {
			return nil, err
		}
	case t.Name != surface:
		return nil, oneTable(t.Name, surface)
	}
	if t.Mode == "" {
		moded := *t
		moded.Mode = d.mode
		return &moded, nil
	}
	return t, nil
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

// closeIdle closes connections to a file that no path leads to any more.
func (d *Destination) closeIdle(pool *sql.DB) {
	d.idle.Lock()
	defer d.idle.Unlock()
	pool.SetMaxIdleConns(0)
	pool.SetMaxIdleConns(idleConns)
}

// giveBack lets another attempt have a connection, unless it leads to a file that was replaced. The lock makes the two
// one step: a connection that was looked at before the file was replaced is idle when closeIdle comes.
func (d *Destination) giveBack(conn *sql.Conn, file os.FileInfo) {
	d.idle.Lock()
	defer d.idle.Unlock()
	if d.unmoved(file) != nil {
		discard(conn)
		return
	}
	_ = conn.Close()
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

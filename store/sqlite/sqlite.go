// Package sqlite is the log on SQLite: one file, one writing connection, group commit.
//
// A store is <path>, and while it is open <path>-wal and <path>-shm, too: a copy of <path> alone is no backup then. The
// lock files <path>-lock, <path>-setup, <path>-group-<n> for each group of the feed and, in shared mode, <path>-turn hold no
// data.
package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	modernc "modernc.org/sqlite"

	"github.com/towline-dev/towline/internal/turn"
	"github.com/towline-dev/towline/store"
)

// Store is a store.Store on one SQLite file.
type Store struct {
	snapshots

	path       string
	level      int
	exclusive  bool
	effectTime time.Duration

	lock   *lock
	writer *writer
	queue  queue
	app    *sql.DB

	feeds     subscriptions
	committed bell // an event, by this process
	left      bell // a group, by its consumer in this process

	end   context.CancelFunc // of what lives as long as the store
	close func() error
}

var _ store.Store = (*Store)(nil)

// queue brings the transactions of all callers to the one writer.
type queue interface {
	Attach(store.Hooks)
	Write(context.Context, func(store.Tx) error) error
	Queued() int
	Close()
}

const (
	maxReaders = 8 // snapshots at a time; more wait
	maxPages   = 2 // pages of Log being read at a time
)

// Open opens the store at path, and makes it if there is no file or an empty one. ctx bounds the wait for other
// processes that are opening it too, and at most 10 seconds are waited.
//
// Errors: one that wraps store.ErrLocked when somebody has the store open in a mode that excludes this one,
// store.ErrFormat when the file is not a store or was made by a newer release (the file is not touched), store.ErrNetworkFS, or
// store.ErrUnavailable when the file cannot be read or written now.
func Open(ctx context.Context, path string, o Options) (_ *Store, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("open store: %w", classify(err))
		}
	}()
	if o, err = o.check(); err != nil {
		return nil, err
	}
	if path, err = resolve(path); err != nil {
		return nil, err
	}
	if err := checkFile(path); err != nil {
		return nil, err
	}
	d := dsn{path: path, synchronous: o.Synchronous, busyTimeout: o.busyTimeout}
	if d.journal, err = journalFor(path, o); err != nil {
		return nil, err
	}
	// A file that has never been a store has no lock beside it, and gets none: it is refused first. Otherwise the lock
	// comes first, for this process may have the store open, and closing a second descriptor of its file would take
	// SQLite's own locks away.
	if _, err := os.Stat(path + "-lock"); errors.Is(err, os.ErrNotExist) {
		if err := refuse(ctx, d); err != nil {
			return nil, err
		}
	}
	s := &Store{path: path, exclusive: !o.Shared, effectTime: o.effectTime}
	if s.lock, err = lockForLife(path, o.Shared); err != nil {
		return nil, err
	}
	s.maxReadAge = o.maxReadAge
	s.alive, s.end = context.WithCancel(context.Background())
	s.close = sync.OnceValue(s.shut)
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	setup, err := lockForSetup(ctx, path)
	if err != nil {
		return nil, err
	}
	defer setup.release()
	if err := s.start(ctx, d, o); err != nil {
		return nil, err
	}
	return s, nil
}

// start does all that needs the setup lock.
func (s *Store) start(ctx context.Context, d dsn, o Options) error {
	if err := refuse(ctx, d); err != nil {
		return err
	}
	h, err := stamp(ctx, d)
	if err != nil {
		return err
	}
	if err := h.check(s.path); err != nil {
		return err
	}
	s.level = int(h.level)
	s.openPools(d, d.reader())
	app, err := modernc.NewConnector(d.writer())
	if err != nil {
		return err
	}
	s.app = sql.OpenDB(appConnector{app})
	held, err := s.lock.info()
	if err != nil {
		return err
	}
	s.writer = &writer{
		open:  func() (*session, error) { return openWriter(d) },
		clock: o.Now,
		level: s.level,
		wal:   walBound{bytes: o.walBytes},
		place: place{path: s.path, wal: d.journal == "wal", lock: held},
		bell:  &s.committed,
	}
	if o.Shared {
		s.writer.turn = turn.At(s.path+"-turn", time.Duration(o.busyTimeout)*time.Millisecond)
	}
	if d.journal == "wal" {
		s.writer.wal.path = s.path + "-wal"
	}
	if s.writer.s, err = s.writer.open(); err != nil {
		return err
	}
	if err := makeTables(ctx, d, s.writer.s); err != nil {
		return err
	}
	if err := s.writer.place.opened(); err != nil {
		return err
	}
	if o.Inline {
		s.queue = store.NewInline(s.writer)
	} else {
		s.queue = store.NewWriter(s.writer)
	}
	return nil
}

// refuse returns why a file must not be opened.
func refuse(ctx context.Context, d dsn) error {
	h, err := peek(ctx, d)
	if err != nil {
		return err
	}
	return h.check(d.path)
}

// makeTables brings the log's own tables up to date. Mostly they are, and then the writer has seen it: each connection reads
// the whole schema anew, which is the time of a start.
func makeTables(ctx context.Context, d dsn, writer *session) (err error) {
	if made, err := tablesMade(writer); made || err != nil {
		return err
	}
	db, err := sql.Open(driverName, d.writer())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	db.SetMaxOpenConns(1)
	if err := migrate(ctx, db); err != nil {
		return err
	}
	return fillNames(ctx, db)
}

// openWriter opens the writing connection, and makes sure that it is what its name asks for: a pragma that cannot be
// obeyed answers with the old value and no error (HC-36).
func openWriter(d dsn) (_ *session, err error) {
	s, err := openSession(context.Background(), d.writer(), d.busyTimeout)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	var journal string
	var synchronous, foreignKeys int
	const query = `
		SELECT (SELECT journal_mode FROM pragma_journal_mode),
		       (SELECT synchronous FROM pragma_synchronous),
		       (SELECT foreign_keys FROM pragma_foreign_keys)`
	err = s.query(context.Background(), func(row store.Row) error { return row.Scan(&journal, &synchronous, &foreignKeys) }, query)
	if err != nil {
		return nil, err
	}
	want := map[string]int{syncNormal: 1, syncFull: 2}[d.synchronous]
	if journal != d.journal || synchronous != want || foreignKeys != 1 {
		return nil, fmt.Errorf("%s: journal mode %s, synchronous %d and foreign keys %d are in force, not %s, %d and 1: the file system or the file does not allow it",
			d.path, journal, synchronous, foreignKeys, d.journal, want)
	}
	return s, nil
}

// resolve follows symbolic links, as SQLite does, so that all names of a store lead to the same locks.
func resolve(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	real, err := filepath.EvalSymlinks(path)
	if err == nil {
		return real, nil
	}
	if !errors.Is(err, os.ErrNotExist) {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	dir, err := filepath.EvalSymlinks(filepath.Dir(path))
	if errors.Is(err, os.ErrNotExist) {
		return "", fmt.Errorf("%s: its folder is missing: make it first", path)
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	path = filepath.Join(dir, filepath.Base(path))
	target, err := os.Readlink(path)
	if err != nil {
		return path, nil //nolint:nilerr // it is no link: nothing is there
	}
	if !filepath.IsAbs(target) { // a link to what is not there yet
		target = filepath.Join(dir, target)
	}
	return resolve(target)
}

// journalFor decides by the file system of the store.
func journalFor(path string, o Options) (string, error) {
	name, err := o.networkFS(filepath.Dir(path))
	switch {
	case err != nil:
		return "", fmt.Errorf("look at the file system of %s: %w", path, err)
	case name == "":
		return "wal", nil
	case !o.AllowNetworkFS:
		return "", fmt.Errorf("%s is on %w (%s), on which a store is not safe: put it on a local disk, or set store.allow_network_fs", path, store.ErrNetworkFS, name)
	case o.Shared:
		return "", fmt.Errorf("%s is on %w (%s), on which a store cannot be shared: use exclusive mode", path, store.ErrNetworkFS, name)
	}
	return "delete", nil
}

// Attach sets the hooks, and the clock if they have one. It is called once, before the first Write.
func (s *Store) Attach(h store.Hooks) {
	if h.Now != nil {
		s.writer.clock = h.Now
	}
	s.queue.Attach(h)
}

// Read runs fn on one snapshot, which may get 5 seconds old; a query that runs then is interrupted, and every later
// one fails. Errors: what fn returned; one that wraps store.ErrUnavailable; store.ErrClosed; ctx's.
func (s *Store) Read(ctx context.Context, fn func(store.Reader) error) error {
	return s.snapshots.read(ctx, fn)
}

// Write runs fn as one transaction. ctx bounds the wait until the writer takes it; from then on Write stays for the
// result, whatever ctx does, so ctx's error means that nothing has happened.
func (s *Store) Write(ctx context.Context, fn func(store.Tx) error) error {
	if store.IsInside(ctx, s.app) {
		return store.ErrInTransaction
	}
	return s.queue.Write(ctx, fn)
}

// Queued is how many transactions wait for the writer.
func (s *Store) Queued() int { return s.queue.Queued() }

// Exclusive reports that no other process can write while this store is open.
func (s *Store) Exclusive() bool { return s.exclusive }

// Path is the file of the store, absolute and without symbolic links.
func (s *Store) Path() string { return s.path }

// Level is the format level of the store (DUR-7).
func (s *Store) Level() int { return s.level }

// DB is for the tables of an application in the same file. Its connections are set as the writer's is: a transaction
// takes the write lock when it begins, unless it is read-only, and is on disk when it has committed. While one is
// open nothing else is written, and after 5 seconds Write fails with store.ErrUnavailable. It is closed with the store.
func (s *Store) DB() *sql.DB { return s.app }

// Close waits for the commit in progress, copies the WAL to the database and gives the lock back. What is queued, and
// every later Write and Read, gets store.ErrClosed; a read in progress is interrupted. A second Close returns what the
// first did. It must not be called inside of Write or Read.
func (s *Store) Close() error { return s.close() }

func (s *Store) shut() error {
	s.end()
	s.feeds.close() // they book what is done, for which the queue must be open
	var errs []error
	if s.queue != nil {
		s.queue.Close()
	}
	if s.app != nil {
		errs = append(errs, s.app.Close())
	}
	errs = append(errs, s.closePools())
	if s.writer != nil {
		errs = append(errs, s.writer.close())
	}
	return errors.Join(append(errs, s.lock.release())...)
}

// appConnector gives every connection of an application the rules of the log that the engine keeps in Go: no gap in
// positions and versions, no step back in time (L-6, CLK-2), and no message that is submitted or over twice (J-3).
type appConnector struct{ driver.Connector }

const appRules = `
	CREATE TEMP TRIGGER events_no_gap AFTER INSERT ON main.events
	WHEN NOT (NEW.position = 1 OR EXISTS (SELECT 1 FROM main.events WHERE position = NEW.position - 1 AND at <= NEW.at))
	  OR NOT (NEW.version = 1 OR EXISTS (SELECT 1 FROM main.events WHERE stream = NEW.stream AND version = NEW.version - 1))
	BEGIN
	  SELECT RAISE(ABORT, 'an event must follow the one before it, in the log, in its stream and in time');
	END;
	CREATE TEMP TRIGGER events_message_once AFTER INSERT ON main.events
	WHEN NEW.type = 120 AND EXISTS (
	    SELECT 1 FROM main.events
	    WHERE type = 120 AND data ->> '$.message_id' = NEW.data ->> '$.message_id' AND position < NEW.position)
	  OR NEW.type BETWEEN 121 AND 122 AND EXISTS (
	    SELECT 1 FROM main.events
	    WHERE type BETWEEN 121 AND 122 AND data ->> '$.message_id' = NEW.data ->> '$.message_id' AND position < NEW.position)
	BEGIN
	  SELECT RAISE(ABORT, 'a message is submitted once, and handled or rejected once');
	END`

func (a appConnector) Connect(ctx context.Context) (driver.Conn, error) {
	c, err := a.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := c.(driver.ExecerContext).ExecContext(ctx, appRules, nil); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

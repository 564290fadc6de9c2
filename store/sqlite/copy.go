package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	modernc "modernc.org/sqlite"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/store"
)

// Copy is what a copy of a store holds: all that was committed up to one moment.
type Copy struct {
	Path  string          // absolute
	Bytes int64           // of the file
	Level int             // format level (DUR-7)
	Epoch int             // 1, and more behind each restore (DUR-5)
	Head  events.Position // of the newest event; 0: an empty log
	At    events.Micros   // its time
}

// copyPages is how much is copied between two looks at the context: 4 MiB.
const copyPages = 1024

// copyStore copies the store at d into a new file, page by page, as it was at one moment. The snapshot keeps the writer's
// WAL from starting over until the copy is whole, and nothing else from anybody.
func copyStore(ctx context.Context, d dsn, to string, progress func(done, total int)) (err error) {
	source, release, err := openForCopy(d)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, release()) }()
	conn, err := source.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	// A backup that finds its source in a transaction stays on the snapshot of that, so no commit makes it begin anew.
	tx, err := conn.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return err
	}
	defer tx.Rollback()
	var tables int
	if err := tx.QueryRowContext(ctx, `SELECT count(*) FROM sqlite_schema`).Scan(&tables); err != nil {
		return err
	}
	// Nothing is lost with a copy that dies half way, so it needs no journal, and it is synced once, when it is whole.
	target := dsn{path: to, busyTimeout: d.busyTimeout}
	name := target.build("rwc", target.pragma("journal_mode", "off"), target.pragma("synchronous", "off"))
	return conn.Raw(func(c any) error {
		b, err := c.(interface {
			NewBackup(string) (*modernc.Backup, error)
		}).NewBackup(name)
		if err != nil {
			return err
		}
		for more := true; more && err == nil; {
			if err = ctx.Err(); err == nil {
				more, err = b.Step(copyPages)
			}
			if progress != nil && err == nil {
				progress(b.PageCount()-b.Remaining(), b.PageCount())
			}
		}
		if err != nil {
			_ = b.Finish() // it says the same again
			return err
		}
		return b.Finish()
	})
}

// openForCopy opens a store to read it. One with a WAL is read through SQLite's own locks, and is not changed: not even its
// WAL is copied back. One without is in nobody's use; it is kept from being opened meanwhile, and read without a WAL. Where that
// needs a lock that whoever reads may not take, release fails if somebody has opened it.
func openForCopy(d dsn) (db *sql.DB, release func() error, err error) {
	name, free := d.peek(), func() error { return nil }
	if _, err := os.Stat(d.path + "-wal"); errors.Is(err, fs.ErrNotExist) {
		l, err := holdStill(d.path)
		if err != nil {
			return nil, nil, err
		}
		switch {
		case l == nil:
		case l.held():
			name, free = d.atRest(), l.release
		default:
			s := &ReadOnly{path: d.path, networkFS: networkFS}
			before, err := s.look()
			if err != nil {
				return nil, nil, err
			}
			name, free = before.name(d.path), func() error { return s.unchanged(before) }
		}
	}
	if db, err = sql.Open(driverName, name); err != nil {
		return nil, nil, errors.Join(err, free())
	}
	db.SetMaxOpenConns(1)
	return db, func() error { return errors.Join(db.Close(), free()) }, nil
}

// holdStill takes the lock of a store that is at rest. nil: somebody has it open, so it must be read as one that changes. A
// lock without a file: there is none to take, or only others may take it.
func holdStill(path string) (*lock, error) {
	if _, err := os.Stat(path + "-lock"); errors.Is(err, fs.ErrNotExist) {
		return &lock{}, nil // it was never opened here: a copy
	}
	l, err := openLock(path + "-lock")
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) {
		return &lock{}, nil
	}
	if err != nil {
		return nil, err
	}
	ok, err := l.try()
	if ok {
		l.sign(false)
		return l, nil
	}
	return nil, errors.Join(err, l.release())
}

// atRest is for a file that nobody has open: SQLite takes no lock, and makes no file beside it.
func (d dsn) atRest() string { return d.build("ro", "immutable=1") }

// inspect proves that a file which nobody has open is a whole store, and says what it holds.
func inspect(ctx context.Context, path string) (c Copy, err error) {
	d := dsn{path: path, busyTimeout: busyTimeout}
	db, err := sql.Open(driverName, d.atRest())
	if err != nil {
		return c, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	db.SetMaxOpenConns(1)
	h, err := readHeader(ctx, path, db)
	if err != nil {
		return c, err
	}
	if h.fresh() || h.application == 0 {
		return c, fmt.Errorf("%w: %s is not a store of Towline", store.ErrFormat, path)
	}
	if err := h.check(path); err != nil {
		return c, err
	}
	var found string
	if err := db.QueryRowContext(ctx, `PRAGMA integrity_check(1)`).Scan(&found); err != nil {
		return c, fmt.Errorf("check the integrity of %s: %w", path, err)
	}
	if found != "ok" {
		return c, fmt.Errorf("%w: %s: %s", ErrDamaged, path, found)
	}
	c = Copy{Path: path, Level: int(h.level)}
	if c.Epoch, err = readEpoch(ctx, db); err != nil {
		return c, err
	}
	const newest = `SELECT position, at FROM events ORDER BY position DESC LIMIT 1`
	if err := db.QueryRowContext(ctx, newest).Scan(&c.Head, &c.At); err != nil && !errors.Is(err, sql.ErrNoRows) {
		return c, err
	}
	info, err := os.Stat(path)
	if err == nil {
		c.Bytes = info.Size()
	}
	return c, err
}

// ErrDamaged: a file is a store, and SQLite finds that its pages contradict each other.
var ErrDamaged = errors.New("the file is damaged")

// readEpoch is the epoch of a store: what its log says, or its newest restore, of which no start has written yet.
func readEpoch(ctx context.Context, db *sql.DB) (int, error) {
	epoch := 1
	const logged = `
		SELECT coalesce(max(data ->> '$.epoch'), 1)
		FROM events
		WHERE stream >= $1 AND stream < $2 AND type = $3`
	err := db.QueryRowContext(ctx, logged, []byte{byte(events.FamilyNode)}, []byte{byte(events.FamilyNode) + 1}, int(events.TypeStoreRestored)).Scan(&epoch)
	if err != nil {
		return 0, fmt.Errorf("read the epoch: %w", err)
	}
	var there int
	if err := db.QueryRowContext(ctx, `SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'restores'`).Scan(&there); err != nil || there == 0 {
		return epoch, err
	}
	restored := 0
	err = db.QueryRowContext(ctx, `SELECT coalesce(max(epoch), 1) FROM restores`).Scan(&restored)
	return max(epoch, restored), err
}

// partial is a folder beside a file that is being made, of which at most one process makes the content. What a killed one
// has left in it goes with the next.
type partial struct {
	dir  string
	lock *lock
}

const (
	partialFile   = "towline.db" // in the folder
	partialSuffix = "-partial"   // of the folder of a copy
)

func makePartial(path, suffix string) (*partial, error) {
	p := &partial{dir: path + suffix}
	if err := os.Mkdir(p.dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	l, err := openLock(filepath.Join(p.dir, "lock"))
	if err != nil {
		return nil, err
	}
	switch ok, err := l.try(); {
	case err != nil:
		return nil, errors.Join(err, l.release())
	case !ok:
		return nil, errors.Join(fmt.Errorf("%w: another process is making %s", store.ErrLocked, path), l.release())
	}
	p.lock = l
	return p, p.clear()
}

func (p *partial) file() string { return filepath.Join(p.dir, partialFile) }

// clear removes what is in the folder but for its lock.
func (p *partial) clear() error {
	entries, err := os.ReadDir(p.dir)
	for _, e := range entries {
		if e.Name() != "lock" {
			err = errors.Join(err, os.RemoveAll(filepath.Join(p.dir, e.Name())))
		}
	}
	return err
}

// remove removes the folder, while it holds the lock.
func (p *partial) remove() error { return errors.Join(os.RemoveAll(p.dir), p.lock.release()) }

// moveInto gives a file its name for good: it is on disk before the name is, and the name when moveInto returns.
func moveInto(from, to string) error {
	if err := syncFile(from); err != nil {
		return err
	}
	if err := os.Rename(from, to); err != nil {
		return err
	}
	return syncFile(filepath.Dir(to))
}

// syncFile brings a file, or the names in a folder, to disk.
func syncFile(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// duplicate copies the bytes of a file that nobody writes; the copy is on disk when it returns, or is not there.
func duplicate(from, to string) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, info.Mode().Perm())
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	if err == nil {
		err = out.Sync()
	}
	if err = errors.Join(err, out.Close()); err != nil {
		return errors.Join(err, os.Remove(to))
	}
	return nil
}

package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/towline-dev/towline/store"
)

// ReadOnly is a store.Store that only reads: the store of a running engine, of another process or of this one, the file of
// one that was killed, a backup, a copy in a folder that cannot be written. It takes no lock, makes no store, migrates
// nothing, and writes nothing into a file that is there.
//
// A file with a WAL beside it is read through SQLite's own locks, and each Read sees what was committed when it began. SQLite
// then may make <path>-shm, if a copy or a crash has left none. A file without a WAL is in nobody's use, and nothing appears
// beside it: it is read without locks. If it changes under a Read all the same, because an engine starts on it, that Read
// fails with store.ErrUnavailable, and the next one goes by the WAL.
type ReadOnly struct {
	path      string
	level     int
	networkFS func(dir string) (string, error)

	alive context.Context // ends with Close
	end   context.CancelFunc

	mu   sync.Mutex
	now  *snapshots // of the file as it was when it was looked at last
	seen look
}

var _ store.Store = (*ReadOnly)(nil)

// OpenReadOnly opens the store at path to read it. ctx bounds the first look.
//
// Errors: one that wraps fs.ErrNotExist when there is no file; store.ErrFormat when it is no store, is empty, or has a level
// that this release cannot read; store.ErrNetworkFS when an engine may be using it over a network; store.ErrUnavailable when
// it cannot be read now.
func OpenReadOnly(ctx context.Context, path string) (*ReadOnly, error) {
	return openReadOnly(ctx, path, networkFS)
}

func openReadOnly(ctx context.Context, path string, networkFS func(dir string) (string, error)) (*ReadOnly, error) {
	real, err := filepath.Abs(path)
	if err == nil {
		real, err = filepath.EvalSymlinks(real)
	}
	if err != nil {
		return nil, fmt.Errorf("open store to read: %w", err)
	}
	s := &ReadOnly{path: real, networkFS: networkFS}
	s.alive, s.end = context.WithCancel(context.Background())
	if err := s.open(ctx); err != nil {
		return nil, fmt.Errorf("open store to read: %w", errors.Join(classify(err), s.Close()))
	}
	return s, nil
}

func (s *ReadOnly) open(ctx context.Context) error {
	seen, err := s.look()
	if err != nil {
		return err
	}
	if seen.file.Size() == 0 && !seen.used {
		return fmt.Errorf("%w: %s is empty: it is no store yet", store.ErrFormat, s.path)
	}
	h, err := headerOf(ctx, s.path, seen.name(s.path))
	if err != nil {
		return s.hint(err)
	}
	if h.fresh() {
		return fmt.Errorf("%w: %s is empty: it is no store yet", store.ErrFormat, s.path)
	}
	if err := h.check(s.path); err != nil {
		return err
	}
	s.level = int(h.level)
	return nil
}

func headerOf(ctx context.Context, path, name string) (h header, err error) {
	db, err := sql.Open(driverName, name)
	if err != nil {
		return header{}, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	return readHeader(ctx, path, db)
}

// look is what a file and its folder say of who may be using it.
type look struct {
	file os.FileInfo
	used bool // a WAL or a journal is beside it: somebody has it open, or died with it
}

func (l look) same(other look) bool {
	return l.used == other.used && os.SameFile(l.file, other.file) &&
		(l.used || l.file.Size() == other.file.Size() && l.file.ModTime().Equal(other.file.ModTime()))
}

// name is the data source by which the file is read.
func (l look) name(path string) string {
	d := dsn{path: path, busyTimeout: busyTimeout}
	if l.used {
		return d.visitor()
	}
	return d.still()
}

func (s *ReadOnly) look() (look, error) {
	info, err := os.Stat(s.path)
	switch {
	case err != nil:
		return look{}, err
	case !info.Mode().IsRegular():
		return look{}, fmt.Errorf("%w: %s is not a regular file", store.ErrFormat, s.path)
	}
	wal, walErr := os.Stat(s.path + "-wal")
	_, journalErr := os.Stat(s.path + "-journal")
	_, shmErr := os.Stat(s.path + "-shm")
	// A WAL without a byte belongs to an engine that is running only if its index is there, too.
	hasWAL := walErr == nil && (wal.Size() > 0 || shmErr == nil)
	used := hasWAL || journalErr == nil
	if !hasWAL {
		return look{info, used}, nil
	}
	switch name, err := s.networkFS(filepath.Dir(s.path)); {
	case err != nil:
		return look{}, fmt.Errorf("look at the file system of %s: %w", s.path, err)
	case name != "":
		return look{}, fmt.Errorf("%s is on %w (%s), and its WAL says that it is in use: read a backup of it, or use --url", s.path, store.ErrNetworkFS, name)
	}
	return look{info, used}, nil
}

// hint says what to do where SQLite cannot make the index of a WAL.
func (s *ReadOnly) hint(err error) error {
	if _, shmErr := os.Stat(s.path + "-shm"); err != nil && errors.Is(classify(err), store.ErrUnavailable) && errors.Is(shmErr, fs.ErrNotExist) {
		return fmt.Errorf("%w: %s has a WAL beside it, and its folder cannot be written: copy both into one that can: %w", store.ErrUnavailable, s.path, err)
	}
	return err
}

// Read runs fn on one snapshot, which may get 5 seconds old. Errors: those of Store.Read; store.ErrUnavailable, also when
// the file was changed by somebody who has just opened it, and what fn has seen may be wrong: read again.
func (s *ReadOnly) Read(ctx context.Context, fn func(store.Reader) error) error {
	before, err := s.look()
	if err != nil {
		return fmt.Errorf("look for the store: %w: %w", store.ErrUnavailable, err)
	}
	snapshots, err := s.snapshotsOf(before)
	if err != nil {
		return err
	}
	err = snapshots.read(ctx, fn)
	if changed := s.unchanged(before); changed != nil {
		return changed
	}
	return err
}

// unchanged is an error if what was read without locks has been changed meanwhile.
func (s *ReadOnly) unchanged(before look) error {
	if before.used {
		return nil
	}
	if after, err := s.look(); err != nil || !after.same(before) {
		return fmt.Errorf("%w: %s has been changed while it was read: read again", store.ErrUnavailable, s.path)
	}
	return nil
}

// snapshotsOf are those by which the file is read as it is now. Those of before serve the reads that have begun.
func (s *ReadOnly) snapshotsOf(seen look) (*snapshots, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.alive.Err() != nil {
		return nil, store.ErrClosed
	}
	if s.now != nil && s.seen.same(seen) {
		return s.now, nil
	}
	if s.now != nil {
		_ = s.now.closePools() // they have only read
	}
	s.now, s.seen = &snapshots{maxReadAge: maxReadAge, alive: s.alive}, seen
	s.now.openPools(dsn{busyTimeout: busyTimeout}, seen.name(s.path))
	return s.now, nil
}

// Write refuses with store.ErrReadOnly.
func (s *ReadOnly) Write(context.Context, func(store.Tx) error) error { return store.ErrReadOnly }

// Attach does nothing: there is no transaction whose clock or caches could matter.
func (s *ReadOnly) Attach(store.Hooks) {}

// Exclusive is false: others may write.
func (s *ReadOnly) Exclusive() bool { return false }

// Path is the file, absolute and without symbolic links.
func (s *ReadOnly) Path() string { return s.path }

// Level is the format level of the store when it was opened (DUR-7).
func (s *ReadOnly) Level() int { return s.level }

// Close ends the reads in progress. A later Read gets store.ErrClosed; a second Close does nothing.
func (s *ReadOnly) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.end()
	if s.now == nil {
		return nil
	}
	return s.now.closePools()
}

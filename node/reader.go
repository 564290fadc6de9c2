package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/relay"
	"github.com/towline-dev/towline/store"
	"github.com/towline-dev/towline/store/sqlite"
)

// ReaderConfig says which store is read.
type ReaderConfig struct {
	Store   string         // path of its file
	Scratch string         // folder for what has to be folded, as large as what is asked about; empty: that of temporary files
	Clock   *towline.Clock // nil: a new one of the wall clock
	Version string         // of the program
	Logger  *slog.Logger   // nil: slog.Default()
}

// Reader reads a store without being a node of it: the store of a running node, of one that was killed, or a backup. It
// takes no lock, migrates nothing, runs no loop and writes nothing, not even that it was there.
type Reader struct {
	c      ReaderConfig
	store  *sqlite.ReadOnly
	engine *towline.Engine
}

// OpenReader opens a store to read it. Tables of another release are not used: the log is folded into a scratch store
// instead, as far as a question needs it.
//
// Errors: one that wraps fs.ErrNotExist when there is no file; store.ErrFormat when the file is no store, or has a level that
// this release cannot read; store.ErrNetworkFS; towline.ErrUnavailable when it cannot be read now.
func OpenReader(ctx context.Context, c ReaderConfig) (*Reader, error) {
	r := &Reader{c: c}
	var err error
	if r.store, err = sqlite.OpenReadOnly(ctx, c.Store); err != nil {
		return nil, err
	}
	r.engine, err = towline.OpenReader(ctx, r.store, towline.ReaderConfig{
		Scratch: r.newScratch, Clock: c.Clock, Version: c.Version, Logger: c.Logger,
	})
	if err != nil {
		return nil, errors.Join(err, r.store.Close())
	}
	return r, nil
}

// Engine answers questions. What writes gets towline.ErrReadOnly.
func (r *Reader) Engine() *towline.Engine { return r.engine }

// Path is the file that is read, absolute and without symbolic links.
func (r *Reader) Path() string { return r.store.Path() }

// Level is the format level of the store when it was opened (DUR-7).
func (r *Reader) Level() int { return r.store.Level() }

// AsOf is the state behind the event at a position (AS-1, towline.Engine.AsOf). Whoever asks closes it.
func (r *Reader) AsOf(ctx context.Context, p events.Position) (*towline.Past, error) {
	s, err := r.newScratch(ctx)
	if err != nil {
		return nil, err
	}
	past, err := r.engine.AsOf(ctx, p, s)
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return past, nil
}

// Integrity is what SQLite finds wrong with the file: its first sentence about it; empty: nothing. It looks at every page, and
// a file of which that takes longer than a snapshot may last is ErrUnavailable: copy it, and look at the copy.
func (r *Reader) Integrity(ctx context.Context) (wrong string, err error) {
	err = r.store.Read(ctx, func(tx store.Reader) error {
		return tx.Query(func(row store.Row) error { return row.Scan(&wrong) }, `PRAGMA quick_check(1)`)
	})
	if wrong == "ok" {
		wrong = ""
	}
	return wrong, err
}

// Verify proves the log and compares every view with it, as Node.Verify does, with or without a node at work on the store. tell
// hears up to which event the log was folded; nil: nobody does. The scratch store needs as much room as the store has.
func (r *Reader) Verify(ctx context.Context, tell func(at events.Position)) (towline.Verification, error) {
	s, err := r.newScratch(ctx)
	if err != nil {
		return towline.Verification{}, err
	}
	if tell == nil {
		tell = func(events.Position) {}
	}
	v, err := r.engine.VerifyTelling(ctx, s, tell)
	return v, errors.Join(err, s.Close())
}

func (r *Reader) newScratch(ctx context.Context) (store.Store, error) {
	dir, err := os.MkdirTemp(r.c.Scratch, "towline-read-")
	if err != nil {
		return nil, fmt.Errorf("scratch folder: %w", err)
	}
	s, err := sqlite.Open(ctx, filepath.Join(dir, scratchName), sqlite.Options{Synchronous: "normal", AllowNetworkFS: true})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("scratch store: %w", err), os.RemoveAll(dir))
	}
	return &scratch{s, dir}, nil
}

// Committed never closes: what others commit is found by looking again.
func (r *Reader) Committed() <-chan struct{} { return nil }

// Loops are none.
func (r *Reader) Loops() []relay.Loop { return nil }

// Transport is empty: a reader publishes nothing.
func (r *Reader) Transport(events.Kind) string { return "" }

// BackupState of a reader is zero: it makes no backup.
func (r *Reader) BackupState() BackupState { return BackupState{} }

// Writable is never so: a reader writes nothing.
func (r *Reader) Writable(context.Context) error { return towline.ErrReadOnly }

// Close removes what was folded. The store is as it was.
func (r *Reader) Close() error { return errors.Join(r.engine.CloseReader(), r.store.Close()) }

package sim

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/store/sqlite"
)

// backup is a copy of the store, and how far the record of what lies outside was when it was made.
type backup struct {
	path                       string
	head                       events.Position
	published, called, written int
}

// Backup copies the store as it is now, beside it, while nodes work on it or none does. A later one replaces it.
func (w *World) Backup(ctx context.Context) error {
	b := backup{
		path: w.c.Store + "-copy", head: w.head,
		published: len(w.out.Published), called: len(w.out.Called), written: len(w.out.Written),
	}
	if _, err := sqlite.Backup(ctx, w.c.Store, b.path, sqlite.BackupOptions{Force: true}); err != nil {
		return fmt.Errorf("sim: %w", err)
	}
	w.backup = &b
	return nil
}

// Restore puts the newest Backup in the place of the store (DUR-5). No node may live. What lies outside stays as it is: rows,
// effects, what waits in a broker. Of what was published, called and written only what the copy knows of stays on record: the log
// that goes on from there can be held against nothing else.
func (w *World) Restore(ctx context.Context) error {
	switch {
	case w.backup == nil:
		return errors.New("sim: there is no backup")
	case len(w.nodes) > 0:
		return errors.New("sim: a node has the store open")
	}
	b := w.backup
	at := w.Now().Time()
	if _, err := sqlite.Restore(ctx, b.path, w.c.Store, sqlite.RestoreOptions{Now: func() time.Time { return at }}); err != nil {
		return fmt.Errorf("sim: %w", err)
	}
	w.head = b.head
	w.out.Published, w.out.Called, w.out.Written = w.out.Published[:b.published], w.out.Called[:b.called], w.out.Written[:b.written]
	return nil
}

package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/store/sqlite"
)

// BackupOptions say how a copy of a store is made.
type BackupOptions struct {
	Force    bool                  // replaces a file that has the name already
	Progress func(done, total int) // pages; nil: nobody looks
}

// Backup copies the store at a path into a file, while a node runs on it, in this process or another, or at rest. The copy is the
// store of one moment; it is checked for its integrity and verified (I-26), and has its name only when it is on disk. Errors: as
// sqlite.Backup; *NotGoodError when the copy is no good store.
func Backup(ctx context.Context, store, to string, o BackupOptions) (sqlite.Copy, error) {
	return sqlite.Backup(ctx, store, to, sqlite.BackupOptions{Force: o.Force, Progress: o.Progress, Verify: verifyCopy})
}

// Backup copies the store of this node, as the function of that name does.
func (n *Node) Backup(ctx context.Context, to string, o BackupOptions) (sqlite.Copy, error) {
	return Backup(ctx, n.store.Path(), to, o)
}

// RestoreOptions say how a copy takes the place of a store.
type RestoreOptions struct {
	Epoch    int                   // the least that the restored store has; zero: one more than any that is known (sqlite.RestoreOptions)
	Progress func(done, total int) // pages; nil: nobody looks
}

// Restore puts a copy in the place of a store on which no node runs. The copy is checked and verified first; the old store is
// kept beside the new one. The first node that opens it sends nothing until somebody releases it (DUR-5,
// towline.Engine.ReleaseHold). Errors: as sqlite.Restore; *NotGoodError when the copy is no good store. Behind each of them the
// old store is as it was.
func Restore(ctx context.Context, from, store string, o RestoreOptions) (sqlite.Restored, error) {
	return sqlite.Restore(ctx, from, store, sqlite.RestoreOptions{Epoch: o.Epoch, Progress: o.Progress, Verify: verifyCopy})
}

// NotGoodError says that a copy of a store contradicts itself: an event that the rules forbid, or a view that is no fold of its
// log. A copy of a good store is good.
type NotGoodError struct{ towline.Verification }

func (e *NotGoodError) Error() string {
	first := ""
	if len(e.Violations) > 0 {
		first = e.Violations[0].String()
	} else if len(e.Differences) > 0 {
		first = e.Differences[0]
	}
	return fmt.Sprintf("verify finds %d violations and %d differences, the first: %s", len(e.Violations), len(e.Differences), first)
}

// verifyCopy proves a copy of which nobody else knows, in a folder of its own. It only reads it: a copy that was opened would be one
// of this release, and no longer what was copied.
func verifyCopy(ctx context.Context, path string) (err error) {
	s, err := sqlite.OpenReadOnly(ctx, path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	dir, err := os.MkdirTemp(filepath.Dir(path), "verify-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	scratch, err := sqlite.Open(ctx, filepath.Join(dir, scratchName), sqlite.Options{Synchronous: "normal", AllowNetworkFS: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, scratch.Close()) }()
	v, err := towline.VerifyStore(ctx, s, scratch)
	if err == nil && !v.OK() {
		err = &NotGoodError{v}
	}
	return err
}

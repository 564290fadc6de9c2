package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/towline-dev/towline/store"
)

// BackupOptions say how a copy is made.
type BackupOptions struct {
	Force    bool                                // replaces a file that has the name already
	Progress func(done, total int)               // pages; nil: nobody looks
	Verify   func(context.Context, string) error // looks at the copy, a file of nobody else's, before it gets its name; nil: nothing more than its integrity
}

// Backup copies the store at path into a file, while it is used or at rest, by this process or another. The copy is the store as
// it was at one moment. It has its name only when it is whole, was checked, and is on disk: whatever fails or dies before leaves
// no file of that name, or the old one.
//
// Writers go on meanwhile; the WAL of the store keeps what they write until the copy is whole, which takes a second for some
// hundred MiB. Errors: fs.ErrExist for a name that is taken (see Force); store.ErrFormat, store.ErrLocked when another process
// makes the same copy, ErrDamaged, store.ErrUnavailable as when the disk is full, and what Verify returned.
func Backup(ctx context.Context, path, to string, o BackupOptions) (c Copy, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("back up the store: %w", classify(err))
		}
	}()
	if path, err = resolve(path); err != nil {
		return c, err
	}
	if to, err = resolve(to); err != nil {
		return c, err
	}
	d := dsn{path: path, busyTimeout: busyTimeout}
	if err := isStore(ctx, d); err != nil {
		return c, err
	}
	if err := mayReplace(path, to, o.Force); err != nil {
		return c, err
	}
	p, err := makePartial(to, partialSuffix)
	if err != nil {
		return c, err
	}
	defer func() { err = errors.Join(err, p.remove()) }()
	if err := copyStore(ctx, d, p.file(), o.Progress); err != nil {
		return c, err
	}
	if c, err = p.proven(ctx, o.Verify); err != nil {
		return c, err
	}
	info, err := os.Stat(path)
	if err != nil {
		return c, err
	}
	if err := os.Chmod(p.file(), info.Mode().Perm()); err != nil {
		return c, err
	}
	if err := mayReplace(path, to, o.Force); err != nil { // it has taken its time
		return c, err
	}
	c.Path = to
	return c, moveInto(p.file(), to)
}

// proven checks the copy in the folder.
func (p *partial) proven(ctx context.Context, verify func(context.Context, string) error) (Copy, error) {
	c, err := inspect(ctx, p.file())
	if err != nil {
		return c, err
	}
	if verify != nil {
		if err := verify(ctx, p.file()); err != nil {
			return c, fmt.Errorf("the copy is not good, and was not kept: %w", err)
		}
	}
	return c, nil
}

// isStore refuses what is no store, and what is not there.
func isStore(ctx context.Context, d dsn) error {
	if _, err := os.Stat(d.path); err != nil {
		return err
	}
	h, err := peek(ctx, d)
	if err == nil && h.fresh() {
		err = fmt.Errorf("%w: %s is empty", store.ErrFormat, d.path)
	}
	if err != nil {
		return err
	}
	return h.check(d.path)
}

// mayReplace refuses to take the place of a file that is there, unless that is wanted and it is in nobody's use.
func mayReplace(path, to string, force bool) error {
	if to == path {
		return fmt.Errorf("%s is the store itself: give the copy another name", to)
	}
	info, err := os.Lstat(to)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s is there, and is no file: give the copy another name", to)
	}
	if !force {
		return fmt.Errorf("%s exists already: %w; give another name, or force it", to, fs.ErrExist)
	}
	if _, err := os.Stat(to + "-wal"); err == nil {
		return fmt.Errorf("%w: %s has a WAL beside it, so it is a store that is open or was killed, and no copy", store.ErrLocked, to)
	}
	return nil
}

// BackupName is the name of the copy that is made of a store at a time: it sorts by time, and says the time in UTC.
func BackupName(path string, at time.Time) string {
	return backupPrefix(path) + at.UTC().Format(backupTime) + ".db"
}

const backupTime = "20060102T150405Z"

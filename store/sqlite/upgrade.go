package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// Upgraded is what Upgrade has done.
type Upgraded struct {
	From, To int    // format levels; equal: there was nothing to do
	Copy     string // the store as it was before; empty: there was nothing to do
}

// Upgrade raises the format level of the store at path by one, if this release writes a higher one, behind a copy of the store
// as it was (DUR-7). Nobody may have the store open. From then on a release that does not know the new level refuses the store;
// the copy is the way back. The copy has the name of the store with "-level-N" behind it, of its old level; one of that name is
// not replaced.
//
// A process that dies in it leaves the store at the old level or at the new one. Errors: store.ErrLocked, store.ErrFormat,
// store.ErrUnavailable, fs.ErrExist.
func Upgrade(ctx context.Context, path string) (u Upgraded, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("upgrade the store: %w", classify(err))
		}
	}()
	if path, err = resolve(path); err != nil {
		return u, err
	}
	d := dsn{path: path, busyTimeout: busyTimeout}
	if err := isStore(ctx, d); err != nil {
		return u, err
	}
	free, err := shutOut(ctx, path)
	if err != nil {
		return u, err
	}
	defer func() { err = errors.Join(err, free()) }()
	old, err := settleOld(ctx, path)
	if err != nil {
		return u, err
	}
	if old == nil {
		return u, fmt.Errorf("%w: %s", ErrDamaged, path)
	}
	u.From, u.To = old.Level, old.Level
	if int64(u.From) >= ours.written {
		return u, nil
	}
	u.To++
	u.Copy = fmt.Sprintf("%s-level-%d", path, u.From)
	if _, err := os.Lstat(u.Copy); err == nil {
		return u, fmt.Errorf("%s exists already: %w; move it away first", u.Copy, fs.ErrExist)
	}
	p, err := makePartial(u.Copy, partialSuffix)
	if err != nil {
		return u, err
	}
	defer func() { err = errors.Join(err, p.remove()) }()
	if err := duplicate(path, p.file()); err != nil {
		return u, err
	}
	if err := moveInto(p.file(), u.Copy); err != nil {
		return u, err
	}
	return u, raiseLevel(ctx, d, u.To)
}

func raiseLevel(ctx context.Context, d dsn, level int) error {
	s, err := openSession(ctx, d.build("rw", d.pragma("synchronous", "full")), d.busyTimeout)
	if err != nil {
		return err
	}
	return errors.Join(s.set("user_version", level), s.set("wal_checkpoint", "TRUNCATE"), s.close())
}

// Levels are the format levels of this release: the highest that it reads, and the highest to which Upgrade raises a store.
func Levels() (newest, written int) { return int(ours.newest), int(ours.written) }

package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/store"
)

// RestoreOptions say how a copy takes the place of a store.
type RestoreOptions struct {
	// Epoch is the least epoch that the restored store has; zero: one more than that of the copy and of the store that is
	// replaced. It is for a store whose last life was somewhere else, or cannot be read any more: a sink that has seen a higher epoch
	// refuses a lower one.
	Epoch    int
	Now      func() time.Time                    // nil: time.Now
	Progress func(done, total int)               // pages; nil: nobody looks
	Verify   func(context.Context, string) error // as in BackupOptions

	step  func(string)                 // behind each step; for tests that die there
	chown func(string, int, int) error // nil: os.Chown
}

// Restored is what a restore has done.
type Restored struct {
	Copy            // as it stands now, at the path of the store
	Aside    string // where the store is that stood there; empty: there was none
	Replaced *Copy  // what that held; nil: there was none, or none that can be read
	// Disowned is why the new store, the old one, or a lock beside them is not of the user and group of the store that was
	// replaced, or of its folder if there was none; nil: they are. An engine of that user may not be able to open it.
	Disowned error
}

// Restore puts a copy in the place of the store at path, which nobody may have open. The copy is checked first, and stays as it
// is; the store that stood there is kept beside it, and the new one has its owner and mode, as far as this process may give them. The new one has a higher epoch, and the first engine that opens it holds
// what would be sent until somebody releases it (DUR-5).
//
// A process that dies in it leaves the old store or the new one, whole. Errors: store.ErrLocked when the store is open
// or read somewhere, store.ErrFormat, ErrDamaged, store.ErrUnavailable as when the disk is full, and what Verify returned; the old store
// is as it was behind each of them.
func Restore(ctx context.Context, from, path string, o RestoreOptions) (r Restored, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("restore the store: %w", classify(err))
		}
	}()
	if from, err = resolve(from); err != nil {
		return r, err
	}
	if path, err = resolve(path); err != nil {
		return r, err
	}
	if from == path {
		return r, fmt.Errorf("%s is the store itself: give the copy that shall take its place", from)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.step == nil {
		o.step = func(string) {}
	}
	d := dsn{path: from, busyTimeout: busyTimeout}
	if err := isStore(ctx, d); err != nil {
		return r, err
	}
	whose, err := rightfulOf(path, o.chown)
	if err != nil {
		return r, err
	}
	free, err := shutOut(ctx, path)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, free()) }()
	p, err := makePartial(path, "-restoring")
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, p.remove()) }()
	o.step("locked")
	if err := copyStore(ctx, d, p.file(), o.Progress); err != nil {
		return r, err
	}
	o.step("copied")
	if r.Copy, err = p.proven(ctx, o.Verify); err != nil {
		return r, err
	}
	if err := p.writable(from, path); err != nil {
		return r, err
	}
	if r.Replaced, err = settleOld(ctx, path); err != nil {
		return r, err
	}
	o.step("settled")
	var last int
	if r.Replaced != nil {
		last = r.Replaced.Epoch
	} else {
		last = lastEpoch(ctx, path)
	}
	r.Epoch = max(r.Epoch+1, last+1, o.Epoch)
	if err := p.begin(ctx, r, o.Now()); err != nil {
		return r, err
	}
	r.Disowned = whose.take(p.file())
	o.step("begun")
	if r.Aside, err = p.setAside(path, o.Now(), o.step); err != nil {
		return r, err
	}
	if r.Aside != "" {
		r.Disowned = errors.Join(r.Disowned, whose.take(r.Aside, r.Aside+"-wal"))
	}
	r.Disowned = errors.Join(r.Disowned, whose.take(path+"-lock", path+"-setup"))
	o.step("aside")
	r.Path = path
	if err := removeAll(path+"-wal", path+"-shm", path+"-journal"); err != nil {
		return r, err
	}
	if err := syncFile(filepath.Dir(path)); err != nil { // or a power loss may leave the new store beside the old WAL
		return r, err
	}
	o.step("bare")
	if err := moveInto(p.file(), path); err != nil {
		return r, err
	}
	o.step("moved")
	return r, nil
}

// shutOut keeps every other process from the store at path, whether there is one or not.
func shutOut(ctx context.Context, path string) (free func() error, err error) {
	life, err := lockForLife(path, false)
	if err != nil {
		return nil, err
	}
	setup, err := lockForSetup(ctx, path)
	if err != nil {
		return nil, errors.Join(err, life.release())
	}
	return func() error { return errors.Join(setup.release(), life.release()) }, nil
}

// settleOld brings all that the old store holds into its one file, as a clean stop does, so that it is whole without its WAL.
// One that is damaged, or is no store, is left as it is, and nil: it is set aside with its WAL.
func settleOld(ctx context.Context, path string) (*Copy, error) {
	d := dsn{path: path, busyTimeout: busyTimeout}
	if err := isStore(ctx, d); errors.Is(err, fs.ErrNotExist) || errors.Is(err, store.ErrFormat) {
		return nil, nil
	}
	if err := foldWAL(ctx, d); err != nil {
		return nil, unlessDamaged(err)
	}
	c, err := inspect(ctx, path)
	if err != nil {
		return nil, unlessDamaged(err)
	}
	return &c, nil
}

// lastEpoch is what a store says of its epoch that is not whole, for it may have written into sinks; 0: it says nothing any more.
func lastEpoch(ctx context.Context, path string) int {
	d := dsn{path: path, busyTimeout: busyTimeout}
	name := d.atRest()
	if _, err := os.Stat(path + "-wal"); err == nil {
		name = d.peek()
	}
	db, err := sql.Open(driverName, name)
	if err != nil {
		return 0
	}
	epoch, err := readEpoch(ctx, db)
	if err = errors.Join(err, db.Close()); err != nil {
		return 0
	}
	return epoch
}

// foldWAL copies the WAL of a store into its one file. A reader takes no lock of ours, and may stand on a part of the WAL; until
// it has gone the file is not whole without.
func foldWAL(ctx context.Context, d dsn) error {
	s, err := openSession(ctx, d.build("rw"), d.busyTimeout)
	if err != nil {
		return err
	}
	var busy, pages, copied int
	err = s.query(ctx, func(row store.Row) error { return row.Scan(&busy, &pages, &copied) }, `PRAGMA wal_checkpoint(TRUNCATE)`)
	if err = errors.Join(err, s.close()); err == nil && busy != 0 {
		err = fmt.Errorf("%w: somebody is reading %s: end what reads it, and try again", store.ErrLocked, d.path)
	}
	return err
}

// unlessDamaged drops an error that says only that a store cannot be read, for that is why it is replaced.
func unlessDamaged(err error) error {
	if errors.Is(err, ErrDamaged) || errors.Is(err, store.ErrFormat) || isCorrupt(err) || isNotADatabase(err) {
		return nil
	}
	return err
}

// writable gives the copy the permissions of the store that it replaces, or those that it had; its owner can write it in any
// case, for a copy in an archive may be there to be read only.
func (p *partial) writable(from, path string) error {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		info, err = os.Stat(from)
	}
	if err != nil {
		return err
	}
	return os.Chmod(p.file(), info.Mode().Perm()|0o600)
}

// begin gives the copy in the folder its new epoch, and the tables of this release.
func (p *partial) begin(ctx context.Context, r Restored, at time.Time) error {
	s, err := Open(ctx, p.file(), Options{AllowNetworkFS: true})
	if err != nil {
		return err
	}
	var replaced any
	if r.Replaced != nil {
		replaced = int64(r.Replaced.Head)
	}
	const insert = `
		INSERT INTO restores (epoch, at, head, replaced)
		VALUES ($1, $2, $3, $4)`
	_, err = s.app.ExecContext(ctx, insert, r.Epoch, int64(events.MicrosOf(at)), int64(r.Head), replaced)
	return errors.Join(err, s.Close())
}

// setAside copies the old store beside itself, so that there is a store at its path at any moment; empty: there is none. The copy
// is made in the folder, so that what has its name is whole.
func (p *partial) setAside(path string, at time.Time, step func(string)) (string, error) {
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	aside := freeName(path + "-before-" + at.UTC().Format(backupTime))
	for _, suffix := range []string{"-wal", ""} {
		if info, err := os.Stat(path + suffix); errors.Is(err, fs.ErrNotExist) || err == nil && suffix != "" && info.Size() == 0 {
			continue
		}
		old := filepath.Join(p.dir, "old"+suffix)
		err := duplicate(path+suffix, old)
		step("kept")
		if err == nil {
			err = moveInto(old, aside+suffix)
		}
		if err != nil {
			return "", fmt.Errorf("keep the old store: %w", err)
		}
	}
	return aside, nil
}

// freeName is a name that no file has: of two restores in one second, too, both old stores are kept.
func freeName(name string) string {
	free := name
	for n := 2; ; n++ {
		if _, err := os.Lstat(free); err != nil {
			return free
		}
		free = fmt.Sprintf("%s-%d", name, n)
	}
}

func removeAll(names ...string) error {
	for _, name := range names {
		if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

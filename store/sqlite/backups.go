package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/store"
)

// BackupFile is a copy in a folder of copies.
type BackupFile struct {
	Path  string
	At    time.Time // when it was begun, by its name, which is the clock of that moment
	Epoch int       // of what it holds (DUR-5)
	Head  events.Position
	Bytes int64
}

func backupPrefix(path string) string {
	return strings.TrimSuffix(filepath.Base(path), filepath.Ext(path)) + "-"
}

// Backups lists the copies of a store in a folder that have the names of BackupName, oldest first: by what they hold,
// since a clock may have run ahead, and by their names only where two hold the same. A folder that is not there
// has none. Stores of one name may share a folder: a copy is of the store that begins with the same event, whatever has become
// of either since.
func Backups(ctx context.Context, path, dir string) ([]BackupFile, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	own, err := lifeOf(ctx, path)
	if err != nil {
		return nil, fmt.Errorf("look whose backups are in %s: %w", dir, err)
	}
	var out []BackupFile
	for _, e := range entries {
		stamp, ours := strings.CutPrefix(e.Name(), backupPrefix(path))
		at, err := time.Parse(backupTime+".db", stamp)
		if !ours || err != nil || !e.Type().IsRegular() {
			continue
		}
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue // somebody has just removed it
		}
		if err != nil {
			return nil, err
		}
		name := filepath.Join(dir, e.Name())
		of, err := lifeOf(ctx, name)
		if err != nil || of.origin != own.origin {
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			continue // of another store, or no copy at all
		}
		out = append(out, BackupFile{Path: name, At: at, Epoch: of.epoch, Head: of.head, Bytes: info.Size()})
	}
	slices.SortFunc(out, func(a, b BackupFile) int {
		return cmp.Or(cmp.Compare(a.Epoch, b.Epoch), cmp.Compare(a.Head, b.Head), a.At.Compare(b.At))
	})
	return out, nil
}

// origin is by what the log of a store is known in every copy of it: the event that it begins with.
type origin struct {
	stream string // its key; the first start of an engine has one that no other store has
	at     int64
}

// life is how far a store or a copy is.
type life struct {
	origin
	epoch int
	head  events.Position
}

// lifeOf reads the life of a store or a copy; its zero value: its log is empty.
func lifeOf(ctx context.Context, path string) (o life, err error) {
	if path, err = resolve(path); err != nil {
		return o, err
	}
	s := &ReadOnly{path: path, networkFS: networkFS}
	seen, err := s.look()
	if err != nil {
		return o, err
	}
	db, err := sql.Open(driverName, seen.name(path))
	if err != nil {
		return o, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	var stream []byte
	err = db.QueryRowContext(ctx, `SELECT stream, at FROM events WHERE position = 1`).Scan(&stream, &o.at)
	if errors.Is(err, sql.ErrNoRows) {
		return o, nil
	}
	o.stream = string(stream)
	if err == nil {
		err = db.QueryRowContext(ctx, `SELECT max(position) FROM events`).Scan(&o.head)
	}
	if err == nil {
		o.epoch, err = readEpoch(ctx, db)
	}
	return o, classify(err)
}

// PruneBackups removes the oldest copies of a store from a folder, until keep are left, and lists them. It touches no file of
// another name, no copy of another store, and none that somebody has opened and that is a store of its own now; keep below 1
// removes none.
func PruneBackups(ctx context.Context, path, dir string, keep int) (removed []BackupFile, err error) {
	all, err := Backups(ctx, path, dir)
	if err != nil || keep < 1 {
		return nil, err
	}
	for _, b := range all[:max(0, len(all)-keep)] {
		if _, err := os.Stat(b.Path + "-wal"); err == nil {
			continue
		}
		if err := os.Remove(b.Path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return removed, err
		}
		removed = append(removed, b)
	}
	return removed, nil
}

// RemoveUnfinished removes from a folder what processes that were killed have left of copies with the names of BackupName. One
// that is being made stays.
func RemoveUnfinished(path, dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		stamp, ours := strings.CutPrefix(e.Name(), backupPrefix(path))
		if _, notime := time.Parse(backupTime+".db"+partialSuffix, stamp); !ours || notime != nil || !e.IsDir() {
			continue
		}
		p, failed := makePartial(strings.TrimSuffix(filepath.Join(dir, e.Name()), partialSuffix), partialSuffix)
		if failed == nil {
			failed = p.remove()
		}
		if !errors.Is(failed, store.ErrLocked) {
			err = errors.Join(err, failed)
		}
	}
	return err
}

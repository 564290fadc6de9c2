package sqlite

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// BackupFile is a copy in a folder of copies.
type BackupFile struct {
	Path  string
	At    time.Time // when it was begun, by its name
	Bytes int64
}

func backupPrefix(path string) string {
	return strings.TrimSuffix(filepath.Base(path), filepath.Ext(path)) + "-"
}

// Backups lists the copies of a store in a folder that have the names of BackupName, oldest first. A folder that is not there
// has none.
func Backups(path, dir string) ([]BackupFile, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
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
		out = append(out, BackupFile{Path: filepath.Join(dir, e.Name()), At: at, Bytes: info.Size()})
	}
	slices.SortFunc(out, func(a, b BackupFile) int { return a.At.Compare(b.At) })
	return out, nil
}

// PruneBackups removes the oldest copies of a store from a folder, until keep are left, and lists them. It touches no file of
// another name; keep below 1 removes none.
func PruneBackups(path, dir string, keep int) (removed []BackupFile, err error) {
	all, err := Backups(path, dir)
	if err != nil || keep < 1 {
		return nil, err
	}
	for _, b := range all[:max(0, len(all)-keep)] {
		if err := os.Remove(b.Path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return removed, err
		}
		removed = append(removed, b)
	}
	return removed, nil
}

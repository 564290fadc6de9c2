//go:build !unix

package exec

import (
	"os"
	"path/filepath"
)

// Without locks nobody can tell a killed engine from one that lives, so nothing is ever found to be an orphan.
func lockFile(string) (unlock func(), err error) { return func() {}, nil }
func tryLock(f *os.File) (bool, error)           { return f.Name() != "" && newFile(f), nil }

// newFile reports a file in which nothing stands yet: a place that is being made.
func newFile(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Size() == 0
}

func defaultFolder() string      { return filepath.Join(os.TempDir(), "towline-exec") }
func ownFolder(dir string) error { return nil }

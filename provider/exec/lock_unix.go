//go:build unix

package exec

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// lockFile waits for a lock of the kernel, which ends with its process.
func lockFile(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, privateFor)
	if err != nil {
		return nil, err
	}
	if err := retried(f, syscall.LOCK_EX); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return func() { _ = f.Close() }, nil
}

// tryLock does not wait. false: another holds it.
func tryLock(f *os.File) (bool, error) {
	err := retried(f, syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, err
}

func retried(f *os.File, how int) error {
	for {
		err := syscall.Flock(int(f.Fd()), how)
		if !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

func defaultFolder() string {
	return filepath.Join(os.TempDir(), "towline-exec-"+strconv.Itoa(os.Geteuid()))
}

// ownFolder refuses a folder that somebody else has put there: its files would say what we kill.
func ownFolder(dir string) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	s, ok := info.Sys().(*syscall.Stat_t)
	if !info.IsDir() || info.Mode().Perm()&0o077 != 0 || ok && int(s.Uid) != os.Geteuid() {
		return fmt.Errorf("folder of running attempts: %s is not a folder of this user alone: remove it, or set folder to another", dir)
	}
	return nil
}

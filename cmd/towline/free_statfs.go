//go:build darwin || freebsd || linux

package main

import (
	"os"

	"golang.org/x/sys/unix"
)

// freeBytes is what this user may still write to the file system of a folder.
func freeBytes(dir string) (int64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, &os.PathError{Op: "statfs", Path: dir, Err: err}
	}
	return int64(st.Bavail) * int64(st.Bsize), nil //nolint:unconvert // their types are others on each system
}

//go:build !darwin && !dragonfly && !freebsd && !linux && !netbsd && !openbsd

package sqlite

import (
	"context"
	"fmt"
	"os"
	"runtime"
)

type lock struct{}

func (*lock) release() error             { return nil }
func (*lock) held() bool                 { return false }
func (*lock) sign(bool)                  {}
func (*lock) info() (os.FileInfo, error) { return nil, errNoLocks() }
func (*lock) try() (bool, error)         { return false, errNoLocks() }

// A store without its lock is refused (DUR-3), so there is none where there is no flock.
func lockForLife(string, bool) (*lock, error) { return nil, errNoLocks() }

func lockForSetup(context.Context, string) (*lock, error) { return nil, errNoLocks() }

func openLock(string) (*lock, error) { return nil, errNoLocks() }

func errNoLocks() error {
	return fmt.Errorf("a store needs advisory file locks, which this release does not know on %s", runtime.GOOS)
}

func links(os.FileInfo) uint64 { return 1 }

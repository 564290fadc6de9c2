//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/towline-dev/towline/store"
)

// The locks are advisory and beside the database, in files of their own. SQLite's exclusive locking mode would do as
// well and shut out readers and the transactions of an application; and a lock on the database file itself would be
// lost with the first descriptor of it that this process closes.
//
//	<path>-lock   held for life: exclusively, or shared by all processes of shared mode (N-2)
//	<path>-setup  held exclusively while a process looks at the format, makes the file and migrates it. It is not the
//	              same file, because a shared lock cannot become exclusive without being free in between.
//	<path>-turn   see package turn; in shared mode only
//	<path>-group-<n>  held by the one consumer of a group (feed_group.go)
//
// The files stay: whoever deletes a lock file may delete the one that somebody else has just locked.

const (
	setupBound = 10 * time.Second // HC-41: processes that start together wait no longer for each other
	setupPoll  = 5 * time.Millisecond
)

// lock is an advisory lock on a file.
type lock struct{ f *os.File }

// lockForLife takes the lock of a store, or says who is in the way and what to do.
func lockForLife(path string, shared bool) (*lock, error) {
	l, err := openLock(path + "-lock")
	if err != nil {
		return nil, err
	}
	how := syscall.LOCK_EX
	if shared {
		how = syscall.LOCK_SH
	}
	switch ok, err := l.tryAs(how); {
	case err != nil:
		return nil, errors.Join(fmt.Errorf("lock %s: %w", l.f.Name(), err), l.release())
	case !ok:
		defer l.release()
		return nil, fmt.Errorf("%w: %s is open%s", store.ErrLocked, path, l.holder())
	}
	l.sign(shared)
	return l, nil
}

// lockForSetup waits its turn, at most setupBound.
func lockForSetup(ctx context.Context, path string) (*lock, error) {
	l, err := openLock(path + "-setup")
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, setupBound, fmt.Errorf("%w: another process has been setting up %s for %s", store.ErrLocked, path, setupBound))
	defer cancel()
	tick := time.NewTicker(setupPoll)
	defer tick.Stop()
	for {
		ok, err := l.try()
		if ok {
			return l, nil
		}
		if err == nil {
			select {
			case <-tick.C:
				continue
			case <-ctx.Done():
				err = context.Cause(ctx)
			}
		}
		return nil, errors.Join(err, l.release())
	}
}

func openLock(name string) (*lock, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	return &lock{f}, nil
}

// try takes the lock exclusively, and reports false when another process, or another store of this one, has it.
func (l *lock) try() (bool, error) { return l.tryAs(syscall.LOCK_EX) }

func (l *lock) tryAs(how int) (bool, error) {
	err := l.flock(how | syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, err
}

// wait takes the lock exclusively, however long that lasts.
func (l *lock) flock(how int) error {
	for {
		if err := syscall.Flock(int(l.f.Fd()), how); !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

// sign leaves the name of an exclusive holder for holder to read. Both are for the message to an operator and may fail:
// a process id proves nothing (N-3).
func (l *lock) sign(shared bool) {
	if err := l.f.Truncate(0); err == nil && !shared {
		_, _ = fmt.Fprintf(l.f, "%d\n", os.Getpid())
	}
}

func (l *lock) holder() string {
	const most = 32
	const fix = ": stop the other process, or open the store in shared mode in both"
	b, err := io.ReadAll(io.LimitReader(l.f, most))
	if err != nil || len(b) == 0 {
		return " elsewhere" + fix
	}
	if pid := strings.TrimSpace(string(b)); pid != strconv.Itoa(os.Getpid()) {
		return " in process " + pid + fix
	}
	return " in this process already: close it first, or use the one that is open"
}

// links is how many names a file has.
func links(info os.FileInfo) uint64 {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(s.Nlink) //nolint:unconvert // its type is another one on each system
	}
	return 1
}

// info knows the file again.
// held reports that there is a file to lock.
func (l *lock) held() bool { return l.f != nil }

func (l *lock) info() (os.FileInfo, error) { return l.f.Stat() }

func (l *lock) release() error {
	if l.f == nil { // there was nothing to lock
		return nil
	}
	return l.f.Close()
}

//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package sqlbus

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

// turn is whose turn it is to wait for the write lock, among the processes of a bus. SQLite's own wait is a poll, and a
// process that commits without a pause takes the lock back before another has looked. So whoever wants the lock takes the
// turn first, which the system hands on, and keeps it until the lock is his.
type turn struct {
	path string
	f    *os.File
}

func (t *turn) during(fn func() error) error {
	if err := t.take(); err != nil {
		return err
	}
	defer t.give()
	return fn()
}

func (t *turn) take() (err error) {
	if t.f == nil {
		if t.f, err = os.OpenFile(t.path, os.O_RDWR|os.O_CREATE, 0o644); err != nil {
			t.f = nil
			return err
		}
	}
	if err := flock(t.f, syscall.LOCK_EX|syscall.LOCK_NB); !errors.Is(err, syscall.EWOULDBLOCK) {
		return err
	}
	// There is no wait for a file lock that ends in time. A goroutine that is given up ends with it, and closes the file.
	f, got := t.f, make(chan error, 1)
	go func() { got <- flock(f, syscall.LOCK_EX) }()
	limit := time.NewTimer(busyTimeout * time.Millisecond)
	defer limit.Stop()
	select {
	case err := <-got:
		return err
	case <-limit.C:
		t.f = nil
		go func() { <-got; _ = f.Close() }()
		return fmt.Errorf("another process has had its turn to write for %d ms: %s", busyTimeout, t.path)
	}
}

func (t *turn) give() {
	if err := flock(t.f, syscall.LOCK_UN); err != nil {
		t.close() // which unlocks it, too
	}
}

func (t *turn) close() {
	if t.f != nil {
		_ = t.f.Close()
		t.f = nil
	}
}

func flock(f *os.File, how int) error {
	for {
		if err := syscall.Flock(int(f.Fd()), how); !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package turn

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

// locked is the file that is locked; nil: to be opened.
type locked struct{ f *os.File }

func (t *Turn) take() (err error) {
	if t.f == nil {
		if t.f, err = os.OpenFile(t.path, os.O_RDWR|os.O_CREATE, 0o644); err != nil {
			t.f = nil
			return err
		}
	}
	if err := flock(t.f, syscall.LOCK_EX|syscall.LOCK_NB); !errors.Is(err, syscall.EWOULDBLOCK) {
		return err
	}
	// There is no wait for a file lock that ends in time. A goroutine that is given up ends with it, at the latest when the
	// process does that has the turn and does not go on, and closes the file.
	f, got := t.f, make(chan error, 1)
	go func() { got <- flock(f, syscall.LOCK_EX) }()
	limit := time.NewTimer(t.limit)
	defer limit.Stop()
	select {
	case err := <-got:
		return err
	case <-limit.C:
		t.f = nil
		go func() { <-got; _ = f.Close() }()
		return fmt.Errorf("%w for %s: %s", ErrTaken, t.limit, t.path)
	}
}

func (t *Turn) give() {
	if err := flock(t.f, syscall.LOCK_UN); err != nil {
		t.close() // which unlocks it, too
	}
}

func (t *Turn) close() {
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

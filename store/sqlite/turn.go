package sqlite

import (
	"fmt"
	"time"

	"github.com/towline-dev/towline/store"
)

// turn is whose turn it is to wait for the write lock, among the processes of shared mode.
//
// SQLite's own wait is a poll, and a process that commits without a pause takes the lock back before another has
// looked: measured with four of them, some waited in vain for 5 seconds. So whoever wants the lock first takes the
// turn, which the system hands on, keeps it while it waits for the lock and then gives it up. He who has just let go of
// the lock cannot have it again before him: the turn is taken.
type turn struct {
	path  string
	limit time.Duration
	free  *lock // not held; nil: to be opened
}

// during runs fn when it is this process's turn. A nil turn is always ours.
func (t *turn) during(fn func() error) error {
	if t == nil {
		return fn()
	}
	l, err := t.take()
	if err != nil {
		return err
	}
	defer t.give(l)
	return fn()
}

func (t *turn) take() (*lock, error) {
	l := t.free
	t.free = nil
	if l == nil {
		var err error
		if l, err = openLock(t.path + "-turn"); err != nil {
			return nil, err
		}
	}
	if ok, err := l.try(); ok || err != nil {
		return l, err
	}
	// There is no wait for a file lock that ends in time. The goroutine that is given up ends with it, at the latest
	// when the process does that has the turn and does not go on.
	got := make(chan error, 1)
	go func() { got <- l.wait() }()
	limit := time.NewTimer(t.limit)
	defer limit.Stop()
	select {
	case err := <-got:
		return l, err
	case <-limit.C:
		go func() { <-got; _ = l.release() }()
		return nil, fmt.Errorf("%w: another process has had its turn to write to %s for %s", store.ErrUnavailable, t.path, t.limit)
	}
}

func (t *turn) give(l *lock) {
	if err := l.unlock(); err != nil {
		_ = l.release() // which unlocks it, too
		return
	}
	t.free = l
}

func (t *turn) close() {
	if t != nil && t.free != nil {
		_ = t.free.release()
		t.free = nil
	}
}

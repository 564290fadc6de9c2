// Package turn is whose turn it is to wait for the write lock of a SQLite file, among the processes that write to it.
//
// SQLite's own wait is a poll, and a process that commits without a pause takes the lock back before another has looked: measured
// with four of them, some waited in vain for 5 seconds. So whoever wants the lock takes the turn first, which the system hands
// on, keeps it while he waits for the lock, and then gives it up. He who has just let go of the lock cannot have it again
// before him: the turn is taken.
package turn

import (
	"errors"
	"time"
)

// ErrTaken: another process has had the turn for longer than the limit.
var ErrTaken = errors.New("another process has had its turn to write")

// Turn is that of one process at one file. Nil is a turn that is always ours. It is for one goroutine.
type Turn struct {
	path  string
	limit time.Duration
	locked
}

// At is the turn at a path, which is made when it is first wanted. Nobody waits for it longer than the limit.
func At(path string, limit time.Duration) *Turn { return &Turn{path: path, limit: limit} }

// During runs fn when it is this process's turn. Errors: ErrTaken; those of the file.
func (t *Turn) During(fn func() error) error {
	if t == nil {
		return fn()
	}
	if err := t.take(); err != nil {
		return err
	}
	defer t.give()
	return fn()
}

// Close ends its use.
func (t *Turn) Close() {
	if t != nil {
		t.close()
	}
}

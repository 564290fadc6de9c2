package exec

import (
	"errors"
	"os"
	"sync"
	"time"
)

// pipe is the end of an output that we read. Only one goroutine reads it.
type pipe struct {
	f     *os.File
	heard func()

	mu    sync.Mutex
	gone  bool // the program has ended: what still writes is something that it has left behind
	since time.Time
	hold  time.Duration // how long it may still be waited for; time in which nobody reads does not count
	room  int           // how much may still come
}

// errHeld is the end of a pipe that something holds open which the program has left behind.
var errHeld = errors.New("it has ended, and has left a process behind that holds its standard output, so its rows may not be all: wait for it, or send its output elsewhere")

// leftInPipe is what a program may have left in a pipe: the largest that Linux gives to everybody. More comes from somebody
// else.
const leftInPipe = 1 << 20

// ownerGone bounds what is still read: what is in the pipe, and what else is written while it is waited for so long.
func (r *pipe) ownerGone(hold time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.gone {
		r.gone, r.room, r.hold, r.since = true, leftInPipe, hold, time.Now()
	}
	r.hold = max(min(r.hold, hold), 0)
	r.wake()
}

// wake gives a reader so much time. Where pipes have no deadlines, the pipe is closed instead.
func (r *pipe) wake() {
	if err := r.f.SetReadDeadline(time.Now().Add(r.hold)); errors.Is(err, os.ErrNoDeadline) {
		time.AfterFunc(r.hold, func() { _ = r.f.Close() })
	}
}

func (r *pipe) Read(b []byte) (int, error) {
	began := time.Now()
	r.mu.Lock()
	if r.gone {
		r.wake()
	}
	r.mu.Unlock()
	n, err := r.f.Read(b)
	if n > 0 {
		r.heard()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.gone {
		if r.since.After(began) {
			began = r.since
		}
		r.hold = max(r.hold-time.Since(began), 0)
		r.room -= n
	}
	if r.room < 0 || errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, os.ErrClosed) {
		return n, errHeld
	}
	return n, err
}

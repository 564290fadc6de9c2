package sqlbus

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	lib "modernc.org/sqlite/lib"

	"github.com/towline-dev/towline/internal/turn"
)

const (
	maxGroup      = 256     // jobs that share one commit
	maxGroupBytes = 8 << 20 // of their payloads
)

// job is a piece of a transaction. It is taken only when the write lock is held: until then whoever gave it can take it
// back, and knows that nothing has happened.
type job struct {
	durable bool // what it writes must survive a power loss
	bytes   int
	do      func(*session) error
	state   atomic.Int32
	done    chan error // of one
}

const (
	waiting int32 = iota
	begun
	withdrawn
)

// writer commits jobs in the order in which they came, those that wait together in one transaction. One goroutine does it
// on one connection; none of a caller's contexts reaches it.
type writer struct {
	path string
	turn *turn.Turn
	bell *bell // rung behind each commit: something may be due

	mu     sync.Mutex
	queue  []*job
	closed bool
	wake   chan struct{} // of one
	ended  chan struct{} // nil: the goroutine never began

	// of the goroutine
	s    *session
	file os.FileInfo // of the first connection
	wal  os.FileInfo
	gone atomic.Bool // the file, for good
}

func newWriter(path string, b *bell) *writer {
	return &writer{path: path, turn: turn.At(path+"-turn", busyTimeout*time.Millisecond), bell: b, wake: make(chan struct{}, 1)}
}

// start gives a job to the writer. Its end comes from done.
func (w *writer) start(durable bool, bytes int, do func(*session) error) *job {
	j := &job{durable: durable, bytes: bytes, do: do, done: make(chan error, 1)}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		j.done <- ErrClosed
		return j
	}
	w.queue = append(w.queue, j)
	if w.ended == nil {
		w.ended = make(chan struct{})
		go w.loop(w.ended)
	}
	select {
	case w.wake <- struct{}{}:
	default:
	}
	return j
}

// wait returns at the deadline of ctx at the latest: a job that has not begun is taken back then, and of one that has,
// nobody knows.
func (j *job) wait(ctx context.Context) error {
	select {
	case err := <-j.done:
		return err
	case <-ctx.Done():
	}
	if j.state.CompareAndSwap(waiting, withdrawn) {
		return fmt.Errorf("the file was not free in time: %w", context.Cause(ctx))
	}
	select { // alone: an outcome counts more than a deadline
	case err := <-j.done:
		return err
	default:
		return &unknownError{context.Cause(ctx)}
	}
}

// run is for jobs that write what may be written again.
func (w *writer) run(ctx context.Context, do func(*session) error) error {
	return w.start(false, 0, do).wait(ctx)
}

// close ends the writer behind the jobs that it has.
func (w *writer) close() error {
	w.mu.Lock()
	w.closed = true
	ended := w.ended
	w.mu.Unlock()
	if ended == nil {
		return nil
	}
	select {
	case w.wake <- struct{}{}:
	default:
	}
	<-ended
	return nil
}

func (w *writer) loop(ended chan struct{}) {
	defer close(ended)
	for {
		w.mu.Lock()
		n, closed := len(w.queue), w.closed
		w.mu.Unlock()
		switch {
		case n > 0:
			w.commit()
		case closed:
			w.discard()
			w.turn.Close()
			return
		default:
			<-w.wake
		}
	}
}

// commit is one transaction. An error before COMMIT undoes it for all that are in it.
func (w *writer) commit() {
	full := w.wantsFull()
	if err := w.begin(full); err != nil {
		w.refuse(err)
		return
	}
	jobs := w.take(full)
	own := make([]error, len(jobs)) // of a job alone, which has done nothing then
	for i, j := range jobs {
		err := j.do(w.s)
		if err != nil && !errors.Is(err, ErrFull) {
			w.rollback()
			finish(jobs, nil, err)
			return
		}
		own[i] = err
	}
	if err := w.same(); err != nil {
		w.rollback()
		finish(jobs, nil, err)
		return
	}
	if _, err := w.s.exec("COMMIT"); err != nil {
		w.rollback()
		w.discard()
		finish(jobs, nil, commitError(err))
		return
	}
	finish(jobs, own, nil)
	w.bell.ring()
}

func finish(jobs []*job, own []error, err error) {
	for i, j := range jobs {
		if own != nil {
			err = own[i]
		}
		j.done <- err
	}
}

// begin returns with the write lock.
func (w *writer) begin(full bool) error {
	return w.turn.During(func() error {
		if err := w.open(); err != nil {
			return err
		}
		level := "normal"
		if full {
			level = "full"
		}
		err := w.s.synchronous(level)
		if err == nil {
			_, err = w.s.exec("BEGIN IMMEDIATE")
		}
		if err != nil && code(err) != lib.SQLITE_BUSY {
			w.discard()
		}
		if err != nil {
			return fmt.Errorf("begin to write to %s: %w", w.path, err)
		}
		return nil
	})
}

// open makes the connection, if there is none, and knows its files again.
func (w *writer) open() (err error) {
	if w.gone.Load() {
		return ErrMoved
	}
	if w.s != nil {
		return nil
	}
	if w.file != nil {
		if err := w.is(w.path, w.file); err != nil {
			return err
		}
	}
	if w.s, err = openWriter(w.path); err != nil {
		w.s = nil
		return fmt.Errorf("open the bus: %w", err)
	}
	if w.wal, err = os.Stat(w.path + "-wal"); err == nil && w.file == nil {
		w.file, err = os.Stat(w.path)
	}
	if err != nil {
		w.discard()
	}
	return err
}

// same says whether the files are still there. It is asked right before each commit: SQLite goes on writing to a file that
// was deleted, and what it confirms then is gone with the process.
func (w *writer) same() error {
	if err := w.is(w.path, w.file); err != nil {
		return err
	}
	return w.is(w.path+"-wal", w.wal)
}

func (w *writer) is(name string, was os.FileInfo) error {
	info, err := os.Stat(name)
	if err == nil && os.SameFile(was, info) {
		return nil
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("look for %s: %w", name, err)
	}
	w.gone.Store(true)
	w.bell.ring()
	return fmt.Errorf("%s: %w", name, ErrMoved)
}

// rollback gives up the connection if it cannot be sure that nothing of the transaction is left on it.
func (w *writer) rollback() {
	if w.s == nil {
		return
	}
	if _, err := w.s.exec("ROLLBACK"); err != nil || w.gone.Load() {
		w.discard()
	}
}

func (w *writer) discard() {
	if w.s != nil {
		_ = w.s.close() // whatever it says, it is not used again
		w.s = nil
	}
}

func (w *writer) wantsFull() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, j := range w.queue {
		if j.durable {
			return true
		}
	}
	return false
}

// take begins the jobs of one commit. A commit that syncs less ends before the first job that wants more.
func (w *writer) take(full bool) []*job {
	w.mu.Lock()
	defer w.mu.Unlock()
	var jobs []*job
	bytes, n := 0, 0
	for _, j := range w.queue {
		if len(jobs) == maxGroup || bytes > 0 && bytes+j.bytes > maxGroupBytes || j.durable && !full {
			break
		}
		n++
		if j.state.CompareAndSwap(waiting, begun) {
			jobs, bytes = append(jobs, j), bytes+j.bytes
		}
	}
	w.queue = append(w.queue[:0:0], w.queue[n:]...)
	return jobs
}

// refuse ends all that wait: nothing of it has begun.
func (w *writer) refuse(err error) {
	w.mu.Lock()
	jobs := w.queue
	w.queue = nil
	w.mu.Unlock()
	for _, j := range jobs {
		if j.state.CompareAndSwap(waiting, begun) {
			j.done <- err
		}
	}
}

// bell tells all who wait that something has changed.
type bell struct {
	mu sync.Mutex
	ch chan struct{}
}

func newBell() *bell { return &bell{ch: make(chan struct{})} }

// next is closed by the next ring.
func (b *bell) next() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.ch
}

func (b *bell) ring() {
	b.mu.Lock()
	defer b.mu.Unlock()
	close(b.ch)
	b.ch = make(chan struct{})
}

package store

import (
	"context"
	"runtime"
	"sync"
)

// Writer is the goroutine around a Batcher: the single writer of L-9. It takes everything that queued while the last
// commit was syncing; there is no timer, so an idle store adds no delay. The goroutine lives while there is something
// to write and ends when the queue is empty, so an idle or closed Writer leaves nothing behind.
type Writer struct {
	batch   *Batcher
	running bool       // guarded by batch.mu
	stopped *sync.Cond // on batch.mu: running became false
}

// NewWriter is a Writer with an empty queue and no hooks.
func NewWriter(c Committer) *Writer {
	b := NewBatcher(c)
	return &Writer{batch: b, stopped: sync.NewCond(&b.mu)}
}

// Attach sets the hooks. It is called once, before the first Write.
func (w *Writer) Attach(h Hooks) { w.batch.Attach(h) }

// Queued is how many transactions wait for a commit to take them.
func (w *Writer) Queued() int { return w.batch.Queued() }

// Write queues fn and waits as Request.Wait does.
func (w *Writer) Write(ctx context.Context, fn func(Tx) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	r := w.batch.Add(fn)
	w.start()
	return r.Wait(ctx)
}

// Close waits for the commit in progress. What is queued behind it, and every later Write, gets ErrClosed.
func (w *Writer) Close() {
	w.batch.Close()
	w.batch.mu.Lock()
	defer w.batch.mu.Unlock()
	for w.running {
		w.stopped.Wait()
	}
}

func (w *Writer) start() {
	w.batch.mu.Lock()
	defer w.batch.mu.Unlock()
	if !w.running && len(w.batch.queue) > 0 {
		w.running = true
		go w.run()
	}
}

func (w *Writer) run() {
	idle := false
	defer func() {
		if !idle { // the function of a caller ended this goroutine; the others still wait
			go w.run()
		}
	}()
	for !w.idle() {
		w.batch.Commit()
		// Those who were just answered come back with their next transaction before the next commit begins, not after:
		// without this every second group is a straggler's.
		runtime.Gosched()
	}
	idle = true
}

// idle ends the writer when nothing is queued.
func (w *Writer) idle() bool {
	w.batch.mu.Lock()
	defer w.batch.mu.Unlock()
	if len(w.batch.queue) > 0 {
		return false
	}
	w.running = false
	w.stopped.Broadcast()
	return true
}

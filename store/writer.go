package store

import (
	"context"
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
		letOthersRun()
	}
	idle = true
}

// letOthersRun puts the callers that were just answered ahead of the writer, so that their next transactions join the
// next commit. Otherwise every second group is a straggler's: 31 transactions a commit instead of 62, of 64 callers, when
// a commit takes 0.2 ms, and one instead of 15 to 63 when it takes no time. TestCallersComeBackTogether counts it.
//
// A goroutine that is started goes to the front of its processor's queue and pushes who was there to the back. So the
// second one here puts the first behind all callers, and the first wakes the writer. It is only a matter of order;
// nothing depends on it. runtime.Gosched would do the same and queue behind the busy goroutines of the whole process
// as well: with four of them on two processors a commit took 38 ms, and takes 0.7 ms this way.
func letOthersRun() {
	turn := make(chan struct{})
	go func() { close(turn) }()
	go func() {}()
	<-turn
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

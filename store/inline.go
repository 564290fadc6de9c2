package store

import (
	"context"
	"sync"
)

// Inline is a Batcher without a goroutine: each Write runs in its caller's, in a commit of its own. It is for tests
// and simulators that must know who runs when.
type Inline struct {
	batch *Batcher
	mu    sync.Mutex // one Write at a time
}

// NewInline is an Inline with no hooks.
func NewInline(c Committer) *Inline { return &Inline{batch: NewBatcher(c)} }

// Attach sets the hooks. It is called once, before the first Write.
func (i *Inline) Attach(h Hooks) { i.batch.Attach(h) }

// Queued is how many transactions wait for a commit to take them.
func (i *Inline) Queued() int { return i.batch.Queued() }

// Write commits fn, and comes back when that is done. A ctx that has ended already is the only one that it heeds.
func (i *Inline) Write(ctx context.Context, fn func(Tx) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	r := i.batch.Add(fn)
	i.batch.Commit()
	return r.Wait(ctx)
}

// Close waits for the Write in progress. Every later one gets ErrClosed.
func (i *Inline) Close() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.batch.Close()
}

package store

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
)

// MaxGroup is the most transactions that one commit holds.
const MaxGroup = 256

// Committer is the physical side of group commit: one commit at a time, called by one goroutine at a time, in the
// order Begin, any number of Transact, then Commit or Rollback. A store implements it with its SQL and knows nothing
// of queues, callers and hooks.
type Committer interface {
	// Begin opens a commit. From here to its end nobody else can append. An error means that there is no commit.
	Begin() error
	// Transact runs fn as one transaction of the commit. If fn returns an error, panics or ends its goroutine, its
	// work, and only its, is undone before that goes on to the caller of Transact. Once the commit as a whole is lost,
	// fn is not run any more; Commit says why.
	Transact(fn func(Tx) error) error
	// Appended reports that an event would be written by Commit.
	Appended() bool
	// Commit ends the commit and makes it durable. After an error nothing of it is kept. Two errors are the fault of one
	// transaction, which is not known here: a *ConflictError, when a stream was not where it believed it to be and this
	// showed only now, and one that wraps ErrRolledBack.
	Commit() error
	// Rollback ends the commit without a trace.
	Rollback()
}

// Batcher is group commit: transactions queue, and Commit writes those that are queued as one commit (L-2, L-9). It
// has no goroutine and no clock; whoever calls Commit decides when. Writer is the goroutine around it, and a
// simulator is another caller. Add may be called from anywhere, Commit from one goroutine at a time.
type Batcher struct {
	committer Committer
	hooks     Hooks
	group     []*Request // of Commit, kept for its capacity

	mu     sync.Mutex
	queue  []*Request
	closed bool
}

// NewBatcher is a Batcher with an empty queue and no hooks.
func NewBatcher(c Committer) *Batcher { return &Batcher{committer: c} }

// Attach sets the hooks. It is called once, before the first Add.
func (b *Batcher) Attach(h Hooks) { b.hooks = h }

// Request is the transaction of one caller, from Add until it is answered.
type Request struct {
	fn         func(Tx) error
	state      atomic.Int32
	outcome    outcome
	answered   chan struct{} // closed when outcome is final
	isAnswered bool          // the same, for the goroutine that commits
}

const (
	queued int32 = iota
	taken        // by Commit, which will answer it
	left         // by its caller, who waits no longer; Commit passes over it
)

// outcome is how fn ended, or how its commit did.
type outcome struct {
	err      error
	panicked any
	exited   bool // fn called runtime.Goexit, which is how t.FailNow ends a test
}

// Add queues fn. A closed Batcher answers at once, with ErrClosed.
func (b *Batcher) Add(fn func(Tx) error) *Request {
	r := &Request{fn: fn, answered: make(chan struct{})}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		r.outcome.err = ErrClosed
		r.answer()
		return r
	}
	b.queue = append(b.queue, r)
	return r
}

// Queued is how many transactions wait for a commit to take them.
func (b *Batcher) Queued() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.queue)
}

// Close refuses every later Add and answers what is still queued, all with ErrClosed.
func (b *Batcher) Close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	for _, r := range b.queue {
		if r.take() {
			r.outcome.err = ErrClosed
			r.answer()
		}
	}
	b.queue = nil
}

// Wait returns what became of the transaction, and raises again what its fn raised. If ctx ends while the transaction
// is still queued, it will not run, and Wait returns ctx's error. Once it is taken Wait stays for its result, whatever
// ctx does: so ctx's error always means that nothing has happened, and fn never runs behind its caller's back (L-11).
func (r *Request) Wait(ctx context.Context) error {
	select {
	case <-r.answered:
	case <-ctx.Done():
		if r.state.CompareAndSwap(queued, left) {
			return ctx.Err()
		}
		<-r.answered
	}
	switch {
	case r.outcome.exited:
		runtime.Goexit()
	case r.outcome.panicked != nil:
		panic(r.outcome.panicked)
	}
	return r.outcome.err
}

func (r *Request) take() bool { return r.state.CompareAndSwap(queued, taken) }

func (r *Request) answer() {
	r.isAnswered = true
	close(r.answered)
}

// Commit writes up to MaxGroup queued transactions as one commit, and answers them. It takes them after the commit
// has begun: whoever comes while the write lock is waited for joins, and whoever leaves meanwhile is not run.
func (b *Batcher) Commit() {
	err := b.committer.Begin()
	group := b.take()
	defer b.abandon(group)
	if err == nil {
		if err = b.attempt(group); len(group) > 1 && isFaultOfOne(err) {
			b.oneByOne(group)
			return
		}
	} else {
		settle(group, outcome{err: err})
	}
	for _, r := range group {
		r.answer()
	}
}

// oneByOne gives each transaction of a group that one of them spoiled a commit of its own, so that only the guilty one
// fails. All of them run again: what any of them saw of the void commit has never happened.
func (b *Batcher) oneByOne(group []*Request) {
	for i, r := range group {
		if err := b.committer.Begin(); err != nil {
			r.outcome = outcome{err: err}
		} else {
			_ = b.attempt(group[i : i+1]) // it is the outcome
		}
		r.answer()
	}
}

func (b *Batcher) take() []*Request {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := 0
	for ; n < len(b.queue) && len(b.group) < MaxGroup; n++ {
		if r := b.queue[n]; r.take() {
			b.group = append(b.group, r)
		}
	}
	b.queue = slices.Delete(b.queue, 0, n)
	return b.group
}

// attempt runs a group in the commit that has begun, ends that commit, and settles the outcome of every request. An
// error says that the commit is void: nothing of it is kept, and the caches of the engine are empty again.
func (b *Batcher) attempt(group []*Request) error {
	hook := Request{fn: b.hooks.BeforeCommit}
	ended := false
	defer func() {
		if !ended { // by runtime.Goexit in one of the functions; it cannot be stopped
			b.committer.Rollback()
			b.void()
		}
	}()
	for _, r := range group {
		b.run(r)
	}
	if hook.fn != nil && b.committer.Appended() {
		b.run(&hook)
	}
	void := hook.outcome
	switch {
	case void.panicked != nil:
		void.err = errHookPanicked
		fallthrough
	case void.err != nil:
		b.committer.Rollback()
	default:
		void.err = b.committer.Commit()
	}
	ended = true
	if void.err != nil {
		b.void()
		settle(group, void)
	}
	return void.err
}

// errHookPanicked never leaves the package: the callers get the panic itself.
var errHookPanicked = errors.New("the hook before the commit panicked")

// run is one transaction. A panic ends here; Goexit passes through, on record.
func (b *Batcher) run(r *Request) {
	returned := false
	defer func() {
		if !returned {
			p := recover()
			r.outcome = outcome{panicked: p, exited: p == nil}
		}
	}()
	r.outcome = outcome{err: b.committer.Transact(r.fn)}
	returned = true
}

// void tells the engine that what it cached in this commit has not happened, before any caller can learn of it.
func (b *Batcher) void() {
	if b.hooks.OnVoid != nil {
		b.hooks.OnVoid()
	}
}

func settle(group []*Request, o outcome) {
	for _, r := range group {
		r.outcome = o
	}
}

// abandon answers those of a group whom nobody answered, because the function of one of them ended this goroutine.
func (b *Batcher) abandon(group []*Request) {
	for _, r := range group {
		if r.isAnswered {
			continue
		}
		if !r.outcome.exited {
			r.outcome = outcome{err: fmt.Errorf("%w: another transaction of the same commit ended the writing goroutine", ErrUnavailable)}
		}
		r.answer()
	}
	clear(group)
	b.group = group[:0]
}

func isFaultOfOne(err error) bool {
	_, conflict := errors.AsType[*ConflictError](err)
	return conflict || errors.Is(err, ErrRolledBack)
}

package sqlite

import (
	"context"
	"errors"
	"sync"

	"github.com/towline-dev/towline/store"
)

// pool is a bounded number of sessions that only read. They are opened when they are first wanted, and keep their
// prepared statements: with a pool of database/sql those who hold its last connections would wait for each other for
// one more to prepare on.
type pool struct {
	name  string        // of the data source
	busy  int           // milliseconds
	slots chan struct{} // one for each session that is lent

	mu     sync.Mutex
	free   []*session
	closed bool
}

func newPool(d dsn, name string, sessions int) *pool {
	return &pool{name: name, busy: d.busyTimeout, slots: make(chan struct{}, sessions)}
}

// take waits for a session while ctx lasts.
func (p *pool) take(ctx context.Context) (*session, error) {
	select {
	case p.slots <- struct{}{}:
	case <-ctx.Done():
		return nil, cause(ctx)
	}
	s, err := p.pop(ctx)
	if err != nil {
		<-p.slots
	}
	return s, err
}

func (p *pool) pop(ctx context.Context) (*session, error) {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil, store.ErrClosed
	}
	if n := len(p.free); n > 0 {
		s := p.free[n-1]
		p.free = p.free[:n-1]
		p.mu.Unlock()
		return s, nil
	}
	p.mu.Unlock()
	return openSession(ctx, p.name, p.busy)
}

// give takes a session back that take has lent. One that may be in a transaction still is not kept.
func (p *pool) give(s *session, clean bool) {
	defer func() { <-p.slots }()
	p.mu.Lock()
	if clean = clean && !p.closed; clean {
		p.free = append(p.free, s)
	}
	p.mu.Unlock()
	if !clean {
		_ = s.close() // it has only read
	}
}

// close closes what is not lent; the rest is closed when it comes back.
func (p *pool) close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	var errs []error
	for _, s := range p.free {
		errs = append(errs, s.close())
	}
	p.free = nil
	return errors.Join(errs...)
}

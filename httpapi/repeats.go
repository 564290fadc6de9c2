package httpapi

import (
	"context"
	"sync"
)

// repeats are the requests for any unit that are being answered, by their secrets. A worker repeats one of which it has heard
// nothing, and the engine may still be at the first: then its answer, or the hand-back behind a worker that has hung up, must not
// cross that to the second. So there is one at a time.
type repeats struct {
	mu  sync.Mutex
	now map[string]*repeat
}

type repeat struct {
	yield context.CancelFunc // ends its wait for a unit
	over  chan struct{}
}

// turn waits until no other request with the secret is being answered, and lets one that waits for a unit do so no longer. yield is
// called when the next one comes; over must be called. Errors: ctx's.
func (r *repeats) turn(ctx context.Context, secret string, yield context.CancelFunc) (over func(), err error) {
	own := &repeat{yield, make(chan struct{})}
	for {
		r.mu.Lock()
		before := r.now[secret]
		if before == nil {
			if r.now == nil {
				r.now = map[string]*repeat{}
			}
			r.now[secret] = own
			r.mu.Unlock()
			return func() { r.end(secret, own) }, nil
		}
		r.mu.Unlock()
		before.yield()
		select {
		case <-before.over:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

func (r *repeats) end(secret string, own *repeat) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.now, secret)
	close(own.over)
}

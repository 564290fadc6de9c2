package sim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/towline-dev/towline/sink"
)

// errReturned is what the sink of an attempt says when its provider has returned, and something of it still puts.
var errReturned = errors.New("sim: the provider has returned; what it has started must end before it does")

// providerSink is the sink of one call of a provider. It is the provider's own code that has the turn here, so nobody else
// moves: a provider may hold a lock of its own while it puts, and whoever waited for that lock would never give the turn
// back. It may put from several goroutines, as with any sink.
type providerSink struct {
	n    *node
	what string // the attempt, for people

	mu    sync.Mutex
	inner sink.Sink
	puts  int
	over  bool // the provider has returned
}

// Put is a boundary if the world asks for it: not each, for the attempts that put most would have most of the windows, but
// the first, the second, the fourth, the eighth and so on of an attempt.
func (s *providerSink) Put(ctx context.Context, surface, key string, row any) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.closed(); err != nil {
		return err
	}
	s.puts++
	if !s.n.w.c.Puts || s.puts&(s.puts-1) != 0 {
		return s.inner.Put(ctx, surface, key, row)
	}
	return s.boundary(PortPut, fmt.Sprintf("%d, %s/%.80s", s.puts, surface, key), func() error {
		return s.inner.Put(ctx, surface, key, row)
	})
}

func (s *providerSink) Progress(done, total int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed() == nil {
		s.inner.Progress(done, total)
	}
}

func (s *providerSink) State(state json.RawMessage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed() == nil {
		s.inner.State(state)
	}
}

// closed says why the sink takes nothing any more; nil: it does.
func (s *providerSink) closed() error {
	switch {
	case s.n.gone.Load():
		return ErrDead
	case s.over:
		return errReturned
	}
	return nil
}

// close ends what the provider can do with its sink.
func (s *providerSink) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
}

// boundary makes a call between its two boundaries.
func (s *providerSink) boundary(p Port, what string, call func() error) error {
	b := Boundary{Port: p, What: s.what + ": " + what}
	fault := s.n.fault(p, "", b.What)
	if err := s.n.before(b, fault); err != nil {
		return err
	}
	if err := call(); err != nil {
		return err
	}
	return s.n.behind(b, fault)
}

type pointKey struct{}

// Point is a place in a provider at which its node can be killed, between two steps of its own that are no calls of a port.
// ctx is that of the call. It returns ErrDead if the node is dead now, and then the provider must stop at once, as if it had
// been killed. Outside of a world it is nil, and does nothing.
func Point(ctx context.Context, name string) error {
	s, ok := ctx.Value(pointKey{}).(*providerSink)
	if !ok {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.closed(); err != nil {
		return err
	}
	b := Boundary{Port: PortPoint, What: s.what + ": " + name}
	return s.n.before(b, s.n.fault(b.Port, "", b.What))
}

package handlers

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/events"
)

// slots is the worker pool: so many units run at once, the messages of others wait in line. A worker that ends a unit
// takes the first in line with it: the settle of the one and the claim of the other share a transaction (U-5).
type slots struct {
	rt   Runtime
	mu   sync.Mutex
	free int
	line []*ticket
}

// ticket is a message that waits for a worker.
type ticket struct {
	unit  events.UnitID
	turn  chan turn // of length 1
	given bool      // somebody has taken it out of the line and will send its turn
}

// turn is a worker's slot, with the claim that its last holder has made for the next.
type turn struct {
	claimed bool // lease and err say what became of the claim
	asked   time.Time
	lease   *towline.Lease
	err     error
}

func newSlots(n int, rt Runtime) *slots { return &slots{rt: rt, free: n} }

// enter waits for a slot. Who gets one must leave or hand over. When ctx ends first, nothing is held.
func (s *slots) enter(ctx context.Context, unit events.UnitID) (turn, error) {
	s.mu.Lock()
	if s.free > 0 {
		s.free--
		s.mu.Unlock()
		return turn{}, nil
	}
	t := &ticket{unit: unit, turn: make(chan turn, 1)}
	s.line = append(s.line, t)
	s.mu.Unlock()
	s.rt.Wait(func() bool { return len(t.turn) > 0 || ctx.Err() != nil })
	select {
	case got := <-t.turn:
		return got, nil
	case <-ctx.Done():
	}
	if s.withdraw(t) {
		return turn{}, context.Cause(ctx)
	}
	s.rt.Wait(func() bool { return len(t.turn) > 0 })
	return <-t.turn, nil // it is on its way, perhaps with a claim: it must be taken
}

// withdraw takes a ticket out of the line; false: it has been given a turn already.
func (s *slots) withdraw(t *ticket) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.given {
		return false
	}
	s.line = slices.DeleteFunc(s.line, func(other *ticket) bool { return other == t })
	return true
}

// next takes the first in line, to whom the caller must give its slot; nil: nobody waits, and the caller keeps it.
func (s *slots) next() *ticket {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pop()
}

func (s *slots) pop() *ticket {
	if len(s.line) == 0 {
		return nil
	}
	t := s.line[0]
	s.line[0] = nil
	s.line = s.line[1:]
	t.given = true
	return t
}

// leave gives the slot to the first in line, without a claim, or back to the pool.
func (s *slots) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.pop(); t != nil {
		t.turn <- turn{}
		return
	}
	s.free++
}

package sqlite

import "sync"

// bell tells those who wait that something may be new. The zero bell is ready.
type bell struct {
	mu    sync.Mutex
	heard chan struct{} // closed by the next ring; nil: nobody listens
}

// listen is a channel that the next ring closes. Who listens first and then looks cannot miss what comes in between.
func (b *bell) listen() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.heard == nil {
		b.heard = make(chan struct{})
	}
	return b.heard
}

func (b *bell) ring() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.heard != nil {
		close(b.heard)
		b.heard = nil
	}
}

// Committed is a channel that closes with the next commit of this process that appends an event. Who takes it first and then
// looks misses nothing that this process writes; the commits of another process, and those of DB, it does not hear.
func (s *Store) Committed() <-chan struct{} { return s.committed.listen() }

// Package providertest helps to test providers.
package providertest

import (
	"context"
	"encoding/json"
	"sync"

	"github.com/towline-dev/towline/provider"
	"github.com/towline-dev/towline/sink"
)

// Sink keeps what a provider puts, in memory. Like a real one it refuses undeclared surfaces and an ended context.
type Sink struct {
	// Fail answers every Put, if it is set; an error refuses the row.
	Fail func(Row) error

	mu       sync.Mutex
	scope    sink.Scope
	rows     []Row
	progress []Progress
	state    json.RawMessage
}

// Row is one Put.
type Row struct {
	Surface, Key string
	JSON         string
}

// Progress is one report of progress.
type Progress struct{ Done, Total int64 }

var _ sink.Sink = (*Sink)(nil)

// NewSink is an empty sink for a unit.
func NewSink(u provider.Unit) *Sink { return &Sink{scope: u.Scope()} }

func (s *Sink) Put(ctx context.Context, surface, key string, row any) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := s.scope.Declares(surface); err != nil {
		return err
	}
	b, err := json.Marshal(row)
	if err != nil {
		return err
	}
	r := Row{Surface: surface, Key: key, JSON: string(b)}
	if s.Fail != nil {
		if err := s.Fail(r); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rows = append(s.rows, r)
	return nil
}

func (s *Sink) Progress(done, total int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.progress = append(s.progress, Progress{Done: done, Total: total})
}

func (s *Sink) State(state json.RawMessage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state = state
}

// Rows are the rows in the order in which they were put.
func (s *Sink) Rows() []Row {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Row{}, s.rows...)
}

// Reports are the reports of progress.
func (s *Sink) Reports() []Progress {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Progress{}, s.progress...)
}

// Left is the state that was left; nil: none.
func (s *Sink) Left() json.RawMessage {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state
}

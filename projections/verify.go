package projections

import (
	"context"
	"fmt"

	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/store"
)

// Scratch folds a log into a store of its own: for comparison with the live tables, and for what they were at a past
// position. It is the same Apply on other tables, so a difference is a view that has drifted from the log.
type Scratch struct {
	store store.Store
	folds *folder
}

// NewScratch makes the tables in an empty store. stream reads a stream of the log that is folded.
func NewScratch(ctx context.Context, s store.Store, stream func(events.StreamID) ([]events.Envelope, error)) (*Scratch, error) {
	err := s.Write(ctx, func(tx store.Tx) error { return Rebuild(tx) })
	if err != nil {
		return nil, fmt.Errorf("make scratch tables: %w", err)
	}
	return &Scratch{store: s, folds: newFolder(stream)}, nil
}

// Apply folds one page of the log, in order.
func (s *Scratch) Apply(ctx context.Context, page []events.Envelope) error {
	steps, err := s.steps(page)
	if err != nil {
		return err
	}
	return s.apply(ctx, steps)
}

// steps folds before the write, which may run twice.
func (s *Scratch) steps(page []events.Envelope) ([]step, error) {
	out := make([]step, 0, len(page))
	for _, env := range page {
		before, after, err := s.folds.step(env)
		if err != nil {
			return nil, err
		}
		out = append(out, step{env: env, before: before, after: after})
	}
	return out, nil
}

func (s *Scratch) apply(ctx context.Context, steps []step) error {
	return s.store.Write(ctx, func(tx store.Tx) error {
		for _, st := range steps {
			if err := st.apply(tx); err != nil {
				return err
			}
		}
		return nil
	})
}

// step is one folded event.
type step struct {
	env           events.Envelope
	before, after decider.State
	graced        events.UnitID // not zero: a step of the clock, for the attempt of this unit alone
}

func (s step) apply(tx Writer) error {
	if e, ok := s.env.Event.(events.ClockStepped); ok && s.graced != (events.UnitID{}) {
		return graceLeases(tx, e, ` AND unit_id = $4`, blob(s.graced))
	}
	for _, p := range All() {
		if err := p.Apply(tx, s.env, s.before, s.after); err != nil {
			return &FoldError{s.env.Position, p.Name(), err}
		}
	}
	return nil
}

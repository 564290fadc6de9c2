package towline

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/projections"
	"github.com/towline-dev/towline/store"
)

// Past is the state of the engine at a position of its log: every query of projections.View, as it was answered there.
// Whoever asked for it closes it.
type Past = projections.Past

// AsOf is the state behind the event at a position, before the next; 0 is the empty store (AS-1). Nothing is read yet:
// the first query folds what it needs, which is a few events for one run, unit, job or register, and the log from its
// beginning for everything else (AS-2). Past.Report tells how far a long fold is.
//
// scratch is an empty store that takes as much room as what is folded. Past.Close closes it; after an error it is still
// the caller's. Node.AsOf makes one.
//
// Errors: a *RequestError that names position, if the log does not reach there (ErrNotFound) or it is negative
// (ErrInvalid).
func (e *Engine) AsOf(ctx context.Context, p events.Position, scratch store.Store) (*Past, error) {
	if p < 0 {
		return nil, &RequestError{
			Field: "position", Problem: fmt.Sprintf("%d is before the log, which begins at 1", p),
			Fix: "0 is the state before its first event", Kind: ErrInvalid,
		}
	}
	past, err := projections.NewPast(ctx, e.store, scratch, p)
	var beyond *projections.BeyondHeadError
	if errors.As(err, &beyond) {
		return nil, &RequestError{
			Field: "position", Problem: fmt.Sprintf("%d has not happened yet", p),
			Fix: fmt.Sprintf("the newest event is at %d", beyond.Head), Kind: ErrNotFound,
		}
	}
	if err != nil {
		return nil, fmt.Errorf("state as of position %d: %w", p, err)
	}
	return past, nil
}

// PositionAt is the last event at or before a time, for AsOf; 0: there was none yet. A time ahead gives the newest. It is
// the end of a transaction: at no time was half of one to be seen (AS-3).
func (e *Engine) PositionAt(ctx context.Context, t time.Time) (p events.Position, err error) {
	err = e.View(ctx, func(v projections.View) error {
		p, err = v.PositionAt(events.MicrosOf(t))
		return err
	})
	return p, err
}

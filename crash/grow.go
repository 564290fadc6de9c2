package crash

import (
	"context"
	"fmt"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/projections"
	"github.com/towline-dev/towline/store"
	"github.com/towline-dev/towline/store/sqlite"
)

// grower is a store that grows by the transactions of a log, through the port by which they were written, and with their
// times. So a prefix of the log costs no more than what it is longer than the last one.
type grower struct {
	s   *sqlite.Store
	now events.Micros
}

func newGrower(ctx context.Context, path string) (*grower, error) {
	g := &grower{}
	var err error
	g.s, err = sqlite.Open(ctx, path, sqlite.Options{Synchronous: "normal", Inline: true, Now: func() events.Micros { return g.now }})
	return g, err
}

func (g *grower) close() error { return g.s.Close() }

// add appends one transaction, and brings the views to it.
func (g *grower) add(ctx context.Context, tx []events.Envelope) error {
	g.now = tx[0].At
	err := g.s.Write(ctx, func(t store.Tx) error {
		for _, env := range tx {
			got, err := t.Append(env.Stream, env.Version-1, env.Meta, env.Event)
			if err != nil {
				return fmt.Errorf("event %d: %w", env.Position, err)
			}
			if got[0].Position != env.Position || got[0].Tx != env.Tx || got[0].At != env.At {
				return fmt.Errorf("event %d: the log has a gap before it, or its time lies before that of the event before it", env.Position)
			}
		}
		return projections.Open(t)
	})
	if err != nil {
		return fmt.Errorf("grow a store to %d: %w", tx[len(tx)-1].Position, err)
	}
	return nil
}

// copyTo leaves the store as it is now in another file.
func (g *grower) copyTo(ctx context.Context, path string) error {
	if _, err := g.s.DB().ExecContext(ctx, `VACUUM INTO $1`, path); err != nil {
		return fmt.Errorf("copy the store: %w", err)
	}
	return nil
}

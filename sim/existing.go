package sim

import (
	"context"
	"errors"
	"fmt"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/projections"
	"github.com/towline-dev/towline/relay"
	"github.com/towline-dev/towline/store"
	"github.com/towline-dev/towline/store/sqlite"
	"github.com/towline-dev/towline/transport"
)

// A world may begin on a store in which something has happened: the log of a real run, for one. What it calls runs and
// units it then learns from the log.

// Names are how a world calls what it finds in a log.
type Names struct{ names }

// NewNames knows nothing. It learns from the transactions that it names, so it must see them all, in their order.
func NewNames() Names { return Names{newNames()} }

// Commit is what one transaction has appended, in one line.
func (n Names) Commit(tx []events.Envelope) string { return n.commit(tx) }

// Run and Unit are the names of what was planned; empty: it was not.
func (n Names) Run(id events.RunID) string   { return n.runs[id] }
func (n Names) Unit(id events.UnitID) string { return n.units[id] }

// Wakeup is that of a register, by its number.
func (n Names) Wakeup(owner events.RunID, k events.Kind, number int) string {
	return n.wakeup(owner, k, number)
}

// MakeStore makes a new store with its views, for worlds that begin on copies of the file: to make one takes longer than most of
// them. Nothing of it is synced.
func MakeStore(ctx context.Context, path string) (err error) {
	s, err := sqlite.Open(ctx, path, sqlite.Options{Synchronous: "normal", Inline: true})
	if err != nil {
		return fmt.Errorf("make a store: %w", err)
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if err := s.Write(ctx, func(tx store.Tx) error { return projections.Open(tx) }); err != nil {
		return fmt.Errorf("make the views of a store: %w", err)
	}
	return nil
}

// learn reads what is in the store before the first incarnation. A node that starts there knows all of it.
func (w *World) learn(ctx context.Context, n *node) error {
	log, err := readLog(ctx, n.store)
	if err != nil {
		return fmt.Errorf("read what is in the store already: %w", err)
	}
	for _, env := range log {
		w.names.learn(env)
		w.head = env.Position
	}
	n.seen = w.head
	return nil
}

// transports are the publishers that the targets of the configured syncs name (K-9).
func (n *node) transports() relay.Option {
	named := map[string]transport.Publisher{}
	for _, s := range n.w.c.Syncs {
		for _, t := range s.PostSync.Targets {
			if t.Transport != "" {
				named[t.Transport] = &publisher{n: n, straight: t.Transport}
			}
		}
	}
	return relay.Transports(named)
}

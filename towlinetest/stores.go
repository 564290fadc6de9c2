package towlinetest

import (
	"context"
	"errors"
	"os"

	"github.com/towline-dev/towline/sim"
	"github.com/towline-dev/towline/store/sqlite"
)

// stores makes stores as copies of an empty one, which takes a tenth of the time that a new one takes.
type stores struct{ empty []byte }

func newStores(path string) (stores, error) {
	if err := sim.MakeStore(context.Background(), path); err != nil {
		return stores{}, err
	}
	data, err := os.ReadFile(path)
	return stores{data}, err
}

func (s stores) make(path string) error { return os.WriteFile(path, s.empty, 0o600) }

// examine is sim.Examine with a scratch store of its own.
func (s stores) examine(ctx context.Context, w *sim.World, scratch string) (found sim.Findings, err error) {
	if err := s.make(scratch); err != nil {
		return found, err
	}
	views, err := openStore(ctx, scratch)
	if err != nil {
		return found, err
	}
	defer func() { err = errors.Join(err, views.Close()) }()
	return sim.Examine(ctx, w, views)
}

// openStore opens a store that nothing else opens, and that is gone before the power can fail.
func openStore(ctx context.Context, path string) (*sqlite.Store, error) {
	return sqlite.Open(ctx, path, sqlite.Options{Synchronous: "normal", Inline: true})
}

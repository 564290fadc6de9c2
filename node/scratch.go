package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/store/sqlite"
)

// Verify folds the log by itself, in a scratch store beside the store, and compares every view with it (I-26). It needs
// as much room there as the store has.
func (n *Node) Verify(ctx context.Context) (towline.Verification, error) {
	s, err := n.newScratch(ctx)
	if err != nil {
		return towline.Verification{}, err
	}
	v, err := n.engine.Verify(ctx, s)
	return v, errors.Join(err, s.Close())
}

// AsOf is the state behind the event at a position, with every query that the present answers (AS-1, towline.Engine.AsOf).
// It folds into a scratch store beside the store, which takes as much room as what is asked about. Whoever asks closes it.
func (n *Node) AsOf(ctx context.Context, p events.Position) (*towline.Past, error) {
	s, err := n.newScratch(ctx)
	if err != nil {
		return nil, err
	}
	past, err := n.engine.AsOf(ctx, p, s)
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return past, nil
}

// scratch is an empty store in a folder of its own, which goes with it.
type scratch struct {
	*sqlite.Store
	dir string
}

func (n *Node) newScratch(ctx context.Context) (*scratch, error) {
	dir, err := os.MkdirTemp(filepath.Dir(n.c.Store), filepath.Base(n.c.Store)+scratchSuffix)
	if err != nil {
		return nil, fmt.Errorf("scratch folder: %w", err)
	}
	s, err := sqlite.Open(ctx, filepath.Join(dir, scratchName), sqlite.Options{Synchronous: "normal", AllowNetworkFS: n.c.AllowNetworkFS})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("scratch store: %w", err), os.RemoveAll(dir))
	}
	return &scratch{s, dir}, nil
}

// Close removes what was folded. A second Close does nothing more.
func (s *scratch) Close() error {
	err := s.Store.Close()
	return errors.Join(err, os.RemoveAll(s.dir))
}

// scratchSuffix and a number follow the name of the store in that of a scratch folder, which holds scratchName.
const (
	scratchSuffix = "-verify-"
	scratchName   = "scratch.db"
)

// sweep removes what a killed process has left of its Verify and of its pasts. Another process of a shared store may be at
// it.
func (n *Node) sweep() {
	if n.c.Shared {
		return
	}
	folder := filepath.Dir(n.c.Store)
	entries, err := os.ReadDir(folder)
	if err != nil {
		return // the store has just been opened there; nothing depends on this
	}
	for _, e := range entries {
		number, ours := strings.CutPrefix(e.Name(), filepath.Base(n.c.Store)+scratchSuffix)
		if _, err := strconv.ParseUint(number, 10, 64); !ours || err != nil || !e.IsDir() {
			continue
		}
		dir := filepath.Join(folder, e.Name())
		for _, suffix := range []string{"", "-lock", "-setup", "-wal", "-shm", "-journal"} {
			_ = os.Remove(filepath.Join(dir, scratchName+suffix)) // what is not there need not go
		}
		if err := os.Remove(dir); err != nil { // it holds something else
			n.logger.Warn("remove the scratch folder of a killed verify", "error", err)
		}
	}
}

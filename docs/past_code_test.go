package docs_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/node"
	"github.com/towline-dev/towline/projections"
	"github.com/towline-dev/towline/replay"
	"github.com/towline-dev/towline/store"
	"github.com/towline-dev/towline/store/sqlite"
)

// The functions of this file are printed in OPERATING.md, and called by the test beside it.

// tell writes what happened to a run until a time: each event, what it changed, and where a process died.
func tell(ctx context.Context, n *node.Node, run events.RunID, until time.Time, to io.Writer) error {
	p, err := n.Engine().PositionAt(ctx, until)
	if err != nil {
		return err
	}
	past, err := n.AsOf(ctx, p) // has every query of the views, too: past.View
	if err != nil {
		return err
	}
	defer past.Close()
	h, err := replay.Open(ctx, past, run)
	if err != nil {
		return err
	}
	return replay.Text(ctx, to, h, replay.TextOptions{})
}

// tellFile writes the page of a run as it was at a position of a store that no process has open; at 0, its newest.
func tellFile(ctx context.Context, path string, run events.RunID, at events.Position, to io.Writer) (err error) {
	s, err := sqlite.Open(ctx, path, sqlite.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if at == 0 {
		err = s.Read(ctx, func(r store.Reader) error {
			at, _, err = r.Head()
			return err
		})
		if err != nil {
			return err
		}
	}
	dir, err := os.MkdirTemp("", "replay-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	scratch, err := sqlite.Open(ctx, filepath.Join(dir, "scratch.db"), sqlite.Options{Synchronous: "normal"})
	if err != nil {
		return err
	}
	past, err := projections.NewPast(ctx, s, scratch, at)
	if err != nil {
		return errors.Join(err, scratch.Close())
	}
	defer func() { err = errors.Join(err, past.Close()) }()
	h, err := replay.Open(ctx, past, run)
	if err != nil {
		return err
	}
	return replay.HTML(ctx, to, h, replay.HTMLOptions{})
}

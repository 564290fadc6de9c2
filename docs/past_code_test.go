package docs_test

import (
	"context"
	"io"
	"time"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/node"
	"github.com/towline-dev/towline/replay"
)

// The function of this file is printed in OPERATING.md, and called by the test beside it.

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

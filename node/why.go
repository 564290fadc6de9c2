package node

import (
	"context"
	"fmt"
	"time"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/decider"
)

// Why is Engine.Why with what this process sees of a unit that runs in it: one whose provider has been silent for longer
// than it may be (provider.Watched) has the remark that it is stalled. Errors as those of Engine.Why.
func (n *Node) Why(ctx context.Context, id string) (towline.Why, error) {
	why, err := n.engine.Why(ctx, id)
	if err != nil || why.Of != "unit" || why.Reason.Why != decider.WaitRunning {
		return why, err
	}
	now := time.Now()
	for _, u := range n.handlers.Progress() {
		if u.Alias == why.ID && u.Stalled(now) {
			why.Remark = fmt.Sprintf("stalled: no word of its provider since %s", u.Heard.UTC().Format(time.RFC3339))
		}
	}
	return why, nil
}

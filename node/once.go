package node

import (
	"context"
	"fmt"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/relay"
	"github.com/towline-dev/towline/transport"
)

// Pass is one round of the reconciler, in the goroutine of the caller: it expires leases, arms what is owed, and publishes what
// is due through the Routes (REC-3). Step is its last part alone. They are for a node that is opened to set things right and is
// not run: one that runs makes its passes itself, and returns towline.ErrStopped here.
//
// What has no route is left to a node that works. The in-process bus is none: its queue would end with this process.
func (n *Node) Pass(ctx context.Context) (relay.Report, error) {
	return n.once(ctx, (*relay.Relay).Pass)
}

// Step is the last part of a Pass: it publishes what is due.
func (n *Node) Step(ctx context.Context) (relay.Report, error) {
	return n.once(ctx, (*relay.Relay).Step)
}

func (n *Node) once(ctx context.Context, round func(*relay.Relay, context.Context) relay.Report) (relay.Report, error) {
	n.mu.Lock()
	defer n.mu.Unlock() // nobody begins to run it meanwhile
	if n.begun {
		return relay.Report{}, fmt.Errorf("pass: the node was run or closed before: %w", towline.ErrStopped)
	}
	r, err := relay.Synchronous(n.engine, n.elsewhere, relay.Transports(n.c.Transports))
	if err != nil {
		return relay.Report{}, err
	}
	report := round(r, ctx)
	return report, report.Err()
}

// elsewhere is the publisher of a kind whose messages do not end with this process.
func (n *Node) elsewhere(k events.Kind) transport.Publisher {
	if p := n.c.Routes[k]; p != nil {
		return p
	}
	if k == events.KindMessage && n.apps.bus == nil {
		return n.apps.publisher
	}
	return nil
}

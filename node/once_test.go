package node_test

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/node"
	"github.com/towline-dev/towline/provider"
	"github.com/towline-dev/towline/sink"
	"github.com/towline-dev/towline/transport"
	"github.com/towline-dev/towline/transport/pull"
)

// REC-3: a node that is not run makes one pass when it is asked, and publishes what has a route. What would go through the queue
// in its memory stays in the store. One that is closed refuses.
func TestANodeMakesOnePass(t *testing.T) {
	ctx := context.Background()
	s := works(func(context.Context, provider.Unit, sink.Sink) (provider.Result, error) {
		return provider.Result{}, nil
	})
	n := open(t, node.Config{Store: filepath.Join(t.TempDir(), "towline.db"), Syncs: []node.Sync{s}})
	_, err := n.Engine().Plan(ctx, spec(2))
	require.NoError(t, err)
	head, err := n.Engine().Head(ctx)
	require.NoError(t, err)
	for _, round := range []func(*node.Node) error{
		func(n *node.Node) error { _, err := n.Pass(ctx); return err },
		func(n *node.Node) error { _, err := n.Step(ctx); return err },
	} {
		require.NoError(t, round(n))
	}
	after, err := n.Engine().Head(ctx)
	require.NoError(t, err)
	require.Equal(t, head, after, "there is nowhere to publish it")
	require.NoError(t, n.Close())
	_, err = n.Pass(ctx)
	require.ErrorIs(t, err, towline.ErrStopped)

	routed := open(t, node.Config{
		Store: filepath.Join(t.TempDir(), "towline.db"), Syncs: []node.Sync{s},
		Routes: map[events.Kind]transport.Publisher{events.KindDispatch: pull.Publisher{}},
	})
	_, err = routed.Engine().Plan(ctx, spec(2))
	require.NoError(t, err)
	report, err := routed.Step(ctx)
	require.NoError(t, err)
	require.Equal(t, 1, report.Dispatched)
	require.NoError(t, routed.Close())
}

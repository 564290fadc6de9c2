package node_test

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/node"
	"github.com/towline-dev/towline/provider"
	"github.com/towline-dev/towline/sink"
)

// a planned run is dispatched, worked on, finalized once, and everything agrees with the log.
func TestARunEnds(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	n, err := node.Open(ctx, node.Config{
		Store: filepath.Join(t.TempDir(), "towline.db"),
		Syncs: []node.Sync{{
			Name: "readings", Sources: []string{"harbour", "ridge"},
			Datasets: []towline.Dataset{{Name: "readings", Window: towline.Day}, {Name: "stations", Tier: towline.Reference, Snapshot: true}},
			Provider: provider.Func(func(ctx context.Context, u provider.Unit, s sink.Sink) (provider.Result, error) {
				return provider.Result{}, s.Put(ctx, u.Dataset, u.Alias, map[string]string{"x": "y"})
			}),
		}},
	})
	require.NoError(t, err)
	stopped := make(chan error, 1)
	running, stop := context.WithCancel(ctx)
	go func() { stopped <- n.Run(running) }()

	planned, err := n.Engine().Plan(ctx, towline.RunSpec{Sync: "readings"})
	require.NoError(t, err)
	run, err := n.Engine().Wait(ctx, planned.Run)
	require.NoError(t, err)
	require.Equal(t, events.RunSucceeded, run.Status)
	require.Equal(t, planned.Units, run.Succeeded)

	v, err := n.Verify(ctx)
	require.NoError(t, err)
	require.Empty(t, v.Differences)
	require.Empty(t, v.Violations)
	stop()
	require.NoError(t, <-stopped)
}

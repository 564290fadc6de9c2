package node_test

import (
	"context"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/internal/enginetest"
	"github.com/towline-dev/towline/node"
	"github.com/towline-dev/towline/provider"
	"github.com/towline-dev/towline/sink"
)

// CLK-3, CLK-4, C-45, G-17, HC-23: a whole process goes through steps of its wall clock in both directions while its
// workers work: every unit succeeds in its first attempt, the post_sync is sent once, and queued units follow.
func TestANodeGoesThroughTheStepsOfItsClock(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		var ahead, calls atomic.Int64
		began := time.Now()
		s := works(func(ctx context.Context, _ provider.Unit, _ sink.Sink) (provider.Result, error) {
			calls.Add(1)
			select {
			case <-time.After(20 * time.Minute):
			case <-ctx.Done():
			}
			return provider.Result{}, context.Cause(ctx)
		})
		n := start(t, open(t, node.Config{
			Store: filepath.Join(dir, "towline.db"), Syncs: []node.Sync{s}, VerifyEvery: -1,
			Now:       func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) },
			Monotonic: func() time.Duration { return time.Since(began) },
			Knobs:     towline.Knobs{CapBucket: 4},
		}))
		id := plan(t, n.Node, 12).Run
		for _, far := range []time.Duration{14 * day, -28 * day, 40 * day} { // one for each four units
			<-time.After(7 * time.Minute)
			ahead.Add(int64(far))
			<-time.After(14 * time.Minute)
		}
		run, err := n.Engine().Wait(t.Context(), id)
		require.NoError(t, err)
		require.Equal(t, events.RunSucceeded, run.Status)
		require.EqualValues(t, 12, calls.Load())
		require.Len(t, enginetest.Only[events.ClockStepped](logOf(t, n.Node)), 3)
		<-time.After(time.Minute)
		require.Equal(t, 1, s.Sink.(*memory).ran())
		conditions, err := n.Engine().Health(t.Context())
		require.NoError(t, err)
		require.Empty(t, conditions)
		requireGood(t, n.Node)
		n.end()
	})
}

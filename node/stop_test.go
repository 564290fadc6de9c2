package node_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/internal/enginetest"
	"github.com/towline-dev/towline/node"
	"github.com/towline-dev/towline/provider"
	"github.com/towline-dev/towline/sink"
)

// N-6: a node runs once. Behind its close, and beside another Run, it says so at once.
func TestANodeRunsOnce(t *testing.T) {
	closed := open(t, node.Config{})
	require.NoError(t, closed.Close())
	require.ErrorIs(t, closed.Run(t.Context()), towline.ErrStopped)

	n := start(t, open(t, node.Config{Syncs: []node.Sync{works(nothingToDo)}}))
	_, err := n.Engine().Wait(t.Context(), plan(t, n.Node, 1).Run) // it runs
	require.NoError(t, err)
	require.ErrorIs(t, n.Run(t.Context()), towline.ErrStopped)
	n.end()
}

// N-6: RunWhile stops the node behind the work, and tells the work when the node has failed or is to stop.
func TestRunWhile(t *testing.T) {
	n := open(t, node.Config{Syncs: []node.Sync{works(nothingToDo)}})
	err := n.RunWhile(t.Context(), func(ctx context.Context) error {
		run, err := n.Engine().Wait(ctx, plan(t, n, 3).Run)
		require.Equal(t, events.RunSucceeded, run.Status)
		return err
	})
	require.NoError(t, err)

	ctx, stop := context.WithCancel(t.Context())
	n = open(t, node.Config{Syncs: []node.Sync{works(nothingToDo)}})
	err = n.RunWhile(ctx, func(ctx context.Context) error {
		stop()
		<-ctx.Done()
		return context.Cause(ctx)
	})
	require.ErrorIs(t, err, context.Canceled)

	err = n.RunWhile(t.Context(), func(ctx context.Context) error {
		<-ctx.Done()
		return nil
	})
	require.ErrorIs(t, err, towline.ErrStopped, "it has run before")
}

// N-6, U-16: what a stop ends is handed back if the provider writes behind sink.Guard and says so, also without a retry
// policy; with one, no start warns of it. Behind a sink that refuses nobody the unit is lost, and the start warns.
func TestAStopHandsBackWhatIsGuarded(t *testing.T) {
	for to, want := range map[sink.Opener]string{sink.Guarded: "", sink.Discard: "worker_lost"} {
		path := filepath.Join(t.TempDir(), "towline.db")
		called := make(chan struct{})
		s := works(func(ctx context.Context, _ provider.Unit, _ sink.Sink) (provider.Result, error) {
			close(called)
			<-ctx.Done()
			return provider.Result{}, context.Cause(ctx)
		})
		s.Sink, s.PostSync = to, towline.PostSync{}
		s.Datasets = []towline.Dataset{{Name: "a", Window: towline.Day}} // no Retry
		n := start(t, open(t, node.Config{Store: path, Syncs: []node.Sync{s}, Knobs: towline.Knobs{ShutdownGrace: -1}}))
		id := plan(t, n.Node, 1).Run
		<-called
		n.end()

		var said enginetest.Log
		s.Provider = provider.Func(nothingToDo)
		s.Datasets[0].Retry = towline.Retry{Max: 1}
		again := open(t, node.Config{Store: path, Syncs: []node.Sync{s}, Logger: slog.New(slog.NewTextHandler(&said, nil))})
		require.Equal(t, want == "", !strings.Contains(said.String(), "cannot refuse a late attempt"))
		require.NoError(t, again.RunWhile(t.Context(), func(ctx context.Context) error {
			_, err := again.Engine().Wait(ctx, id)
			require.NoError(t, err)
			require.Equal(t, want, string(units(t, again, id)[0].ErrorCategory))
			return nil
		}))
	}
}

// N-6: a stop that comes with the start is a clean stop, and does not wait for handlers that never ran.
func TestAStopThatComesWithTheStart(t *testing.T) {
	n, err := node.Open(t.Context(), node.Config{Store: filepath.Join(t.TempDir(), "towline.db")})
	require.NoError(t, err)
	stopped, stop := context.WithCancel(t.Context())
	stop()
	start := time.Now()
	require.NoError(t, n.Run(stopped))
	require.Less(t, time.Since(start), 30*time.Second)
}

// N-6, C-46: a clean stop loses no post_sync that it has accepted: what is queued in the process is done before it
// ends, and what is not yet published is left to the next start.
func TestACleanStopDoesWhatItHasAccepted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "towline.db")
	s := works(nothingToDo)
	to := &memory{}
	s.Sink = to
	const rounds = 20
	for i := range rounds {
		n := open(t, node.Config{Store: path, Syncs: []node.Sync{s}})
		err := n.RunWhile(t.Context(), func(ctx context.Context) error {
			_, err := n.Engine().Wait(ctx, plan(t, n, 1+i%3).Run)
			return err
		})
		require.NoError(t, err)
	}
	n := start(t, open(t, node.Config{Store: path, Syncs: []node.Sync{s}}))
	waitFor(t, n.Node, func() bool { return to.ran() == rounds })
	n.end()
	last := open(t, node.Config{Store: path, Syncs: []node.Sync{s}})
	for _, o := range enginetest.Only[events.OutboxOutcome](logOf(t, last)) {
		require.Equal(t, events.Accepted, o.Outcome)
	}
	require.NoError(t, last.Close())
}

// N-6, C-46: a post_sync that does not come to its turn within the grace is said to be unconfirmed.
func TestAPostSyncThatHasNoTurnIsSaid(t *testing.T) {
	var said enginetest.Log
	s := works(nothingToDo)
	held := &holding{memory: &memory{}, free: make(chan struct{})}
	s.Sink = held
	n := start(t, open(t, node.Config{Syncs: []node.Sync{s}, Knobs: towline.Knobs{ShutdownGrace: 50 * time.Millisecond},
		Logger: slog.New(slog.NewTextHandler(&said, nil))}))
	for range 10 { // more than are in work at once
		_, err := n.Engine().Wait(t.Context(), plan(t, n.Node, 1).Run)
		require.NoError(t, err)
	}
	waitFor(t, n.Node, func() bool { return held.begun.Load() == 8 })
	time.AfterFunc(time.Second, func() { close(held.free) })
	n.end()
	require.Contains(t, said.String(), "stay unconfirmed")
}

// holding is a destination whose scripts wait.
type holding struct {
	*memory
	begun atomic.Int64
	free  chan struct{}
}

func (h *holding) Script(ctx context.Context, script string, args ...any) error {
	h.begun.Add(1)
	<-h.free
	return h.memory.Script(ctx, script, args...)
}

// L-8: what a killed verify has left beside the store goes with the next start, and nothing else.
func TestTheScratchOfAKilledVerifyIsSwept(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "towline.db")
	keep := []string{"towline.db-verify-report", "towline.db-verify-2024.bak", "towline.db-verify-7"}
	require.NoError(t, os.MkdirAll(filepath.Join(path+"-verify-123"), 0o700))
	for _, suffix := range []string{"", "-lock", "-wal", "-shm", "-journal"} { // the last where there is no WAL (DUR-3)
		require.NoError(t, os.WriteFile(filepath.Join(path+"-verify-123", "scratch.db"+suffix), nil, 0o600))
	}
	for _, name := range keep {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, name), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name, "mine"), nil, 0o600))
	}
	require.NoError(t, open(t, node.Config{Store: path}).Close())
	require.NoDirExists(t, path+"-verify-123")
	for _, name := range keep {
		require.FileExists(t, filepath.Join(dir, name, "mine"))
	}
}

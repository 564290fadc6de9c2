package node_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/node"
	"github.com/towline-dev/towline/provider"
	"github.com/towline-dev/towline/sink"
)

// workload is a row of docs/PERFORMANCE.md: runs of units, each planned durably, dispatched, claimed, executed, settled,
// finalized once and followed by a post_sync.
type workload struct {
	runs, units, workers int
	knobs                towline.Knobs
	work                 provider.Func
}

// scripted is a destination that keeps nothing, and whose script does nothing.
type scripted struct{ sink.Opener }

func (scripted) Script(context.Context, string, ...any) error { return nil }

func (w workload) sync() node.Sync {
	return node.Sync{
		Name: "s", Sources: []string{"source"}, Datasets: []towline.Dataset{{Name: "units"}}, Provider: w.work,
		Sink:     scripted{sink.Discard},
		PostSync: towline.PostSync{Targets: []towline.Target{{Name: "after", SQL: "SELECT 1"}}},
	}
}

func (w workload) spec() towline.RunSpec {
	before := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	return towline.RunSpec{
		Sync: "s", Mode: towline.Backfill, Since: before.AddDate(0, 0, -w.units), Before: before,
	}
}

// run does the workload once in a store of its own and returns the node, still open for questions, and its end.
func (w workload) run(tb testing.TB, dir string) (n *node.Node, took time.Duration, end func()) {
	tb.Helper()
	ctx := context.Background()
	k := w.knobs
	k.BackfillChunk = 24 * time.Hour
	n, err := node.Open(ctx, node.Config{
		Store: filepath.Join(dir, "towline.db"), Syncs: []node.Sync{w.sync()}, Workers: w.workers, Knobs: k,
		Logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
	require.NoError(tb, err)
	running, stop := context.WithCancel(ctx)
	stopped := make(chan error, 1)
	go func() { stopped <- n.Run(running) }()
	end = sync.OnceFunc(func() {
		stop()
		require.NoError(tb, <-stopped)
	})
	tb.Cleanup(end)

	start := time.Now()
	const clients = 8
	todo := make(chan struct{}, w.runs)
	for range w.runs {
		todo <- struct{}{}
	}
	close(todo)
	planned := make(chan events.RunID, w.runs)
	var wg sync.WaitGroup
	for range clients {
		wg.Go(func() {
			for range todo {
				p, err := n.Engine().Plan(ctx, w.spec())
				if err != nil {
					tb.Error(err)
					return
				}
				planned <- p.Run
			}
		})
	}
	wg.Wait()
	close(planned)
	for id := range planned {
		run, err := n.Engine().Wait(ctx, id)
		require.NoError(tb, err)
		require.Equal(tb, events.RunSucceeded, run.Status)
	}
	return n, time.Since(start), end
}

// BenchmarkS is the same-shape workload of docs/PERFORMANCE.md: 200 runs of 50 units that do nothing, 64 workers, caps
// above the number of units. ns/op is one whole workload.
func BenchmarkS(b *testing.B) {
	for _, workers := range []int{64, 8, 1} {
		b.Run(fmt.Sprintf("workers=%d", workers), func(b *testing.B) {
			open := towline.Knobs{CapBucket: 20_000, CapRun: 20_000, CapEngine: 20_000}
			benchmark(b, workload{runs: 200, units: 50, workers: workers, knobs: open, work: nothing})
		})
	}
}

// BenchmarkS64 is S with 64 slots for 64 workers.
func BenchmarkS64(b *testing.B) {
	capped := towline.Knobs{CapBucket: 64, CapRun: 64, CapEngine: 64}
	benchmark(b, workload{runs: 200, units: 50, workers: 64, knobs: capped, work: nothing})
}

func nothing(context.Context, provider.Unit, sink.Sink) (provider.Result, error) {
	return provider.Result{}, nil
}

// benchmark reports the last of its rounds, and proves each of them: the log, folded by a second hand, breaks no
// invariant and gives the same views.
func benchmark(b *testing.B, w workload) {
	for b.Loop() {
		var before, after syscall.Rusage
		require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &before))
		n, took, end := w.run(b, b.TempDir())
		require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &after))
		b.StopTimer()
		units := float64(w.runs * w.units)
		cpu := after.Utime.Nano() + after.Stime.Nano() - before.Utime.Nano() - before.Stime.Nano()
		b.ReportMetric(units/took.Seconds(), "units/s")
		b.ReportMetric(float64(cpu)/1e3/units, "cpu-µs/unit")
		c := costOf(n, w)
		b.ReportMetric(c.events, "events/unit")
		b.ReportMetric(c.transactions, "transactions/unit")
		b.ReportMetric(c.commits, "commits/unit")
		b.ReportMetric(c.statements, "statements/unit")
		b.ReportMetric(c.bytes/1024, "KiB/unit")
		v, err := n.Verify(context.Background())
		require.NoError(b, err)
		require.True(b, v.OK(), "%v %v", v.Violations, v.Differences)
		end()
		runtime.GC() // the next round does not pay for this one
		b.StartTimer()
	}
}

package towline_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/node"
	"github.com/towline-dev/towline/projections"
	"github.com/towline-dev/towline/provider"
	"github.com/towline-dev/towline/sink"
)

// A run of three days has failed for one of them. When the cause is mended, that day alone is run again, with the same
// window, as a run of its own that names the old one.
func ExampleEngine_RetryFailed() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "towline-example-")
	if err != nil {
		log.Fatal(err)
	}

	var mended atomic.Bool
	copyDay := func(_ context.Context, u provider.Unit, _ sink.Sink) (provider.Result, error) {
		if u.Window.Name() == "2026-03-02" && !mended.Load() {
			return provider.Result{}, provider.Fail(provider.Auth, errors.New("the token has expired"))
		}
		return provider.Result{Rows: 24}, nil
	}
	n, err := node.Open(ctx, node.Config{
		Store: filepath.Join(dir, "towline.db"), Logger: slog.New(slog.DiscardHandler),
		Syncs: []node.Sync{{
			Name: "readings", Sources: []string{"harbour"}, Datasets: []towline.Dataset{{Name: "readings", Window: towline.Day}},
			Provider: provider.Func(copyDay),
		}},
	})
	if err != nil {
		log.Fatal(err)
	}
	running, stop := context.WithCancel(ctx)
	stopped := make(chan error, 1)
	go func() { stopped <- n.Run(running) }()

	wait := func(p towline.Planned, err error) projections.SyncRun {
		if err != nil {
			log.Fatal(err)
		}
		run, err := n.Engine().Wait(ctx, p.Run)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s run: %s, %d of %d units\n", run.TriggeredBy, run.Status, run.Succeeded, run.Total)
		return run
	}
	day := func(d int) time.Time { return time.Date(2026, 3, d, 0, 0, 0, 0, time.UTC) }
	first := wait(n.Engine().Plan(ctx, towline.RunSpec{Sync: "readings", Mode: towline.Backfill, Since: day(1), Before: day(4)}))

	mended.Store(true)
	again := wait(n.Engine().RetryFailed(ctx, towline.RetrySpec{
		Run: first.Run, Key: "march, again", By: towline.Actor{Name: "ada", Reason: "the token is renewed"},
	}))
	fmt.Println("it retries the first:", again.RetryOf == first.Run)

	_, err = n.Engine().RetryFailed(ctx, towline.RetrySpec{Run: again.Run, By: towline.Actor{Name: "ada"}})
	fmt.Println(err)

	stop()
	if err := errors.Join(<-stopped, os.RemoveAll(dir)); err != nil {
		log.Fatal(err)
	}
	// Output:
	// backfill run: partial_failed, 2 of 3 units
	// retry run: succeeded, 1 of 1 units
	// it retries the first: true
	// run: all of its units have succeeded, or it has none; plan a new run
}

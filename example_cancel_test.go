package towline_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/node"
	"github.com/towline-dev/towline/provider"
	"github.com/towline-dev/towline/sink"
)

// A run is cancelled while a unit of it is at work. It ends at once; the provider hears of it through its context, and
// nothing of its attempt is kept.
func ExampleEngine_CancelRun() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "towline-example-")
	if err != nil {
		log.Fatal(err)
	}

	working, told := make(chan struct{}), make(chan error, 1)
	endless := func(ctx context.Context, _ provider.Unit, _ sink.Sink) (provider.Result, error) {
		close(working)
		<-ctx.Done()
		told <- context.Cause(ctx)
		return provider.Result{}, context.Cause(ctx)
	}
	n, err := node.Open(ctx, node.Config{
		Store: filepath.Join(dir, "towline.db"), Logger: slog.New(slog.DiscardHandler),
		Syncs: []node.Sync{{
			Name: "readings", Sources: []string{"harbour"}, Datasets: []towline.Dataset{{Name: "readings"}},
			Provider: provider.Func(endless),
		}},
	})
	if err != nil {
		log.Fatal(err)
	}
	running, stop := context.WithCancel(ctx)
	stopped := make(chan error, 1)
	go func() { stopped <- n.Run(running) }()

	planned, err := n.Engine().Plan(ctx, towline.RunSpec{Sync: "readings"})
	if err != nil {
		log.Fatal(err)
	}
	<-working
	ada := towline.Actor{Name: "ada", Reason: "the harbour is closed"}
	if err := n.Engine().CancelRun(ctx, planned.Run, ada); err != nil {
		log.Fatal(err)
	}
	run, err := n.Engine().Wait(ctx, planned.Run)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s, %s: %d of %d units cancelled\n", run.Status, run.Reason, run.Cancelled, run.Total)
	fmt.Println("the provider was told so:", errors.Is(<-told, provider.ErrCancelled))

	stop()
	if err := errors.Join(<-stopped, os.RemoveAll(dir)); err != nil {
		log.Fatal(err)
	}
	// Output:
	// cancelled, the harbour is closed: 1 of 1 units cancelled
	// the provider was told so: true
}

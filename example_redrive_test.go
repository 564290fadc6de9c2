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
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/node"
	"github.com/towline-dev/towline/projections"
	"github.com/towline-dev/towline/provider"
	"github.com/towline-dev/towline/sink"
)

// A wakeup that is parked, here by an operator before the process publishes anything, waits in sight until somebody
// redrives it. One that was refused too often waits in the same way. On a node that runs, its register would be idle after
// milliseconds, with nothing to park.
func ExampleEngine_Redrive() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "towline-example-")
	if err != nil {
		log.Fatal(err)
	}

	nothing := func(context.Context, provider.Unit, sink.Sink) (provider.Result, error) {
		return provider.Result{}, nil
	}
	n, err := node.Open(ctx, node.Config{
		Store: filepath.Join(dir, "towline.db"), Logger: slog.New(slog.DiscardHandler),
		Syncs: []node.Sync{{
			Name: "readings", Sources: []string{"harbour"}, Datasets: []towline.Dataset{{Name: "readings"}},
			Provider: provider.Func(nothing),
		}},
	})
	if err != nil {
		log.Fatal(err)
	}
	planned, err := n.Engine().Plan(ctx, towline.RunSpec{Sync: "readings"})
	if err != nil {
		log.Fatal(err)
	}
	first := towline.RegisterKey{Owner: planned.Run, Kind: events.KindDispatch}
	err = n.Engine().Park(ctx, first, towline.Actor{Name: "ada", Reason: "not before the migration"})
	if err != nil {
		log.Fatal(err)
	}
	running, stop := context.WithCancel(ctx)
	stopped := make(chan error, 1)
	go func() { stopped <- n.Run(running) }()

	var held []projections.Register
	err = n.Engine().View(ctx, func(v projections.View) (err error) {
		held, err = v.HeldRegisters(10)
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
	for _, r := range held {
		fmt.Printf("%s is %s: %s, %s\n", r.Kind, r.Status, r.LastCause, r.LastText)
		if err := n.Engine().Redrive(ctx, r.Key(), towline.Actor{Name: "ada", Reason: "it is migrated"}); err != nil {
			log.Fatal(err)
		}
	}
	run, err := n.Engine().Wait(ctx, planned.Run)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(run.Status)

	stop()
	if err := errors.Join(<-stopped, os.RemoveAll(dir)); err != nil {
		log.Fatal(err)
	}
	// Output:
	// dispatch_sync_run is parked: operator, not before the migration
	// succeeded
}

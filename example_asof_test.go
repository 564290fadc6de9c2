package towline_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/node"
	"github.com/towline-dev/towline/projections"
	"github.com/towline-dev/towline/provider"
	"github.com/towline-dev/towline/sink"
)

// Every query that the present answers can be asked of the past: here how a run stood when its first unit had succeeded,
// though it has long ended.
func ExamplePast() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "towline-example-")
	if err != nil {
		log.Fatal(err)
	}
	nothing := func(context.Context, provider.Unit, sink.Sink) (provider.Result, error) {
		return provider.Result{}, nil
	}
	n, err := node.Open(ctx, node.Config{
		Store: filepath.Join(dir, "towline.db"), Workers: 1,
		Syncs: []node.Sync{{
			Name: "readings", Sources: []string{"harbour"}, Datasets: []towline.Dataset{{Name: "readings", Window: towline.Day}},
			Provider: provider.Func(nothing),
		}},
	})
	if err != nil {
		log.Fatal(err)
	}
	err = n.RunWhile(ctx, func(ctx context.Context) error {
		day := func(d int) time.Time { return time.Date(2026, 3, d, 0, 0, 0, 0, time.UTC) }
		planned, err := n.Engine().Plan(ctx, towline.RunSpec{Sync: "readings", Mode: towline.Backfill, Since: day(1), Before: day(4)})
		if err != nil {
			return err
		}
		if _, err := n.Engine().Wait(ctx, planned.Run); err != nil {
			return err
		}

		// The position of an event comes from the log; that of a time from Engine.PositionAt.
		var first events.Position
		err = n.Engine().Log(ctx, 0, func(e events.Envelope) error {
			if _, ok := e.Event.(events.UnitSucceeded); ok && first == 0 {
				first = e.Position
			}
			return nil
		})
		if err != nil {
			return err
		}
		past, err := n.AsOf(ctx, first)
		if err != nil {
			return err
		}
		show := func(v projections.View) error {
			run, _, err := v.Run(planned.Run)
			fmt.Printf("%s: %d of %d units\n", run.Status, run.Succeeded, run.Total)
			return err
		}
		return errors.Join(n.Engine().View(ctx, show), past.View(ctx, show), past.Close())
	})
	if err := errors.Join(err, os.RemoveAll(dir)); err != nil {
		log.Fatal(err)
	}
	// Output:
	// succeeded: 3 of 3 units
	// running: 1 of 3 units
}

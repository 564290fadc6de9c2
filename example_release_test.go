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
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/node"
	"github.com/towline-dev/towline/projections"
	"github.com/towline-dev/towline/provider"
	"github.com/towline-dev/towline/sink"
)

// A worker hangs in a call that never returns. Who knows that it is lost releases its unit, and the next attempt begins
// without waiting for the lease.
func ExampleEngine_ReleaseUnit() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "towline-example-")
	if err != nil {
		log.Fatal(err)
	}

	var calls atomic.Int32
	hanging := make(chan events.UnitID, 1)
	read := func(ctx context.Context, u provider.Unit, _ sink.Sink) (provider.Result, error) {
		if calls.Add(1) == 1 {
			hanging <- u.ID
			<-ctx.Done()
			return provider.Result{}, context.Cause(ctx)
		}
		return provider.Result{Rows: 1}, nil
	}
	n, err := node.Open(ctx, node.Config{
		Store: filepath.Join(dir, "towline.db"), Logger: slog.New(slog.DiscardHandler),
		Syncs: []node.Sync{{
			Name: "readings", Sources: []string{"harbour"}, Provider: provider.Func(read),
			Datasets: []towline.Dataset{{Name: "readings", Retry: towline.Retry{Max: 1, Backoff: time.Millisecond}}},
		}},
	})
	if err != nil {
		log.Fatal(err)
	}
	err = n.RunWhile(ctx, func(ctx context.Context) error {
		planned, err := n.Engine().Plan(ctx, towline.RunSpec{Sync: "readings"})
		if err != nil {
			return err
		}
		ada := towline.Actor{Name: "ada", Reason: "the harbour's line is dead"}
		if err := n.Engine().ReleaseUnit(ctx, <-hanging, ada); err != nil {
			return err
		}
		run, err := n.Engine().Wait(ctx, planned.Run)
		if err != nil {
			return err
		}
		return n.Engine().View(ctx, func(v projections.View) error {
			units, err := v.Units(planned.Run, 0, 1)
			if err == nil {
				fmt.Printf("%s in attempt %d\n", run.Status, units[0].Attempt)
			}
			return err
		})
	})
	if err := errors.Join(err, os.RemoveAll(dir)); err != nil {
		log.Fatal(err)
	}
	// Output: succeeded in attempt 2
}

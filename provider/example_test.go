package provider_test

import (
	"context"
	"errors"
	"fmt"
	"log"
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

// A provider that is asked to slow down says so, for how long, and whose limit it is. Its unit is tried again at that time,
// and meanwhile no unit is dispatched for the same account.
func ExampleError() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "towline-example-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	var calls atomic.Int32
	read := func(context.Context, provider.Unit, sink.Sink) (provider.Result, error) {
		if calls.Add(1) == 1 { // 429, Retry-After
			return provider.Result{}, &provider.Error{
				Category: provider.RateLimit, After: 100 * time.Millisecond, Account: "ada", Err: errors.New("429 Too Many Requests"),
			}
		}
		return provider.Result{Rows: 1}, nil
	}
	n, err := node.Open(ctx, node.Config{
		Store: filepath.Join(dir, "towline.db"),
		Syncs: []node.Sync{{
			Name: "issues", ProviderName: "tracker", Sources: []string{"core"}, Datasets: []towline.Dataset{{Name: "issues"}},
			Provider: provider.Func(read),
		}},
	})
	if err != nil {
		log.Fatal(err)
	}
	running, stop := context.WithCancel(ctx)
	stopped := make(chan error, 1)
	go func() { stopped <- n.Run(running) }()
	planned, err := n.Engine().Plan(ctx, towline.RunSpec{Sync: "issues"})
	if err != nil {
		log.Fatal(err)
	}
	run, err := n.Engine().Wait(ctx, planned.Run)
	if err != nil {
		log.Fatal(err)
	}
	err = n.Engine().View(ctx, func(v projections.View) error {
		units, err := v.Units(planned.Run, 0, 1)
		if err != nil {
			return err
		}
		cooldowns, err := v.Cooldowns(0) // also those that are over
		fmt.Printf("%s after %d attempts; %s was left alone\n", run.Status, units[0].Attempt, cooldowns[0].Key)
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
	stop()
	if err := <-stopped; err != nil {
		log.Fatal(err)
	}
	// Output:
	// succeeded after 2 attempts; tracker/ada was left alone
}

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
	"github.com/towline-dev/towline/sink/sqlite"
)

// A run of three units from its plan to its end: one unit per day, each written to its sink once. Then its log is read,
// and the views are compared with it.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "towline-example-")
	if err != nil {
		log.Fatal(err)
	}

	copyDay := func(ctx context.Context, u provider.Unit, s sink.Sink) (provider.Result, error) {
		return provider.Result{}, s.Put(ctx, "readings", u.Window.Name()+"-noon", map[string]int{"celsius": 21})
	}
	destination := sqlite.File(filepath.Join(dir, "readings.db"))
	n, err := node.Open(ctx, node.Config{
		Store: filepath.Join(dir, "towline.db"),
		Syncs: []node.Sync{{
			Name: "readings", Sources: []string{"harbour"}, Datasets: []towline.Dataset{{Name: "readings", Window: towline.Day}},
			Provider: provider.Func(copyDay), Sink: destination,
		}},
	})
	if err != nil {
		log.Fatal(err)
	}
	running, stop := context.WithCancel(ctx)
	stopped := make(chan error, 1)
	go func() { stopped <- n.Run(running) }()

	day := func(d int) time.Time { return time.Date(2026, 3, d, 0, 0, 0, 0, time.UTC) }
	planned, err := n.Engine().Plan(ctx, towline.RunSpec{
		Sync: "readings", Mode: towline.Backfill, Since: day(1), Before: day(4), Key: "march",
	})
	if err != nil {
		log.Fatal(err)
	}
	run, err := n.Engine().Wait(ctx, planned.Run)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s: %d of %d units\n", run.Status, run.Succeeded, run.Total)

	err = n.Engine().View(ctx, func(v projections.View) error {
		history, err := v.Stream(events.RunStream(run.Run))
		for _, e := range history {
			fmt.Println(e.Event.EventType())
		}
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
	verified, err := n.Verify(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("verified:", verified.OK())

	stop()
	if err := errors.Join(<-stopped, destination.Close(), os.RemoveAll(dir)); err != nil {
		log.Fatal(err)
	}
	// Output:
	// succeeded: 3 of 3 units
	// RunPlanned
	// RunDispatchStarted
	// RunFinalized
	// verified: true
}

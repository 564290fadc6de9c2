package replay_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/projections"
	"github.com/towline-dev/towline/provider"
	"github.com/towline-dev/towline/replay"
	"github.com/towline-dev/towline/sim"
	"github.com/towline-dev/towline/sink"
	"github.com/towline-dev/towline/store"
	"github.com/towline-dev/towline/store/sqlite"
)

// A worker is killed in the middle of its unit, and what became of the unit is read from the log of the store alone: no
// engine runs, as with a copy that somebody has sent.
func ExampleHistory_Steps() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "towline-example-")
	if err != nil {
		log.Fatal(err)
	}
	path := filepath.Join(dir, "towline.db")
	run, err := crashed(ctx, path)
	if err != nil {
		log.Fatal(err)
	}

	s, err := sqlite.Open(ctx, path, sqlite.Options{})
	if err != nil {
		log.Fatal(err)
	}
	scratch, err := sqlite.Open(ctx, filepath.Join(dir, "scratch.db"), sqlite.Options{Synchronous: "normal"})
	if err != nil {
		log.Fatal(err)
	}
	var head events.Position
	err = s.Read(ctx, func(r store.Reader) error {
		head, _, err = r.Head()
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
	past, err := projections.NewPast(ctx, s, scratch, head)
	if err != nil {
		log.Fatal(err)
	}
	history, err := replay.Open(ctx, past, run)
	if err != nil {
		log.Fatal(err)
	}
	ofUnit := func(s replay.Step) bool { return s.Subject.Ordinal == 1 }
	for step, err := range replay.Keep(history.Steps(ctx), ofUnit) {
		if err != nil {
			log.Fatal(err)
		}
		for _, r := range step.Restarts {
			fmt.Println("--", r.How)
		}
		fmt.Println(step.Since, step.Subject, step.Event.Event.EventType())
		for _, row := range step.Changes {
			for _, column := range row.Columns {
				if column.Name == "status" && row.Op == projections.RowChanged {
					fmt.Println("  ", column.Before, "→", column.After)
				}
			}
		}
	}
	if err := errors.Join(past.Close(), s.Close(), os.RemoveAll(dir)); err != nil {
		log.Fatal(err)
	}
	// Output:
	// 0s unit 1 harbour/readings UnitPlanned
	// 0s unit 1 harbour/readings UnitDispatched
	//    planned → dispatching
	// 0s unit 1 harbour/readings UnitClaimed
	//    dispatching → running
	// -- died
	// 1s unit 1 harbour/readings UnitLeaseExpired
	// 1s unit 1 harbour/readings UnitRetryScheduled
	//    running → retrying
	// 1m1s unit 1 harbour/readings UnitDispatched
	//    retrying → dispatching
	// 1m1s unit 1 harbour/readings UnitClaimed
	//    dispatching → running
	// 1m2s unit 1 harbour/readings UnitSucceeded
	//    running → succeeded
}

// The same death as a page, to be opened in a browser or sent to somebody: one file that needs nothing else.
func ExampleHTML() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "towline-example-")
	if err != nil {
		log.Fatal(err)
	}
	run, err := crashed(ctx, filepath.Join(dir, "towline.db"))
	if err != nil {
		log.Fatal(err)
	}
	s, err := sqlite.Open(ctx, filepath.Join(dir, "towline.db"), sqlite.Options{})
	if err != nil {
		log.Fatal(err)
	}
	scratch, err := sqlite.Open(ctx, filepath.Join(dir, "scratch.db"), sqlite.Options{Synchronous: "normal"})
	if err != nil {
		log.Fatal(err)
	}
	var head events.Position
	err = s.Read(ctx, func(r store.Reader) error {
		head, _, err = r.Head()
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
	past, err := projections.NewPast(ctx, s, scratch, head) // or at an earlier position: the page ends there
	if err != nil {
		log.Fatal(err)
	}
	history, err := replay.Open(ctx, past, run)
	if err != nil {
		log.Fatal(err)
	}
	var page bytes.Buffer
	if err := replay.HTML(ctx, &page, history, replay.HTMLOptions{}); err != nil {
		log.Fatal(err)
	}
	for _, told := range []string{"1 process died", "1 lease lost", "lost its lease: incarnation gone; attempt 1 is tried again", "https://"} {
		fmt.Println(told+":", strings.Count(page.String(), told))
	}
	fmt.Println("events:", strings.Count(page.String(), `<li class="step"`))
	if err := errors.Join(past.Close(), s.Close(), os.RemoveAll(dir)); err != nil {
		log.Fatal(err)
	}
	// Output:
	// 1 process died: 1
	// 1 lease lost: 1
	// lost its lease: incarnation gone; attempt 1 is tried again: 2
	// https://: 0
	// events: 29
}

// crashed makes a store of one run, whose first process dies while the provider works.
func crashed(ctx context.Context, path string) (run events.RunID, err error) {
	config := sim.Config{
		Store: path, Seed: 1,
		Syncs: []sim.Sync{{
			Sync: towline.Sync{
				Name: "weather", Provider: "stations", Sources: []string{"harbour"},
				Datasets: []towline.Dataset{{Name: "readings", Retry: towline.Retry{Max: 1}}},
			},
			Provider: provider.Func(func(context.Context, provider.Unit, sink.Sink) (provider.Result, error) {
				return provider.Result{}, nil
			}),
		}},
	}
	// A first world, without a fault, says which boundary it is.
	measured := config
	measured.Store = path + "-measured"
	w := sim.New(measured)
	w.Request(towline.RunSpec{Sync: "weather", Key: "march"})
	if err := errors.Join(w.Run(ctx), w.Bury()); err != nil {
		return run, err
	}
	for _, b := range w.Lives()[0].Boundaries {
		if b.Port == sim.PortProvider && b.Behind {
			config.Kills = []int{b.N}
		}
	}
	w = sim.New(config)
	w.Request(towline.RunSpec{Sync: "weather", Key: "march"})
	if err := w.Run(ctx); err != nil {
		return run, err
	}
	err = w.Read(ctx, func(r store.Reader) error {
		runs, err := projections.NewView(r).Runs(events.RunID{}, 1)
		if err == nil {
			run = runs[0].Run
		}
		return err
	})
	return run, errors.Join(err, w.Bury())
}

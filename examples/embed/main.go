// Command embed copies the readings of two weather stations into one SQLite file, day by day:
//
//	stations/<station>/<day>.csv  ──►  readings.db
//
// Kill it in the middle of its work and start it again: every reading arrives once.
package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/node"
	"github.com/towline-dev/towline/provider"
	"github.com/towline-dev/towline/sink"
	"github.com/towline-dev/towline/sink/sqlite"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	readings := sqlite.File("readings.db") // replaces a day, refuses an older attempt
	defer readings.Close()
	n, err := node.Open(ctx, node.Config{
		Store: "station.db", // made if missing; what a crash left behind is decided when Open returns
		Syncs: []node.Sync{{
			Name: "readings", Sources: []string{"harbour", "ridge"},
			Datasets: []towline.Dataset{{ // a unit per day, which may lose its worker three times
				Name: "readings", Window: towline.Day, Retry: towline.Retry{Max: 3, Backoff: time.Second},
			}},
			Provider: provider.Func(copyDay), Sink: readings,
		}},
	})
	if err != nil {
		log.Fatal(err)
	}
	err = n.RunWhile(ctx, func(ctx context.Context) error {
		// The same key is the same run for a week, so a restart plans nothing twice.
		planned, err := n.Engine().Plan(ctx, towline.RunSpec{Sync: "readings", Mode: towline.FullResync, Key: "first"})
		if err != nil {
			return err
		}
		run, err := n.Engine().Wait(ctx, planned.Run)
		if err == nil {
			fmt.Printf("%s: %d of %d days\n", run.Status, run.Succeeded, run.Total)
		}
		return err
	})
	if err != nil {
		log.Fatal(err) // the node has stopped cleanly all the same
	}
}

// copyDay does one unit: one station, one day. It may run twice; the sink keeps the newer attempt.
func copyDay(ctx context.Context, u provider.Unit, s sink.Sink) (provider.Result, error) {
	day, err := os.ReadFile("stations/" + u.Source + "/" + u.Window.Name() + ".csv")
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // no file: a day without readings
		return provider.Result{}, provider.Fail(provider.Network, err)
	}
	for line := range strings.Lines(string(day)) {
		at, value, _ := strings.Cut(strings.TrimSpace(line), ",")
		key := u.Window.Name() + " " + at // there is an 08:00 in every day, and a key is one row for good
		if err := s.Put(ctx, "readings", key, map[string]string{"value": value}); err != nil {
			return provider.Result{}, err
		}
	}
	fmt.Println("read", u.Alias)
	return provider.Result{}, nil
}

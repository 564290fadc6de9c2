// Command exec runs two shell scripts as the providers of two syncs, into one SQLite file:
//
//	disk/usage.sh    ──►  facts.db, table usage       all there is, each time
//	packages/log.sh  ──►  facts.db, table packages    a unit for each of the last 31 days
//
// Kill it in the middle of its work and start it again: every row is there once, and no script runs on.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/node"
	"github.com/towline-dev/towline/projections"
	"github.com/towline-dev/towline/provider/exec"
	"github.com/towline-dev/towline/sink/sqlite"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	facts := sqlite.File("facts.db")
	defer facts.Close()
	disk := command(exec.Options{Command: []string{"disk/usage.sh"}, Key: []string{"path"}})
	packages := command(exec.Options{Command: []string{"packages/log.sh"}, Protocol: exec.Native})
	n, err := node.Open(ctx, node.Config{
		Store: "exec.db",
		Syncs: []node.Sync{{
			Name: "disk", ProviderName: exec.Name, Sources: []string{"here"}, Provider: disk, Sink: facts,
			Datasets: []towline.Dataset{{Name: "usage", Snapshot: true, Retry: towline.Retry{Max: 3, Backoff: time.Second}}},
		}, {
			Name: "packages", ProviderName: exec.Name, Sources: []string{"dpkg"}, Provider: packages, Sink: facts,
			Datasets: []towline.Dataset{{Name: "packages", Window: towline.Day, Retry: towline.Retry{Max: 3, Backoff: time.Second}}},
		}},
	})
	if err != nil {
		log.Fatal(err)
	}
	err = n.RunWhile(ctx, func(ctx context.Context) error {
		for _, sync := range []string{"disk", "packages"} {
			if err := once(ctx, n, sync); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
}

// command is a provider whose attempts are on record beside the store.
func command(o exec.Options) *exec.Provider {
	o.Folder = "exec.db-attempts"
	p, err := exec.New(o)
	if err != nil {
		log.Fatal(err)
	}
	return p
}

// once runs a sync and says how it went.
func once(ctx context.Context, n *node.Node, sync string) error {
	planned, err := n.Engine().Plan(ctx, towline.RunSpec{Sync: sync})
	if err != nil {
		return err
	}
	run, err := n.Engine().Wait(ctx, planned.Run)
	if err != nil {
		return err
	}
	fmt.Printf("%s: %s, %d of %d units\n", sync, run.Status, run.Succeeded, run.Total)
	return n.Engine().View(ctx, func(v projections.View) error {
		units, err := v.Units(planned.Run, 0, 1)
		if err == nil && units[0].ErrorText != "" {
			fmt.Println(units[0].ErrorCategory, units[0].ErrorText)
		}
		return err
	})
}

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
	"github.com/towline-dev/towline/feed"
	"github.com/towline-dev/towline/node"
	"github.com/towline-dev/towline/provider"
	"github.com/towline-dev/towline/sink"
)

// A program that wants to know of every run that ends follows the log as a group. It may be killed at any moment: the
// group goes on behind the last message that was acknowledged.
func Example_followTheLog() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "towline-example-")
	if err != nil {
		log.Fatal(err)
	}
	n, err := node.Open(ctx, node.Config{
		Store: filepath.Join(dir, "towline.db"),
		Syncs: []node.Sync{{
			Name: "readings", Sources: []string{"harbour"}, Datasets: []towline.Dataset{{Name: "readings"}},
			Provider: provider.Func(func(context.Context, provider.Unit, sink.Sink) (provider.Result, error) {
				return provider.Result{}, nil
			}),
		}},
	})
	if err != nil {
		log.Fatal(err)
	}
	ended, err := n.Events("who writes to the users", feed.Options{Types: []events.Type{events.TypeRunFinalized}})
	if err != nil {
		log.Fatal(err)
	}
	messages, err := ended.Subscribe(ctx, feed.Topic)
	if err != nil {
		log.Fatal(err)
	}
	err = n.RunWhile(ctx, func(ctx context.Context) error {
		for d := range 2 {
			since := time.Date(2026, 3, 1+d, 0, 0, 0, 0, time.UTC)
			spec := towline.RunSpec{Sync: "readings", Mode: towline.Backfill, Since: since, Before: since.AddDate(0, 0, 1)}
			if _, err := n.Engine().Plan(ctx, spec); err != nil {
				return err
			}
			m := <-messages
			fmt.Println(m.Metadata.Get(feed.Type), string(m.Payload))
			m.Ack()
		}
		if err := ended.Close(); err != nil { // also done by the end of the node
			return err
		}
		groups, err := n.EventGroups(ctx)
		if err != nil {
			return err
		}
		for _, g := range groups {
			fmt.Println("group:", g.Name)
		}
		return nil
	})
	if err := errors.Join(err, os.RemoveAll(dir)); err != nil {
		log.Fatal(err)
	}
	// Output:
	// RunFinalized {"status":"succeeded","total":1,"succeeded":1}
	// RunFinalized {"status":"succeeded","total":1,"succeeded":1}
	// group: who writes to the users
}

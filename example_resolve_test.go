package towline_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"os"
	"path/filepath"

	watermill "github.com/ThreeDotsLabs/watermill/message"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/node"
	"github.com/towline-dev/towline/projections"
	"github.com/towline-dev/towline/provider"
	"github.com/towline-dev/towline/sink"
	"github.com/towline-dev/towline/transport"
)

// mute is a broker that takes a message and gives no answer.
type mute struct{ asked chan struct{} }

func (mute) Name() string { return "mute" }

func (m mute) Send(context.Context, string, *watermill.Message) transport.Receipt {
	close(m.asked)
	return transport.Unknown(errors.New("no confirm in 5 s"))
}

// A post_sync is published at most once. If nobody knows whether it arrived, it waits for a person who finds out; whatever
// is found is recorded, and nothing is sent again.
func ExampleEngine_Resolve() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "towline-example-")
	if err != nil {
		log.Fatal(err)
	}

	nothing := func(context.Context, provider.Unit, sink.Sink) (provider.Result, error) {
		return provider.Result{}, nil
	}
	broker := mute{asked: make(chan struct{})}
	open := func() *node.Node {
		n, err := node.Open(ctx, node.Config{
			Store: filepath.Join(dir, "towline.db"), Logger: slog.New(slog.DiscardHandler),
			Syncs: []node.Sync{{
				Name: "readings", Sources: []string{"harbour"}, Datasets: []towline.Dataset{{Name: "readings"}},
				Provider: provider.Func(nothing), PostSync: towline.PostSync{Targets: []towline.Target{{Name: "report"}}},
			}},
			Routes: map[events.Kind]transport.Publisher{events.KindPostSync: broker},
		})
		if err != nil {
			log.Fatal(err)
		}
		return n
	}

	n := open()
	var planned towline.Planned
	err = n.RunWhile(ctx, func(ctx context.Context) (err error) {
		planned, err = n.Engine().Plan(ctx, towline.RunSpec{Sync: "readings"})
		if err == nil {
			<-broker.asked
		}
		return err
	})
	if err != nil {
		log.Fatal(err)
	}

	n = open() // the next process, some time later
	show := func(v projections.View) error {
		held, err := v.HeldRegisters(10)
		for _, r := range held {
			fmt.Printf("%s is %s: target %s, %s\n", r.Kind, r.Status, r.Outcomes[0].Target, r.Outcomes[0].Cause)
		}
		fmt.Println("held:", len(held))
		return err
	}
	if err := n.Engine().View(ctx, show); err != nil {
		log.Fatal(err)
	}
	post := towline.RegisterKey{Owner: planned.Run, Kind: events.KindPostSync}
	ada := towline.Actor{Name: "ada", Reason: "the report of this run is there"}
	if err := n.Engine().Resolve(ctx, post, "report", events.ResolvedDelivered, ada); err != nil {
		log.Fatal(err)
	}
	if err := n.Engine().View(ctx, show); err != nil {
		log.Fatal(err)
	}

	if err := errors.Join(n.Close(), os.RemoveAll(dir)); err != nil {
		log.Fatal(err)
	}
	// Output:
	// post_sync is unresolved: target report, no confirm in 5 s
	// held: 1
	// held: 0
}

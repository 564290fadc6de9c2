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

	watermill "github.com/ThreeDotsLabs/watermill/message"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/node"
	"github.com/towline-dev/towline/provider"
	"github.com/towline-dev/towline/sink"
	"github.com/towline-dev/towline/transport"
	"github.com/towline-dev/towline/transport/local"
)

// dozing is a broker that is away for its first messages.
type dozing struct {
	*local.Bus
	away atomic.Int32 // for so many more
}

func (*dozing) Name() string { return "dozing" }

func (d *dozing) Send(ctx context.Context, topic string, m *watermill.Message) transport.Receipt {
	if d.away.Add(-1) >= 0 {
		return transport.Refused(errors.New("connection refused"))
	}
	return d.Bus.Send(ctx, topic, m)
}

// A broker that is away: the run is accepted all the same, the breaker of the transport opens, a probe now and then tries
// it, and when one gets through everything goes on. No attempt is used up.
func Example_outage() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "towline-example-")
	if err != nil {
		log.Fatal(err)
	}
	broker := &dozing{Bus: local.New(local.Options{})}
	broker.away.Store(3)
	n, err := node.Open(ctx, node.Config{
		Store: filepath.Join(dir, "towline.db"), Bus: broker.Bus, Logger: slog.New(slog.DiscardHandler),
		Routes: map[events.Kind]transport.Publisher{events.KindDispatch: broker},
		Knobs:  towline.Knobs{BreakerFailures: 1, BreakerOpen: 100 * time.Millisecond, BackoffBase: time.Millisecond},
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
	err = n.RunWhile(ctx, func(ctx context.Context) error {
		planned, err := n.Engine().Plan(ctx, towline.RunSpec{Sync: "readings"})
		if err != nil {
			return err
		}
		fmt.Println("accepted")
		run, err := n.Engine().Wait(ctx, planned.Run)
		if err != nil {
			return err
		}
		fmt.Println(run.Status)
		burned := 0
		err = n.Engine().Log(ctx, 0, func(e events.Envelope) error {
			switch e := e.Event.(type) {
			case events.BreakerOpened:
				fmt.Printf("%s opens: %s\n", e.Transport, e.Cause)
			case events.BreakerClosed:
				fmt.Printf("%s closes: %s\n", e.Transport, e.Cause)
			case events.OutboxReleased:
				if e.Counted {
					burned++
				}
			}
			return nil
		})
		fmt.Println("attempts burned:", burned)
		return err
	})
	if err := errors.Join(err, os.RemoveAll(dir)); err != nil {
		log.Fatal(err)
	}
	// Output:
	// accepted
	// succeeded
	// dozing opens: connection refused
	// dozing opens: connection refused
	// dozing opens: connection refused
	// dozing closes: a message was accepted
	// attempts burned: 0
}

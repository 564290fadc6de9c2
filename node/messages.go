package node

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/transport"
	"github.com/towline-dev/towline/transport/local"
)

// appLanes is how many messages of a topic are in work at once: the store takes one transaction at a time, and a few
// keep it busy.
const appLanes = 4

// appRoute is where the application messages of this process go. They have a bus of their own, for a topic may have the
// name of a kind.
type appRoute struct {
	publisher transport.Publisher // nil: nobody here takes them
	bus       *local.Bus          // nil: they go elsewhere
}

func newAppRoute(c Config, logger *slog.Logger) appRoute {
	switch {
	case c.Publisher != nil:
		return appRoute{publisher: transport.FromWatermill("publisher", c.Publisher, c.Traits)}
	case len(c.Messages) > 0:
		bus := local.New(local.Options{
			MaxDeliveries: c.Knobs.MaxDeliveries, Logger: logger,
			Again: func(string) string { return "when the next process starts" }, // REC-11
		})
		return appRoute{publisher: inProcess{bus, c.Messages}, bus: bus}
	}
	return appRoute{}
}

func (r appRoute) close() {
	if r.bus != nil {
		_ = r.bus.Close() // it cannot fail
	}
}

// inProcess is the bus of the messages under a name of its own, which makes it a transport of its own (O-16). It refuses
// what nobody here would take from the queue.
type inProcess struct {
	*local.Bus
	consumers map[string]Consumer
}

func (inProcess) Name() string { return events.TransportLocalMessages }

func (p inProcess) Send(ctx context.Context, topic string, m *message.Message) transport.Receipt {
	if _, ok := p.consumers[topic]; !ok {
		return transport.Receipt{
			Outcome: events.Refused, Permanent: true, Err: fmt.Errorf("no consumer of topic %q is configured in this process", topic),
		}
	}
	return p.Bus.Send(ctx, topic, m)
}

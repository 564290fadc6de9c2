package relay

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/components/forwarder"
	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/transport"
)

// Topic is the topic of the Subscriber, on which the forwarder listens.
const Topic = "towline.outbox"

// Subscriber is the outbox as a Watermill subscriber (WMILL-1): a claimed wakeup is a delivery, Ack is its mark, Nack its
// release. For mark_first kinds the mark has committed before the delivery, and Ack and Nack record the outcome.
//
// What it delivers are forwarder envelopes; the only consumer is Watermill's forwarder, which publishes them through the
// pluggable publisher. A Nack never resends by itself: the register does, and it is on record.
type Subscriber struct {
	out    chan *message.Message
	closed chan struct{}
	once   sync.Once
}

func newSubscriber() *Subscriber {
	return &Subscriber{out: make(chan *message.Message), closed: make(chan struct{})}
}

// Subscribe delivers what the relay claims. There is one subscription.
func (s *Subscriber) Subscribe(ctx context.Context, topic string) (<-chan *message.Message, error) {
	if topic != Topic {
		return nil, fmt.Errorf("outbox subscriber: topic %q: want %q", topic, Topic)
	}
	out := make(chan *message.Message)
	go func() {
		defer close(out)
		for {
			select {
			case m := <-s.out:
				select {
				case out <- m:
				case <-s.closed: // the router is gone
					m.Nack()
					return
				}
			case <-s.closed:
				return
			case <-ctx.Done():
				return
			}
		}
	}()
	return out, nil
}

// Close ends the subscription.
func (s *Subscriber) Close() error {
	s.once.Do(func() { close(s.closed) })
	return nil
}

// Publish takes the envelopes of the forwarder's own publisher decorator: the envelope's form is Watermill's.
func (s *Subscriber) Publish(_ string, messages ...*message.Message) error {
	for _, m := range messages {
		select {
		case s.out <- m:
		case <-s.closed:
			return errNotForwarded
		case <-m.Context().Done():
			return errNotForwarded
		}
		select {
		case <-m.Acked():
		case <-m.Nacked():
			return errNacked
		case <-s.closed: // the router is gone, and may have left a handler behind
			return errNotSettled
		}
	}
	return nil
}

var (
	errNotForwarded = errors.New("the forwarder did not take the message")
	errNacked       = errors.New("the forwarder refused the message")
	errNotSettled   = errors.New("the forwarder has gone before it settled the message")
)

// synchronous calls the forwarder's handler in the caller's goroutine, as the router's loop would: for tests and
// simulations in which one goroutine decides who moves next.
type synchronous struct{ handle message.HandlerFunc }

func (s synchronous) Publish(_ string, messages ...*message.Message) error {
	for _, m := range messages {
		if _, err := s.handle(m); err != nil {
			m.Nack()
			return errNacked
		}
		m.Ack()
	}
	return nil
}

func (synchronous) Close() error { return nil }

// forward is the carrier: it puts a message into a forwarder envelope, hands it over, and reads the receipt that travels
// back in the message's context.
type forward struct{ envelopes *forwarder.Publisher }

func newForward(p message.Publisher) forward {
	return forward{forwarder.NewPublisher(p, forwarder.PublisherConfig{ForwarderTopic: Topic})}
}

func (f forward) carry(ctx context.Context, topic string, o outgoing) transport.Receipt {
	m, err := o.message()
	if err != nil {
		return transport.Receipt{Outcome: events.Refused, Permanent: true, Err: err} // it can never be built
	}
	var receipt transport.Receipt
	m.SetContext(transport.WithReceipt(ctx, &receipt))
	err = f.envelopes.Publish(topic, m)
	switch {
	case errors.Is(err, errNotSettled):
		return transport.Unknown(errNotSettled) // the receipt is not read: somebody may still write it
	case receipt.Outcome != "":
		return receipt
	case errors.Is(err, errNotForwarded):
		return transport.Receipt{Outcome: events.Refused, Uncounted: true, Err: errNotForwarded}
	case err != nil:
		return transport.Refused(err) // it never reached the publisher
	}
	return transport.Unknown(errors.New("the publisher gave no receipt"))
}

// newForwarder builds Watermill's forwarder on a router of its own: from in, to the publisher of each kind.
func newForwarder(in message.Subscriber, routes Routes, logger watermill.LoggerAdapter) (*message.Router, error) {
	router, err := message.NewRouter(message.RouterConfig{}, logger)
	if err != nil {
		return nil, fmt.Errorf("forwarder's router: %w", err)
	}
	_, err = forwarder.NewForwarder(in, transport.ToWatermill(routed{routes}), logger, forwarder.Config{
		ForwarderTopic: Topic, Router: router,
	})
	if err != nil {
		return nil, fmt.Errorf("forwarder: %w", err)
	}
	return router, nil
}

// routed sends each message through the publisher of its kind, which is its topic, or straight to its destination.
type routed struct{ routes Routes }

func (routed) Name() string { return "routed" }

func (r routed) Send(ctx context.Context, topic string, m *message.Message) transport.Receipt {
	if to, ok := ctx.Value(straightKey{}).(transport.Publisher); ok {
		return to.Send(ctx, topic, m)
	}
	return r.routes(events.Kind(topic)).Send(ctx, topic, m)
}

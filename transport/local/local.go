// Package local is the in-process transport: the embedded default, which needs no service. It is a bounded queue per
// topic. Its messages die with the process, which the engine knows (N-3), so nothing depends on them.
package local

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/transport"
)

// Options of a bus. The zero value is ready to use.
type Options struct {
	Capacity      int           // messages that wait in one topic; zero: 16384
	MaxDeliveries int           // of one message, then it is dropped: the engine finds what is owed; zero: 10
	RetryDelay    time.Duration // before a refused message is delivered again, doubling to 5 s; zero: 100 ms
	Logger        *slog.Logger  // nil: slog.Default()
}

// Bus is one in-process transport. It is a transport.Publisher, and Subscriber gives message.Subscribers of it.
type Bus struct {
	o Options

	mu     sync.Mutex
	topics map[string]*queue
	closed chan struct{}
	once   sync.Once
}

// New makes a bus. It starts no goroutine.
func New(o Options) *Bus {
	if o.Capacity <= 0 {
		o.Capacity = 16_384
	}
	if o.MaxDeliveries <= 0 {
		o.MaxDeliveries = 10
	}
	if o.RetryDelay <= 0 {
		o.RetryDelay = 100 * time.Millisecond
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	return &Bus{o: o, topics: map[string]*queue{}, closed: make(chan struct{})}
}

// Name is the reserved name of the in-process transport.
func (*Bus) Name() string { return events.TransportLocal }

// delivery is a message and how often it was handed out.
type delivery struct {
	m     *message.Message
	tries int
}

// queue is one topic: a channel is a bounded queue already.
type queue struct{ ch chan delivery }

func (b *Bus) queue(topic string) *queue {
	b.mu.Lock()
	defer b.mu.Unlock()
	q, ok := b.topics[topic]
	if !ok {
		q = &queue{ch: make(chan delivery, b.o.Capacity)}
		b.topics[topic] = q
	}
	return q
}

// Neither is the message's fault, so they burn no attempt (B-8).
var (
	errFull   = errors.New("the in-process queue is full")
	errClosed = errors.New("the in-process transport is closed")
)

// Send puts the message into its topic, and waits for room until the deadline of ctx.
func (b *Bus) Send(ctx context.Context, topic string, m *message.Message) transport.Receipt {
	d := delivery{m: m}
	q := b.queue(topic)
	select { // alone: of several cases that are ready, select takes any
	case <-b.closed:
		return transport.NotBegun(errClosed)
	case <-ctx.Done():
		return transport.NotBegun(context.Cause(ctx))
	default:
	}
	select {
	case q.ch <- d:
		return transport.Accepted("queued in process")
	case <-b.closed:
		return transport.NotBegun(errClosed)
	case <-ctx.Done():
		return transport.NotBegun(errFull)
	}
}

// Waiting counts the messages of a topic that nobody has taken yet.
func (b *Bus) Waiting(topic string) int { return len(b.queue(topic).ch) }

// Close ends the bus: every subscription ends, and what waits is lost, as it is when the process dies.
func (b *Bus) Close() error {
	b.once.Do(func() { close(b.closed) })
	return nil
}

// Subscriber hands out at most window messages of a subscription that are not settled yet; zero: 1.
func (b *Bus) Subscriber(window int) message.Subscriber {
	return &subscriber{b: b, window: max(window, 1), closed: make(chan struct{})}
}

type subscriber struct {
	b      *Bus
	window int

	once   sync.Once
	closed chan struct{}
	wg     sync.WaitGroup
}

// Subscribe delivers the messages of a topic until ctx ends or the subscriber is closed. Each message goes to one
// subscription. A refused one is delivered again behind a delay.
func (s *subscriber) Subscribe(ctx context.Context, topic string) (<-chan *message.Message, error) {
	out := make(chan *message.Message)
	q := s.b.queue(topic)
	var lanes sync.WaitGroup
	for range s.window {
		lanes.Add(1)
		s.wg.Add(1)
		go func() {
			defer s.wg.Done()
			defer lanes.Done()
			s.lane(ctx, q, topic, out)
		}()
	}
	go func() {
		lanes.Wait()
		close(out)
	}()
	return out, nil
}

// lane hands out one message at a time and waits until it is settled.
func (s *subscriber) lane(ctx context.Context, q *queue, topic string, out chan<- *message.Message) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.closed:
			return
		case <-s.b.closed:
			return
		case d := <-q.ch:
			if !s.deliver(ctx, q, topic, d, out) {
				return
			}
		}
	}
}

func (s *subscriber) deliver(ctx context.Context, q *queue, topic string, d delivery, out chan<- *message.Message) bool {
	m := d.m.Copy()
	mctx, cancel := context.WithCancel(ctx)
	defer cancel()
	m.SetContext(mctx)
	select {
	case out <- m:
	case <-ctx.Done():
		s.back(q, topic, d)
		return false
	case <-s.closed:
		s.back(q, topic, d)
		return false
	case <-s.b.closed:
		return false
	}
	select {
	case <-m.Acked():
		return true
	case <-m.Nacked():
		return s.again(ctx, q, topic, d)
	}
}

// back puts a message into the queue again: another subscription may want it.
func (s *subscriber) back(q *queue, topic string, d delivery) {
	select {
	case q.ch <- d:
	default:
		s.b.o.Logger.Warn("message dropped, the queue is full", "topic", topic, "message", d.m.UUID)
	}
}

// again puts a refused message back, behind a delay that grows, until it has been delivered too often.
func (s *subscriber) again(ctx context.Context, q *queue, topic string, d delivery) bool {
	d.tries++
	if d.tries >= s.b.o.MaxDeliveries {
		s.b.o.Logger.Warn("message dropped after too many deliveries", "topic", topic, "message", d.m.UUID, "deliveries", d.tries)
		return true
	}
	const longest = 5 * time.Second
	delay := s.b.o.RetryDelay << min(d.tries-1, 10)
	timer := time.NewTimer(min(delay, longest))
	defer timer.Stop()
	goesOn := false
	select {
	case <-timer.C:
		goesOn = true
	case <-ctx.Done():
	case <-s.closed:
	case <-s.b.closed:
	}
	s.back(q, topic, d)
	return goesOn
}

// Close ends the subscriptions and waits until none hands out a message any more.
func (s *subscriber) Close() error {
	s.once.Do(func() { close(s.closed) })
	s.wg.Wait()
	return nil
}

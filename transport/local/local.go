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

	// Again says for the log when what a dropped message of a topic was about is sent again; nil: its owner knows.
	Again func(topic string) string
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
	if o.Again == nil {
		o.Again = func(string) string { return "when its owner sends it again" }
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

// queue is one topic: a channel is a bounded queue already. open counts its messages that are not settled, wherever they
// are.
type queue struct {
	ch chan delivery

	mu   sync.Mutex
	open int
	idle chan struct{} // closed when open falls to 0
}

func (q *queue) opened() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.open == 0 {
		q.idle = make(chan struct{})
	}
	q.open++
}

func (q *queue) settled() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.open--; q.open == 0 {
		close(q.idle)
	}
}

// busy is nil if every message is settled, else a channel that is closed when they are.
func (q *queue) busy() <-chan struct{} {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.open == 0 {
		return nil
	}
	return q.idle
}

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
	q.opened()
	select {
	case q.ch <- d:
		return transport.Accepted("queued in process")
	case <-b.closed:
		q.settled()
		return transport.NotBegun(errClosed)
	case <-ctx.Done():
		q.settled()
		return transport.NotBegun(errFull)
	}
}

// Drain returns when every message of a topic is settled: handled, or given up. A process that stops calls it for what is
// sent only once. Errors: the cause of ctx; that the bus is closed.
func (b *Bus) Drain(ctx context.Context, topic string) error {
	q := b.queue(topic)
	for busy := q.busy(); busy != nil; busy = q.busy() {
		select {
		case <-busy:
		case <-b.closed:
			return errClosed
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
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
// subscription. A refused one is delivered again behind a delay, in which the others go on.
func (s *subscriber) Subscribe(ctx context.Context, topic string) (<-chan *message.Message, error) {
	n := &subscription{
		s: s, ctx: ctx, topic: topic, q: s.b.queue(topic), out: make(chan *message.Message), aside: make(chan struct{}, maxAside),
	}
	for range s.window {
		n.start(n.lane)
	}
	go func() {
		n.running.Wait()
		close(n.out)
	}()
	return n.out, nil
}

// Close ends the subscriptions and waits until none hands out a message any more.
func (s *subscriber) Close() error {
	s.once.Do(func() { close(s.closed) })
	s.wg.Wait()
	return nil
}

// subscription is one call of Subscribe.
type subscription struct {
	s       *subscriber
	ctx     context.Context // of its life
	topic   string
	q       *queue
	out     chan *message.Message
	running sync.WaitGroup // lanes, and messages that were put aside
	aside   chan struct{}  // one for each of these messages
}

// maxAside bounds the refused messages of a subscription that wait outside of their lanes. It is more than the few that
// nobody can handle, which hold up no other then. Where all are refused, as when the store is away, lanes must wait with
// what they have: otherwise every message of the queue would use up its deliveries in seconds.
const maxAside = 64

// start runs fn in a goroutine for which the end of the subscription waits.
func (n *subscription) start(fn func()) {
	n.running.Add(1)
	n.s.wg.Go(func() {
		defer n.running.Done()
		fn()
	})
}

// lane hands out one message at a time and waits until it is settled.
func (n *subscription) lane() {
	for !n.ended() {
		select {
		case <-n.ctx.Done():
		case <-n.s.closed:
		case <-n.s.b.closed:
		case d := <-n.q.ch:
			n.deliver(d)
		}
	}
}

// ended is asked alone: of several cases that are ready, select takes any.
func (n *subscription) ended() bool {
	select {
	case <-n.ctx.Done():
	case <-n.s.closed:
	case <-n.s.b.closed:
	default:
		return false
	}
	return true
}

func (n *subscription) deliver(d delivery) {
	m := d.m.Copy()
	ctx, cancel := context.WithCancel(transport.WithDelivery(n.ctx, d.tries+1))
	defer cancel()
	m.SetContext(ctx)
	select {
	case n.out <- m:
	case <-n.ctx.Done():
		n.back(d)
		return
	case <-n.s.closed:
		n.back(d)
		return
	case <-n.s.b.closed:
		return
	}
	select {
	case <-m.Acked():
		n.q.settled()
	case <-m.Nacked():
		n.refused(d)
	}
}

// back puts a message into the queue again: another subscription may want it. A queue that is full keeps none out while
// this subscription lives: it delivers the message itself, for nobody else knows that it is not handled yet.
func (n *subscription) back(d delivery) {
	select {
	case n.q.ch <- d:
		return
	default:
	}
	if !n.ended() {
		n.deliver(d)
		return
	}
	n.q.settled()
	n.s.b.o.Logger.Warn("message dropped, the queue is full", "topic", n.topic, "message", d.m.UUID)
}

// refused puts a message aside until it is to come again, or drops it when it has been delivered too often.
func (n *subscription) refused(d delivery) {
	d.tries++
	if d.tries >= n.s.b.o.MaxDeliveries {
		n.q.settled()
		n.s.b.o.Logger.Warn("message dropped after too many deliveries", "topic", n.topic, "message", d.m.UUID, "deliveries", d.tries, "again", n.s.b.o.Again(n.topic))
		return
	}
	select {
	case n.aside <- struct{}{}:
		n.start(func() {
			n.again(d)
			<-n.aside
		})
	default:
		n.again(d)
	}
}

// again puts a refused message back behind a delay that grows, or at once when the subscription ends.
func (n *subscription) again(d delivery) {
	const longest = 5 * time.Second
	delay := n.s.b.o.RetryDelay << min(d.tries-1, 10)
	timer := time.NewTimer(min(delay, longest))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-n.ctx.Done():
	case <-n.s.closed:
	case <-n.s.b.closed:
	}
	n.back(d)
}

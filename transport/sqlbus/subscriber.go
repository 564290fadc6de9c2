package sqlbus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/towline-dev/towline/transport"
)

// Subscriber consumes as a member of a group. A subscription has at most window messages at once that are not settled; zero:
// 1. A group that is new begins with the oldest message that is still there.
func (b *Bus) Subscriber(group string, window int) message.Subscriber {
	return &subscriber{b: b, group: group, window: max(window, 1), closed: make(chan struct{})}
}

type subscriber struct {
	b      *Bus
	group  string
	window int

	mu     sync.Mutex
	ending bool
	closed chan struct{}
	subs   sync.WaitGroup
}

// Subscribe delivers the messages of a topic until ctx ends, or the subscriber or the bus is closed. Errors: a name that
// cannot be; those of the file.
func (s *subscriber) Subscribe(ctx context.Context, topic string) (<-chan *message.Message, error) {
	const maxGroupName = 200
	if err := checkTopic(topic); err != nil {
		return nil, err
	}
	if s.group == "" || len(s.group) > maxGroupName || !utf8.ValidString(s.group) {
		return nil, fmt.Errorf("group %.50q: a name has 1 to %d bytes of UTF-8: give it that of what consumes", s.group, maxGroupName)
	}
	if !s.began() {
		return nil, ErrClosed
	}
	n := &subscription{
		b: s.b, s: s, g: group{topic: topic, name: s.group}, ctx: ctx,
		logger: s.b.o.Logger.With("topic", topic, "group", s.group),
		out:    make(chan *message.Message), slots: make(chan struct{}, s.window), held: map[int64]*held{}, over: make(chan struct{}), late: make(chan struct{}),
	}
	if err := s.b.w.run(ctx, n.g.join); err != nil {
		s.ended()
		return nil, fmt.Errorf("subscribe to %q as group %q: %w", topic, s.group, err)
	}
	s.b.watchOthers()
	go n.run()
	return n.out, nil
}

// Close ends the subscriptions: they give back what nobody has taken, and wait CloseTimeout for handlers. What is not
// settled then keeps its lease, for somebody may work on it, and is handed on behind it.
func (s *subscriber) Close() error {
	s.mu.Lock()
	if !s.ending {
		s.ending = true
		close(s.closed)
	}
	s.mu.Unlock()
	s.subs.Wait()
	return nil
}

func (s *subscriber) began() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ending || !s.b.began() {
		return false
	}
	s.subs.Add(1)
	return true
}

func (s *subscriber) ended() {
	s.b.subs.Done()
	s.subs.Done()
}

// subscription is one call of Subscribe.
type subscription struct {
	b      *Bus
	s      *subscriber
	g      group
	ctx    context.Context // of its life
	out    chan *message.Message
	logger *slog.Logger

	slots chan struct{} // one for each message that is not settled
	over  chan struct{} // closed when nothing more is handed out
	late  chan struct{} // closed CloseTimeout behind it
	wg    sync.WaitGroup

	mu   sync.Mutex
	held map[int64]*held
}

// held is a message at the consumer.
type held struct {
	delivery
	until time.Time // of the lease, by the clock of this process
	lost  context.CancelCauseFunc
	ctx   context.Context
}

var errLost = errors.New("the lease of the message has ended: another consumer may have it")

func (n *subscription) run() {
	var keeping sync.WaitGroup
	settled := make(chan struct{})
	keeping.Go(func() { n.keep(settled) })
	n.deliver()
	close(n.over)
	timer := time.AfterFunc(n.b.o.CloseTimeout, func() { close(n.late) })
	n.wg.Wait()
	timer.Stop()
	close(settled)
	keeping.Wait()
	close(n.out)
	n.s.ended()
}

// ended is asked alone: of several cases that are ready, select takes any.
func (n *subscription) ended() bool {
	select {
	case <-n.ctx.Done():
	case <-n.s.closed:
	case <-n.b.closed:
	default:
		return false
	}
	return true
}

// deliver claims and hands out, one by one and in order.
func (n *subscription) deliver() {
	const longest = 5 * time.Second
	pause := time.Duration(0)
	full := true // the last claim took all that it could: there may be more
	for {
		free := n.reserve()
		if free == 0 {
			return
		}
		var ds []delivery
		err := error(nil)
		if !full {
			err = n.await()
		}
		if err == nil && !n.ended() {
			ds, err = n.claim(free)
		}
		n.release(free - len(ds))
		full = len(ds) == free
		if errors.Is(err, ErrMoved) || errors.Is(err, ErrClosed) {
			n.logger.Error("a subscription has ended", "error", err)
			return
		}
		if err != nil && !n.ended() {
			if pause == 0 { // once for all that follow
				n.logger.Error("messages cannot be claimed; it is tried again", "error", err)
			}
			pause = min(max(2*pause, 100*time.Millisecond), longest)
			n.sleep(pause, nil)
			continue
		}
		pause = 0
		for i, d := range ds {
			if !n.hand(d) {
				n.giveBack(ds[i:])
				return
			}
		}
		if n.ended() {
			return
		}
	}
}

// reserve waits for a free slot and takes all that are free; 0: the subscription has ended.
func (n *subscription) reserve() int {
	if n.ended() {
		return 0
	}
	select {
	case n.slots <- struct{}{}:
	case <-n.ctx.Done():
		return 0
	case <-n.s.closed:
		return 0
	case <-n.b.closed:
		return 0
	}
	for free := 1; ; free++ {
		select {
		case n.slots <- struct{}{}:
		default:
			return free
		}
	}
}

func (n *subscription) release(slots int) {
	for range slots {
		<-n.slots
	}
}

// await returns when there is something to claim, or the subscription has ended.
func (n *subscription) await() error {
	for !n.ended() {
		bell := n.b.bell.next() // before the look: what comes behind it rings
		var ready bool
		var next time.Time
		err := n.b.read(func(s *session) (err error) {
			ready, next, err = n.g.look(s)
			return err
		})
		if ready || err != nil {
			return err
		}
		wait := n.b.o.Lease
		if !next.IsZero() {
			wait = min(wait, time.Until(next))
		}
		n.sleep(wait, bell)
	}
	return nil
}

func (n *subscription) sleep(d time.Duration, bell <-chan struct{}) {
	timer := time.NewTimer(max(d, time.Millisecond))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-bell:
	case <-n.ctx.Done():
	case <-n.s.closed:
	case <-n.b.closed:
	}
}

func (n *subscription) claim(most int) (ds []delivery, err error) {
	token := rand.Int64N(1<<62) + 1 // 0 is nobody
	var parked []delivery
	begun := time.Now()
	err = n.b.w.run(context.Background(), func(s *session) (err error) {
		begun = time.Now()
		ds, parked, err = n.g.claim(s, n.b.o, token, most)
		return err
	})
	if err != nil {
		return nil, err
	}
	for _, d := range parked {
		n.parked(d)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, d := range ds {
		ctx, cancel := context.WithCancelCause(transport.WithDelivery(n.ctx, d.tries))
		n.held[d.seq] = &held{delivery: d, until: begun.Add(n.b.o.Lease), lost: cancel, ctx: ctx}
	}
	return ds, nil
}

// hand gives a message to the consumer. It reports false when the subscription has ended instead.
func (n *subscription) hand(d delivery) bool {
	n.mu.Lock()
	h := n.held[d.seq]
	n.mu.Unlock()
	if h == nil { // the lease was lost before anybody took it
		n.release(1)
		return true
	}
	d.m.SetContext(h.ctx)
	if n.ended() {
		return false
	}
	select {
	case n.out <- d.m:
		n.wg.Go(func() { n.settle(h) })
		return true
	case <-h.ctx.Done():
		if n.ended() {
			return false
		}
		n.forget(h)
		n.release(1)
		return true
	case <-n.s.closed:
	case <-n.b.closed:
	}
	return false
}

// giveBack gives back what nobody has taken, for others to claim at once.
func (n *subscription) giveBack(ds []delivery) {
	err := n.b.w.run(context.Background(), func(s *session) error { return n.g.give(s, ds) })
	if err != nil {
		n.logger.Warn("messages come again when their lease ends", "messages", len(ds), "error", err)
	}
	for _, d := range ds {
		n.mu.Lock()
		h := n.held[d.seq]
		n.mu.Unlock()
		if h != nil {
			n.forget(h)
		}
	}
	n.release(len(ds))
}

func (n *subscription) forget(h *held) {
	n.mu.Lock()
	delete(n.held, h.seq)
	n.mu.Unlock()
	h.lost(nil)
}

// settle waits for what the consumer says, and books it.
func (n *subscription) settle(h *held) {
	lost := make(chan struct{})
	stop := context.AfterFunc(h.ctx, func() {
		if errors.Is(context.Cause(h.ctx), errLost) {
			close(lost)
		}
	})
	defer stop()
	var mine bool
	var do func(*session) error
	refused := false
	select {
	case <-h.m.Acked():
		do = func(s *session) (err error) { mine, err = n.g.ack(s, h.delivery); return err }
	case <-h.m.Nacked():
		refused = true
		do = func(s *session) (err error) { mine, err = n.g.nack(s, n.b.o, h.delivery); return err }
	case <-lost:
		n.logger.Warn("a message was handed on: its lease has ended", "message", h.m.UUID, "deliveries", h.tries)
		n.forget(h)
		n.release(1)
		return
	case <-n.late:
		n.logger.Warn("a message is not settled; it comes again when its lease ends", "message", h.m.UUID, "deliveries", h.tries)
		n.forget(h)
		n.release(1)
		return
	}
	j := n.b.w.start(false, 0, do)
	h.lost(nil)
	n.release(1) // the claim of the next message stands behind this in the queue, and shares its commit
	err := n.book(h, j, do)
	n.forget(h)
	switch {
	case err != nil:
		n.logger.Warn("a message could not be settled; it comes again", "message", h.m.UUID, "deliveries", h.tries, "error", err)
	case !mine:
		n.logger.Warn("a message was settled too late: another consumer has it, or had it", "message", h.m.UUID, "deliveries", h.tries)
	case refused && n.b.o.parks(h.delivery):
		n.parked(h.delivery)
	}
}

// book tries again as long as the lease lasts.
func (n *subscription) book(h *held, j *job, do func(*session) error) error {
	pause := 50 * time.Millisecond
	for {
		err := j.wait(context.Background())
		if err == nil || errors.Is(err, ErrClosed) || errors.Is(err, ErrMoved) {
			return err
		}
		n.mu.Lock()
		left := time.Until(h.until)
		n.mu.Unlock()
		if left <= 0 {
			return err
		}
		select {
		case <-time.After(min(pause, left)):
		case <-n.late:
			return err
		}
		pause *= 2
		j = n.b.w.start(false, 0, do)
	}
}

// keep renews the leases, and ends the contexts of messages that are lost.
func (n *subscription) keep(settled <-chan struct{}) {
	const renewals = 3 // in the time of a lease
	tick := time.NewTicker(n.b.o.Lease / renewals)
	defer tick.Stop()
	purge := time.Now()
	for {
		select {
		case <-tick.C:
		case <-settled:
			return
		}
		n.renew()
		if time.Since(purge) > time.Minute {
			purge = time.Now()
			n.purge()
		}
	}
}

func (n *subscription) renew() {
	n.mu.Lock()
	var ds []delivery
	for _, h := range n.held {
		ds = append(ds, h.delivery)
	}
	n.mu.Unlock()
	if len(ds) == 0 {
		return
	}
	var lost []delivery
	begun := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), n.b.o.Lease/2)
	defer cancel()
	err := n.b.w.run(ctx, func(s *session) (err error) {
		begun = time.Now()
		lost, err = n.g.renew(s, n.b.o, ds)
		return err
	})
	n.mu.Lock()
	defer n.mu.Unlock()
	if err == nil {
		for _, d := range ds {
			if h := n.held[d.seq]; h != nil && h.token == d.token {
				h.until = begun.Add(n.b.o.Lease)
			}
		}
	}
	for _, d := range lost {
		if h := n.held[d.seq]; h != nil && h.token == d.token {
			h.lost(errLost)
		}
	}
	for _, h := range n.held {
		if err != nil && time.Now().After(h.until) {
			h.lost(errLost)
		}
	}
}

func (n *subscription) parked(d delivery) {
	n.logger.Warn("a message is parked after too many deliveries", "message", d.m.UUID, "deliveries", d.tries)
}

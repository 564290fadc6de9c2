package sim

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/check"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/transport"
)

// bus is the in-process transport: first in, first out per kind, as transport/local. It dies with its node.
type bus struct {
	queue []*delivery
}

// delivery is a message on its way to a handler.
type delivery struct {
	m         *message.Message
	notice    transport.Notice
	topic     string    // of an application's message; empty: it is a notice
	at        time.Time // it is not delivered before
	tries     int
	committed bool  // its handler has committed something
	node      *node // that has taken it from the broker; nil: it waits, or is of a bus
}

// Message is a message of the bus.
type Message struct {
	ID     string
	Notice transport.Notice
	InWork bool // a handler has it
}

func (d *delivery) shown(inWork bool) Message { return Message{d.m.UUID, d.notice, inWork} }

func (b *bus) push(d *delivery) { b.queue = append(b.queue, d) }

func (b *bus) waiting(k events.Kind) bool {
	return slices.ContainsFunc(b.queue, func(d *delivery) bool { return d.notice.Kind == k })
}

// first is the oldest message of a kind that may be delivered.
func (b *bus) first(k events.Kind, now time.Time) *delivery {
	for _, d := range b.queue {
		if d.notice.Kind == k && !d.at.After(now) {
			return d
		}
	}
	return nil
}

func (b *bus) remove(d *delivery) {
	b.queue = slices.DeleteFunc(b.queue, func(x *delivery) bool { return x == d })
}

// next is when the first delayed message may be delivered; zero: none is delayed.
func (b *bus) next(now time.Time) (next time.Time) {
	for _, d := range b.queue {
		if d.at.After(now) && (next.IsZero() || d.at.Before(next)) {
			next = d.at
		}
	}
	return next
}

// Broker is a broker outside of the nodes: it delivers a message until a handler has acknowledged it, and knows nothing of
// who has died but that the connection is gone.
type Broker struct {
	queue []*delivery
}

func (b *Broker) clone() *Broker {
	c := &Broker{}
	for _, d := range b.queue {
		copied := *d
		c.queue = append(c.queue, &copied)
	}
	return c
}

// Purge loses everything that waits.
func (b *Broker) Purge() {
	b.queue = slices.DeleteFunc(b.queue, func(d *delivery) bool { return d.node == nil })
}

// Waiting lists the messages that wait.
func (b *Broker) Waiting() (out []Message) {
	for _, d := range b.queue {
		if d.node == nil {
			out = append(out, d.shown(false))
		}
	}
	return out
}

func (b *Broker) waits() bool { return len(b.queue) > 0 }

func (b *Broker) first(k events.Kind, now time.Time) *delivery {
	for _, d := range b.queue {
		if d.node == nil && d.notice.Kind == k && !d.at.After(now) {
			return d
		}
	}
	return nil
}

func (b *Broker) remove(d *delivery) {
	b.queue = slices.DeleteFunc(b.queue, func(x *delivery) bool { return x == d })
}

// giveBack makes what a node had in hand wait again.
func (b *Broker) giveBack(n *node) {
	for _, d := range b.queue {
		if d.node == n {
			d.node = nil
		}
	}
}

func (b *Broker) times() (out []time.Time) {
	for _, d := range b.queue {
		out = append(out, d.at)
	}
	return out
}

// overBroker: messages of the kind go through the broker, if there is one. Those of applications are handled in process.
func (n *node) overBroker(k events.Kind) bool { return n.w.c.Broker && k != events.KindMessage }

// next is the message of a kind that the node would take now; nil: none waits.
func (n *node) next(k events.Kind) *delivery {
	if n.overBroker(k) {
		return n.w.out.Broker.first(k, n.w.now)
	}
	return n.bus.first(k, n.w.now)
}

// lanes bound the messages of a kind in work at once, as those of package node do: some units wait in line for a worker, so
// that one which ends hands its slot on (U-5).
func (n *node) lanes(k events.Kind) int {
	const engineLanes, spareLanes = 8, 2
	if k == events.KindUnit {
		return n.w.c.Workers + spareLanes
	}
	return engineLanes
}

// takes: a node that stops takes only what is sent at most once, and would else be lost (C-46).
func (n *node) takes(k events.Kind) bool {
	return n.serves() || n.up && !n.dead && n.stopping && k == events.KindPostSync && !n.overBroker(k)
}

// redelivered is how long a transport waits before it delivers again what a handler has refused.
const redelivered = time.Second

// deliver hands a message to its handler, and puts it back if the handler refuses it.
func (n *node) deliver(ctx context.Context, d *delivery) {
	broker := n.overBroker(d.notice.Kind)
	if broker {
		d.node = n
	} else {
		n.bus.remove(d)
	}
	n.w.current.delivery = d
	n.inWork[d.notice.Kind]++
	err := n.handle(ctx, d)
	n.inWork[d.notice.Kind]--
	switch {
	case n.dead: // the broker sees the connection go
		return
	case err == nil:
		n.w.out.Broker.remove(d)
		return
	case d.topic == "" && !n.excused(err) && !n.stopping && !n.failedEffect(d):
		n.w.breaks("handle %s: %w", d.m.UUID, err) // only a fault of the store is refused
	}
	d.at, d.node = n.w.now.Add(redelivered), nil
	if !broker && (d.tries < n.engine.Knobs().MaxDeliveries || n.excused(err)) && !n.stopping {
		n.bus.push(d)
	}
}

// failedEffect: an exactly_once effect that fails asks for another delivery (HP-3). One that happens at most once does not.
func (n *node) failedEffect(d *delivery) bool {
	if d.notice.Kind != events.KindPostSync {
		return false
	}
	sync, _, _ := strings.Cut(n.w.names.runs[d.notice.Run], "#")
	return slices.ContainsFunc(n.w.c.Syncs, func(s Sync) bool { return s.Name == sync && s.PostSync.Mode == towline.ExactlyOnce })
}

func (n *node) handle(ctx context.Context, d *delivery) error {
	d.tries++
	if d.topic != "" {
		return n.handlers.HandleMessage(transport.WithDelivery(ctx, d.tries), d.topic, d.m.Copy())
	}
	return n.handlers.Handle(ctx, d.m.Copy())
}

// lost are the messages that die with the process without having had an effect: those whose handler has committed nothing
// yet, and those that wait in its memory.
func (n *node) lost() (out []Message) {
	for _, t := range n.tasks {
		if d := t.delivery; d != nil && !d.committed && !n.overBroker(d.notice.Kind) {
			out = append(out, d.shown(true))
		}
	}
	for _, k := range events.Kinds {
		for _, d := range n.bus.queue {
			if d.notice.Kind == k {
				out = append(out, d.shown(false))
			}
		}
	}
	return out
}

// publisher is a transport as the relay sees it. It refuses an application's message that nobody here consumes, as package
// node does.
type publisher struct {
	n           *node
	application bool
	straight    string // name of the broker of a target, which nobody here consumes (K-9); empty: it is the route of a kind
}

// Name is the reserved name of the in-process transport, whose messages die with the process, or that of the broker.
func (p *publisher) Name() string {
	switch {
	case p.straight != "":
		return p.straight
	case p.n.w.c.Broker && !p.application:
		return "broker"
	}
	return events.TransportLocal
}

func (p *publisher) Send(ctx context.Context, topic string, m *message.Message) transport.Receipt {
	n := p.n
	d := &delivery{m: m.Copy()}
	var err error
	if p.application {
		d.topic = topic
		d.notice, err = applicationNotice(m)
	} else {
		d.notice, err = transport.ParseNotice(m)
	}
	if err != nil {
		return transport.Receipt{Outcome: events.Refused, Permanent: true, Err: err}
	}
	b := Boundary{Port: PortPublish, What: n.w.names.message(d.notice)}
	fault := n.fault(b.Port, d.notice.Kind, b.What)
	if err := n.enter(b, fault); err != nil {
		return transport.Unknown(err)
	}
	receipt := p.send(ctx, d, fault)
	if err := n.leave(b, fault); err != nil {
		return transport.Unknown(err)
	}
	return receipt
}

// send brings a message onto its way, as far as the fault lets it come.
func (p *publisher) send(ctx context.Context, d *delivery, fault Fault) transport.Receipt {
	n := p.n
	switch fault.How {
	case Refuse:
		return transport.Refused(errRefused)
	case RefuseEver:
		return transport.Receipt{Outcome: events.Refused, Permanent: true, Err: errRefused}
	case Unsent:
		return transport.Unknown(errLost)
	case Timeout: // of virtual time: the deadline of ctx is of real time, and says nothing here
		if err := n.sleep(context.WithoutCancel(ctx), n.engine.Knobs().PublishTimeout, false); err != nil {
			return transport.Unknown(err)
		}
		return transport.Unknown(context.DeadlineExceeded)
	}
	if p.application && n.w.c.Messages[d.topic] == nil {
		return transport.Receipt{Outcome: events.Refused, Permanent: true, Err: fmt.Errorf("nobody consumes topic %q", d.topic)}
	}
	n.w.out.Published = append(n.w.out.Published, check.Published{
		ID: d.m.UUID, Kind: d.notice.Kind, Run: d.notice.Run, N: d.notice.Wakeup, Target: d.notice.Target, After: n.w.head,
	})
	switch {
	case p.straight != "" && fault.How == LoseReceipt:
		return transport.Unknown(errLost)
	case p.straight != "", fault.How == Drop:
		return transport.Accepted("the broker has it")
	}
	switch fault.How {
	case Delay:
		d.at = n.w.now.Add(fault.For)
	case Duplicate:
		again := *d
		p.push(&again)
	}
	p.push(d)
	if fault.How == LoseReceipt {
		return transport.Unknown(errLost)
	}
	return transport.Accepted("queued")
}

func (p *publisher) push(d *delivery) {
	if p.n.overBroker(d.notice.Kind) {
		p.n.w.out.Broker.queue = append(p.n.w.out.Broker.queue, d)
		return
	}
	p.n.bus.push(d)
}

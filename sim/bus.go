package sim

import (
	"context"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/towline-dev/towline/check"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/transport"
)

// bus is the in-process transport: first in, first out per kind, as transport/local. It dies with its node.
type bus struct {
	queues map[events.Kind][]*delivery
}

// delivery is a message on its way to a handler.
type delivery struct {
	m         *message.Message
	notice    transport.Notice
	topic     string // of an application's message; empty: it is a notice
	tries     int
	committed bool // its handler has committed something
}

// Message is a message of the bus.
type Message struct {
	ID     string
	Notice transport.Notice
	InWork bool // a handler has it
}

func (b *bus) push(d *delivery) {
	if b.queues == nil {
		b.queues = map[events.Kind][]*delivery{}
	}
	b.queues[d.notice.Kind] = append(b.queues[d.notice.Kind], d)
}

func (b *bus) waiting(k events.Kind) bool { return len(b.queues[k]) > 0 }

func (b *bus) pop(k events.Kind) *delivery {
	d := b.queues[k][0]
	b.queues[k] = b.queues[k][1:]
	return d
}

// deliver hands the oldest message of a kind to its handler, and puts it back if the handler refuses it.
func (n *node) deliver(ctx context.Context, k events.Kind) {
	d := n.bus.pop(k)
	n.stack = append(n.stack, d)
	if k == events.KindUnit {
		n.working++
	}
	err := n.handle(ctx, d)
	n.stack = n.stack[:len(n.stack)-1]
	if k == events.KindUnit {
		n.working--
	}
	if err == nil || n.dead {
		return
	}
	if d.topic == "" {
		n.w.breaks("handle %s: %w", d.m.UUID, err) // only a fault of the store is refused, and a living node has none
	}
	if d.tries < n.engine.Knobs().MaxDeliveries {
		n.bus.push(d)
	}
}

func (n *node) handle(ctx context.Context, d *delivery) error {
	d.tries++
	if d.topic != "" {
		return n.handlers.HandleMessage(transport.WithDelivery(ctx, d.tries), d.topic, d.m.Copy())
	}
	return n.handlers.Handle(ctx, d.m.Copy())
}

// lost are the messages that die with the process without having had an effect: those that wait, and those whose handler
// has committed nothing yet.
func (n *node) lost() []Message {
	var out []Message
	for _, d := range n.stack {
		if !d.committed {
			out = append(out, Message{d.m.UUID, d.notice, true})
		}
	}
	for _, k := range events.Kinds {
		for _, d := range n.bus.queues[k] {
			out = append(out, Message{d.m.UUID, d.notice, false})
		}
	}
	return out
}

// busPort is the bus as the relay sees it.
type busPort struct{ n *node }

// Name is the reserved name of the in-process transport: its messages die with the process.
func (p *busPort) Name() string { return events.TransportLocal }

func (p *busPort) Send(ctx context.Context, _ string, m *message.Message) transport.Receipt {
	n := p.n
	notice, err := transport.ParseNotice(m)
	if err != nil {
		return transport.Receipt{Outcome: events.Refused, Permanent: true, Err: err}
	}
	b := Boundary{Port: PortPublish, What: n.w.names.message(notice)}
	if err := n.before(b); err != nil {
		return transport.Unknown(err)
	}
	n.bus.push(&delivery{m: m.Copy(), notice: notice})
	n.w.out.Published = append(n.w.out.Published, check.Published{
		ID: m.UUID, Kind: notice.Kind, Run: notice.Run, N: notice.Wakeup, Target: notice.Target, After: n.head,
	})
	if err := n.after(b); err != nil {
		return transport.Unknown(err)
	}
	n.meanwhile(ctx, consumers) // a consumer may be faster than the receipt
	if n.dead {
		return transport.Unknown(ErrDead)
	}
	return transport.Accepted("queued in process")
}

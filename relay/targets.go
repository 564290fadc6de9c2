package relay

import (
	"context"
	"fmt"
	"slices"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/transport"
)

// The messages of a post_sync go to its targets (K-8). Most of them go by the route of the kind, to a handler. Those whose
// action is a message go straight to the publisher that the target names, and end with it.

// Option changes what New and Synchronous make.
type Option func(*Relay)

// Transports are the publishers that targets of post_sync may name.
func Transports(named map[string]transport.Publisher) Option {
	return func(r *Relay) { r.transports = named }
}

func (r *Relay) with(options []Option) *Relay {
	for _, o := range options {
		o(r)
	}
	return r
}

// destination is where a message goes if not by the route of its kind.
type destination struct {
	to    transport.Publisher
	topic string
}

// expandPost lists the messages of a post_sync wakeup: to every target, or in exactly_once mode to those that have not
// completed, with one generation for all.
func (r *Relay) expandPost(tx *towline.Tx, run decider.Run, n int) ([]outgoing, error) {
	p, err := tx.PostPayload(run.ID)
	if err != nil {
		return nil, err
	}
	post := &transport.PostNotice{
		Generation: p.Generation, Provider: p.Provider, Sources: p.Sources, Datasets: p.Datasets, From: p.From, To: p.To,
	}
	var out []outgoing
	for _, name := range run.Outstanding() {
		o := outgoing{
			id: tx.InEpoch(decider.TargetMessageID(run.ID, n, name)), target: name,
			notice: transport.Notice{Kind: events.KindPostSync, Run: run.ID, Wakeup: n, Target: name, Post: post},
		}
		if t := r.e.Target(run.Plan.Sync, name); t.Transport != "" {
			o.straight = &destination{to: r.named(t.Transport), topic: t.Topic}
		}
		out = append(out, o)
	}
	return out, nil
}

func (r *Relay) named(name string) transport.Publisher {
	if p := r.transports[name]; p != nil {
		return p
	}
	return missing(name)
}

// missing stands for a publisher that this process does not have. Package node refuses such a configuration.
type missing string

func (m missing) Name() string { return string(m) }

func (m missing) Send(context.Context, string, *message.Message) transport.Receipt {
	return transport.Refused(fmt.Errorf("transport %q is not configured here", string(m)))
}

// transportOf is the name that the mark records. Where messages of one wakeup go several ways it is that of the kind's route:
// if they die with their process, so does what the wakeup was for (N-3).
func (w *wakeup) transportOf(route transport.Publisher) string {
	for _, o := range w.messages {
		if o.byRoute() {
			return route.Name()
		}
	}
	if len(w.messages) > 0 {
		return w.messages[0].straight.to.Name()
	}
	return route.Name()
}

// completeSent says of targets that end with their message that the broker has taken it, whatever becomes of the rest of the
// fan-out: the next claim leaves them out. In at_most_once mode the outcome says so, but for what endMessage says.
func (r *Relay) completeSent(tx *towline.Tx, w *wakeup) error {
	for i, o := range w.messages {
		if o.byRoute() || w.withheld != "" || w.receipts[i].Outcome != events.Accepted {
			continue
		}
		if _, err := tx.Execute(r.sent(w, o, w.receipts[i])); err != nil {
			return err
		}
	}
	return nil
}

// endMessage ends a target in at_most_once mode that goes straight to its transport, and did not when its run was planned:
// the outcome alone says that it is done only of those that the run knows as messages (HP-4).
func (r *Relay) endMessage(tx *towline.Tx, w *wakeup, o outgoing, receipt transport.Receipt) error {
	run, err := tx.Run(w.key.Owner)
	if err != nil || slices.Contains(run.Plan.Policy.Sent, o.target) {
		return err
	}
	_, err = tx.Execute(
		decider.StartPost{Run: run.ID, Target: o.target, MessageID: o.id, Sent: true}, r.sent(w, o, receipt),
	)
	return err
}

// sent says that a target is done with its message, and what the broker has said to it.
func (r *Relay) sent(w *wakeup, o outgoing, receipt transport.Receipt) decider.CompletePost {
	return decider.CompletePost{
		Run: w.key.Owner, Target: o.target, MessageID: o.id, Sent: true,
		Result: towline.CleanText(receipt.Evidence, r.e.Knobs().ErrorMaxBytes),
	}
}

// onlyRefusedLeft reports that nothing of a fan-out is outstanding but what other transports refuse for ever: then it is
// parked. Before that, one bad target would keep the others from being sent again (O-19).
func (w *wakeup) onlyRefusedLeft() bool {
	for i, o := range w.messages {
		if r := w.receipts[i]; o.byRoute() || r.Outcome != events.Accepted && !r.Permanent {
			return false
		}
	}
	return true
}

type straightKey struct{}

// withDestination tells the forwarder's publisher where a message goes.
func (o outgoing) withDestination(ctx context.Context) context.Context {
	switch {
	case o.straight != nil:
		return context.WithValue(ctx, straightKey{}, o.straight.to)
	case o.app != nil: // its topic, which is its own, may be the name of a kind
		return context.WithValue(ctx, straightKey{}, o.app.to)
	}
	return ctx
}

func (o outgoing) topic() string {
	switch {
	case o.straight != nil:
		return o.straight.topic
	case o.app != nil:
		return o.app.Topic
	}
	return string(o.notice.Kind)
}

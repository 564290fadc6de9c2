// Package transport is the port to a broker. It is one method wide and knows three outcomes: a publish was accepted,
// refused, or nobody knows (O-10). Brokers are in the packages below it.
package transport

import (
	"context"
	"errors"
	"strconv"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/internal/foreign"
)

// Receipt is what is known of one publish. An unknown outcome is never folded into another.
type Receipt struct {
	Outcome events.Outcome
	// Permanent: the same message will be refused for ever, for example because it is too large (O-15).
	Permanent bool
	// Uncounted: the refusal is not the message's fault, for example a full queue; it burns no attempt (B-8).
	Uncounted bool
	Evidence  string // what the broker said, for people
	Err       error  // nil when accepted
}

// Accepted is the receipt of a publish that the broker has confirmed.
func Accepted(evidence string) Receipt {
	return Receipt{Outcome: events.Accepted, Evidence: evidence}
}

// Refused is the receipt of a publish that surely did not happen.
func Refused(err error) Receipt { return Receipt{Outcome: events.Refused, Err: err} }

// NotBegun is the receipt of a publish for which it was too late, or no room: it burns no attempt.
func NotBegun(err error) Receipt { return Receipt{Outcome: events.Refused, Uncounted: true, Err: err} }

// Unknown is the receipt of a publish that may have happened.
func Unknown(err error) Receipt { return Receipt{Outcome: events.Unknown, Err: err} }

// Publisher sends one message. Send returns at the deadline of ctx at the latest, and what it then does not know it
// reports as unknown. With a ctx that has ended already it sends nothing. Send may be called from several goroutines.
// transporttest holds these laws.
type Publisher interface {
	// Name is recorded with every mark. "local" is reserved for the in-process transport.
	Name() string
	Send(ctx context.Context, topic string, m *message.Message) Receipt
}

// Confirmer is implemented by a Publisher that knows whether it can ever report accepted. One that cannot is good only
// for kinds whose completion the engine sees by itself, which every kind but post_sync is (O-10).
type Confirmer interface {
	Confirms() bool
}

// Confirms asks p; a Publisher that says nothing confirms.
func Confirms(p Publisher) bool {
	c, ok := p.(Confirmer)
	return !ok || c.Confirms()
}

// Traits are what can be relied on of a Watermill publisher. The zero value takes nothing for granted.
type Traits struct {
	NilMeansStored bool // a nil error proves that the broker has the message; without it a nil error is unknown
	HonoursContext bool // Publish returns at the deadline; without it, it runs in a goroutine that is left behind
	ErrorMeansLost bool // an error proves that the broker does not have it; without it an error is unknown
	MaxBytes       int  // of a payload; 0: no limit known. A larger one is refused for ever, before the broker sees it
}

// FromWatermill makes a Publisher of any Watermill publisher. name is recorded with every mark.
func FromWatermill(name string, p message.Publisher, t Traits) Publisher {
	return fromWatermill{name, p, t}
}

type fromWatermill struct {
	name string
	p    message.Publisher
	t    Traits
}

func (f fromWatermill) Name() string { return f.name }

// Confirms reports that an accepted publish can be told from one of which nobody knows (O-10).
func (f fromWatermill) Confirms() bool { return f.t.NilMeansStored }

func (f fromWatermill) Send(ctx context.Context, topic string, m *message.Message) Receipt {
	if f.t.MaxBytes > 0 && len(m.Payload) > f.t.MaxBytes {
		return Receipt{Outcome: events.Refused, Permanent: true, Err: &TooLargeError{Bytes: len(m.Payload), Limit: f.t.MaxBytes}}
	}
	if ctx.Err() != nil {
		return NotBegun(context.Cause(ctx))
	}
	m.SetContext(ctx)
	if f.t.HonoursContext {
		return f.publish(topic, m)
	}
	done := make(chan Receipt, 1)
	go func() { done <- f.publish(topic, m) }() // which returns whatever the publisher does
	select {
	case r := <-done:
		return r
	case <-ctx.Done():
	}
	select { // alone: of several cases that are ready, select takes any, and an outcome counts more than a deadline
	case r := <-done:
		return r
	default:
		return Unknown(context.Cause(ctx))
	}
}

// publish asks the publisher. A panic says nothing of how far it came, and no more does the end of its goroutine.
func (f fromWatermill) publish(topic string, m *message.Message) Receipt {
	return foreign.Call(func() Receipt { return f.receipt(f.p.Publish(topic, m)) }, Unknown)
}

func (f fromWatermill) receipt(err error) Receipt {
	switch {
	case err == nil && f.t.NilMeansStored:
		return Accepted("")
	case err == nil:
		return Unknown(errors.New("the publisher cannot confirm"))
	case f.t.ErrorMeansLost:
		return Refused(err)
	}
	return Unknown(err)
}

// TooLargeError says that a payload is larger than a transport takes.
type TooLargeError struct{ Bytes, Limit int }

func (e *TooLargeError) Error() string {
	return "payload too large: " + strconv.Itoa(e.Bytes) + " bytes, the transport takes " + strconv.Itoa(e.Limit)
}

// ToWatermill makes a Watermill publisher of p, so that Watermill's forwarder can drive it. The deadline comes with the
// message's context, and the receipt goes into the slot that the context carries; any outcome but accepted is an error.
func ToWatermill(p Publisher) message.Publisher { return toWatermill{p} }

type toWatermill struct{ p Publisher }

func (t toWatermill) Publish(topic string, messages ...*message.Message) error {
	for _, m := range messages {
		r := send(m.Context(), t.p, topic, m)
		if slot, ok := m.Context().Value(slotKey{}).(*Receipt); ok {
			*slot = r
		}
		if r.Outcome != events.Accepted {
			return &OutcomeError{Receipt: r}
		}
	}
	return nil
}

// send asks p. A panic says nothing of how far it came, and must not take the other messages with it (O-10, O-19); no more
// must the end of its goroutine.
func send(ctx context.Context, p Publisher, topic string, m *message.Message) Receipt {
	r := foreign.Call(func() Receipt { return p.Send(ctx, topic, m) }, Unknown)
	if r.Outcome == "" {
		return Unknown(errors.New("the publisher gave no receipt"))
	}
	return r
}

func (toWatermill) Close() error { return nil }

// OutcomeError is what ToWatermill returns of a publish that was not accepted.
type OutcomeError struct{ Receipt Receipt }

func (e *OutcomeError) Error() string {
	if e.Receipt.Err == nil {
		return "publish " + string(e.Receipt.Outcome)
	}
	return "publish " + string(e.Receipt.Outcome) + ": " + e.Receipt.Err.Error()
}

func (e *OutcomeError) Unwrap() error { return e.Receipt.Err }

type slotKey struct{}

// WithReceipt carries a slot for the receipt to ToWatermill. It holds the zero Receipt until a publish has ended.
func WithReceipt(ctx context.Context, slot *Receipt) context.Context {
	return context.WithValue(ctx, slotKey{}, slot)
}

type deliveryKey struct{}

// WithDelivery says how often a transport has delivered a message, this time included: the one layer that tries a consumer
// again counts (M-11).
func WithDelivery(ctx context.Context, n int) context.Context {
	return context.WithValue(ctx, deliveryKey{}, n)
}

// Delivery is what WithDelivery has said of a message's context; 0: the transport does not count.
func Delivery(ctx context.Context) int {
	n, _ := ctx.Value(deliveryKey{}).(int)
	return n
}

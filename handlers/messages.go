package handlers

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/internal/foreign"
	"github.com/towline-dev/towline/transport"
)

// MessageHandler handles an application message inside a transaction of the store: what it does through tx and the record
// that the message was handled commit together, so a message has its effect once, however often it is delivered (M-12). It
// calls no port and no other connection to the store, and is short: everything else waits for its transaction, which is
// rolled back after 4 seconds. ctx ends with it. Methods of the engine refuse ctx (towline.ErrInTransaction): they would wait
// for that transaction.
//
// An error undoes all of it; the transport delivers the message again, handler.max_deliveries times in all, and then it is
// parked until somebody redrives it (M-11). An error of Invalid rejects it for good, at once.
type MessageHandler func(ctx context.Context, tx *sql.Tx, m *message.Message) error

// Consumer is what handles the messages of a topic.
type Consumer struct {
	// Validate parses what the payload names, before any look-up: it has no transaction, so a bad identifier reaches no
	// query. An error rejects the message for good, as invalid_payload (M-8). nil: there is nothing to check.
	Validate func(m *message.Message) error
	Handle   MessageHandler
}

// Inbox runs an effect and records it, in one transaction: a store in whose file the application keeps its tables.
type Inbox interface {
	// Consume is true if the effect has been done now, and false if the message was over before. Errors:
	// towline.ErrNoMessage, towline.ErrUnavailable, and what effect returned.
	Consume(ctx context.Context, id events.MessageID, delivery string, effect func(context.Context, *sql.Tx) error) (done bool, err error)
}

// Invalid marks an error as one that no repetition cures: the message is rejected with category invalid_payload (M-8).
func Invalid(err error) error { return &invalidError{err} }

type invalidError struct{ err error }

func (e *invalidError) Error() string { return e.err.Error() }
func (e *invalidError) Unwrap() error { return e.err }

// RegisterMessages puts one consumer per topic onto a Watermill router, over one subscriber.
func (h *Handlers) RegisterMessages(r *message.Router, s message.Subscriber) {
	for _, topic := range slices.Sorted(maps.Keys(h.c.Messages)) {
		c := h.c.Messages[topic]
		r.AddConsumerHandler("message "+topic, topic, s, func(m *message.Message) error {
			return h.persist(m, func(ctx context.Context) error { return h.consumeMessage(ctx, c, m) })
		})
	}
}

// HandleMessage does what a delivered message of a topic asks for. nil acknowledges it, also a duplicate and one that can
// never be handled; an error asks the transport to deliver it again.
func (h *Handlers) HandleMessage(ctx context.Context, topic string, m *message.Message) error {
	c, ok := h.c.Messages[topic]
	if !ok {
		return fmt.Errorf("message %s: no consumer of topic %q", m.UUID, topic)
	}
	return h.consumeMessage(ctx, c, m)
}

func (h *Handlers) consumeMessage(ctx context.Context, c Consumer, m *message.Message) error {
	id, err := events.ParseMessageID(m.Metadata.Get(events.MetadataMessageID))
	if err != nil {
		h.e.Count(towline.Tally{BadMessages: 1})
		h.logger.Warn("bad message", "message", m.UUID, "error", err)
		return nil // it has no stream to write to, and no redelivery will help
	}
	if c.Validate != nil {
		err := guard(func() error { return c.Validate(m) })
		if broken, ok := errors.AsType[*brokenError](err); ok { // the validator is at fault, not the message
			return h.messageFailed(ctx, id, m, broken)
		}
		if err != nil {
			return h.reject(ctx, id, m, events.InvalidPayload, err)
		}
	}
	done, err := h.c.Inbox.Consume(ctx, id, m.UUID, func(ctx context.Context, tx *sql.Tx) error {
		return guard(func() error { return c.Handle(ctx, tx, m) })
	})
	switch {
	case errors.Is(err, towline.ErrNoMessage):
		h.unknown(m, id)
		return nil
	case err != nil:
		return h.messageFailed(ctx, id, m, err)
	case !done:
		h.e.Absorb(events.KindMessage)
	default:
		h.e.Nudge() // the views do not know of it yet
	}
	return nil
}

// unknown: a message that nobody has submitted is no reason to stop (M-9).
func (h *Handlers) unknown(m *message.Message, id events.MessageID) {
	h.e.Count(towline.Tally{UnknownMessages: 1})
	h.logger.Warn("unknown message", "message", m.UUID, "id", id)
}

// messageFailed decides whether the transport is to try again (M-11). A store that is away is nobody's failure.
func (h *Handlers) messageFailed(ctx context.Context, id events.MessageID, m *message.Message, err error) error {
	if errors.Is(err, towline.ErrUnavailable) || errors.Is(err, towline.ErrStopped) || ctx.Err() != nil {
		return err
	}
	if _, invalid := errors.AsType[*invalidError](err); invalid {
		return h.reject(ctx, id, m, events.InvalidPayload, err)
	}
	delivery, most := transport.Delivery(ctx), h.e.Knobs().MaxDeliveries
	text := towline.CleanText(err.Error(), h.e.Knobs().ErrorMaxBytes)
	if delivery < most { // a transport that does not count gives up by itself
		h.logger.Warn("message failed; its transport delivers it again", "message", m.UUID, "delivery", delivery, "of", most, "error", text)
		return &handlerError{text, err}
	}
	return h.park(ctx, id, m, delivery, text)
}

// park leaves a message to a person that no delivery has cured (M-11).
func (h *Handlers) park(ctx context.Context, id events.MessageID, m *message.Message, deliveries int, text string) error {
	err := h.e.FailMessage(ctx, id, text)
	switch {
	case errors.Is(err, towline.ErrNoMessage):
		h.unknown(m, id)
		return nil
	case err != nil:
		return fmt.Errorf("park message %s: %w", m.UUID, err)
	}
	h.e.Nudge() // a crash suspect may wait for its turn
	h.logger.Error("message parked; a redrive delivers it again", "message", m.UUID, "deliveries", deliveries, "error", text)
	return nil
}

func (h *Handlers) reject(ctx context.Context, id events.MessageID, m *message.Message, c events.Category, cause error) error {
	err := h.e.RejectMessage(ctx, id, c, cause.Error())
	switch {
	case errors.Is(err, towline.ErrNoMessage):
		h.unknown(m, id)
		return nil
	case err != nil:
		return fmt.Errorf("reject message %s: %w", m.UUID, err)
	}
	h.e.Nudge() // as above
	h.logger.Error("message rejected", "message", m.UUID, "category", c, "error", towline.CleanText(cause.Error(), h.e.Knobs().ErrorMaxBytes))
	return nil
}

// handlerError is the failure of an application's code, in a form that may be logged (E-3).
type handlerError struct {
	text string
	err  error
}

func (e *handlerError) Error() string { return e.text }
func (e *handlerError) Unwrap() error { return e.err }

// guard runs an application's code, which may panic or end its goroutine.
func guard(fn func() error) error {
	return foreign.Call(fn, func(broken error) error { return &brokenError{broken} })
}

// brokenError says that an application's code did not return.
type brokenError struct{ err error }

func (e *brokenError) Error() string { return e.err.Error() }
func (e *brokenError) Unwrap() error { return e.err }

// Package handlers holds the four tasks. A handler receives a message, asks the engine what is true, decides at most one
// thing per transaction, and acknowledges. A message is a hint: it may be late, doubled or wrong.
package handlers

import (
	"context"
	"log/slog"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/provider"
	"github.com/towline-dev/towline/sink"
	"github.com/towline-dev/towline/transport"
)

// Ports of a sync: where its data comes from, and where it goes.
type Ports struct {
	Provider provider.Provider
	Sink     sink.Opener
}

// Config of the handlers of a process.
type Config struct {
	Ports   map[string]Ports // by sync
	Workers int              // units that run at once; zero: 4
	Name    string           // of the worker, for people
}

// Handlers are the tasks of one process.
type Handlers struct {
	e      *towline.Engine
	c      Config
	slots  *slots
	beat   *heartbeat
	logger *slog.Logger

	progress progress

	// Two lives that are longer than a message's: the router ends a message's context as soon as it is closed, but
	// running units may use the grace of the shutdown.
	intake, life       context.Context
	endIntake, endWork context.CancelCauseFunc
}

// New makes the handlers. Run must run while units do: it renews their leases.
func New(e *towline.Engine, c Config) *Handlers {
	if c.Workers <= 0 {
		c.Workers = 4
	}
	h := &Handlers{
		e: e, c: c, slots: newSlots(c.Workers), beat: newHeartbeat(e), logger: e.Logger(),
		progress: progress{units: map[events.UnitID]*UnitProgress{}},
	}
	h.life, h.endWork = context.WithCancelCause(context.Background())
	h.intake, h.endIntake = context.WithCancelCause(h.life)
	return h
}

// Run renews the leases of running units until ctx ends.
func (h *Handlers) Run(ctx context.Context) error { return h.beat.run(ctx) }

// Register puts one consumer per kind onto a Watermill router. subscriber gives the subscription of a kind.
func (h *Handlers) Register(r *message.Router, subscriber func(events.Kind) message.Subscriber) {
	for _, k := range []events.Kind{events.KindDispatch, events.KindUnit, events.KindFinalize, events.KindPostSync} {
		r.AddConsumerHandler(string(k), string(k), subscriber(k), func(m *message.Message) error {
			return h.Handle(context.WithoutCancel(m.Context()), m)
		})
	}
}

// Handle does what a message asks for. nil acknowledges it, also a duplicate and one that can never be read; an error
// asks the transport to deliver it again: the store could not answer.
func (h *Handlers) Handle(ctx context.Context, m *message.Message) error {
	n, err := transport.ParseNotice(m)
	if err != nil {
		h.e.CountBadMessage()
		h.logger.Warn("bad message", "error", err)
		return nil // it has no stream to write to, and no redelivery will help
	}
	//exhaustive:enforce
	switch n.Kind {
	case events.KindDispatch:
		return h.dispatchSyncRun(ctx, n)
	case events.KindUnit:
		return h.runSyncUnit(ctx, n)
	case events.KindFinalize:
		return h.finalizeSyncRun(ctx, n)
	case events.KindPostSync:
		return h.postSync(ctx, n)
	case events.KindMessage: // an application's: this release has no consumer for it
	}
	h.e.CountBadMessage()
	h.logger.Warn("message of an unknown kind", "kind", n.Kind, "message", m.UUID) // K-7
	return nil
}

// Drain ends the intake: messages that wait for a worker are given back, running units go on.
func (h *Handlers) Drain() { h.endIntake(errStopping) }

// Stop ends every running provider's context: the grace is over. What its sink has not taken is handed back (U-16).
func (h *Handlers) Stop() {
	h.Drain()
	h.endWork(errStopping)
}

// Package handlers holds the four tasks. A handler receives a message, asks the engine what is true, decides at most one
// thing per transaction, and acknowledges. A message is a hint: it may be late, doubled or wrong.
package handlers

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

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
	DB      *sql.DB          // of the store, for post_sync functions that name no other; nil: there is none
	Workers int              // units that run at once, not counting providers that were left behind (HU-4); zero: 4
	Name    string           // of the worker, for people

	Messages map[string]Consumer // of application messages, by topic
	Inbox    Inbox               // of Messages; nil: there are none

	Runtime Runtime // nil: that of Go
}

// Handlers are the tasks of one process.
type Handlers struct {
	e      *towline.Engine
	c      Config
	rt     Runtime
	slots  *slots
	logger *slog.Logger

	attempts   *Attempts
	effects    effects      // of post_sync
	complained atomic.Int64 // when, in seconds since 1970

	// Two lives that are longer than a message's: the router ends a message's context as soon as it is closed, but
	// running units may use the grace of the shutdown.
	intake, life context.Context
	endIntake    context.CancelCauseFunc
}

// New makes the handlers. Run must run while units do: it renews their leases.
func New(e *towline.Engine, c Config) *Handlers {
	if c.Workers <= 0 {
		c.Workers = 4
	}
	if c.Runtime == nil {
		c.Runtime = goRuntime{}
	}
	h := &Handlers{
		e: e, c: c, rt: c.Runtime, slots: newSlots(c.Workers, c.Runtime), logger: e.Logger(),
		attempts: NewAttempts(ofEngine{e}, AttemptsConfig{
			Ports: c.Ports, Logger: e.Logger(), Runtime: c.Runtime, MaxText: func() int { return e.Knobs().ErrorMaxBytes },
		}),
	}
	h.life = h.attempts.life
	h.intake, h.endIntake = context.WithCancelCause(h.life)
	return h
}

// Run renews the leases of running units until ctx ends.
func (h *Handlers) Run(ctx context.Context) error { return h.attempts.Run(ctx) }

// Renew is one turn of Run, for whoever drives the handlers by hand: it renews the leases that are due, or all of them if an
// operator has taken one. RenewIn says in how long a lease is due; an hour or more: none is.
func (h *Handlers) Renew(ctx context.Context) { h.attempts.beat.turn(ctx) }

// RenewIn is in how long Renew has something to do, unless an operator takes a lease.
func (h *Handlers) RenewIn() time.Duration { return h.attempts.beat.untilNext() }

// Register puts one consumer per kind onto a Watermill router. subscriber gives the subscription of a kind; nil: none on
// this router. What a consumer returns as an error is logged here, so the router need not.
func (h *Handlers) Register(r *message.Router, subscriber func(events.Kind) message.Subscriber) {
	for _, k := range []events.Kind{events.KindDispatch, events.KindUnit, events.KindFinalize, events.KindPostSync} {
		if s := subscriber(k); s != nil {
			r.AddConsumerHandler(string(k), string(k), s, h.consume)
		}
	}
}

// consume handles a message, and keeps it for as long as the store is away: a transport counts deliveries, and a full
// disk would use them up (C-44).
func (h *Handlers) consume(m *message.Message) error {
	return h.persist(m, func(ctx context.Context) error { return h.Handle(ctx, m) })
}

func (h *Handlers) persist(m *message.Message, handle func(context.Context) error) error {
	ctx := context.WithoutCancel(m.Context())
	err := handle(ctx)
	for errors.Is(err, towline.ErrUnavailable) && h.rest() {
		h.complain(err)
		err = handle(ctx)
	}
	_, told := errors.AsType[*handlerError](err) // with how often it has come
	switch {
	case told:
	case errors.Is(err, provider.ErrStopping):
		h.logger.Debug("message given back", "message", m.UUID, "reason", err)
	case err != nil:
		h.logger.Error("message given back", "message", m.UUID, "error", err)
	}
	return err
}

// rest waits a little; false: the intake has ended.
func (h *Handlers) rest() bool { return pause(h.intake, h.rt, time.Second) }

// complain says once a minute what many messages meet at the same time.
func (h *Handlers) complain(err error) {
	now := time.Now().Unix()
	if last := h.complained.Load(); now-last >= 60 && h.complained.CompareAndSwap(last, now) {
		h.logger.Warn("the store cannot answer; messages wait", "error", err)
	}
}

// Handle does what a message asks for. nil acknowledges it, also a duplicate and one that can never be read; an error
// asks the transport to deliver it again: the store could not answer.
func (h *Handlers) Handle(ctx context.Context, m *message.Message) error {
	n, err := transport.ParseNotice(m)
	if err != nil {
		h.e.Count(towline.Tally{BadMessages: 1})
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
	case events.KindMessage: // an application's comes without a notice
	}
	h.e.Count(towline.Tally{BadMessages: 1})
	h.logger.Warn("message of an unknown kind", "kind", n.Kind, "message", m.UUID) // K-7
	return nil
}

// Drain ends the intake: messages that wait for a worker are given back, running units go on.
func (h *Handlers) Drain() { h.endIntake(provider.ErrStopping) }

// Stop ends every running provider's context: the grace is over. What its sink has not taken is handed back (U-16).
func (h *Handlers) Stop() {
	h.Drain()
	h.attempts.Stop()
}

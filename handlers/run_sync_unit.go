package handlers

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/projections"
	"github.com/towline-dev/towline/provider"
	"github.com/towline-dev/towline/sink"
	"github.com/towline-dev/towline/transport"
)

// runSyncUnit claims a unit, lets its provider work, and settles it (spec 10.2). Every duplicate ends at the claim.
func (h *Handlers) runSyncUnit(ctx context.Context, n transport.Notice) error {
	turn, err := h.slots.enter(h.intake, n.Unit)
	if err != nil {
		return fmt.Errorf("unit %s: %w", n.Unit, err)
	}
	if !turn.claimed && h.intake.Err() != nil { // its slot came with the end of the intake
		h.slots.leave()
		return fmt.Errorf("unit %s: %w", n.Unit, context.Cause(h.intake))
	}
	if !turn.claimed {
		turn.asked = h.rt.Now()
		l, err := h.e.Claim(ctx, n.Unit, towline.Worker{Name: h.c.Name})
		turn.lease, turn.err = &l, err
	}
	switch err := turn.err; {
	case errors.Is(err, towline.ErrNotClaimable), errors.Is(err, towline.ErrTooEarly):
		h.slots.leave()
		h.e.Absorb(events.KindUnit)
		h.logger.Debug("run_sync_unit", "unit", n.Unit, "result", "skipped", "reason", err)
		return nil
	case err != nil:
		h.slots.leave()
		return fmt.Errorf("claim unit %s: %w", n.Unit, err)
	}
	h.settle(ctx, turn.lease, h.work(turn.lease, turn.asked))
	return nil
}

// work is an attempt under the lease, and says how it ended; nil: there is nothing to settle, because it is left to recovery
// (N-6) or was cancelled. No transaction is open meanwhile (L-10), and what the provider or the sink does, the worker
// goes on.
func (h *Handlers) work(l *towline.Lease, asked time.Time) towline.Settle {
	ctx, release := h.beat.hold(h.life, l, asked)
	defer release()
	ports, ok := h.c.Ports[l.Sync]
	h.progress.begin(l, stallAfter(ports.Provider))
	defer h.progress.end(l.Unit.Unit)
	if !ok {
		return towline.Failed{Category: events.Configuration, Text: fmt.Sprintf("sync %q has no provider here", l.Sync)}
	}
	a := &attempt{h: h, lease: l, ports: ports, unit: unitOf(l), done: make(chan towline.Settle, 1)}
	h.rt.Go(func() { a.run(ctx) })
	return a.wait(ctx)
}

func stallAfter(p provider.Provider) time.Duration {
	if w, ok := p.(provider.Watched); ok {
		return w.StallAfter()
	}
	return 0
}

// commit makes the attempt visible, unless its lease is lost already (HU-5).
func commit(ctx context.Context, w sink.Writer) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return sinkError(w.Commit(ctx))
}

// failed says how an attempt that brought an error ends. What our own stop ended is handed back, if its sink would
// refuse a late write and has taken nothing of this attempt, or if the provider says that it stopped cleanly (U-16);
// else it is left to recovery, which alone knows whether the unit may be tried again (N-6). So is what our own clock ended
// while the log still has its lease (HU-4). What an operator has cancelled offers nothing: it was told in time, and a result
// that nobody asks for need not be refused.
func (h *Handlers) failed(ctx context.Context, l *towline.Lease, opener sink.Opener, w sink.Writer, err error) towline.Settle {
	cause := context.Cause(ctx)
	stopping := errors.Is(cause, provider.ErrStopping)
	untouched := w == nil || !w.Committed()
	switch {
	case errors.Is(cause, provider.ErrCancelled):
		h.logger.Info("unit cancelled, its worker has stopped", "unit", l.Unit.Alias, "attempt", l.Unit.Attempt)
		return nil
	case errors.Is(cause, errLifetime): // also of a provider that calls every end of its context a stop
		return towline.Failed{Category: events.Timeout, Text: errLifetime.Error()}
	case errors.Is(err, sink.ErrFenced) && untouched: // by another run; if the lease is lost, the log refuses this too
		return towline.HandedBack{Reason: "a newer run has written the same window; this one goes on behind it"}
	case errors.Is(err, provider.ErrStopped) && untouched:
		return towline.HandedBack{Reason: "the provider stopped cleanly"}
	case stopping && untouched && fenced(opener):
		return towline.HandedBack{Reason: "the process was stopped"}
	case stopping, errors.Is(cause, errLeaseEnded) && h.stillLive(ctx, l):
		h.logger.Info("stopped in the middle, left to recovery", "unit", l.Unit.Alias, "attempt", l.Unit.Attempt)
		return nil
	}
	after, account := provider.LimitOf(err)
	return towline.Failed{Category: provider.CategoryOf(err), Text: err.Error(), After: after, Account: account}
}

// stillLive reports that the log has a lease that has ended here, because what was asked for of it took so long: a process
// that was frozen in a claim counts the frozen time, and the log does not. If the log cannot be read the settle finds out.
func (h *Handlers) stillLive(ctx context.Context, l *towline.Lease) (live bool) {
	err := h.e.View(context.WithoutCancel(ctx), func(v projections.View) error {
		u, _, err := v.Unit(l.Unit.Unit)
		live = u.Attempt == l.Unit.Attempt && u.LeaseExpiresAt.After(h.e.Now().Time())
		return err
	})
	return live && err == nil
}

func fenced(o sink.Opener) bool {
	f, ok := o.(sink.Fenced)
	return ok && f.Fenced()
}

// settle ends the attempt. If the store cannot take it, it is tried again until the lease ends, and then left to the
// expiry of the lease (HU-7). The slot goes to the next in line, whose claim shares the transaction; behind the end of
// the intake nothing more is claimed.
func (h *Handlers) settle(ctx context.Context, l *towline.Lease, s towline.Settle) {
	if s == nil {
		h.slots.leave()
		return
	}
	var next *ticket
	if h.intake.Err() == nil {
		next = h.slots.next()
	}
	var err error
	if next != nil {
		asked := h.rt.Now()
		lease, settled, claimed := h.e.SettleAndClaim(ctx, *l, s, next.unit, towline.Worker{Name: h.c.Name})
		next.turn <- turn{claimed: true, asked: asked, lease: &lease, err: claimed}
		err = settled
	} else {
		err = h.e.Settle(ctx, *l, s)
		h.slots.leave()
	}
	err = h.again(err, l.RenewEvery*leaseThirds, func() error { return h.e.Settle(ctx, *l, s) })
	switch {
	case errors.Is(err, towline.ErrLeaseLost):
		h.logger.Warn("late result, refused", "unit", l.Unit.Alias, "attempt", l.Unit.Attempt, "reason", err)
	case errors.Is(err, towline.ErrInvalid):
		h.logger.Error("result cannot be stored", "unit", l.Unit.Alias, "error", err)
		_ = h.e.Fail(ctx, *l, events.ProviderError, err.Error()) // a fault here is left to the expiry of the lease
	case err != nil:
		h.logger.Error("settle failed, left to the expiry of the lease", "unit", l.Unit.Alias, "error", err)
	default:
		h.report(l, s)
	}
}

// report says of a settled attempt what a person wants to know at once: that it did not end well.
func (h *Handlers) report(l *towline.Lease, s towline.Settle) {
	switch s := s.(type) {
	case towline.Failed:
		h.logger.Warn("unit failed", "unit", l.Unit.Alias, "attempt", l.Unit.Attempt, "category", s.Category,
			"error", towline.CleanText(s.Text, h.e.Knobs().ErrorMaxBytes))
	case towline.HandedBack:
		h.logger.Info("unit handed back", "unit", l.Unit.Alias, "attempt", l.Unit.Attempt, "reason", s.Reason)
	}
}

// leaseThirds: a lease is three times as long as the time between two renewals.
const leaseThirds = 3

// again repeats a write while the store cannot take it, for so long at most, and once more when the process ends.
func (h *Handlers) again(err error, most time.Duration, write func() error) error {
	const between = 200 * time.Millisecond
	deadline := h.rt.Now().Add(most)
	for errors.Is(err, towline.ErrUnavailable) && h.rt.Now().Before(deadline) {
		if !pause(h.life, h.rt, between) {
			return write()
		}
		err = write()
	}
	return err
}

func unitOf(l *towline.Lease) provider.Unit {
	u := &l.Unit
	return provider.Unit{
		Run: u.Run, ID: u.Unit, Alias: u.Alias, Sync: l.Sync, Source: u.Source, Dataset: u.Dataset, Members: u.Members,
		Mode: u.Mode, Window: u.Window, Surfaces: u.Surfaces, Fingerprint: u.Fingerprint, Attempt: u.Attempt, Fence: l.Fence,
		State: l.State, Config: l.Config, Store: l.Store, Obey: obey(l),
	}
}

// sinkError gives a failure of the destination its category; an undeclared surface has its own.
func sinkError(err error) error {
	if err == nil || errors.Is(err, sink.ErrUndeclared) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	if errors.Is(err, sink.ErrForeign) { // no repetition cures it (HU-5)
		return provider.Fail(events.Configuration, err)
	}
	return provider.Fail(events.SinkError, err)
}

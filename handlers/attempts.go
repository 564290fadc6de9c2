package handlers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/projections"
	"github.com/towline-dev/towline/provider"
	"github.com/towline-dev/towline/sink"
)

// Leases are what an attempt lives under: of the engine of this process, or of one that is asked over a network.
type Leases interface {
	// RenewAll is that of towline.Engine. Of a single lease ErrUnavailable says that nobody knows: it runs on, and is soon asked
	// for again.
	RenewAll(context.Context, []towline.Lease) ([]error, error)
	// Settle is that of towline.Engine. ErrUnavailable: nobody knows whether it was taken; the same settle again is no second one
	// (HU-9).
	Settle(context.Context, towline.Lease, towline.Settle) error
	// Revoked is that of towline.Engine; nil: what an operator takes is learned at the next renewal.
	Revoked() <-chan struct{}
	// Live reports that the log may have a lease that has ended here.
	Live(context.Context, *towline.Lease) bool
}

// AttemptsConfig is what attempts need beside their leases.
type AttemptsConfig struct {
	Ports   map[string]Ports // by sync
	Logger  *slog.Logger
	Runtime Runtime // nil: that of Go
	// Patience is for how long a settle is repeated at least that could not be taken; zero: as long as its lease.
	Patience time.Duration
	MaxText  func() int // of a text in the log of the process, in bytes
}

// Attempts are the attempts that run in this process, each under its lease: the leases are renewed, and a provider hears when
// its own is over. Run must run meanwhile.
type Attempts struct {
	leases   Leases
	c        AttemptsConfig
	rt       Runtime
	beat     *heartbeat
	logger   *slog.Logger
	progress progress

	life    context.Context // of running units: longer than that of a message
	endWork context.CancelCauseFunc
}

// NewAttempts makes them for leases of an engine that is asked. Handlers have their own.
func NewAttempts(leases Leases, c AttemptsConfig) *Attempts {
	if c.Runtime == nil {
		c.Runtime = goRuntime{}
	}
	a := &Attempts{
		leases: leases, c: c, rt: c.Runtime, beat: newHeartbeat(leases, c.Runtime, c.Logger), logger: c.Logger,
		progress: progress{units: map[events.UnitID]*UnitProgress{}},
	}
	a.life, a.endWork = context.WithCancelCause(context.Background())
	return a
}

// Run renews the leases of running units until ctx ends.
func (a *Attempts) Run(ctx context.Context) error { return a.beat.run(ctx) }

// Do is one attempt under a lease that was asked for at a time, from its provider to its settle. It returns how it ended, nil if
// it was left to recovery (N-6) or cancelled; and why its settle was not taken.
func (a *Attempts) Do(ctx context.Context, l *towline.Lease, asked time.Time) (towline.Settle, error) {
	s := a.work(l, asked)
	if s == nil {
		return nil, nil
	}
	return s, a.finish(ctx, l, s, a.leases.Settle(ctx, *l, s))
}

// Stop ends every running provider's context: the grace is over. What its sink has not taken is handed back (U-16).
func (a *Attempts) Stop() { a.endWork(provider.ErrStopping) }

// ofEngine are the leases of the engine of this process.
type ofEngine struct{ *towline.Engine }

// Live: a process that was frozen in a claim counts the frozen time, and the log does not (HU-4). If the log cannot be read the
// settle finds out.
func (o ofEngine) Live(ctx context.Context, l *towline.Lease) (live bool) {
	err := o.View(ctx, func(v projections.View) error {
		u, _, err := v.Unit(l.Unit.Unit)
		live = u.Attempt == l.Unit.Attempt && u.LeaseExpiresAt.After(o.Now().Time())
		return err
	})
	return live && err == nil
}

// work is an attempt under the lease, and says how it ended; nil: there is nothing to settle, because it is left to recovery
// (N-6) or was cancelled. No transaction is open meanwhile (L-10), and what the provider or the sink does, the worker
// goes on.
func (a *Attempts) work(l *towline.Lease, asked time.Time) towline.Settle {
	ctx, release := a.beat.hold(a.life, l, asked)
	defer release()
	ports, ok := a.c.Ports[l.Sync]
	a.progress.begin(l, stallAfter(ports.Provider))
	defer a.progress.end(l.Unit.Unit)
	if !ok {
		return towline.Failed{Category: events.Configuration, Text: fmt.Sprintf("sync %q has no provider here", l.Sync)}
	}
	one := &attempt{in: a, lease: l, ports: ports, unit: unitOf(l), done: make(chan towline.Settle, 1)}
	a.rt.Go(func() { one.run(ctx) })
	return one.wait(ctx)
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
func (a *Attempts) failed(ctx context.Context, l *towline.Lease, opener sink.Opener, w sink.Writer, err error) towline.Settle {
	cause := context.Cause(ctx)
	stopping := errors.Is(cause, provider.ErrStopping)
	untouched := w == nil || !w.Committed()
	switch {
	case errors.Is(cause, provider.ErrCancelled):
		a.logger.Info("unit cancelled, its worker has stopped", "unit", l.Unit.Alias, "attempt", l.Unit.Attempt)
		return nil
	case errors.Is(cause, errLifetime): // also of a provider that calls every end of its context a stop
		return towline.Failed{Category: events.Timeout, Text: errLifetime.Error()}
	case errors.Is(err, sink.ErrFenced) && untouched: // by another run; if the lease is lost, the log refuses this too
		return towline.HandedBack{Reason: "a newer run has written the same window; this one goes on behind it"}
	case errors.Is(err, provider.ErrStopped) && untouched:
		return towline.HandedBack{Reason: "the provider stopped cleanly"}
	case stopping && untouched && fenced(opener):
		return towline.HandedBack{Reason: "the process was stopped"}
	case stopping, errors.Is(cause, errLeaseEnded) && a.leases.Live(context.WithoutCancel(ctx), l):
		a.logger.Info("stopped in the middle, left to recovery", "unit", l.Unit.Alias, "attempt", l.Unit.Attempt)
		return nil
	}
	after, account := provider.LimitOf(err)
	return towline.Failed{Category: provider.CategoryOf(err), Text: err.Error(), After: after, Account: account}
}

func fenced(o sink.Opener) bool {
	f, ok := o.(sink.Fenced)
	return ok && f.Fenced()
}

// finish repeats a settle that the store could not take, until the lease ends, and then leaves the attempt to the expiry of
// the lease (HU-7). It returns why the settle was not taken.
func (a *Attempts) finish(ctx context.Context, l *towline.Lease, s towline.Settle, err error) error {
	most := max(l.RenewEvery*leaseThirds, a.c.Patience)
	err = a.again(err, most, func() error { return a.leases.Settle(ctx, *l, s) })
	switch {
	case errors.Is(err, towline.ErrLeaseLost):
		a.logger.Warn("late result, refused", "unit", l.Unit.Alias, "attempt", l.Unit.Attempt, "reason", err)
	case errors.Is(err, towline.ErrInvalid):
		a.logger.Error("result cannot be stored", "unit", l.Unit.Alias, "error", err)
		instead := func() error {
			return a.leases.Settle(ctx, *l, towline.Failed{Category: events.ProviderError, Text: err.Error()})
		}
		_ = a.again(instead(), most, instead) // a fault that lasts is left to the expiry of the lease
	case err != nil:
		a.logger.Error("settle failed, left to the expiry of the lease", "unit", l.Unit.Alias, "error", err)
	default:
		a.report(l, s)
	}
	return err
}

// report says of a settled attempt what a person wants to know at once: that it did not end well.
func (a *Attempts) report(l *towline.Lease, s towline.Settle) {
	switch s := s.(type) {
	case towline.Failed:
		a.logger.Warn("unit failed", "unit", l.Unit.Alias, "attempt", l.Unit.Attempt, "category", s.Category,
			"error", towline.CleanText(s.Text, a.c.MaxText()))
	case towline.HandedBack:
		a.logger.Info("unit handed back", "unit", l.Unit.Alias, "attempt", l.Unit.Attempt, "reason", s.Reason)
	}
}

// leaseThirds: a lease is three times as long as the time between two renewals.
const leaseThirds = 3

// again repeats a write while the store cannot take it, for so long at most, and once more when the process ends.
func (a *Attempts) again(err error, most time.Duration, write func() error) error {
	const between = 200 * time.Millisecond
	deadline := a.rt.Now().Add(most)
	for errors.Is(err, towline.ErrUnavailable) && a.rt.Now().Before(deadline) {
		if !pause(a.life, a.rt, between) {
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

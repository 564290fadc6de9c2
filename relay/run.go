package relay

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/transport"
)

// New makes the relay of a process. Run drives it; a publish needs Run, because the forwarder's router is part of it.
func New(e *towline.Engine, routes Routes, options ...Option) (*Runner, error) {
	sub := newSubscriber()
	router, err := newForwarder(sub, routes, transport.QuietLogger(e.Logger()))
	if err != nil {
		return nil, err
	}
	relay := &Relay{e: e, routes: routes, carrier: newForward(sub), logger: e.Logger()}
	return &Runner{Relay: relay.with(options), router: router, sub: sub}, nil
}

// Synchronous makes a relay without goroutines: Pass and Step call the forwarder's handler themselves. It is the same
// carrier without the router's loop, for tests and simulations.
func Synchronous(e *towline.Engine, routes Routes, options ...Option) (*Relay, error) {
	router, err := newForwarder(newSubscriber(), routes, watermill.NopLogger{})
	if err != nil {
		return nil, err
	}
	for _, handle := range router.Handlers() {
		relay := &Relay{e: e, routes: routes, carrier: newForward(synchronous{handle}), logger: e.Logger(), serial: true}
		return relay.with(options), nil
	}
	return nil, errors.New("the forwarder has no handler")
}

// Runner is a relay with its loop.
type Runner struct {
	*Relay
	router *message.Router
	sub    *Subscriber
}

// Run reconciles until ctx ends: a pass at once, one per interval and one when a lease or a claim comes due, and a step
// for every nudge and due time of a register. Passes never overlap (REC-2). A failing pass is logged, once a minute while
// it lasts, and the loop goes on (REC-3).
func (r *Runner) Run(ctx context.Context) error {
	routed := make(chan error, 1)
	go func() { routed <- r.router.Run(context.WithoutCancel(ctx)) }()
	select {
	case <-r.router.Running():
	case err := <-routed:
		return fmt.Errorf("forwarder: %w", err)
	}
	running, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() { // the router ends only behind the loop, or by itself, and then nothing can be published any more
		err := <-routed
		stop()
		ended <- err
	}()
	err := r.loop(running)
	var last Report
	last.fail("settle", r.settleKept(ctx, &last)) // a last try, for what is published
	if err := last.Err(); err != nil {
		r.logger.Error("the outcome of a publish is not on record; it counts as unknown", "error", err)
	}
	// Nothing is with the forwarder any more.
	err = errors.Join(err, r.router.Close())
	if runErr := <-ended; runErr != nil {
		err = errors.Join(err, fmt.Errorf("forwarder: %w", runErr))
	}
	if err == nil && ctx.Err() == nil {
		return errors.New("forwarder: its router has stopped by itself")
	}
	return err
}

// loop returns an error when there is no use in going on.
func (r *Runner) loop(ctx context.Context) error {
	interval := r.e.Knobs().ReconcileInterval
	nextPass := r.e.Now() // the first pass is now
	var due events.Micros
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-r.e.Nudged():
			due = r.e.Now()
		case at := <-r.e.Alarms():
			due = events.Earliest(due, at)
		case <-timer.C:
		}
		now := r.e.Now()
		var err error
		switch {
		case now >= nextPass:
			due, err = r.guarded(ctx, r.Pass)
			nextPass = r.e.Now().Add(events.SpanOf(interval))
		case due != 0 && now >= due:
			due, err = r.guarded(ctx, r.stepOrPass)
		}
		if err != nil {
			return err
		}
		timer.Reset(events.Earliest(due, nextPass).Sub(r.e.Now()).Std())
	}
}

// guarded runs one round. A panic in it is a defect that must not end the loop: it is reported like any error. A store
// whose file has been taken away is the end: whatever this process said from now on would not last.
func (r *Runner) guarded(ctx context.Context, round func(context.Context) Report) (due events.Micros, fatal error) {
	defer func() {
		if p := recover(); p != nil {
			r.complain(fmt.Errorf("panic: %v", p))
			due = r.e.Now().Add(events.SpanOf(retryFailedRound))
		}
	}()
	report := round(ctx)
	if report.Refusal != nil {
		r.health.refusal.say(r.e.Now(), func() { r.logger.Warn("publish", "error", report.Refusal) })
	}
	if err := report.Err(); err != nil && ctx.Err() == nil {
		if errors.Is(err, towline.ErrMoved) {
			return 0, towline.ErrMoved
		}
		r.complain(err)
		return r.e.Now().Add(events.SpanOf(retryFailedRound)), nil // not at what is due: it is what has failed
	}
	if report.Changed() == 0 && report.Others > 0 {
		return 0, nil // what is due is another process's to publish: the next pass looks again
	}
	if report.Changed() == 0 && report.NextDue != 0 && report.NextDue <= r.e.Now() {
		// Something is due that this round could not move, for example because another process holds it.
		return r.e.Now().Add(events.SpanOf(retryFailedRound)), nil
	}
	return report.NextDue, nil
}

// retryFailedRound is the pause after a round that failed: the store may be full or locked.
const retryFailedRound = time.Second

// stepOrPass runs the relay step, and the pass if a lease has come due: only a pass can expire it.
func (r *Runner) stepOrPass(ctx context.Context) Report {
	report := r.Step(ctx)
	if report.NextDue != 0 && report.NextDue <= r.e.Now() && report.Others == 0 && len(report.Errors) == 0 {
		return r.Pass(ctx)
	}
	return report
}

func (r *Relay) complain(err error) {
	r.health.complaint.say(r.e.Now(), func() { r.logger.Error("reconcile", "error", err) })
}

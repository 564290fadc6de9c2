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
func New(e *towline.Engine, routes Routes) (*Runner, error) {
	if err := routes.check(); err != nil {
		return nil, err
	}
	sub := newSubscriber()
	router, err := newForwarder(sub, routes, transport.QuietLogger(e.Logger()))
	if err != nil {
		return nil, err
	}
	return &Runner{
		Relay: &Relay{e: e, routes: routes, carrier: newForward(sub), logger: e.Logger()}, router: router, sub: sub,
	}, nil
}

// Synchronous makes a relay without goroutines: Pass and Step call the forwarder's handler themselves. It is the same
// carrier without the router's loop, for tests and simulations.
func Synchronous(e *towline.Engine, routes Routes) (*Relay, error) {
	if err := routes.check(); err != nil {
		return nil, err
	}
	router, err := newForwarder(newSubscriber(), routes, watermill.NopLogger{})
	if err != nil {
		return nil, err
	}
	for _, handle := range router.Handlers() {
		return &Relay{e: e, routes: routes, carrier: newForward(synchronous{handle}), logger: e.Logger(), serial: true}, nil
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
	r.loop(ctx)
	// The loop has settled what it claimed; nothing is with the forwarder any more.
	err := r.router.Close()
	if runErr := <-routed; err == nil {
		err = runErr
	}
	return err
}

func (r *Runner) loop(ctx context.Context) {
	interval := r.e.Knobs().ReconcileInterval
	nextPass := r.e.Now() // the first pass is now
	var due events.Micros
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.e.Nudged():
			due = r.e.Now()
		case at := <-r.e.Alarms():
			due = events.Earliest(due, at)
		case <-timer.C:
		}
		now := r.e.Now()
		switch {
		case now >= nextPass:
			due = r.guarded(ctx, r.Pass)
			nextPass = r.e.Now().Add(events.SpanOf(interval))
		case due != 0 && now >= due:
			due = r.guarded(ctx, r.stepOrPass)
		}
		timer.Reset(events.Earliest(due, nextPass).Sub(r.e.Now()).Std())
	}
}

// guarded runs one round. A panic in it is a defect that must not end the loop: it is reported like any error.
func (r *Runner) guarded(ctx context.Context, round func(context.Context) Report) (due events.Micros) {
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
		r.complain(err)
		return r.e.Now().Add(events.SpanOf(retryFailedRound)) // not at what is due: it is what has failed
	}
	r.health.lastSuccess = r.e.Now().Time()
	if report.Changed() == 0 && report.NextDue != 0 && report.NextDue <= r.e.Now() {
		// Something is due that this round could not move, for example because another process holds it.
		return r.e.Now().Add(events.SpanOf(retryFailedRound))
	}
	return report.NextDue
}

// retryFailedRound is the pause after a round that failed: the store may be full or locked.
const retryFailedRound = time.Second

// stepOrPass runs the relay step, and the pass if a lease has come due: only a pass can expire it.
func (r *Runner) stepOrPass(ctx context.Context) Report {
	report := r.Step(ctx)
	if report.NextDue != 0 && report.NextDue <= r.e.Now() && len(report.Errors) == 0 {
		return r.Pass(ctx)
	}
	return report
}

func (r *Relay) complain(err error) {
	r.health.complaint.say(r.e.Now(), func() { r.logger.Error("reconcile", "error", err) })
}

package relay

import (
	"context"
	"errors"
	"fmt"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/transport"
)

// New makes the relay of a process. Run drives it; a publish needs Run, because the forwarder's router is part of it.
func New(e *towline.Engine, routes Routes, options ...Option) (*Runner, error) {
	sub := newSubscriber()
	router, err := newForwarder(sub, routes, transport.QuietLogger(e.Logger()))
	if err != nil {
		return nil, err
	}
	relay := &Relay{e: e, routes: routes, lanes: newLanes(routes), carrier: newForward(sub), logger: e.Logger()}
	return &Runner{Relay: relay.with(options), router: router, due: newWaker()}, nil
}

// Synchronous makes a relay without goroutines: Pass and Step call the forwarder's handler themselves. It is the same
// carrier without the router's loop, for tests and simulations.
func Synchronous(e *towline.Engine, routes Routes, options ...Option) (*Relay, error) {
	router, err := newForwarder(newSubscriber(), routes, watermill.NopLogger{})
	if err != nil {
		return nil, err
	}
	for _, handle := range router.Handlers() {
		relay := &Relay{
			e: e, routes: routes, lanes: newLanes(routes), carrier: newForward(synchronous{handle}), logger: e.Logger(), serial: true,
		}
		return relay.with(options), nil
	}
	return nil, errors.New("the forwarder has no handler")
}

// Runner is a relay with its loop.
type Runner struct {
	*Relay
	router *message.Router
	due    waker // of the passes
	health loopHealth
}

// Run reconciles until ctx ends: a pass at once, one per interval and one when a lease or a claim comes due, and a relay
// step of each transport for every nudge and due time of its registers. Passes never overlap, nor do the steps of one
// transport (REC-2); beside a transport that hangs, passes and the other transports go on. In shared mode the commits of
// other processes count as nudges, and are seen within a second. A failing round is logged, once a minute while it lasts,
// and the loop goes on (REC-3).
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
	err := r.loops(running)
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

package relay

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/projections"
)

// loops are one that reconciles, one for each lane, and in shared mode one that watches. They end with ctx, or when one of
// them finds no use in going on.
func (r *Runner) loops(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var all sync.WaitGroup
	failures := make(chan error, 1+len(r.lanes))
	run := func(loop func() error) {
		all.Go(func() {
			if err := loop(); err != nil {
				failures <- err
				stop()
			}
		})
	}
	all.Go(func() { r.forward(ctx) })
	run(func() error { return r.passes(ctx) })
	if r.e.Shared() {
		run(func() error { return r.watch(ctx) })
	}
	for _, l := range r.lanes {
		run(func() error { return r.steps(ctx, l) })
	}
	all.Wait()
	close(failures)
	return <-failures // the first; the others met the same
}

// forward hands the signals of the engine on: whatever has become due may be in any lane. A commit may also have begun a
// lease or a claim, which ends no earlier than its whole length, so the look for it need not come at once: many commits share
// one.
func (r *Runner) forward(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.e.Nudged():
			r.wakeLanes(r.e.Now())
			k := r.e.Knobs() // a reload may have changed them
			r.due.at(r.e.Now().Add(events.SpanOf(min(k.Lease, k.ClaimTTL) / 2)))
		case at := <-r.e.Alarms():
			r.wakeLanes(at)
		}
	}
}

func (r *Runner) wakeLanes(at events.Micros) {
	for _, l := range r.lanes {
		l.wake.at(at)
	}
}

// watchEvery is how often a process of a shared store looks for what the others have committed.
const watchEvery = time.Second

// watch hands on what other processes have committed, as forward does with this one's own, and wakes those who wait for a
// run that has ended there (REC-1). It goes by the head of the log, which costs one short read. Its own commits move that
// too, and then it has looked once for nothing: to tell them apart would cost each commit more than it saves.
func (r *Runner) watch(ctx context.Context) error {
	ticker := time.NewTicker(watchEvery)
	defer ticker.Stop()
	var seen events.Position
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		_, _, err := r.guarded(ctx, "watch", func(ctx context.Context) (report Report) {
			head, err := r.e.Head(ctx)
			if err == nil && head != seen {
				r.wakeLanes(r.e.Now())
				r.due.at(r.e.Now())
				err = r.e.CheckWaiters(ctx)
			}
			if err == nil {
				seen = head // else it looks again
			}
			report.fail("look for the commits of other processes", err)
			return report
		})
		if err != nil {
			return err
		}
	}
}

// passes runs a pass at once, one per interval, and one when a lease or a claim ends. The lanes begin behind the first.
func (r *Runner) passes(ctx context.Context) error {
	nextPass := r.e.Now()
	return r.loop(ctx, r.due, nextPass, func(now events.Micros) (events.Micros, error) {
		if now < nextPass {
			look, ok, err := r.guarded(ctx, "reconcile", r.expiry)
			if err != nil || !ok || look.NextDue == 0 || look.NextDue > now {
				return events.Earliest(r.after(look, ok), nextPass), err
			}
		}
		report, ok, err := r.guarded(ctx, "reconcile", r.pass)
		if now >= nextPass {
			nextPass = r.e.Now().Add(events.SpanOf(r.e.Knobs().ReconcileInterval)) // a reload may have changed it
		}
		r.wakeLanes(now)
		return events.Earliest(r.after(report, ok), nextPass), err
	})
}

// steps runs the relay step of one lane, for whatever wakes it and at the due times of its registers.
func (r *Runner) steps(ctx context.Context, l *lane) error {
	return r.loop(ctx, l.wake, 0, func(events.Micros) (events.Micros, error) {
		report, ok, err := r.guarded(ctx, "relay/"+l.name, func(ctx context.Context) Report { return r.step(ctx, l) })
		if report.Refusal != nil {
			l.refusal.say(r.e.Now(), func() { r.logger.Warn("publish", "error", report.Refusal) })
		}
		return r.after(report, ok), err
	})
}

// expiry looks when the next lease or claim ends.
func (r *Runner) expiry(ctx context.Context) (report Report) {
	report.fail("look for the next expiry", r.e.View(ctx, func(v projections.View) (err error) {
		report.NextDue, err = v.NextExpiry()
		return err
	}))
	return report
}

// pass is Relay.Pass without its publishes, which the lanes do.
func (r *Runner) pass(ctx context.Context) Report {
	report := r.newReport()
	r.repair(ctx, &report)
	r.endClaims(ctx, &report)
	report.fail("look for waiters", r.e.CheckWaiters(ctx))
	next := r.expiry(ctx)
	report.NextDue = next.NextDue
	report.Errors = append(report.Errors, next.Errors...)
	return report
}

// step is Relay.Step in one lane, without what a pass does for all of them.
func (r *Runner) step(ctx context.Context, l *lane) Report {
	report := r.newReport()
	if err := r.settleKept(ctx, &report); err != nil {
		report.fail("settle", err)
		return report // the store is away
	}
	report.fail("follow the log", r.e.Follow(ctx))
	report.fail("publish", r.work(ctx, l, &report))
	report.fail("look for the next due time", r.e.View(ctx, func(v projections.View) (err error) {
		report.NextDue, err = r.nextDue(v, l)
		return err
	}))
	return report
}

// loop runs rounds until ctx ends. A round says when the next is due; 0: when something wakes the loop.
func (r *Runner) loop(ctx context.Context, wake waker, due events.Micros, round func(now events.Micros) (events.Micros, error)) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case at := <-wake:
			due = events.Earliest(due, at)
		case <-timer.C:
		}
		if now := r.e.Now(); due != 0 && due <= now {
			var err error
			if due, err = round(now); err != nil {
				return err
			}
		}
		timer.Stop()
		if due != 0 {
			timer.Reset(due.Sub(r.e.Now()).Std())
		}
	}
}

// guarded runs one round; false: it failed. A panic in it is a defect that must not end the loop: it is reported like any
// error. A store whose file has been taken away is the end: whatever this process said from now on would not last.
func (r *Runner) guarded(ctx context.Context, loop string, round func(context.Context) Report) (report Report, ok bool, fatal error) {
	defer func() {
		if p := recover(); p != nil {
			err := fmt.Errorf("panic: %v", p)
			r.health.note(loop, r.e.Now().Time(), err)
			r.complain(err)
		}
	}()
	report = round(ctx)
	if err := report.Err(); err != nil && ctx.Err() == nil {
		r.health.note(loop, r.e.Now().Time(), err)
		if errors.Is(err, towline.ErrMoved) {
			return report, false, towline.ErrMoved
		}
		r.complain(err)
		return report, false, nil
	}
	r.health.note(loop, r.e.Now().Time(), nil)
	return report, true, nil
}

// after is when the round behind this one is due; 0: when something comes up.
func (r *Runner) after(report Report, ok bool) events.Micros {
	now := r.e.Now()
	stuck := report.Changed() == 0 && report.NextDue != 0 && report.NextDue <= now // for example, another process holds it
	if !ok || stuck {
		return now.Add(events.SpanOf(retryFailedRound)) // not at what is due: it is what has failed
	}
	return report.NextDue
}

// retryFailedRound is the pause after a round that failed: the store may be full or locked.
const retryFailedRound = time.Second

func (r *Relay) complain(err error) {
	r.complaint.say(r.e.Now(), func() { r.logger.Error("reconcile", "error", err) })
}

// waker wakes a loop. It keeps the earliest of the times that the loop has not taken yet.
type waker chan events.Micros

func newWaker() waker { return make(waker, 1) }

func (w waker) at(t events.Micros) {
	for {
		select {
		case w <- t:
			return
		case waiting := <-w:
			t = events.Earliest(t, waiting)
		}
	}
}

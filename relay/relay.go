// Package relay is the reconciler. A pass expires leases, arms what is owed, and publishes what is due, in this order
// (REC-3). It changes state only through the engine's transactions, and publishes only through Watermill's forwarder.
package relay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/projections"
	"github.com/towline-dev/towline/transport"
)

// Relay is the reconciler of one process. Several processes of a shared store may each run one: every decision is made
// again in its own transaction (REC-2).
type Relay struct {
	e          *towline.Engine
	routes     Routes
	transports map[string]transport.Publisher // that targets of post_sync name
	carrier    carrier
	serial     bool // publish in the caller's goroutine, in order
	logger     *slog.Logger

	lanes     []*lane
	cursors   cursors
	kept      unsettled
	complaint throttle // of the loops
}

// Routes names the publisher of each kind. nil: this process publishes none of that kind, another one does.
type Routes func(events.Kind) transport.Publisher

// carrier hands one enveloped message to Watermill's forwarder and returns when it is settled.
type carrier interface {
	carry(ctx context.Context, topic string, n outgoing) transport.Receipt
}

// Report is what a pass or a step came to (REC-17).
type Report struct {
	ExpiredFailed, ExpiredRetried, ExpiredExhausted               int
	Materialized                                                  map[events.Kind]int
	Claimed, Dispatched, Dropped, Released, Parked, Unknown, Shed int
	Held                                                          int // what waits for a person: parked and unresolved registers (REC-12), held effects (REC-10)
	Suspended                                                     int // due wakeups that wait for a transport that fails (O-16); counted by a pass
	ScanTruncated                                                 bool
	NextDue                                                       events.Micros // earliest time ahead at which something comes due; 0: none is known
	Refusal                                                       error         // the last publish that was not accepted; the register goes on from it
	Errors                                                        []error
}

// Changed counts what the pass has decided.
func (r Report) Changed() int {
	n := r.ExpiredFailed + r.ExpiredRetried + r.ExpiredExhausted + r.Claimed + r.Released + r.Unknown
	for _, m := range r.Materialized {
		n += m
	}
	return n
}

func (r *Report) fail(step string, err error) {
	if err != nil {
		r.Errors = append(r.Errors, fmt.Errorf("%s: %w", step, err))
	}
}

// took takes in what a claim has decided.
func (r *Report) took(t taken) {
	r.Claimed += len(t.batch) + t.dropped
	r.Dropped += t.dropped
	r.Parked += t.parked
}

// add takes in what a settle has recorded.
func (r *Report) add(x Report) {
	r.Dispatched += x.Dispatched
	r.Dropped += x.Dropped
	r.Released += x.Released
	r.Parked += x.Parked
	r.Unknown += x.Unknown
	r.Shed += x.Shed
	if x.Refusal != nil {
		r.Refusal = x.Refusal
	}
	r.Errors = append(r.Errors, x.Errors...)
}

// Err joins the errors of the steps; nil if none failed.
func (r Report) Err() error { return errors.Join(r.Errors...) }

// cursors are where the next pass goes on with a scan that ended on its budget (REC-4).
type cursors struct {
	leases   projections.LeaseCursor
	dispatch events.RunID
	finalize events.RunID
	post     events.RunID
	messages events.MessageID
}

// Pass is one round of the reconciler. A failing step is reported, and the next steps still run (REC-3). A pass over a
// state with nothing due appends nothing (REC-18).
func (r *Relay) Pass(ctx context.Context) Report {
	report := r.newReport()
	r.repair(ctx, &report)
	r.relay(ctx, &report)
	report.fail("look for waiters", r.e.CheckWaiters(ctx))
	return report
}

// Step is the relay step alone: what a nudge runs (REC-1).
func (r *Relay) Step(ctx context.Context) Report {
	report := r.newReport()
	report.fail("follow the log", r.e.Follow(ctx))
	r.relay(ctx, &report)
	return report
}

func (r *Relay) newReport() Report { return Report{Materialized: map[events.Kind]int{}} }

// repair is the first half of a pass: what does not publish.
func (r *Relay) repair(ctx context.Context, report *Report) {
	report.fail("follow the log", r.e.Follow(ctx))
	report.fail("expire leases", r.expire(ctx, report))
	report.fail("materialize", r.materialize(ctx, report))
	lost, err := r.e.LoseEffects(ctx)
	report.Unknown += lost
	report.fail("give up effects of gone processes", err)
	report.fail("look for what is held", r.held(ctx, report))
}

func (r *Relay) relay(ctx context.Context, report *Report) {
	if !r.endClaims(ctx, report) {
		return
	}
	for _, l := range r.lanes {
		report.fail("publish", r.work(ctx, l, report))
	}
	report.fail("look for the next due time", r.e.View(ctx, func(v projections.View) error {
		next, err := v.NextExpiry()
		for _, l := range r.lanes {
			if err != nil {
				return err
			}
			var due events.Micros
			due, err = r.nextDue(v, l)
			next = events.Earliest(next, due)
		}
		report.NextDue = next
		return err
	}))
}

// endClaims releases claims of the dead (REC-13); false: what was published is not on record yet, and until then a
// released claim would be published again, and an outcome be lost that is known.
func (r *Relay) endClaims(ctx context.Context, report *Report) bool {
	if err := r.settleKept(ctx, report); err != nil {
		report.fail("settle", err)
		return false
	}
	dead, err := r.e.ReleaseClaims(ctx)
	report.Released += dead.Claims
	report.Unknown += dead.Unknown
	report.fail("release dead claims", err)
	return true
}

// held counts what waits for a person or for a transport, and reports a unit that nobody would announce: a defect, for its
// wakeup is armed with every dispatch (REC-8, REC-12).
func (r *Relay) held(ctx context.Context, report *Report) error {
	return r.e.View(ctx, func(v projections.View) error {
		n, err := v.Held()
		if err != nil {
			return err
		}
		report.Held = n
		for _, l := range r.lanes {
			if !l.isOpen() {
				continue
			}
			n, err := v.CountDue(l.wakeups(), r.e.Now())
			if err != nil {
				return err
			}
			report.Suspended += n
		}
		broken, err := v.Unannounced(events.RunID{}, 1)
		if err == nil && len(broken) > 0 {
			err = fmt.Errorf("run %s has a dispatching unit whose wakeup nobody has open: run verify, and report it", broken[0])
		}
		return err
	})
}

// expire decides units whose lease has ended (REC-5, REC-6).
func (r *Relay) expire(ctx context.Context, report *Report) error {
	k := r.e.Knobs()
	var errs []error
	for decided := 0; decided < k.RepairLimit; {
		limit := min(k.RepairLimit-decided, k.Page)
		var page []projections.LeaseCursor
		err := r.e.View(ctx, func(v projections.View) (err error) {
			page, err = v.ExpiredLeases(r.e.Now(), r.cursors.leases, limit)
			return err
		})
		if err != nil {
			return errors.Join(append(errs, err)...)
		}
		if len(page) == 0 {
			r.cursors.leases = projections.LeaseCursor{} // the scan has come to its end; the next begins anew
			return errors.Join(errs...)
		}
		expired, err := r.e.ExpireLeases(ctx, page)
		report.ExpiredFailed += expired.Failed
		report.ExpiredRetried += expired.Retried
		report.ExpiredExhausted += expired.Exhausted
		decided += len(page)
		if errors.Is(err, towline.ErrUnavailable) || ctx.Err() != nil {
			return errors.Join(append(errs, err)...) // the cursor stays: the next pass finds what is left of the page
		}
		r.cursors.leases = page[len(page)-1]
		errs = append(errs, err)
	}
	report.ScanTruncated = true
	return errors.Join(errs...)
}

// redrive is what the materialization knows of time.
func (r *Relay) redrive(now events.Micros) decider.Redrive {
	k := r.e.Knobs()
	return decider.Redrive{
		Now: now, Countdown: events.SpanOf(k.Countdown), RedriveAfter: events.SpanOf(k.RedriveAfter),
		PostRedrive: events.SpanOf(k.PostSyncRedriveAfter),
	}
}

// throttle lets a lasting trouble be said once a minute, whoever meets it.
type throttle struct {
	mu   sync.Mutex
	last events.Micros
}

func (t *throttle) say(now events.Micros, what func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.last == 0 || now.Sub(t.last) >= events.SpanOf(time.Minute) {
		t.last = now
		what()
	}
}

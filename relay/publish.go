package relay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/projections"
	"github.com/towline-dev/towline/transport"
)

// wakeup is one claimed wakeup on its way: what to publish, and what became of it.
type wakeup struct {
	lane      *lane
	before    decider.Register // its register, before the claim
	key       projections.Key
	mode      events.DeliveryMode
	delivery  decider.Delivery
	n         int
	token     events.Token
	transport string
	messages  []outgoing
	withheld  events.ReleaseCause // why no message was handed to the publisher; empty: at least one was
	receipts  []transport.Receipt
	probe     bool // of a half-open breaker (O-16)
	failure   int  // number of its first receipt in the lane that speaks against the transport; 0: there is none
}

// outgoing is one message of a wakeup.
type outgoing struct {
	id       string
	target   string // of post_sync
	notice   transport.Notice
	straight *destination // nil: by the route of its kind
	app      *application // an application's message; nil: the notice
}

func (o outgoing) byRoute() bool { return o.straight == nil }

func (o outgoing) message() (*message.Message, error) {
	if o.app != nil {
		return o.app.message(o.id)
	}
	return o.notice.Message(o.id)
}

func (w *wakeup) markFirst() bool { return w.delivery.Order == events.MarkFirst }
func (w *wakeup) failed() bool    { return w.failure != 0 }

// publishDue claims what is due, publishes it and settles the claims, batch by batch, until nothing is due. A batch that
// could not be claimed is no reason to publish: nothing is published without a committed claim (I-16). A wakeup that
// cannot be claimed is reported and left behind until the next step, and those after it go on (O-19).
func (r *Relay) publishDue(ctx context.Context, l *lane, report *Report) error {
	k := r.e.Knobs()
	for scan := l.resume(); ctx.Err() == nil; {
		if err := r.lookAtBacklog(ctx, l); err != nil {
			return err
		}
		room := l.room(r.e.Now(), k)
		if room == 0 { // the breaker has opened, or the backlog of an outage goes step by step (O-16)
			l.behind = scan
			return nil
		}
		due, err := r.due(ctx, l, &scan, room)
		if err != nil {
			return err
		}
		l.drained(r.e.Now(), room, len(due), k)
		if len(due) == 0 {
			return nil
		}
		elapsed := r.e.Stopwatch() // before the claim commits: what is left of it is never overestimated
		taken, failed := r.claimAll(ctx, l, due)
		report.took(taken)
		report.fail("claim", failed)
		r.publish(ctx, l, taken.batch, elapsed)
		if err := r.settle(ctx, taken.batch, report); err != nil || errors.Is(failed, towline.ErrUnavailable) {
			return err
		}
		if !allMoved(taken.batch) {
			return nil // the publisher refuses: the next step tries again
		}
		if failed != nil || taken.moved()+taken.spared < len(due) {
			scan.pass(due) // what stays due is in nobody's way
		}
	}
	return nil
}

// taken is what became of a due batch.
type taken struct {
	batch           []*wakeup // to be published
	dropped, parked int
	marks           int // how many more may be marked first
	spared          int // that would have been more, and go with the next batch
}

func (t taken) moved() int { return len(t.batch) + t.dropped + t.parked }

// claimAll claims a batch, and what of it can be claimed if it cannot be as a whole.
func (r *Relay) claimAll(ctx context.Context, l *lane, due []projections.DueCursor) (all taken, err error) {
	name := func(d projections.DueCursor) string { return d.Key.String() }
	err = towline.Apart(ctx, due, name, func(some []projections.DueCursor) error {
		t, err := r.claim(ctx, l, some)
		if err == nil {
			all.batch = append(all.batch, t.batch...)
			all.dropped, all.parked, all.spared = all.dropped+t.dropped, all.parked+t.parked, all.spared+t.spared
		}
		return err
	})
	for _, w := range all.batch {
		w.lane = l
	}
	return all, err
}

// allMoved reports that no wakeup of the batch comes back at once.
func allMoved(batch []*wakeup) bool {
	for _, w := range batch {
		if w.withheld != "" {
			return false
		}
		for _, receipt := range w.receipts {
			if receipt.Outcome != events.Accepted && !w.markFirst() {
				return false
			}
		}
	}
	return true
}

// claim takes a batch in one transaction (O-7). What is no longer owed is dropped in it (O-8), and a mark_first wakeup is
// marked in it: nothing depends on the gap between the two, and the commit is on disk before the publish (O-12).
func (r *Relay) claim(ctx context.Context, l *lane, due []projections.DueCursor) (t taken, err error) {
	err = r.e.Transact(ctx, "", func(tx *towline.Tx) error {
		t = taken{marks: l.marks(r.e.Knobs())}
		if tx.Held() { // decided here, whatever a scan has seen
			return nil
		}
		for _, d := range due {
			if err := r.claimOne(tx, d.Key, &t); err != nil {
				return err
			}
		}
		return nil
	})
	return t, err
}

func (r *Relay) claimOne(tx *towline.Tx, key projections.Key, t *taken) error {
	reg, err := tx.Register(key.Owner, key.Kind)
	if err != nil {
		return err
	}
	owed, err := tx.Obligation(key, reg.Current)
	if err != nil {
		return err
	}
	k, mode, drop := r.e.Knobs(), owed.Mode(), owed.Drop
	w := &wakeup{
		before: reg, key: key, mode: mode, delivery: decider.DeliveryOf(key.Kind, mode), n: reg.Current, token: tx.NewToken(),
	}
	if w.markFirst() {
		if t.marks--; t.marks < 0 {
			t.spared++
			return nil
		}
	}
	if drop == "" {
		if w.messages, err = r.expand(tx, owed.Run, key, w.n); err != nil {
			return err
		}
	}
	w.transport = w.transportOf(r.routes(key.Kind))
	results, err := tx.Execute(decider.ClaimWakeup{
		Owner: key.Owner, Kind: key.Kind, Mode: mode, At: tx.Now(), N: w.n, Token: w.token, Messages: len(w.messages),
		ExpiresAt: tx.Now().Add(claimLength(k, len(w.messages))), MaxAttempts: k.MaxAttempts, Drop: drop,
		MaxLosses: w.mayLose(k),
	})
	if err != nil || len(results[0].Events) == 0 {
		return err // another relay was faster
	}
	switch _, parked := results[0].Events[0].Event.(events.OutboxParked); {
	case parked:
		t.parked++
	case drop != "":
		t.dropped++
	default:
		t.batch = append(t.batch, w)
		if w.markFirst() {
			_, err = tx.Execute(w.mark(tx.Now()))
		}
	}
	return err
}

// mayLose is how many processes may die with what goes to a consumer in process; 0: no bound (M-16).
func (w *wakeup) mayLose(k towline.Knobs) int {
	if w.key.Kind == events.KindMessage && events.InProcess(w.transport) {
		return k.MaxDeliveries
	}
	return 0
}

// claimLength is the time of a claim: longer for a large fan-out, whose messages share it (O-7).
func claimLength(k towline.Knobs, messages int) events.Span {
	const perHundred = 100
	started := (messages + perHundred - 1) / perHundred
	return events.SpanOf(k.ClaimTTL + time.Duration(max(started-1, 0))*k.PublishTimeout)
}

// expand lists the messages of a wakeup, anew with every claim (K-1, K-8).
func (r *Relay) expand(tx *towline.Tx, run decider.Run, key projections.Key, n int) ([]outgoing, error) {
	switch k := key.Kind; k {
	case events.KindUnit:
		var out []outgoing
		for _, u := range tx.Announced(run.ID, n) {
			out = append(out, outgoing{
				id:     tx.InEpoch(decider.UnitMessageID(run.ID, n, u.Unit, u.Attempt)),
				notice: transport.Notice{Kind: k, Run: run.ID, Wakeup: n, Unit: u.Unit, Attempt: u.Attempt},
			})
		}
		return out, nil
	case events.KindPostSync:
		return r.expandPost(tx, run, n)
	case events.KindMessage:
		return r.expandMessage(tx, key, n)
	}
	return []outgoing{{
		id: tx.InEpoch(decider.MessageID(run.ID, key.Kind, n)), notice: transport.Notice{Kind: key.Kind, Run: run.ID, Wakeup: n},
	}}, nil
}

// sideBySide bounds how many messages of a lane are with its publisher at once.
const sideBySide = 64

// crew runs publishes side by side, or in order where one goroutine decides who moves next.
type crew struct {
	free   chan struct{}
	wg     sync.WaitGroup
	serial bool
}

func (r *Relay) crew() *crew {
	return &crew{free: make(chan struct{}, sideBySide), serial: r.serial}
}

func (c *crew) run(publish func()) {
	if c.serial {
		publish()
		return
	}
	c.free <- struct{}{}
	c.wg.Add(1)
	go func() {
		defer func() { <-c.free; c.wg.Done() }()
		publish()
	}()
}

func (c *crew) wait() { c.wg.Wait() }

// publish hands every message to the carrier. What is marked already goes first: its time is running. Past half of the
// claim no publish begins (O-20, O-12): a second publisher must not start while a first may still succeed.
func (r *Relay) publish(ctx context.Context, l *lane, batch []*wakeup, elapsed func() events.Span) {
	crew := r.crew()
	for _, first := range []bool{true, false} {
		for _, w := range batch {
			if w.markFirst() == first {
				r.publishOne(ctx, l, crew, w, elapsed)
			}
		}
	}
	crew.wait()
}

func (r *Relay) publishOne(ctx context.Context, l *lane, crew *crew, w *wakeup, elapsed func() events.Span) {
	if w.withheld = r.withhold(ctx, l, w, elapsed); w.withheld != "" {
		return // released as a whole
	}
	w.receipts = make([]transport.Receipt, len(w.messages))
	first := slices.IndexFunc(w.messages, outgoing.byRoute) // what goes straight elsewhere is no part of what the breaker sees
	for i, o := range w.messages {
		switch {
		case w.markFirst() && r.tooLate(w, elapsed):
			w.receipts[i] = transport.Receipt{Outcome: events.Refused, Evidence: events.OutcomeNotSent}
		case o.byRoute() && i > first && !w.markFirst() && l.isOpen():
			w.receipts[i] = transport.NotBegun(errBreakerOpen) // the rest of a fan-out waits, too
		case i == first && w.probe:
			r.send(ctx, l, w, i) // alone: the others go if it is accepted
		default:
			crew.run(func() { r.send(ctx, l, w, i) })
		}
	}
}

var errBreakerOpen = errors.New("the transport fails")

// withhold says why no publish of a wakeup begins; empty: it does. What is marked gets its chance: it has no other.
func (r *Relay) withhold(ctx context.Context, l *lane, w *wakeup, elapsed func() events.Span) events.ReleaseCause {
	switch {
	case w.markFirst():
		return ""
	case ctx.Err() != nil:
		return events.ReleaseShutdown
	case !w.probe && l.isOpen():
		return events.ReleaseBreakerOpen
	case r.tooLate(w, elapsed):
		return events.ReleaseShed
	}
	return ""
}

// tooLate looks at a stopwatch, not at engine time: a wall clock that is set forward costs no notification (O-12).
func (r *Relay) tooLate(w *wakeup, elapsed func() events.Span) bool {
	return elapsed() >= claimLength(r.e.Knobs(), len(w.messages))/2
}

// send publishes one message, at most publish_timeout long. A publish that has begun is not broken off by a shutdown.
func (r *Relay) send(ctx context.Context, l *lane, w *wakeup, i int) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.e.Knobs().PublishTimeout)
	defer cancel()
	o := w.messages[i]
	w.receipts[i] = r.carrier.carry(o.withDestination(ctx), o.topic(), o)
	if o.byRoute() { // what goes another way says nothing of this one
		l.observe(noter{node: r.e.Node(), now: r.e.Now(), knobs: r.e.Knobs()}, w, w.receipts[i])
	}
}

// settle records what became of a batch, in one transaction (O-11, O-12). A wakeup whose record is refused or fails is
// reported and does not touch the others (O-19). It outlives ctx: what was published must not be forgotten (L-11), so
// what a store that is away cannot take now is kept for the next step.
func (r *Relay) settle(ctx context.Context, batch []*wakeup, report *Report) error {
	if len(batch) == 0 {
		return nil
	}
	ctx = context.WithoutCancel(ctx)
	settled := map[*wakeup]bool{}
	name := func(w *wakeup) string { return w.key.String() }
	err := towline.Apart(ctx, batch, name, func(some []*wakeup) error {
		counts, err := r.settleAll(ctx, some)
		if err == nil {
			report.add(counts)
			for _, w := range some {
				settled[w] = true
			}
		}
		return err
	})
	if errors.Is(err, towline.ErrUnavailable) {
		r.kept.add(slices.DeleteFunc(batch, func(w *wakeup) bool { return settled[w] }))
	}
	return err
}

// settleKept records what an earlier step has published and could not record. It comes before dead claims are released: as
// long as a claim lives its mark holds, and the outcome of a mark_first wakeup holds behind it, too. A publish_first wakeup
// whose claim has run out meanwhile is published again.
func (r *Relay) settleKept(ctx context.Context, report *Report) error {
	return r.settle(ctx, r.kept.take(), report)
}

func (r *Relay) settleAll(ctx context.Context, batch []*wakeup) (counts Report, err error) {
	changes := takeChanges(batch)
	err = r.e.Transact(ctx, "", func(tx *towline.Tx) error {
		counts = Report{}
		if err := changes.note(tx); err != nil {
			return err
		}
		for _, w := range batch {
			if err := r.settleOne(tx, w, &counts); err != nil {
				return err
			}
		}
		return nil
	})
	changes.ended(err, r.logger)
	return counts, err
}

func (r *Relay) settleOne(tx *towline.Tx, w *wakeup, counts *Report) error {
	if w.markFirst() {
		return r.recordOutcomes(tx, w, counts)
	}
	if err := r.completeSent(tx, w); err != nil {
		return err
	}
	cmd, err := r.conclude(tx, w)
	if err != nil {
		return err
	}
	results, err := tx.Execute(cmd)
	if err != nil {
		return err
	}
	if rejection := results[0].Rejection; rejection != nil {
		r.e.Count(towline.Tally{RefusedMarks: 1})
		counts.Errors = append(counts.Errors, &RefusedMarkError{Key: w.key, N: w.n, Err: rejection})
		return nil //nolint:nilerr // it is reported, and does not touch the others of the batch (O-19)
	}
	for _, env := range results[0].Events {
		switch e := env.Event.(type) {
		case events.OutboxDispatched:
			counts.Dispatched++
		case events.OutboxDropped:
			counts.Dropped++
		case events.OutboxParked:
			counts.Parked++
		case events.OutboxReleased:
			counts.Released++
			switch e.Cause {
			case events.ReleaseShed:
				counts.Shed++
			case events.ReleaseRefused, events.ReleasePublishUnknown:
				counts.Refusal = w.refusal(e.Cause, e.Text)
			}
		}
	}
	return nil
}

// refusal is what the loop's log says of a publish that was not accepted.
func (w *wakeup) refusal(what, text any) error {
	return fmt.Errorf("%s: %v by %s: %v", w.key, what, w.transport, text)
}

// spent is the same of a publish that has no second chance (O-12).
func (w *wakeup) spent(outcome events.Outcome, cause string) error {
	if outcome == events.Unknown {
		return fmt.Errorf("%w; it may be lost, and is not sent again: look whether it arrived, and say so with Resolve", w.refusal(outcome, cause))
	}
	return fmt.Errorf("%w; it is lost, and is not sent again", w.refusal(outcome, cause))
}

// RefusedMarkError says that a wakeup was published, but its claim was no longer ours: another relay publishes it again,
// under the same id (O-9).
type RefusedMarkError struct {
	Key projections.Key
	N   int
	Err error
}

func (e *RefusedMarkError) Error() string {
	return "mark refused: " + e.Key.String() + ": " + e.Err.Error()
}

func (e *RefusedMarkError) Unwrap() error { return e.Err }

func (w *wakeup) mark(now events.Micros) decider.Command {
	return decider.MarkWakeup{
		Owner: w.key.Owner, Kind: w.key.Kind, Mode: w.mode, At: now, N: w.n, Token: w.token, Transport: w.transport,
		Messages: len(w.messages),
	}
}

// conclude turns the receipts of a publish_first wakeup into its end: marked if every message was accepted, else
// released as a whole (K-2). Unknown is never read as refused (O-10).
func (r *Relay) conclude(tx *towline.Tx, w *wakeup) (decider.Command, error) {
	release := decider.ReleaseWakeup{
		Owner: w.key.Owner, Kind: w.key.Kind, Mode: w.mode, At: tx.Now(), N: w.n, Token: w.token,
		Backoff: r.e.Knobs().Backoff(), MaxAttempts: r.e.Knobs().MaxAttempts,
	}
	if w.withheld != "" {
		release.Cause = w.withheld
		return release, nil
	}
	accepted, counted, cut := 0, false, false
	for i, receipt := range w.receipts {
		switch receipt.Outcome {
		case events.Accepted:
			accepted++
			release.MaybePublished = true
			continue
		case events.Refused:
			if release.Cause == "" {
				release.Cause = events.ReleaseRefused
			}
			counted = counted || !receipt.Uncounted
			cut = cut || errors.Is(receipt.Err, errBreakerOpen)
			if receipt.Permanent && !release.Permanent && (w.messages[i].byRoute() || w.onlyRefusedLeft()) {
				release.Permanent, release.ParkText = true, cmp.Or(r.textOf(receipt), "refused for ever")
			}
		default:
			release.Cause, release.MaybePublished, counted = events.ReleasePublishUnknown, true, true
		}
		if release.Text == "" {
			release.Text = r.textOf(receipt)
		}
	}
	if accepted == len(w.receipts) {
		return w.mark(tx.Now()), nil
	}
	// An uncounted release gives the attempt back; only a claim with no publish begun may do that, a full queue, or a
	// transport that fails.
	release.Counted = counted || release.MaybePublished
	release.Failure = w.lane.blame(w)
	if w.probe && w.failed() || cut && !w.failed() {
		release.Cause, release.Counted = events.ReleaseBreakerOpen, false
	}
	owed, err := tx.Obligation(w.key, w.n)
	release.Drop = owed.Drop
	return release, err
}

// textOf is what the log says of a receipt.
func (r *Relay) textOf(x transport.Receipt) string {
	return towline.CleanText(describe(x), r.e.Knobs().ErrorMaxBytes)
}

func describe(r transport.Receipt) string {
	switch {
	case r.Err != nil && r.Evidence != "":
		return r.Evidence + ": " + r.Err.Error()
	case r.Err != nil:
		return r.Err.Error()
	}
	return r.Evidence
}

// recordOutcomes notes what is known of every target of a marked wakeup (O-12).
func (r *Relay) recordOutcomes(tx *towline.Tx, w *wakeup, counts *Report) error {
	counts.Dispatched++
	for i, o := range w.messages {
		receipt := w.receipts[i]
		outcome := receipt.Outcome
		if outcome == "" {
			outcome = events.Unknown
		}
		cause := ""
		if outcome != events.Accepted {
			cause = r.textOf(receipt)
		}
		if outcome == events.Unknown {
			counts.Unknown++
		}
		if outcome != events.Accepted {
			counts.Refusal = w.spent(outcome, cause)
		}
		results, err := tx.Execute(decider.RecordOutcome{
			Owner: w.key.Owner, Kind: w.key.Kind, N: w.n, Target: o.target, Outcome: outcome, Cause: cause,
		})
		if err != nil {
			return err
		}
		if len(results[0].Events) == 0 {
			r.e.Count(towline.Tally{LateOutcomes: 1})
			continue
		}
		if outcome == events.Accepted && !o.byRoute() {
			if err := r.endMessage(tx, w, o, receipt); err != nil {
				return err
			}
		}
	}
	return nil
}

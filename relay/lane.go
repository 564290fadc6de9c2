package relay

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/projections"
	"github.com/towline-dev/towline/transport"
)

// lane is one transport, with the kinds that this process publishes through it. Lanes share the store and nothing else:
// each has its own batches, so a broker that hangs holds up no kind that goes another way; and each has its breaker.
//
// One round at a time works in a lane. Its mutex is for the publishes of that round's batch, which report side by side.
type lane struct {
	name    string
	kinds   []events.Kind
	wake    waker // of a Runner
	refusal throttle
	behind  dueScan // where a drain goes on: what could not be claimed is in nobody's way (O-19)
	odd     bool    // whose turn the odd place of a batch is (M-15)

	mu       sync.Mutex
	breaker  breaker
	drain    drain
	changes  []change // of the breaker, that no transaction has noted yet
	receipts int      // so far; it orders them
	worked   int      // number of the newest accepted one
}

// change is one opening or closing of a breaker.
type change struct {
	note  decider.Command
	again bool // it was open already: a probe has failed
}

// newLanes sorts the kinds by the name of their publisher. Those that this process does not publish are in none.
func newLanes(routes Routes) []*lane {
	var lanes []*lane
	for _, k := range events.Kinds {
		p := routes(k)
		if p == nil {
			continue
		}
		i := slices.IndexFunc(lanes, func(l *lane) bool { return l.name == p.Name() })
		if i < 0 {
			i = len(lanes)
			lanes = append(lanes, &lane{name: p.Name(), wake: newWaker()})
		}
		lanes[i].kinds = append(lanes[i].kinds, k)
	}
	return lanes
}

// resume is where the next scan begins: at what is due first, but for a drain that is under way.
func (l *lane) resume() dueScan {
	from := l.behind
	l.behind = dueScan{}
	if _, d := l.standing(); !d.limited() {
		return dueScan{}
	}
	return from
}

// wakeups are those that go through the lane.
func (l *lane) wakeups() projections.Wakeups {
	return projections.Wakeups{Kinds: l.kinds, Suspects: projections.AlsoSuspects}
}

// ready are those of the lane that may go now: a crash suspect is not among them while messages are in memory (M-16).
func (l *lane) ready(v projections.View) (projections.Wakeups, error) {
	w := l.wakeups()
	if !slices.Contains(l.kinds, events.KindMessage) {
		return w, nil
	}
	busy, err := v.InMemory()
	if busy {
		w.Suspects = projections.NoSuspects
	}
	return w, err
}

// standing is a copy of what the lane has learned.
func (l *lane) standing() (breaker, drain) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.breaker, l.drain
}

func (l *lane) isOpen() bool {
	b, _ := l.standing()
	return b.isOpen()
}

// room is how many wakeups may be claimed now, but for a probe.
func (l *lane) room(now events.Micros, k towline.Knobs) int {
	b, d := l.standing()
	if b.isOpen() {
		return 0
	}
	return d.room(now, k.RelayBatch, d.knobs(k))
}

// marks is how many wakeups of a batch may be marked before they are published: no more than the failures that would open
// the breaker. What is marked and cannot be sent is lost, so an outage must not find a whole batch of them (O-12).
func (l *lane) marks(k towline.Knobs) int {
	b, _ := l.standing()
	return max(k.BreakerFailures-b.row, 1)
}

// drained takes note of a scan that asked for so many and found so many: with fewer the backlog is gone.
func (l *lane) drained(now events.Micros, asked, found int, k towline.Knobs) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case !l.drain.limited():
	case found < asked:
		l.drain = drain{}
	default:
		l.drain = l.drain.stepped(now, l.drain.knobs(k))
	}
}

// observe takes in the receipt of a publish. One that is refused for ever, or for want of room in this process, says
// nothing of the transport (O-15, B-8); and a failure that is the message's own is not charged to it as well.
func (l *lane) observe(n noter, w *wakeup, r transport.Receipt) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.receipts++
	switch {
	case r.Outcome == events.Accepted:
		l.worked = l.receipts
		l.move(n, accepted, w, r)
	case w.probe && !w.failed() && !r.Permanent:
		w.failure = l.receipts
		l.move(n, probeFailed, w, r)
	case r.Permanent || r.Uncounted:
	default:
		if !w.failed() {
			w.failure = l.receipts
		}
		if !w.before.Blamed(l.breaker.accepted) {
			l.move(n, failed, w, r)
		}
	}
}

// lookAtBacklog lets a drain see whether it makes its backlog smaller.
func (r *Relay) lookAtBacklog(ctx context.Context, l *lane) error {
	now := r.e.Now()
	if _, d := l.standing(); !d.looks(now) {
		return nil
	}
	return r.e.View(ctx, func(v projections.View) error {
		due, err := v.CountDue(l.wakeups(), now)
		if err == nil {
			l.mu.Lock()
			l.drain = l.drain.looked(now, due, r.e.Knobs())
			l.mu.Unlock()
		}
		return err
	})
}

// noter is what a change of a breaker is noted with.
type noter struct {
	node  events.NodeID
	now   events.Micros
	knobs towline.Knobs
}

func (l *lane) move(n noter, o outcome, w *wakeup, r transport.Receipt) {
	before := l.breaker
	l.breaker = before.next(n.now, o, registerOf(w.key), breakerKnobsOf(n.knobs))
	switch {
	case l.breaker.until == before.until:
	case l.breaker.isOpen():
		l.drain = drain{}
		l.changes = append(l.changes, change{again: before.isOpen(), note: decider.OpenBreaker{
			Node: n.node, Opened: events.BreakerOpened{
				Transport: l.name, Until: l.breaker.until, Kinds: l.kinds, Only: l.breaker.by,
				Cause: towline.CleanText(describe(r), n.knobs.ErrorMaxBytes),
			},
		}})
	default:
		l.drain = drain{next: n.now}
		l.changes = append(l.changes, change{note: decider.CloseBreaker{
			Node: n.node, Closed: events.BreakerClosed{Transport: l.name, Cause: closedByAcceptance},
		}})
	}
}

// registerOf is the name of a register, as it stands in the log.
func registerOf(k projections.Key) string { return events.RegisterStream(k.Owner, k.Kind).String() }

// closedByAcceptance is the one way in which a breaker closes.
const closedByAcceptance = "a message was accepted"

// blame is what the lane knows of the failure of a wakeup, for the rule that charges it (O-16).
func (l *lane) blame(w *wakeup) decider.Failure {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !w.failed() {
		return decider.Failure{}
	}
	return decider.Failure{Transport: l.name, Accepted: l.breaker.accepted, Overtaken: l.worked > w.failure}
}

// takeChanges hands out what is to be noted; giveBack takes it again if that did not commit.
func (l *lane) takeChanges() []change {
	l.mu.Lock()
	defer l.mu.Unlock()
	taken := l.changes
	l.changes = nil
	return taken
}

func (l *lane) giveBack(changes []change) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.changes = append(changes, l.changes...)
}

// announce says a change in the log of the process: that it opened, once, however often a probe fails; and that it closed.
func (c change) announce(logger *slog.Logger) {
	switch note := c.note.(type) {
	case decider.OpenBreaker:
		o := note.Opened
		if c.again {
			logger.Debug("a transport still fails", "transport", o.Transport, "until", o.Until.Time(), "error", o.Cause)
			return
		}
		logger.Warn("a transport fails; its messages wait", "transport", o.Transport, "until", o.Until.Time(), "error", o.Cause)
	case decider.CloseBreaker:
		logger.Info("a transport works again", "transport", note.Closed.Transport)
	}
}

// work claims and publishes what is due in a lane. While its breaker is open that is one wakeup after the other, if any may
// go, until one of them has shown whether the transport works.
func (r *Relay) work(ctx context.Context, l *lane, report *Report) error {
	if held, err := r.holdsBack(ctx); held || err != nil {
		return err
	}
	for ctx.Err() == nil && l.isOpen() {
		if went, err := r.probe(ctx, l, report); err != nil || !went {
			return err
		}
	}
	return r.publishDue(ctx, l, report)
}

// holdsBack reports a restored hold, in which nothing is claimed (DUR-5).
func (r *Relay) holdsBack(ctx context.Context) (held bool, err error) {
	err = r.e.View(ctx, func(v projections.View) error {
		life, err := v.Restored()
		held = life.Held
		return err
	})
	return held, err
}

// probe claims and publishes one due wakeup; false: none could be claimed. One that cannot be is reported, and in nobody's
// way (O-19).
func (r *Relay) probe(ctx context.Context, l *lane, report *Report) (went bool, err error) {
	for cursor := (projections.DueCursor{}); ctx.Err() == nil; {
		var due []projections.DueCursor
		if err := r.e.View(ctx, func(v projections.View) (err error) {
			due, err = r.candidates(v, l, cursor)
			return err
		}); err != nil || len(due) == 0 {
			return went, err
		}
		for _, one := range due {
			elapsed := r.e.Stopwatch()
			taken, err := r.claimAll(ctx, l, []projections.DueCursor{one})
			report.took(taken)
			report.fail("claim", err)
			if errors.Is(err, towline.ErrUnavailable) {
				return false, nil // it is reported
			}
			went = went || taken.moved() > 0
			if len(taken.batch) == 0 {
				continue // it was dropped, or another process was faster
			}
			taken.batch[0].probe = true
			r.publish(ctx, l, taken.batch, elapsed)
			return true, r.settle(ctx, taken.batch, report)
		}
		cursor = due[len(due)-1]
	}
	return went, nil
}

// candidates are a page of the due wakeups of which one may be the probe now: those that may be published again. One that
// is sent only once is spent if the transport still fails, so it goes only where nothing else could tell for long, which is
// when no other comes due within waitForProbe.
func (r *Relay) candidates(v projections.View, l *lane, after projections.DueCursor) ([]projections.DueCursor, error) {
	b, _ := l.standing()
	now, most := r.e.Now(), r.e.Knobs().RelayBatch+1 // one of them may be left out
	if !b.halfOpen(now) && b.by == "" {
		return nil, nil // suspended, whatever is due
	}
	all, err := l.ready(v)
	if err != nil {
		return nil, err
	}
	repeatable := all
	repeatable.Repeatable = true
	due, err := v.DueOf(repeatable, now, after, most)
	if err == nil && len(due) == 0 && b.halfOpen(now) {
		var pending events.Micros
		if pending, err = v.NextDueOf(repeatable); err == nil && (pending == 0 || pending > now.Add(events.SpanOf(waitForProbe))) {
			due, err = v.DueOf(all, now, after, most)
		}
	}
	return slices.DeleteFunc(due, func(d projections.DueCursor) bool { return !b.admits(now, registerOf(d.Key)) }), err
}

// nextDue is when there is something to do in a lane again; 0: nothing is known.
func (r *Relay) nextDue(v projections.View, l *lane) (events.Micros, error) {
	b, d := l.standing()
	if life, err := v.Restored(); err != nil || life.Held {
		return 0, err // the release is followed by a nudge
	}
	w, err := l.ready(v) // what empties the memory is followed by a nudge
	if err != nil {
		return 0, err
	}
	due, err := v.NextDueOf(w)
	if err != nil || !b.isOpen() || due == 0 {
		return later(due, d.next), err
	}
	return r.nextProbe(v, b, w, later(due, b.until))
}

// waitForProbe is for how long a wakeup that is sent only once waits for another one to be the probe. It is longer than a
// backoff; a message that waits for its time may be for next month.
const waitForProbe = 10 * time.Minute

// nextProbe is when the first of some wakeups may be the probe. None may before the time soonest, but for what admits says.
func (r *Relay) nextProbe(v projections.View, b breaker, w projections.Wakeups, soonest events.Micros) (events.Micros, error) {
	now := r.e.Now()
	if !b.halfOpen(now) && b.by == "" {
		return soonest, nil // without a look at the backlog
	}
	const forEver = events.Micros(math.MaxInt64)
	w.Repeatable = true
	pending, err := v.DueOf(w, forEver, projections.DueCursor{}, 2) // of another register than the one that failed is one
	var next events.Micros
	for _, d := range pending {
		at := d.AvailableAt
		if !b.admits(at, registerOf(d.Key)) {
			at = b.until
		}
		next = events.Earliest(next, at)
	}
	if next == 0 || next > max(soonest, now).Add(events.SpanOf(waitForProbe)) {
		next = soonest
	}
	return next, err
}

// later is the later of two times, if there is a first.
func later(due, at events.Micros) events.Micros {
	if due == 0 {
		return 0
	}
	return max(due, at)
}

package towline

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/projections"
	"github.com/towline-dev/towline/schedule"
)

// Ticked is what a look at a schedule has decided.
type Ticked struct {
	Planned  []Planned // runs, of due times that were triggered
	Queued   int
	Skipped  int
	Rejected int
	Missed   int // times that catch-up leaves out; at most 100,000 are counted of one look
	// Next is when the schedule is due next, by the wall clock, and Wait how long that is from now; Next 0: never, or it is paused.
	// It is to be looked at again then, and when Scheduled says so: a due time that waits is triggered when the run before it
	// has ended.
	Next events.Micros
	Wait time.Duration // 0: it is due already
}

// ScheduleNames are the names of the configured schedules, which this process ticks.
func (e *Engine) ScheduleNames() []string { return slices.Clone(e.timers.names) }

// Tick decides what is due of one schedule: each due time once, ever, whoever else ticks, before and behind a crash, and
// when the clock is set back (S-1 to S-8). A due time and its run are one transaction. Where nothing is to be decided
// nothing is written. While the clock is in doubt no schedule mints (CLK-7).
//
// It is for the loop of a process, which calls it for each of ScheduleNames: at the start, when Next has come, when Scheduled
// delivers, and once an interval of the reconciler. A failing schedule is reported and tried again; it holds up no other.
// Errors: ErrNotFound for a schedule that is not defined; that of an expression, zone or template that this release cannot
// read; *DiskBudgetError and ErrUnavailable, behind which the next tick repeats what this one has not decided; ErrStopped. What
// keeps it from deciding is in ScheduleWaits until a look succeeds.
func (e *Engine) Tick(ctx context.Context, name string) (out Ticked, err error) {
	defer func() { e.scheduleWaits.note(name, e.wallTime().Time(), err) }()
	for more, turns := true, 0; more && turns < maxCatchUp; turns++ { // each but the last has decided something
		if more, err = e.tick(ctx, name, &out); err != nil {
			return out, err
		}
	}
	if out.Next != 0 { // a turn may have taken long: a provider has listed
		out.Wait = max(out.Next.Sub(e.wallTime()).Std(), 0)
	}
	return out, nil
}

// look is what a tick has seen before its transaction.
type look struct {
	row      projections.Schedule
	facts    decider.DueFacts
	decision decider.DueDecision
	walk     schedule.Schedule
}

func (e *Engine) tick(ctx context.Context, name string, out *Ticked) (more bool, err error) {
	now := e.wallTime()
	var seen look
	held := false
	err = e.View(ctx, func(v projections.View) (err error) {
		seen, err = e.lookAt(v, name, now, func(run events.RunID) (bool, error) {
			row, found, err := v.Run(run)
			return found && !row.Status.Terminal(), err
		})
		if err == nil {
			held, err = e.mintsNothing(v)
		}
		return err
	})
	if err != nil {
		return false, err
	}
	out.Next = seen.next(now)
	if held || seen.decision.Nothing() {
		return false, nil
	}
	var p planning
	if seen.decision.Trigger != (decider.DueTime{}) {
		if p, err = e.planFor(ctx, seen.row); err != nil {
			return false, err
		}
	}
	var decided Ticked
	err = e.Transact(ctx, "", func(tx *Tx) (err error) {
		decided, more, err = tx.tick(seen, p)
		return err
	})
	if err != nil {
		return false, err
	}
	out.add(decided)
	return more, nil
}

// mintsNothing: the clock is in doubt (CLK-7), or the store is in a restored hold (DUR-5).
func (e *Engine) mintsNothing(v projections.View) (bool, error) {
	r, err := v.Restored()
	if err != nil || r.Held {
		return r.Held, err
	}
	return e.clockHeld(v)
}

func (t *Ticked) add(d Ticked) {
	if d.Next != 0 {
		t.Next = d.Next
	}
	t.Planned = append(t.Planned, d.Planned...)
	t.Queued += d.Queued
	t.Skipped += d.Skipped
	t.Rejected += d.Rejected
	t.Missed += d.Missed
}

func (e *Engine) lookAt(v projections.View, name string, now events.Micros, open func(events.RunID) (bool, error)) (l look, err error) {
	var found bool
	if l.row, found, err = v.Schedule(name); err != nil {
		return l, err
	}
	if !found || l.row.Removed {
		return l, e.noSchedule(name)
	}
	if l.facts, l.walk, err = e.dueFacts(v, l.row, now, open); err != nil {
		return l, fmt.Errorf("schedule %q: %w", name, err)
	}
	l.decision = decider.DecideDue(l.facts)
	return l, nil
}

// next is when it is due next.
func (l look) next(now events.Micros) events.Micros {
	if l.row.Paused {
		return 0
	}
	d, ok := l.walk.Next(schedule.Cursor{Instant: now.Time()})
	if !ok {
		return 0
	}
	return events.MicrosOf(d.Instant)
}

// planning is the request of a due time, with what was listed for it; or why it is refused.
type planning struct {
	made    bool // false: nothing was due to run when it was looked at
	req     request
	listed  listing
	refused error
}

// planFor does of a plan what must not be done in a transaction (L-10).
func (e *Engine) planFor(ctx context.Context, row projections.Schedule) (p planning, err error) {
	p.made = true
	t, err := readTemplate(row)
	if err != nil {
		return p, err
	}
	if _, ok := e.syncs.syncs[t.Sync]; !ok { // another process has defined it so
		return p, fmt.Errorf("schedule %q: sync %q is not configured here: it is left to processes that have it", row.Name, t.Sync)
	}
	p.req, err = e.request(t.spec())
	if err == nil {
		p.req, err = e.withoutPaused(ctx, p.req)
	}
	if err == nil {
		p.listed, err = e.list(ctx, p.req)
	}
	return p.refuse(err)
}

// refuse keeps a rejection, and hands a fault on.
func (p planning) refuse(err error) (planning, error) {
	if _, rejected := rejection(err); rejected {
		p.refused = err
		return p, nil
	}
	return p, err
}

// Categories of a plan that is refused (spec 19).
const (
	planTooLarge   events.Category = "plan_too_large"
	invalidRequest events.Category = "invalid_request"
	sourceIsPaused events.Category = "source_paused"
	runExists      events.Category = "run_exists"
)

// rejection tells what a planner refuses from a fault, which is no answer (S-8).
func rejection(err error) (events.Category, bool) {
	var large *PlanTooLargeError
	var exists *RunExistsError
	var request *RequestError
	switch {
	case errors.As(err, &large):
		return planTooLarge, true
	case errors.As(err, &exists):
		return runExists, true
	case errors.Is(err, ErrSourcePaused):
		return sourceIsPaused, true
	case errors.As(err, &request):
		return invalidRequest, true
	}
	return "", false
}

// tick decides again, by what the transaction sees: somebody else may have come first, or time may have passed. The plan is
// that of the template, whichever due time it is for. If that has changed, or a time is due now and none was before, it
// decides nothing, and the next turn looks anew. more: what is left may be decided at once.
func (t *Tx) tick(seen look, p planning) (out Ticked, more bool, err error) {
	if t.ClockHeld() || t.Held() {
		return out, false, nil
	}
	at := t.worldTime()
	now, err := t.e.lookAt(t.View(), seen.row.Name, at, func(run events.RunID) (bool, error) {
		r, err := t.Run(run)
		return r.Open(), err
	})
	if err != nil {
		return out, false, err
	}
	d := now.decision
	out.Next = now.next(at)
	if now.row.Version != seen.row.Version || d.Trigger != (decider.DueTime{}) && !p.made {
		return out, !d.Nothing(), nil
	}
	if err := t.record(now.row.Name, d, &out); err != nil || d.Trigger == (decider.DueTime{}) {
		return out, false, err
	}
	if err := t.trigger(now.row.Name, d.Trigger, p, &out); err != nil {
		return out, false, err
	}
	return out, out.Rejected > 0 && len(now.facts.Queued)+len(d.Queue) > 0, nil
}

// record writes what becomes of the due times that do not run now.
func (t *Tx) record(name string, d decider.DueDecision, out *Ticked) error {
	var cmds []decider.Command
	if d.Missed.Count > 0 {
		cmds = append(cmds, decider.MissOccurrences{Schedule: name, Missed: d.Missed})
	}
	for _, s := range d.Skip {
		cmds = append(cmds, decider.SkipOccurrence{Schedule: name, Civil: s.Civil, Instant: s.Instant, Reason: s.Reason})
	}
	for _, q := range d.Queue {
		cmds = append(cmds, decider.QueueOccurrence{Schedule: name, Civil: q.Civil, Instant: q.Instant})
	}
	out.Missed, out.Skipped, out.Queued = d.Missed.Count, len(d.Skip), len(d.Queue)
	if len(cmds) == 0 {
		return nil
	}
	_, err := t.Execute(cmds...)
	return err
}

// trigger plans the run of a due time, in the transaction in which that is recorded (S-2). What the planner refuses is
// recorded as that, and final (S-8).
func (t *Tx) trigger(name string, at decider.DueTime, p planning, out *Ticked) error {
	var units []events.UnitPlanned
	planned := Planned{}
	err := p.refused
	if err == nil {
		_, _, err = t.admit(p.req)
	}
	if err == nil {
		units, planned.LeftOut, err = t.unitsOf(p.req, p.listed)
	}
	if category, rejected := rejection(err); rejected {
		out.Rejected++
		_, err := t.Execute(decider.RejectOccurrence{
			Schedule: name, Civil: at.Civil, Instant: at.Instant, Category: category, Text: CleanText(err.Error(), t.e.Knobs().ErrorMaxBytes),
		})
		return err
	}
	if err != nil {
		return err
	}
	planned.Job, planned.Run = events.JobID(t.e.mem.newULID(t.now)), events.RunID(t.e.mem.newULID(t.now))
	planned.Units = len(units)
	_, err = t.Execute(decider.TriggerOccurrence{
		Schedule: name, Civil: at.Civil, Instant: at.Instant, Job: planned.Job, Run: planned.Run,
	})
	if err != nil {
		return err
	}
	p.req.occurrence = events.OccurrenceName(name, at.Civil)
	planned, err = t.acceptAs(planned, p.req, units)
	out.Planned = append(out.Planned, planned)
	return err
}

package towline

import (
	"context"
	"fmt"

	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/projections"
	"github.com/towline-dev/towline/schedule"
)

// ScheduleState is a schedule and when it is due next.
type ScheduleState struct {
	projections.Schedule
	// Next are its next due times, with remarks where a clock is changed (S-3), also while it is paused. Error is why there
	// are none: this release cannot read its expression or its zone.
	Next  []schedule.Fire `json:"next,omitempty"`
	Error string          `json:"error,omitempty"`
	Wait  *ScheduleWait   `json:"wait,omitempty"` // nil: the newest look of this process has decided what was due
}

// Schedules lists the schedules that are defined, by name, with their next due times: so many of each. What became of due
// times is in View: Occurrences, QueuedOccurrences, Missed.
func (e *Engine) Schedules(ctx context.Context, next int) (out []ScheduleState, err error) {
	err = e.View(ctx, func(v projections.View) error {
		rows, err := v.Schedules()
		if err != nil {
			return err
		}
		out = nil
		for _, row := range rows {
			out = append(out, e.stateOf(row, next))
		}
		return nil
	})
	return out, err
}

// Schedule is one of Schedules. Errors: *RequestError (ErrNotFound).
func (e *Engine) Schedule(ctx context.Context, name string, next int) (ScheduleState, error) {
	row, err := e.scheduleRow(ctx, name)
	if err != nil {
		return ScheduleState{}, err
	}
	return e.stateOf(row, next), nil
}

func (e *Engine) stateOf(row projections.Schedule, next int) ScheduleState {
	state := ScheduleState{Schedule: row}
	for _, w := range e.ScheduleWaits() {
		if w.Schedule == row.Name {
			state.Wait = &w
		}
	}
	s, err := parseSchedule(row)
	if err != nil {
		state.Error = err.Error()
		return state
	}
	state.Next = s.Preview(schedule.Cursor{Instant: e.wallTime().Time()}, next)
	return state
}

func (e *Engine) scheduleRow(ctx context.Context, name string) (row projections.Schedule, err error) {
	err = e.View(ctx, func(v projections.View) error {
		var found bool
		row, found, err = v.Schedule(name)
		if err == nil && (!found || row.Removed) {
			err = e.noSchedule(name)
		}
		return err
	})
	return row, err
}

func (e *Engine) noSchedule(name string) error {
	return &RequestError{Field: "schedule", Problem: fmt.Sprintf("there is no schedule %q", name), Fix: oneOf(e.timers.names), Kind: ErrNotFound}
}

// PauseSchedule stops a schedule until ResumeSchedule: it mints nothing, and what waits in it is skipped (S-7). Runs that were
// accepted go on. It outlives a restart. A pause of what is paused writes nothing, and the first reason stays on record.
// by needs a name and a reason. Errors: *RequestError (ErrNotFound, ErrInvalid), ErrUnavailable, ErrStopped.
func (e *Engine) PauseSchedule(ctx context.Context, name string, by Actor) error {
	by, err := e.operatorWithReason(by)
	if err != nil {
		return err
	}
	if _, err := e.scheduleRow(ctx, name); err != nil {
		return err
	}
	return e.Transact(ctx, by.Name, func(tx *Tx) error {
		return tx.changeSchedule(name, decider.PauseSchedule{Schedule: name, Actor: by.Name, Reason: by.Reason}, events.SkippedPaused)
	})
}

// ResumeSchedule ends a pause. What was due during it is missed, and not caught up: one event says from when to when, and how
// many (at most 100,000 are counted). A resume of what is not paused writes nothing. Errors as PauseSchedule; also that of an
// expression or zone that this release cannot read.
func (e *Engine) ResumeSchedule(ctx context.Context, name string, by Actor) error {
	by, err := e.operatorWithReason(by)
	if err != nil {
		return err
	}
	return e.Transact(ctx, by.Name, func(tx *Tx) error {
		row, found, err := tx.View().Schedule(name)
		switch {
		case err != nil:
			return err
		case !found || row.Removed:
			return e.noSchedule(name)
		case !row.Paused:
			return nil
		}
		missed, err := tx.missedInPause(row)
		if err != nil {
			return err
		}
		_, err = tx.Execute(decider.ResumeSchedule{Schedule: name, Actor: by.Name, Reason: by.Reason, Missed: missed})
		return err
	})
}

// missedInPause sums up what was due up to now and is not decided. While the clock is in doubt it is nothing: nobody knows
// what now is, and catch-up decides when that is known.
func (t *Tx) missedInPause(row projections.Schedule) (events.OccurrencesMissed, error) {
	if t.ClockHeld() {
		return events.OccurrencesMissed{}, nil
	}
	s, err := parseSchedule(row)
	if err != nil {
		return events.OccurrencesMissed{}, fmt.Errorf("schedule %q: %w", row.Name, err)
	}
	now := t.worldTime()
	from, err := undecided(t.View(), row, now, t.e.timers.watching.from(now))
	if err != nil {
		return events.OccurrencesMissed{}, err
	}
	found := dueOf(s, from, now, 1)
	if found.count == 0 {
		return events.OccurrencesMissed{}, nil
	}
	last := found.newest[len(found.newest)-1]
	return events.OccurrencesMissed{
		FromCivil: found.first.Civil, ToCivil: last.Civil, Count: found.count, FromInstant: found.first.Instant, ToInstant: last.Instant,
		Reason: events.MissedPaused,
	}, nil
}

// RunSchedule plans a run now, with the template of a schedule, also of one that is paused (S-10). It is a manual trigger:
// it mints no occurrence, moves no due time, and the overlap policy does not know of it. key is an idempotency key, or empty.
// Errors: *RequestError (ErrNotFound); those of Plan.
func (e *Engine) RunSchedule(ctx context.Context, name, key string, by Actor) (Planned, error) {
	row, err := e.scheduleRow(ctx, name)
	if err != nil {
		return Planned{}, err
	}
	t, err := readTemplate(row)
	if err != nil {
		return Planned{}, err
	}
	spec := t.spec()
	spec.Key, spec.By = key, by
	return e.Plan(ctx, spec)
}

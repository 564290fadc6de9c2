package towline

import (
	"context"
	"fmt"
	"slices"

	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/projections"
)

// SourcePaused is the reason of a source that a plan leaves out because it is paused.
const SourcePaused = "source_paused"

// PauseEngine stops the dispatch of units, in every run, until ResumeEngine. Everything else goes on: triggers are
// accepted, units that were dispatched before are published and may be claimed, running ones settle, runs end. It outlives
// a restart. A pause of what is paused writes nothing, and the first reason stays on record. by needs a name and a reason.
// Errors: *RequestError (ErrInvalid), ErrUnavailable, ErrStopped.
func (e *Engine) PauseEngine(ctx context.Context, by Actor) error {
	by, err := e.operatorWithReason(by)
	if err != nil {
		return err
	}
	return e.pause(ctx, by, decider.PauseEngine{Actor: by.Name, Reason: by.Reason})
}

// ResumeEngine ends a pause of the engine, and wakes the dispatch of every run with units that waited for it. A
// resume of what is not paused writes nothing. Errors as PauseEngine.
func (e *Engine) ResumeEngine(ctx context.Context, by Actor) error {
	by, err := e.operatorWithReason(by)
	if err != nil {
		return err
	}
	return e.resume(ctx, by, decider.ResumeEngine{Actor: by.Name, Reason: by.Reason}, func(projections.Lane) bool { return true })
}

// PauseSource stops the dispatch of the units of one source, in every run, until ResumeSource. Its dispatched units
// may still be claimed, its running ones finish, other sources go on. New plans that do not name sources leave it out. The
// rest is as of PauseEngine. Errors: *RequestError (ErrNotFound for a source of no sync, ErrInvalid), ErrUnavailable,
// ErrStopped.
func (e *Engine) PauseSource(ctx context.Context, source string, by Actor) error {
	by, err := e.operatorWithReason(by)
	if err != nil {
		return err
	}
	if !e.syncs.hasSource(source) {
		return e.noSource(source)
	}
	return e.pause(ctx, by, decider.PauseSource{Source: source, Actor: by.Name, Reason: by.Reason})
}

// ResumeSource ends a pause of a source, and wakes the dispatch of every run with units of it that waited. A source
// that is paused and configured no longer can be resumed, too. Errors as PauseSource.
func (e *Engine) ResumeSource(ctx context.Context, source string, by Actor) error {
	by, err := e.operatorWithReason(by)
	if err != nil {
		return err
	}
	if !e.syncs.hasSource(source) {
		paused, err := e.isPaused(ctx, source)
		if err != nil {
			return err
		}
		if !paused {
			return e.noSource(source)
		}
	}
	return e.resume(ctx, by, decider.ResumeSource{Source: source, Actor: by.Name, Reason: by.Reason},
		func(l projections.Lane) bool { return l.Source == source })
}

func (e *Engine) noSource(source string) error {
	return &RequestError{Field: "source", Problem: fmt.Sprintf("no sync has a source %q", source), Fix: oneOf(e.syncs.sources()), Kind: ErrNotFound}
}

func (e *Engine) isPaused(ctx context.Context, source string) (paused bool, err error) {
	err = e.View(ctx, func(v projections.View) error {
		list, err := v.Paused()
		paused = source != "" && slices.ContainsFunc(list, func(p projections.Pause) bool { return p.Source == source })
		return err
	})
	return paused, err
}

// pause executes the command of an operator.
func (e *Engine) pause(ctx context.Context, by Actor, c decider.Command) error {
	return e.Transact(ctx, by.Name, func(tx *Tx) error {
		_, err := tx.Execute(c)
		return err
	})
}

// wakesPerTransaction bounds how many runs one transaction looks at, and so how many wakeups it arms.
const wakesPerTransaction = 500

// resume ends a hold and wakes the runs whose units in the given lanes waited for it. The first of them are woken in the
// transaction that ends the hold, the others page by page behind it. What is not woken, because the store goes away or
// the process ends, the materialization finds (REC-7); so the pages outlive ctx and do not fail.
func (e *Engine) resume(ctx context.Context, by Actor, c decider.Command, of func(projections.Lane) bool) error {
	var last events.RunID
	more := false
	err := e.Transact(ctx, by.Name, func(tx *Tx) error {
		more = false
		results, err := tx.Execute(c)
		if err != nil || len(results[0].Events) == 0 {
			return err
		}
		last, more, err = tx.wake(events.RunID{}, of)
		return err
	})
	if err != nil {
		return err
	}
	if more {
		if err := e.wakeBehind(context.WithoutCancel(ctx), last, by.Name, of); err != nil {
			e.logger.Warn("resumed, and some runs are left to the reconciler to wake", "error", err)
		}
	}
	return nil
}

// wakeBehind wakes page by page.
func (e *Engine) wakeBehind(ctx context.Context, after events.RunID, actor string, of func(projections.Lane) bool) error {
	for more := true; more; {
		last := after
		err := e.Transact(ctx, actor, func(tx *Tx) (err error) {
			last, more, err = tx.wake(after, of)
			return err
		})
		if err != nil {
			return err
		}
		after = last
	}
	return nil
}

// wake arms the dispatch of open runs behind a run of which a unit in the given lanes waits and is not held (cause
// resumed): now, or at the time for which all of them wait.
func (t *Tx) wake(after events.RunID, of func(projections.Lane) bool) (last events.RunID, more bool, err error) {
	found, last, more := t.hot.Resumable(after, wakesPerTransaction, t.now, of)
	for _, r := range found {
		_, err := t.Execute(decider.ArmWakeup{
			Owner: r.Run, Kind: events.KindDispatch, Mode: t.Mode(r.Run), At: r.At, Cause: events.ArmResumed,
		})
		if err != nil {
			return last, false, err
		}
	}
	return last, more, nil
}

// enginePaused: nothing is dispatched.
func (t *Tx) enginePaused() bool {
	_, paused := t.hot.Pause("")
	return paused
}

// Holds is what is held at the moment of a snapshot, for the scans of the reconciler (REC-7).
func (e *Engine) Holds(v projections.View) (projections.Holds, error) {
	return v.Holds(e.Now(), e.syncs.missing)
}

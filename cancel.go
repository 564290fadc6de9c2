package towline

import (
	"context"

	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/events"
)

// CancelRun ends a run at once: its open units and the run itself are cancelled and its job closed in one transaction,
// also while units run. The slots that it held go to other runs in the same transaction (B-6). If a unit had
// succeeded and the sync has a target, its post_sync follows, once. by needs a name and a reason.
//
// Nobody waits for a worker. One of this process is told at once, any other at its next renewal, after a third of the
// lease at most; what it offers then is refused and on record as late (U-19). What its sink has committed before stays
// there: a cancel takes nothing back.
//
// Cancelling a cancelled run does nothing. Errors, each of which has written nothing: *RequestError, which is ErrInvalid,
// ErrNotFound, or ErrConflict for a run that ended otherwise; ErrUnavailable.
func (e *Engine) CancelRun(ctx context.Context, run events.RunID, by Actor) error {
	by, err := e.operatorWithReason(by)
	if err != nil {
		return err
	}
	return e.Transact(ctx, by.Name, func(tx *Tx) error { return tx.cancelRun(run, by) })
}

func (t *Tx) cancelRun(id events.RunID, by Actor) error {
	run, err := t.Run(id)
	if err != nil {
		return err
	}
	if !run.Exists() {
		return unknown("run", id)
	}
	open := t.hot.OpenUnitIDs(id)
	units := make([]decider.Command, len(open))
	for i, u := range open {
		units[i] = decider.CancelUnit{Unit: u, RunOpen: true, Reason: events.CancelledWithRun}
	}
	if _, err := t.Execute(units...); err != nil {
		return err
	}
	// The counts are those behind the units' end: no run ends over an open unit.
	return t.act("run", decider.CancelRun{Run: id, Counts: t.hot.Counts(id), Actor: by.Name, Reason: by.Reason}, "")
}

// CancelUnit ends one unit at once, in whatever open state it is; the others of its run go on (X-2, U-15). What waits for
// a cancelled reference unit is cancelled with it, its slot goes to the next unit, and the end of the last open unit of the
// run wakes the finalizer. by needs a name and a reason. What CancelRun says of workers and of their sinks holds here too.
//
// Cancelling a cancelled unit does nothing. Errors, each of which has written nothing: *RequestError, which is ErrInvalid,
// ErrNotFound, or ErrConflict for a unit that ended otherwise; ErrUnavailable.
func (e *Engine) CancelUnit(ctx context.Context, unit events.UnitID, by Actor) error {
	by, err := e.operatorWithReason(by)
	if err != nil {
		return err
	}
	return e.Transact(ctx, by.Name, func(tx *Tx) error {
		_, run, err := tx.unitAndRun(unit)
		if err != nil {
			return err
		}
		return tx.act("unit", decider.CancelUnit{
			Unit: unit, RunOpen: run.Open(), Reason: events.CancelledAlone, Text: by.Reason,
		}, "")
	})
}

// ReleaseUnit takes a running unit from its worker, because the caller states that the worker is gone: the unit is
// tried again if the run's policy allows it, else it fails as worker_lost, as if its lease had expired (U-11, U-12). by
// needs a name and a reason.
//
// A worker that lives after all is told like that of a cancelled unit; its result is refused (U-19), and a fenced sink
// keeps its writes behind those of the next attempt. Errors, each of which has written nothing: *RequestError, which is
// ErrInvalid, ErrNotFound, or ErrConflict for a unit that is not running; ErrUnavailable.
func (e *Engine) ReleaseUnit(ctx context.Context, unit events.UnitID, by Actor) error {
	by, err := e.operatorWithReason(by)
	if err != nil {
		return err
	}
	return e.Transact(ctx, by.Name, func(tx *Tx) error {
		_, run, err := tx.unitAndRun(unit)
		if err != nil {
			return err
		}
		return tx.act("unit", decider.ReleaseUnit{
			Unit: unit, At: tx.now, RunOpen: run.Open(), Policies: run.Plan.Policy.Retry, Reason: by.Reason,
		}, "only a running unit has a worker")
	})
}

// unitAndRun are a unit that exists, and its run.
func (t *Tx) unitAndRun(id events.UnitID) (decider.Unit, decider.Run, error) {
	u, err := t.Unit(id)
	if err != nil {
		return u, decider.Run{}, err
	}
	if !u.Exists() {
		return u, decider.Run{}, unknown("unit", id)
	}
	run, err := t.Run(u.Plan.Run)
	return u, run, err
}

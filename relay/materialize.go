package relay

import (
	"context"
	"errors"
	"fmt"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/projections"
)

// materialize compares what is owed with the registers, and arms what nobody would wake (spec 11, step 2). It is the
// last net: in a run without losses it finds nothing.
func (r *Relay) materialize(ctx context.Context, report *Report) error {
	var errs []error
	for _, scan := range []struct {
		kind   events.Kind
		cursor *events.RunID
	}{
		{events.KindDispatch, &r.cursors.dispatch},
		{events.KindFinalize, &r.cursors.finalize},
		{events.KindPostSync, &r.cursors.post},
	} {
		b := budget{repairs: r.e.Knobs().RepairLimit, rows: r.e.Knobs().ScanLimit}
		if err := r.materializeKind(ctx, scan.kind, scan.cursor, &b, report); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", scan.kind, err))
		}
	}
	if err := r.materializeMessages(ctx, report); err != nil {
		errs = append(errs, fmt.Errorf("%s: %w", events.KindMessage, err))
	}
	return errors.Join(errs...)
}

// budget bounds a scan twice: rows read and decisions made (REC-4).
type budget struct {
	repairs, rows int
}

func (b *budget) spent() bool { return b.repairs <= 0 || b.rows <= 0 }

func (r *Relay) materializeKind(ctx context.Context, k events.Kind, cursor *events.RunID, b *budget, report *Report) error {
	var errs []error
	for {
		owing, last, more, err := r.scanPage(ctx, k, *cursor, b)
		if err != nil {
			return errors.Join(append(errs, err)...)
		}
		if len(owing) > 0 {
			name := func(id events.RunID) string { return "run " + id.String() }
			err := towline.Apart(ctx, owing, name, func(runs []events.RunID) error {
				n, err := r.arm(ctx, k, runs)
				report.Materialized[k] += n
				return err
			})
			if errors.Is(err, towline.ErrUnavailable) || ctx.Err() != nil {
				return errors.Join(append(errs, err)...) // the cursor stays: the next pass finds what is left of the page
			}
			errs = append(errs, err)
		}
		*cursor = last
		if !more {
			*cursor = events.RunID{} // the next pass begins anew
			return errors.Join(errs...)
		}
		if b.spent() {
			report.ScanTruncated = true
			return errors.Join(errs...)
		}
	}
}

// scanPage reads runs behind the cursor until it has found a page of owing ones, or the budget is spent. last is where
// the next page begins; more is false at the end of the scan.
func (r *Relay) scanPage(ctx context.Context, k events.Kind, after events.RunID, b *budget) (owing []events.RunID, last events.RunID, more bool, err error) {
	err = r.e.View(ctx, func(v projections.View) error {
		owing, last, more = nil, after, true
		holds, err := r.holds(v, k)
		if err != nil {
			return err
		}
		if holds.Everything() {
			more = false // the engine is paused: no run owes a dispatch, however many there are
			return nil
		}
		for !b.spent() && len(owing) < armsPerTransaction {
			found, err := r.unwoken(v, k, last)
			if err != nil {
				return err
			}
			if len(found) == 0 {
				more = false
				return nil
			}
			for _, u := range found {
				owes, rows, err := r.owes(v, k, u, holds)
				if err != nil {
					return err
				}
				b.rows -= 1 + rows
				last = u.Run
				if owes {
					b.repairs--
					owing = append(owing, u.Run)
				}
				if b.spent() || len(owing) == armsPerTransaction {
					return nil
				}
			}
		}
		return nil
	})
	return owing, last, more, err
}

// holds is what keeps units from being dispatched: it is a matter of no other kind.
func (r *Relay) holds(v projections.View, k events.Kind) (projections.Holds, error) {
	if k != events.KindDispatch {
		return projections.Holds{}, nil
	}
	return r.e.Holds(v)
}

// armsPerTransaction bounds how many registers one transaction arms.
const armsPerTransaction = 100

func (r *Relay) unwoken(v projections.View, k events.Kind, after events.RunID) ([]projections.Unwoken, error) {
	page, now := r.e.Knobs().Page, r.e.Now()
	if k == events.KindPostSync {
		return v.UnwokenPosts(r.redrive(now), after, page)
	}
	return v.Unwoken(k, now, r.redrive(now), after, page)
}

func (r *Relay) owes(v projections.View, k events.Kind, u projections.Unwoken, holds projections.Holds) (owes bool, rows int, err error) {
	if k == events.KindPostSync {
		return true, 0, nil // the scan's predicate is the whole of it
	}
	o, rows, err := v.Owing(u.Run, r.e.Now(), events.SpanOf(r.e.Knobs().Stale), holds)
	return o.Owes(k) && (o.UnitLost || !u.IfLost), rows, err
}

// arm decides again, in the transaction that arms, whether the run still owes what the scan has found.
func (r *Relay) arm(ctx context.Context, k events.Kind, runs []events.RunID) (armed int, err error) {
	err = r.e.Transact(ctx, "", func(tx *towline.Tx) error {
		armed = 0
		for _, id := range runs {
			run, err := tx.Run(id)
			if err != nil {
				return err
			}
			reg, err := tx.Register(id, k)
			if err != nil {
				return err
			}
			owing, d := tx.Owing(run, 0), r.redrive(tx.Now())
			d.Mode = run.Plan.Policy.PostSync
			d.CloserGone, d.UnitLost, d.Room = tx.Gone(reg.ClosedBy), owing.UnitLost, tx.HasRoom(id)
			if !owing.Owes(k) || !d.Materialize(k, reg) {
				continue
			}
			results, err := tx.Execute(decider.ArmWakeup{
				Owner: id, Kind: k, Mode: run.Plan.Policy.PostSync, At: tx.Now(), Cause: events.ArmMaterialized,
			})
			if err != nil {
				return err
			}
			if len(results[0].Events) > 0 {
				armed++
			}
		}
		return nil
	})
	if err != nil {
		return 0, err // nothing of it is kept
	}
	return armed, nil
}

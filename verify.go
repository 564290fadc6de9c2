package towline

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/towline-dev/towline/check"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/projections"
	"github.com/towline-dev/towline/store"
)

// Verification is the result of Verify. It is good if both lists are empty.
type Verification struct {
	Position    events.Position // the log was folded up to here
	Violations  []check.Violation
	Differences []string // between the views and the folds of the log, one sentence each
}

// OK reports that nothing was found.
func (v Verification) OK() bool { return len(v.Violations) == 0 && len(v.Differences) == 0 }

// Verify proves the views and the log (I-26): it folds the whole log twice, once by the projections into scratch, which
// must be an empty store, and once by package check, which shares no code with the rules. It compares the tables with
// both, and what the engine keeps in memory with the tables. Its cost grows with the log; it writes nothing to it. After
// an error what was found until then is in the Verification.
func (e *Engine) Verify(ctx context.Context, scratch store.Store) (Verification, error) {
	var v Verification
	var live projections.Rows
	err := e.store.Read(ctx, func(r store.Reader) (err error) {
		if v.Position, _, err = r.Head(); err == nil {
			live, err = projections.HashRows(r)
		}
		return err
	})
	if err != nil {
		return v, fmt.Errorf("read the views: %w", err)
	}
	checker := check.New(check.Options{Settings: e.checkSettings()})
	err = e.foldInto(ctx, scratch, v.Position, checker)
	v.Violations = checker.Finish()
	if err != nil {
		return v, err
	}
	err = scratch.Read(ctx, func(r store.Reader) error {
		folded, err := projections.HashRows(r)
		if err != nil {
			return err
		}
		for _, d := range live.Compare(folded) {
			want, err := d.RowAt(r)
			if err != nil {
				return err
			}
			v.Differences = append(v.Differences, fmt.Sprintf("table %s has %d rows, the log says %d; row %d should be: %s",
				d.Table.Name, d.Rows, d.Want, d.Row, want))
		}
		differences, err := compareFolds(projections.NewView(r), checker)
		v.Differences = append(v.Differences, differences...)
		return err
	})
	if err != nil {
		return v, fmt.Errorf("compare with the fold: %w", err)
	}
	hot, err := e.verifyHot(ctx)
	v.Differences = append(v.Differences, hot...)
	return v, err
}

// Rebuild makes every view anew from the log, in one transaction; until it commits the old ones serve (L-8). It publishes
// nothing and calls no provider. Its cost grows with the log, and nothing else is written meanwhile.
func (e *Engine) Rebuild(ctx context.Context) error {
	err := e.store.Write(ctx, func(tx store.Tx) error { return projections.Rebuild(tx) })
	if err != nil {
		return fmt.Errorf("rebuild the views: %w", err)
	}
	return nil
}

func (e *Engine) checkSettings() check.Settings {
	return check.Settings{
		CapBucket: e.knobs.CapBucket, CapBuckets: e.knobs.CapBuckets, CapEngine: e.knobs.CapEngine,
		Stale: events.SpanOf(e.knobs.Stale), NeverStartedAfter: events.SpanOf(e.knobs.NeverStartedAfter),
		MaxAttempts: e.knobs.MaxAttempts, BackoffBase: events.SpanOf(e.knobs.BackoffBase), BackoffCap: events.SpanOf(e.knobs.BackoffCap),
		IdempotencyTTL: events.SpanOf(e.knobs.IdempotencyTTL), MaxUnits: e.knobs.MaxUnits,
	}
}

// verifyPage is how many events are folded in one write of the scratch store.
const verifyPage = 1000

func (e *Engine) foldInto(ctx context.Context, scratch store.Store, upTo events.Position, checker *check.Checker) error {
	tables, err := projections.NewScratch(ctx, scratch, func(id events.StreamID) (history []events.Envelope, err error) {
		err = e.store.Read(ctx, func(r store.Reader) error {
			history, err = r.Stream(id)
			return err
		})
		return history, err
	})
	if err != nil {
		return err
	}
	var page []events.Envelope
	var refused error // by a table, whose constraints state the invariants again; the checker says which event is wrong
	flush := func() {
		if refused == nil {
			refused = tables.Apply(ctx, page)
		}
		page = page[:0]
	}
	enough := errors.New("enough")
	err = e.Log(ctx, 0, func(env events.Envelope) error {
		if env.Position > upTo {
			return enough
		}
		checker.Apply(env)
		if page = append(page, env); len(page) == verifyPage {
			flush()
		}
		return nil
	})
	if err != nil && !errors.Is(err, enough) {
		return fmt.Errorf("fold the log: %w", err)
	}
	if flush(); refused != nil {
		return fmt.Errorf("fold the log into tables: %w", refused)
	}
	return nil
}

// compareFolds holds the rows of open things, and the counts of ended ones, against the fold of check.
func compareFolds(v projections.View, c *check.Checker) ([]string, error) {
	var out []string
	differ := func(what string, row, fold any) {
		if row != fold {
			out = append(out, fmt.Sprintf("%s: the view has %v, the checker's fold %v", what, row, fold))
		}
	}
	for _, want := range c.Runs() {
		run, ok, err := v.Run(want.ID)
		if err != nil {
			return out, err
		}
		name := "run " + want.ID.String()
		differ(name+" exists", ok, true)
		n := want.Units
		differ(name+" counts", [4]int{run.Total, run.Succeeded, run.Failed, run.Cancelled}, [4]int{want.Total, n.Succeeded, n.Failed, n.Cancelled})
		if want.Status.Terminal() {
			differ(name+" status", run.Status, want.Status)
			continue
		}
		if err := compareUnits(v, want.ID, c.Units(want.ID), differ); err != nil {
			return out, err
		}
	}
	err := compareRegisters(v, c, differ)
	return out, err
}

func compareUnits(v projections.View, run events.RunID, want []check.Unit, differ func(string, any, any)) error {
	for _, w := range want {
		u, _, err := v.Unit(w.ID)
		if err != nil {
			return err
		}
		name := "unit " + w.ID.String()
		differ(name+" run", u.Run, run)
		differ(name+" status", u.Status, w.Status)
		differ(name+" dispatch and attempt", [2]int{u.Dispatch, u.Attempt}, [2]int{w.Dispatches, w.Attempt})
		differ(name+" lease", events.MicrosOf(u.LeaseExpiresAt), w.LeaseExpiresAt)
		differ(name+" available_at", events.MicrosOf(u.AvailableAt), w.AvailableAt)
	}
	return nil
}

func compareRegisters(v projections.View, c *check.Checker, differ func(string, any, any)) error {
	for _, w := range c.Registers() {
		if w.Kind == events.KindMessage {
			continue
		}
		rows, err := v.RegistersOf(w.Owner)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(rows, func(r projections.Register) bool { return r.Kind == w.Kind })
		name := "register " + events.RunID(w.Owner).String() + "/" + string(w.Kind)
		differ(name+" exists", i >= 0, true)
		if i < 0 {
			continue
		}
		r := rows[i]
		differ(name+" state", string(r.Status), string(w.State))
		differ(name+" numbers", [3]int{r.Current, r.Closed, r.Next}, [3]int{w.Current, w.Closed, w.Next})
		differ(name+" attempts", r.Attempts, w.Attempts)
		differ(name+" available_at", events.MicrosOf(r.AvailableAt), w.AvailableAt)
	}
	return nil
}

// verifyHot compares what the writer keeps in memory with the tables.
func (e *Engine) verifyHot(ctx context.Context) ([]string, error) {
	var out []string
	err := e.Transact(ctx, "", func(tx *Tx) error {
		out = nil
		loaded, err := projections.LoadHot(tx.tx, e.mem.knobs)
		if err != nil {
			return err
		}
		kept, read := tx.hot.Dump(tx.now), loaded.Dump(tx.now)
		for _, line := range kept {
			if _, found := slices.BinarySearch(read, line); !found {
				out = append(out, "memory holds, the tables do not: "+line)
			}
		}
		for _, line := range read {
			if _, found := slices.BinarySearch(kept, line); !found {
				out = append(out, "the tables hold, memory does not: "+line)
			}
		}
		return nil
	})
	return out, err
}

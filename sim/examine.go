package sim

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

// Findings are what Examine has found.
type Findings struct {
	Problems []string // what must not be, a sentence each, with the rule that it breaks
	// Losses are the post_sync effects that did not happen and show in the log, which at_most_once allows (G-4). Those that
	// do not show are Problems. Only effects on the destination of Outside can be counted.
	Losses []Loss
	Units  []Unit // of all runs, in the order of their plans
	Log    []events.Envelope
	Fold   *check.Checker // of the log, to its end
}

// OK reports that nothing is as it must not be.
func (f *Findings) OK() bool { return len(f.Problems) == 0 }

// Loss is a post_sync effect that did not happen.
type Loss struct {
	Sync, Target string
	Shown        string // how the log shows it
}

// Unit is a unit of a world.
type Unit struct {
	check.Unit
	Name string // for people: its sync, its number in the plan, source/dataset
}

// Place is where the rows of the unit lie.
func (u Unit) Place() Place {
	return Place{Source: u.Plan.Source, Dataset: u.Plan.Dataset, Window: u.Plan.Window.Name()}
}

// Examine holds a world that Run has brought to its end against what must be true of every world, whatever has happened in
// it: every invariant of the log, of what a broker has received and of what providers and destinations have seen; the views,
// which must be the folds of the log; the end of every run (G-1); post_sync effects, none of which may have happened twice
// or be lost without a trace (G-4); and that another pass of the reconciler has nothing to do (I-28).
//
// scratch is an empty store, which it fills; nil: the views are not compared, which is a quarter of the work. A node must live.
// The error is one of the store: then what was found is not all.
func Examine(ctx context.Context, w *World, scratch store.Store) (f Findings, err error) {
	if w.Engine() == nil {
		return f, errors.New("sim: no node has come up, so there is nothing to examine")
	}
	if f, err = w.fold(ctx); err != nil {
		return f, fmt.Errorf("read the log: %w", err)
	}
	f.invariants(w)
	if scratch != nil {
		if err := f.views(ctx, w, scratch); err != nil {
			return f, fmt.Errorf("compare the views: %w", err)
		}
	}
	for _, run := range f.Fold.Runs() {
		if !run.Status.Terminal() {
			f.problem("G-1: run of %s is %s", run.Sync, run.Status)
		}
	}
	f.effects(w)
	if err := f.rest(ctx, w); err != nil {
		return f, fmt.Errorf("one more pass: %w", err)
	}
	return f, nil
}

func (f *Findings) problem(format string, args ...any) {
	f.Problems = append(f.Problems, fmt.Sprintf(format, args...))
}

// fold reads and folds the log as it is now.
func (w *World) fold(ctx context.Context) (f Findings, err error) {
	if f.Log, err = w.Log(ctx); err != nil {
		return f, err
	}
	f.Fold = check.New(check.Options{Keep: true, Broker: true, Settings: w.Settings()})
	for _, env := range f.Log {
		f.Fold.Apply(env)
	}
	f.Fold.EndTx()
	for _, run := range f.Fold.Runs() {
		for _, u := range f.Fold.Units(run.ID) {
			f.Units = append(f.Units, Unit{u, w.names.units[u.ID]})
		}
	}
	return f, nil
}

// invariants are those of the log, of the broker and of the providers.
func (f *Findings) invariants(w *World) {
	f.Fold.Finish()
	f.Fold.Broker(w.out.Published)
	f.Fold.Providers(w.out.Called, w.out.Written)
	f.Fold.Standstills(w.Now())
	for _, v := range f.Fold.Violations() {
		f.problem("%s", v)
	}
}

// views compares the tables with the folds of the log (I-26), and then the registers with the checker's fold one by one:
// a number that the rules have forgotten is open there for ever (I-11, SC-372).
func (f *Findings) views(ctx context.Context, w *World, scratch store.Store) error {
	found, err := w.Engine().Verify(ctx, scratch)
	if err != nil {
		return err
	}
	for _, d := range found.Differences {
		f.problem("I-26: the views are not the fold of the log: %s", d)
	}
	for _, v := range found.Violations {
		f.problem("found by Verify: %s", v)
	}
	return w.Read(ctx, func(r store.Reader) error {
		view := projections.NewView(r)
		for _, want := range f.Fold.Registers() {
			rows, err := view.RegistersOf(want.Owner)
			if err != nil {
				return err
			}
			i := slices.IndexFunc(rows, func(r projections.Register) bool { return r.Kind == want.Kind })
			if i < 0 {
				f.problem("I-11: the view has no register %s of %s", want.Kind, w.names.runs[want.Owner])
				continue
			}
			row := rows[i]
			if string(want.State) != string(row.Status) || want.Current != row.Current || want.Closed != row.Closed || want.Next != row.Next {
				f.problem("I-11: register %s of %s is %s %d/%d/%d in the view, and %s %d/%d/%d in the checker's fold", want.Kind, w.names.runs[want.Owner],
					row.Status, row.Current, row.Closed, row.Next, want.State, want.Current, want.Closed, want.Next)
			}
		}
		return nil
	})
}

// effects finds out what became of every post_sync effect that is owed to the destination of the world.
func (f *Findings) effects(w *World) {
	happened := map[Effect]int{}
	for _, e := range w.out.Destination.Effects() {
		happened[e]++
		if happened[e] == 2 {
			f.problem("G-4: effect %q of one run happened more than once", e.Script)
		}
	}
	for _, run := range f.Fold.Runs() {
		if !run.PostSyncOwed {
			continue
		}
		for _, target := range run.Policy.Targets {
			script, ok := w.script(run.Sync, target)
			if !ok || happened[Effect{run.ID, script}] > 0 {
				continue
			}
			if shown := f.shown(run, target); shown != "" {
				f.Losses = append(f.Losses, Loss{run.Sync, target, shown})
				continue
			}
			f.problem("G-4: effect %q of a run of %s is lost without a trace", target, run.Sync)
		}
	}
}

// script is that of a target, if the destination of the world runs it.
func (w *World) script(sync, target string) (string, bool) {
	for _, s := range w.c.Syncs {
		if s.Name != sync || s.Sink != nil {
			continue
		}
		for _, t := range s.PostSync.Targets {
			if t.Name == target {
				return t.SQL, t.SQL != ""
			}
		}
	}
	return "", false
}

// shown is what the log says of a post_sync effect that did not happen; empty: nothing.
func (f *Findings) shown(run check.Run, target string) string {
	for _, p := range run.Posts {
		if p.Target == target && p.Started > p.Completed {
			return "started, not completed"
		}
	}
	for _, r := range f.Fold.Registers() {
		if r.Owner != run.ID || r.Kind != events.KindPostSync {
			continue
		}
		for _, o := range r.Outcomes {
			if o.Target != target {
				continue
			}
			if o.Outcome == events.Accepted {
				return "accepted, never started" // HP-4: unconfirmed
			}
			return string(o.Outcome)
		}
	}
	return ""
}

// rest: a pass with nothing due changes nothing and appends nothing (I-28).
func (f *Findings) rest(ctx context.Context, w *World) error {
	if w.living() == nil {
		return nil
	}
	head := f.Log[len(f.Log)-1].Position
	report := w.Pass(ctx)
	if report.Changed() > 0 {
		f.problem("I-28: a pass with nothing due has changed something: %+v", report)
	}
	if err := report.Err(); err != nil {
		return err
	}
	return w.Read(ctx, func(r store.Reader) error {
		now, _, err := r.Head()
		if now != head {
			f.problem("I-28: a pass with nothing due has appended %d events", now-head)
		}
		return err
	})
}

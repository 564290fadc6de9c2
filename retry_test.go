package towline_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/internal/enginetest"
	"github.com/towline-dev/towline/projections"
)

func (w *workshop) retry(spec towline.RetrySpec) towline.Planned {
	w.t.Helper()
	if spec.By.Name == "" {
		spec.By = towline.Actor{Name: "ada"}
	}
	p, err := w.e.RetryFailed(context.Background(), spec)
	require.NoError(w.t, err)
	return p
}

func (w *workshop) retryError(spec towline.RetrySpec) func() error {
	spec.By = towline.Actor{Name: "ada"}
	return func() error {
		_, err := w.e.RetryFailed(context.Background(), spec)
		return err
	}
}

// halfFailed is a backfill of six days that has ended: 1 and 2 succeeded, 3 and 4 failed, 5 and 6 were cancelled.
func halfFailed(t *testing.T) (*workshop, towline.Planned) {
	t.Helper()
	w := openWorkshop(t, options{config: towline.Config{Syncs: []towline.Sync{single("north")}, Knobs: daily(towline.Knobs{})}})
	p := w.plan(days("north", 6))
	for _, ordinal := range []int{5, 6} {
		w.cancelUnit(w.unit(p.Run, ordinal).Unit)
	}
	w.deliver(func(l towline.Lease) {
		if l.Unit.Ordinal > 2 {
			w.fail(l, events.Auth)
			return
		}
		w.complete(l)
	})
	require.Equal(t, events.RunPartialFailed, w.run(p.Run).Status)
	return w, p
}

// plans are the plans of units, without their place in a run.
func plans(units []projections.SyncRunUnit) (out []string) {
	for _, u := range units {
		out = append(out, fmt.Sprint(u.Source, u.Provider, u.Dataset, u.Members, u.Tier, u.Cost, u.Mode, u.Window, u.Surfaces, u.Fingerprint))
	}
	return out
}

// SC-288: a retry is a new run of what failed, with the same windows, that names the old one; the old
// one does not change.
func TestARetryIsANewRunOfWhatFailed(t *testing.T) {
	w, old := halfFailed(t)
	row, units := w.run(old.Run), w.units(old.Run)
	before := w.head()
	p := w.retry(towline.RetrySpec{Run: old.Run, By: towline.Actor{Name: "ada", Reason: "the token is renewed"}})
	log := w.since(before)
	oneTx(t, log)
	require.Equal(t, []string{"JobOpened", "RunPlanned", "UnitPlanned", "UnitPlanned", "OutboxArmed", "JobLinked"}, enginetest.Types(log))
	require.Equal(t, "ada", log[0].Actor)
	opened := log[0].Event.(events.JobOpened)
	require.Equal(t, [3]string{"retry", "ada", "the token is renewed"}, [3]string{string(opened.Trigger), opened.Actor, opened.Reason})
	require.Equal(t, 2, p.Units)
	require.False(t, p.Replayed)

	run := w.run(p.Run)
	require.Equal(t, old.Run, run.RetryOf)
	require.Equal(t, events.TriggerRetry, run.TriggeredBy)
	require.Equal(t, towline.Backfill, run.Mode)
	require.Equal(t, events.Selection{
		Sources: []string{"north"}, Datasets: []string{"north-articles"}, Since: row.Selection.Since, Before: row.Selection.Before,
	}, run.Selection)
	require.Equal(t, plans(units[2:4]), plans(w.units(p.Run)))
	require.Equal(t, []int{1, 2}, []int{w.unit(p.Run, 1).Ordinal, w.unit(p.Run, 2).Ordinal})
	w.view(func(v projections.View) {
		retries, err := v.RetriesOf(old.Run, 10)
		require.NoError(t, err)
		require.Len(t, retries, 1)
		require.Equal(t, p.Run, retries[0].Run)
	})
	w.deliver(w.complete)
	require.Equal(t, events.RunSucceeded, w.run(p.Run).Status)
	require.Equal(t, row, w.run(old.Run))
	require.Equal(t, units, w.units(old.Run))
}

// what was cancelled is retried if that is asked for, and so is one unit alone, failed or cancelled.
func TestWhatARetrySelects(t *testing.T) {
	w, old := halfFailed(t)
	units := w.units(old.Run)
	for name, c := range map[string]struct {
		spec towline.RetrySpec
		want []projections.SyncRunUnit
	}{
		"failed":                 {towline.RetrySpec{Run: old.Run}, units[2:4]},
		"failed and cancelled":   {towline.RetrySpec{Run: old.Run, Cancelled: true}, units[2:6]},
		"one failed":             {towline.RetrySpec{Unit: units[3].Unit}, units[3:4]},
		"one failed of that run": {towline.RetrySpec{Run: old.Run, Unit: units[3].Unit}, units[3:4]},
		"one cancelled":          {towline.RetrySpec{Unit: units[5].Unit, Cancelled: true}, units[5:6]},
	} {
		require.Equal(t, plans(c.want), plans(w.units(w.retry(c.spec).Run)), name)
	}
	w.deliver(w.complete)
}

// X-6, P-4, SC-289: a retry that cannot be is refused by field, and writes nothing.
func TestARetryThatCannotBe(t *testing.T) {
	w, old := halfFailed(t)
	units := w.units(old.Run)
	open := w.plan(days("north", 2))
	for name, c := range map[string]struct {
		field string
		kind  error
		spec  towline.RetrySpec
	}{
		"no run":                 {"run", towline.ErrNotFound, towline.RetrySpec{Run: events.RunID{1}}},
		"nothing is named":       {"run", towline.ErrInvalid, towline.RetrySpec{}},
		"no unit":                {"unit", towline.ErrNotFound, towline.RetrySpec{Unit: events.UnitID{1}}},
		"a unit of another run":  {"unit", towline.ErrInvalid, towline.RetrySpec{Run: open.Run, Unit: units[3].Unit}},
		"an open run":            {"run", towline.ErrConflict, towline.RetrySpec{Run: open.Run}},
		"a unit of an open run":  {"run", towline.ErrConflict, towline.RetrySpec{Unit: w.unit(open.Run, 1).Unit}},
		"a unit that succeeded":  {"unit", towline.ErrInvalid, towline.RetrySpec{Unit: units[0].Unit}},
		"a unit that was ended":  {"cancelled", towline.ErrInvalid, towline.RetrySpec{Unit: units[5].Unit}},
		"a key that is too long": {"key", towline.ErrInvalid, towline.RetrySpec{Run: old.Run, Key: string(make([]byte, 201))}},
	} {
		t.Run(name, func(t *testing.T) { w.requireRefused(c.field, c.kind, w.retryError(c.spec)) })
	}
	w.cancelRun(open.Run)
	w.requireRefused("cancelled", towline.ErrInvalid, w.retryError(towline.RetrySpec{Run: open.Run}))
	p := w.retry(towline.RetrySpec{Run: open.Run, Cancelled: true})
	w.deliver(w.complete)
	w.requireRefused("run", towline.ErrInvalid, w.retryError(towline.RetrySpec{Run: p.Run, Cancelled: true}))
}

// P-11, I-23, L-9: a key makes one retry, also of parallel callers; another request with it, of either kind, is refused.
func TestAKeyMakesOneRetry(t *testing.T) {
	w, old := halfFailed(t)
	spec := towline.RetrySpec{Run: old.Run, Key: "again", By: towline.Actor{Name: "ada"}}
	type answer struct {
		p   towline.Planned
		err error
	}
	answers := make(chan answer, 8)
	for range cap(answers) {
		go func() {
			p, err := w.e.RetryFailed(context.Background(), spec)
			answers <- answer{p, err}
		}()
	}
	runs, replays := map[events.RunID]bool{}, 0
	for range cap(answers) {
		a := <-answers
		require.NoError(t, a.err)
		runs[a.p.Run] = true
		require.Equal(t, 2, a.p.Units)
		if a.p.Replayed {
			replays++
		}
	}
	require.Len(t, runs, 1)
	require.Equal(t, cap(answers)-1, replays)

	w.unchanged(func() {
		other := spec
		other.Cancelled = true
		_, err := w.e.RetryFailed(context.Background(), other)
		require.ErrorIs(t, err, towline.ErrKeyReused)
		plan := days("north", 6)
		plan.Key = "again"
		_, err = w.e.Plan(context.Background(), plan)
		require.ErrorIs(t, err, towline.ErrKeyReused)
	})
	w.deliver(w.complete)
	w.unchanged(func() { require.True(t, w.retry(spec).Replayed) })
}

// X-6, P-4: what is no longer configured is unknown to a retry, as to a plan; a known key is still answered.
func TestARetryOfWhatIsNoLongerConfigured(t *testing.T) {
	w, old := halfFailed(t)
	known := w.retry(towline.RetrySpec{Run: old.Run, Key: "again"})
	w.deliver(w.complete)
	for field, change := range map[string]func(*towline.Sync){
		"sync": func(s *towline.Sync) { s.Name = "other" }, "sources": func(s *towline.Sync) { s.Sources = []string{"west"} },
		"datasets": func(s *towline.Sync) { s.Datasets = []towline.Dataset{{Name: "other"}} },
	} {
		s := single("north")
		change(&s)
		w.o.config.Syncs = []towline.Sync{s}
		w.crash()
		w.requireRefused(field, towline.ErrNotFound, w.retryError(towline.RetrySpec{Run: old.Run}))
		require.Equal(t, known.Run, w.retry(towline.RetrySpec{Run: old.Run, Key: "again"}).Run)
	}
}

// P-10, X-6: a sync of one run at a time refuses a retry while another run is open.
func TestARetryWaitsForTheOpenRun(t *testing.T) {
	s := single("north")
	s.OneActiveRun = true
	w := newWorkshop(t, s)
	old := w.plan(towline.RunSpec{Sync: "north"})
	w.deliver(func(l towline.Lease) { w.fail(l, events.Auth) })
	open := w.plan(towline.RunSpec{Sync: "north"})
	w.unchanged(func() {
		err := w.retryError(towline.RetrySpec{Run: old.Run})()
		var exists *towline.RunExistsError
		require.ErrorAs(t, err, &exists)
		require.ErrorIs(t, err, towline.ErrConflict)
		require.Equal(t, open.Run, exists.Run)
	})
	w.cancelRun(open.Run)
	w.retry(towline.RetrySpec{Run: old.Run})
	w.deliver(w.complete)
}

// P-4: a retry is a plan like any other: the limit of now holds for it.
func TestARetryThatIsTooLarge(t *testing.T) {
	w, old := halfFailed(t)
	w.o.config.Knobs.MaxUnits = 1
	w.crash()
	w.unchanged(func() {
		err := w.retryError(towline.RetrySpec{Run: old.Run})()
		var large *towline.PlanTooLargeError
		require.ErrorAs(t, err, &large)
		require.Equal(t, [2]int{2, 1}, [2]int{large.Units, large.Limit})
	})
}

// P-9, X-6: a work item is retried behind the reference units of its source or together with them, never without.
func TestARetriedWorkItemHasItsReference(t *testing.T) {
	w := newWorkshop(t, tiered())
	old := w.plan(towline.RunSpec{Sync: "tracker", Sources: []string{"a"}})
	w.deliver(func(l towline.Lease) { w.fail(l, events.Auth) })
	units := w.units(old.Run)
	require.Equal(t, events.ReferenceFailed, units[1].ErrorCategory)
	w.requireRefused("unit", towline.ErrInvalid, w.retryError(towline.RetrySpec{Unit: units[1].Unit}))
	w.retry(towline.RetrySpec{Unit: units[0].Unit})
	all := w.retry(towline.RetrySpec{Run: old.Run})
	w.step()
	w.dispatch(all.Run)
	require.Equal(t, []string{"a/people"}, flying(w, all.Run), "the tier holds in the new run, too")
	w.deliver(func(l towline.Lease) {
		if l.Unit.Dataset == "words" {
			w.fail(l, events.Auth)
			return
		}
		w.complete(l)
	})
	require.Equal(t, events.RunPartialFailed, w.run(all.Run).Status)
	last := w.retry(towline.RetrySpec{Run: all.Run}) // its reference has succeeded there
	w.deliver(w.complete)
	require.Equal(t, events.RunSucceeded, w.run(last.Run).Status)
}

// WM-1 to WM-4, X-6: a retried unit moves its watermark to the end of its own window, and never back behind what a later
// run has read.
func TestARetryMovesWatermarksLikeItsFirstRun(t *testing.T) {
	w := newWorkshop(t, single("north"))
	old := w.plan(towline.RunSpec{Sync: "north"})
	w.deliver(func(l towline.Lease) { w.fail(l, events.Auth) })
	w.advance(time.Hour)
	p := w.retry(towline.RetrySpec{Run: old.Run})
	w.deliver(w.complete)
	require.Equal(t, start, watermark(w, "north", "north-articles"), "the end of the window of the first run")
	require.Equal(t, w.unit(old.Run, 1).Window, w.unit(p.Run, 1).Window)

	w.advance(time.Hour)
	failed := w.plan(towline.RunSpec{Sync: "north"})
	w.deliver(func(l towline.Lease) { w.fail(l, events.Auth) })
	w.advance(time.Hour)
	w.plan(towline.RunSpec{Sync: "north"})
	w.deliver(w.complete)
	newest := watermark(w, "north", "north-articles")
	before := w.head()
	w.retry(towline.RetrySpec{Run: failed.Run})
	w.deliver(w.complete)
	require.Equal(t, newest, watermark(w, "north", "north-articles"))
	require.Empty(t, enginetest.Only[events.UnitSucceeded](w.since(before))[0].Watermarks)
}

// CFG-2, X-6: the units stay as they were planned, the policy is that of now.
func TestARetryHasThePolicyOfNow(t *testing.T) {
	w, old := halfFailed(t)
	w.o.config.Knobs.Lease = 5 * time.Minute
	w.crash()
	p := w.retry(towline.RetrySpec{Run: old.Run})
	require.Equal(t, events.SpanOf(5*time.Minute), w.run(p.Run).Policy.Lease)
	require.Equal(t, events.SpanOf(time.Minute), w.run(old.Run).Policy.Lease)
	w.deliver(w.complete)
}

// W-8, X-6: a retried calendar period is the same period with the same fingerprint, and its success covers it.
func TestARetryOfACalendarPeriodCoversIt(t *testing.T) {
	l := &listed{periods: map[string][]decider.Period{"north": {year(2024, "a"), year(2026, "c")}}}
	s := towline.Sync{
		Name: "archive", Provider: "press", Sources: []string{"north"}, Datasets: []towline.Dataset{{Name: "issues", Window: towline.Year}},
	}
	w := openWorkshop(t, options{config: towline.Config{Syncs: []towline.Sync{s}, Lister: l}})
	old := w.plan(towline.RunSpec{Sync: "archive"})
	w.deliver(func(l towline.Lease) { w.fail(l, events.Auth) })
	calls := l.calls
	p := w.retry(towline.RetrySpec{Run: old.Run})
	require.Equal(t, calls, l.calls, "nothing is listed: the periods are known")
	require.Equal(t, plans(w.units(old.Run)), plans(w.units(p.Run)))
	w.deliver(func(l towline.Lease) {
		require.NoError(t, w.e.Complete(context.Background(), l, events.Result{Fingerprint: l.Unit.Fingerprint, Rows: 1}))
	})
	w.view(func(v projections.View) {
		covered, err := v.Covered("north", "issues")
		require.NoError(t, err)
		require.Len(t, covered, 2)
	})
}

// X-6, L-7: the plan of a retried unit is, but for its run and place, byte for byte that of the first.
func TestARetriedUnitIsPlannedAlike(t *testing.T) {
	family := []string{"items", "labels"}
	s := towline.Sync{
		Name: "tracker", Provider: "p", Sources: []string{"north"},
		Datasets: []towline.Dataset{
			{Name: "family", Members: family, Surfaces: family, Cost: towline.Heavy}, {Name: "all", Snapshot: true},
			{Name: "weeks", Window: towline.Week}, {Name: "people", Tier: towline.Reference, Cost: towline.Light},
		},
	}
	w := newWorkshop(t, s)
	old := w.plan(towline.RunSpec{Sync: "tracker"})
	w.cancelRun(old.Run)
	p := w.retry(towline.RetrySpec{Run: old.Run, Cancelled: true})
	planned := func(run events.RunID) (out []events.UnitPlanned) {
		for _, u := range enginetest.Only[events.UnitPlanned](w.since(0)) {
			if u.Run == run {
				u.Run = events.RunID{}
				out = append(out, u)
			}
		}
		return out
	}
	require.NotEmpty(t, planned(old.Run))
	require.Equal(t, planned(old.Run), planned(p.Run))
	require.False(t, slices.ContainsFunc(w.units(p.Run), func(u projections.SyncRunUnit) bool { return u.Status.Terminal() }))
}

// a retry names its sources. If all of them are paused it is refused; if some are, their units are held.
func TestARetryOfWhatIsPaused(t *testing.T) {
	w := newWorkshop(t)
	old := w.plan(towline.RunSpec{Sync: "reports"})
	w.deliver(func(l towline.Lease) { w.fail(l, events.Auth) })
	require.NoError(t, w.e.PauseSource(context.Background(), "north", ada))
	w.requireRefused("sources", towline.ErrSourcePaused, w.retryError(towline.RetrySpec{Unit: w.unit(old.Run, 1).Unit}))
	p := w.retry(towline.RetrySpec{Run: old.Run})
	w.deliver(w.complete)
	require.Equal(t, map[events.UnitStatus]int{events.UnitIsPlanned: 1, events.UnitHasSucceeded: 1}, w.statuses(p.Run))
	require.NoError(t, w.e.ResumeSource(context.Background(), "north", ada))
	w.deliver(w.complete)
	require.Equal(t, events.RunSucceeded, w.run(p.Run).Status)
}

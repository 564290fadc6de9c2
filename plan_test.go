package towline_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/internal/enginetest"
	"github.com/towline-dev/towline/projections"
	"github.com/towline-dev/towline/store"
)

// P-6, SC-071, SC-364: job, run, units, first wakeup and link are one transaction, the job first; nothing is
// dispatched or published by it.
func TestAPlanIsOneTransactionWithTheJobFirst(t *testing.T) {
	s := reports()
	s.Datasets = []towline.Dataset{{Name: "articles"}, {Name: "authors"}}
	s.Sources = []string{"north", "south", "west"}
	w := newWorkshop(t, s)
	before := w.head()

	p := w.plan(towline.RunSpec{Sync: "reports", By: towline.Actor{Name: "ada", Reason: "first look"}})

	log := w.since(before)
	oneTx(t, log)
	require.Equal(t, []string{
		"JobOpened", "RunPlanned", "UnitPlanned", "UnitPlanned", "UnitPlanned", "UnitPlanned", "UnitPlanned", "UnitPlanned",
		"OutboxArmed", "JobLinked",
	}, enginetest.Types(log))
	require.Equal(t, 6, p.Units)
	for _, e := range log {
		require.Equal(t, "ada", e.Actor)
		require.Equal(t, w.e.Node(), e.Node)
	}
	armed := enginetest.Only[events.OutboxArmed](log)[0]
	require.Equal(t, events.OutboxArmed{N: 1, AvailableAt: events.MicrosOf(start), Cause: events.ArmPlanned}, armed)
	require.Empty(t, w.broker.sent)
	require.Equal(t, map[events.UnitStatus]int{events.UnitIsPlanned: 6}, w.statuses(p.Run))
	w.view(func(v projections.View) {
		job, ok, err := v.Job(p.Job)
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, p.Run, job.Result.Run)
		require.Equal(t, "ada", job.Actor)
		require.Equal(t, "first look", job.Reason)
		require.Equal(t, events.RunIsPlanned, job.Status, "an open job shows the live status of its run (J-1, SC-094)")
		require.Equal(t, 6, job.Result.Total)
	})
}

// R-1a, P-5, HC-22, SC-079: a run without units is final in the transaction of its plan.
func TestAPlanWithoutUnitsEndsInItsOwnTransaction(t *testing.T) {
	for name, spec := range map[string]towline.RunSpec{
		"no sources":       {Sync: "reports", Sources: []string{}},  // P-1, SC-081: empty is none, not all
		"no datasets":      {Sync: "reports", Datasets: []string{}}, // the same
		"inverted window":  {Sync: "reports", Before: start.AddDate(-1, 0, 0)},
		"nothing enabled":  {Sync: "empty"},
		"neither of the 2": {Sync: "reports", Sources: []string{}, Datasets: []string{}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorkshop(t, reports(), towline.Sync{Name: "empty", Provider: "press"})
			before := w.head()
			p := w.plan(spec)

			log := w.since(before)
			oneTx(t, log)
			require.Equal(t, []string{"JobOpened", "RunPlanned", "RunFinalized", "JobLinked", "JobClosed"}, enginetest.Types(log))
			run := w.run(p.Run)
			require.Equal(t, events.RunFailed, run.Status)
			require.Equal(t, events.ReasonNoUnits, run.Reason)
			require.Zero(t, run.Total)
			require.False(t, run.PostSync.Owed, "R-9: no unit succeeded")
			for _, k := range []events.Kind{events.KindDispatch, events.KindFinalize, events.KindPostSync} {
				_, armed := w.register(p.Run, k)
				require.False(t, armed, "no wakeup is armed")
			}
			w.unchanged(func() { w.pass() }) // REC-18
		})
	}
}

// P-1, P-2, P-3, P-7, SC-082, SC-090, SC-091: absent lists mean all; the order is source, dataset, window; a family is
// one unit with its members; the same request on the same state and time gives the same units.
func TestTheSameRequestGivesTheSameUnitsInOrder(t *testing.T) {
	s := towline.Sync{
		Name: "tracker", Provider: "linear", Sources: []string{"beta", "alpha"},
		Datasets: []towline.Dataset{
			{Name: "work", Members: []string{"items", "labels"}, Cost: towline.Light},
			{Name: "people", Tier: towline.Reference},
			{Name: "commits"},
		},
	}
	w := newWorkshop(t, s)
	first := w.units(w.plan(towline.RunSpec{Sync: "tracker"}).Run)
	second := w.units(w.plan(towline.RunSpec{Sync: "tracker"}).Run)

	type unit struct {
		Ordinal         int
		Source, Dataset string
		Members         []string
		Tier            events.Tier
		Cost            events.Cost
		Window          events.Window
		Surfaces        []string
	}
	shape := func(us []projections.SyncRunUnit) (out []unit) {
		for _, u := range us {
			out = append(out, unit{u.Ordinal, u.Source, u.Dataset, u.Members, u.Tier, u.Cost, u.Window, u.Surfaces})
		}
		return out
	}
	window := events.NewWindow(start.AddDate(0, 0, -30), start) // W-1
	var want []unit
	for _, source := range []string{"alpha", "beta"} {
		want = append(want,
			unit{0, source, "commits", []string{"commits"}, towline.WorkItem, towline.Medium, window, []string{"commits"}},
			unit{0, source, "people", []string{"people"}, towline.Reference, towline.Medium, window, []string{"people"}},
			unit{0, source, "work", []string{"items", "labels"}, towline.WorkItem, towline.Light, window, []string{"work"}})
	}
	for i := range want {
		want[i].Ordinal = i + 1
	}
	require.Equal(t, want, shape(first))
	require.Equal(t, want, shape(second))
}

// P-4, SC-077, SC-078, SC-083, HC-51: 1000 units are accepted; 1001 are refused with count and limit, and nothing is
// written.
func TestAPlanThatIsTooLargeWritesNothing(t *testing.T) {
	w := openWorkshop(t, options{config: towline.Config{Syncs: []towline.Sync{single("north")},
		Knobs: daily(towline.Knobs{})}})

	w.unchanged(func() {
		_, err := w.e.Plan(context.Background(), days("north", 1001))
		var tooLarge *towline.PlanTooLargeError
		require.ErrorAs(t, err, &tooLarge)
		require.Equal(t, towline.PlanTooLargeError{Units: 1001, Limit: 1000}, *tooLarge)
	})
	require.Empty(t, openRuns(w))

	before := w.head()
	p := w.plan(days("north", 1000))
	require.Equal(t, 1000, p.Units)
	require.Len(t, enginetest.Only[events.UnitPlanned](w.since(before)), 1000)
	oneTx(t, w.since(before))
}

func openRuns(w *workshop) (runs []projections.SyncRun) {
	w.view(func(v projections.View) {
		var err error
		runs, err = v.OpenRuns(events.RunID{}, 1000)
		require.NoError(w.t, err)
	})
	return runs
}

// P-4, W-3, SC-083, SC-101: a bad request names the field that is wrong, and nothing is written for it.
func TestABadRequestNamesTheField(t *testing.T) {
	w := newWorkshop(t)
	day := start.AddDate(0, 0, -1)
	long := strings.Repeat("k", 201)
	for name, c := range map[string]struct {
		spec  towline.RunSpec
		field string
		kind  error
	}{
		"unknown sync": {towline.RunSpec{Sync: "nobody"}, "sync", towline.ErrNotFound},
		"no sync":      {towline.RunSpec{}, "sync", towline.ErrNotFound},
		"unknown mode": {towline.RunSpec{Sync: "reports", Mode: "sideways"}, "mode", towline.ErrInvalid},
		"unknown source": {towline.RunSpec{Sync: "reports", Sources: []string{"north", "nowhere"}}, "sources",
			towline.ErrNotFound},
		"source twice": {towline.RunSpec{Sync: "reports", Sources: []string{"north", "north"}}, "sources",
			towline.ErrInvalid},
		"unknown dataset": {towline.RunSpec{Sync: "reports", Datasets: []string{"nothing"}}, "datasets",
			towline.ErrInvalid},
		"dataset twice": {towline.RunSpec{Sync: "reports", Datasets: []string{"articles", "articles"}},
			"datasets", towline.ErrInvalid},
		"backfill without since": {towline.RunSpec{Sync: "reports", Mode: towline.Backfill, Before: start}, "since",
			towline.ErrInvalid},
		"backfill without end": {towline.RunSpec{Sync: "reports", Mode: towline.Backfill, Since: day}, "since",
			towline.ErrInvalid},
		"backfill of nothing": {towline.RunSpec{Sync: "reports", Mode: towline.Backfill, Since: day, Before: day},
			"since", towline.ErrInvalid},
		"backfill backwards": {towline.RunSpec{Sync: "reports", Mode: towline.Backfill, Since: start, Before: day},
			"since", towline.ErrInvalid},
		"since on incremental": {towline.RunSpec{Sync: "reports", Since: day}, "since", towline.ErrInvalid},
		"since on full_resync": {towline.RunSpec{Sync: "reports", Mode: towline.FullResync, Since: day}, "since",
			towline.ErrInvalid},
		"before 1970": {towline.RunSpec{Sync: "reports", Before: time.Date(1969, 1, 1, 0, 0, 0, 0,
			time.UTC)}, "before", towline.ErrInvalid},
		"since after 9999": {towline.RunSpec{Sync: "reports", Mode: towline.Backfill, Since: time.Date(10001, 1,
			1, 0, 0, 0, 0, time.UTC), Before: start}, "since", towline.ErrInvalid},
		"key too long":   {towline.RunSpec{Sync: "reports", Key: long}, "key", towline.ErrInvalid},
		"key is no text": {towline.RunSpec{Sync: "reports", Key: "a\xffb"}, "key", towline.ErrInvalid},
		"actor too long": {towline.RunSpec{Sync: "reports", By: towline.Actor{Name: long}}, "by.name",
			towline.ErrInvalid},
		"actor is no text": {towline.RunSpec{Sync: "reports", By: towline.Actor{Name: "a\xff"}}, "by.name",
			towline.ErrInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			w.unchanged(func() {
				_, err := w.e.Plan(context.Background(), c.spec)
				var request *towline.RequestError
				require.ErrorAs(t, err, &request)
				require.Equal(t, c.field, request.Field)
				require.NotEmpty(t, request.Problem)
				require.ErrorIs(t, err, c.kind)
			})
		})
	}
}

// P-10, SC-092: a sync that allows one run at a time refuses the second, names the first, and takes the next when it
// ended.
func TestASyncOfOneRunAtATimeNamesTheOpenOne(t *testing.T) {
	s := reports()
	s.OneActiveRun = true
	w := newWorkshop(t, s)
	first := w.plan(towline.RunSpec{Sync: "reports"})

	w.unchanged(func() {
		_, err := w.e.Plan(context.Background(), towline.RunSpec{Sync: "reports", Key: "k"})
		var exists *towline.RunExistsError
		require.ErrorAs(t, err, &exists)
		require.Equal(t, first.Run, exists.Run)
	})
	w.deliver(w.complete)
	require.Equal(t, events.RunSucceeded, w.run(first.Run).Status)
	require.False(t, w.plan(towline.RunSpec{Sync: "reports", Key: "k"}).Replayed,
		"SC-089: a refused plan does not use up its key")
}

// P-10, SC-093, WM-3: two runs over the same source and dataset both end, and the watermark is the larger one.
func TestOverlappingRunsBothEnd(t *testing.T) {
	w := newWorkshop(t)
	first := w.plan(towline.RunSpec{Sync: "reports"})
	w.advance(time.Hour)
	second := w.plan(towline.RunSpec{Sync: "reports"})
	w.deliver(w.complete)
	require.Equal(t, events.RunSucceeded, w.run(first.Run).Status)
	require.Equal(t, events.RunSucceeded, w.run(second.Run).Status)
	require.Equal(t, start.Add(time.Hour), watermark(w, "north", "articles"))
}

func watermark(w *workshop, source, dataset string) time.Time {
	var at time.Time
	w.view(func(v projections.View) {
		all, err := v.Watermarks()
		require.NoError(w.t, err)
		for _, m := range all {
			if m.Source == source && m.Dataset == dataset {
				at = m.At
			}
		}
	})
	return at
}

// P-11, SC-084, SC-085, SC-087: a known key answers with the first run and writes nothing; another request under it is
// an error; the order of names is no difference, nil and empty are.
func TestAKeyMakesOneRun(t *testing.T) {
	s := reports()
	s.Datasets = append(s.Datasets, towline.Dataset{Name: "authors"})
	w := newWorkshop(t, s, single("other"))
	spec := towline.RunSpec{Sync: "reports", Sources: []string{"north", "south"}, Datasets: []string{"articles",
		"authors"}, Key: "k-1"}
	first := w.plan(spec)
	require.False(t, first.Replayed)

	w.unchanged(func() {
		reordered := spec
		reordered.Sources, reordered.Datasets = []string{"south", "north"}, []string{"authors", "articles"}
		reordered.Mode = towline.Incremental // the zero value, spelled out
		again := w.plan(reordered)
		require.Equal(t, towline.Planned{Job: first.Job, Run: first.Run, Units: 4, Replayed: true}, again)
	})
	for name, other := range map[string]func(*towline.RunSpec){
		"mode":     func(s *towline.RunSpec) { s.Mode = towline.FullResync },
		"sources":  func(s *towline.RunSpec) { s.Sources = []string{"north"} },
		"all":      func(s *towline.RunSpec) { s.Sources = nil },
		"none":     func(s *towline.RunSpec) { s.Sources = []string{} },
		"datasets": func(s *towline.RunSpec) { s.Datasets = []string{"articles"} },
		"before":   func(s *towline.RunSpec) { s.Before = start.Add(-time.Hour) },
	} {
		w.unchanged(func() {
			changed := spec
			other(&changed)
			_, err := w.e.Plan(context.Background(), changed)
			require.ErrorIs(t, err, towline.ErrKeyReused, name)
		})
	}
	require.False(t, w.plan(towline.RunSpec{Sync: "other", Key: "k-1"}).Replayed, "the scope of a key is its sync")
}

// P-11, SC-086: a key outlives its run and a restart, and ends with its time to live.
func TestAKeyIsKeptForItsTime(t *testing.T) {
	w := newWorkshop(t)
	spec := towline.RunSpec{Sync: "reports", Key: "nightly"}
	first := w.plan(spec)
	w.deliver(w.complete)
	w.crash()
	require.Equal(t, first.Run, w.plan(spec).Run)
	w.advance(7*24*time.Hour - time.Microsecond)
	require.Equal(t, first.Run, w.plan(spec).Run)
	w.advance(2 * time.Microsecond)
	require.NotEqual(t, first.Run, w.plan(spec).Run)
}

// P-11, SC-089: a refused plan does not use up its key.
func TestARefusedPlanLeavesItsKey(t *testing.T) {
	w := newWorkshop(t)
	w.unchanged(func() {
		_, err := w.e.Plan(context.Background(), towline.RunSpec{Sync: "reports", Sources: []string{"nowhere"}, Key: "k"})
		require.ErrorIs(t, err, towline.ErrNotFound)
	})
	require.False(t, w.plan(towline.RunSpec{Sync: "reports", Key: "k"}).Replayed)
}

// P-11, SC-084: twenty callers with one key make one run, and all of them are told of it.
func TestParallelCallersWithOneKeyMakeOneRun(t *testing.T) {
	w := openWorkshop(t, options{grouped: true})
	const callers = 20
	var wg sync.WaitGroup
	answers := make([]towline.Planned, callers)
	errs := make([]error, callers)
	for i := range callers {
		wg.Go(func() {
			answers[i], errs[i] = w.e.Plan(context.Background(), towline.RunSpec{Sync: "reports", Key: "once"})
		})
	}
	wg.Wait()
	made := 0
	for i := range callers {
		require.NoError(t, errs[i])
		require.Equal(t, answers[0].Run, answers[i].Run)
		require.Equal(t, answers[0].Job, answers[i].Job)
		if !answers[i].Replayed {
			made++
		}
	}
	require.Equal(t, 1, made)
	require.Len(t, enginetest.Only[events.RunPlanned](w.since(0)), 1)
}

// SC-073, C-1, SC-074: while the store cannot write a trigger says so; a plan whose commit fails leaves nothing, and
// the repeated key makes one run.
func TestAPlanThatIsNotCommittedLeavesNothing(t *testing.T) {
	w := newWorkshop(t)
	spec := towline.RunSpec{Sync: "reports", Key: "k"}
	w.unchanged(func() {
		w.store.refuse = fmt.Errorf("disk full: %w", store.ErrUnavailable)
		_, err := w.e.Plan(context.Background(), spec)
		require.ErrorIs(t, err, towline.ErrUnavailable)
		w.store.refuse = nil

		w.store.lose = errPlanted
		_, err = w.e.Plan(context.Background(), spec)
		require.ErrorIs(t, err, errPlanted)
		require.Empty(t, openRuns(w))
	})
	p := w.plan(spec)
	require.False(t, p.Replayed)
	require.Len(t, enginetest.Only[events.RunPlanned](w.since(0)), 1)
	w.deliver(w.complete)
	require.Equal(t, events.RunSucceeded, w.run(p.Run).Status)
}

// CFG-2, SC-096, SC-261: a run keeps the policy of its plan, whatever the configuration becomes.
func TestARunKeepsThePolicyOfItsPlan(t *testing.T) {
	s := reports()
	s.Datasets[0].Retry = towline.Retry{Max: 2, Backoff: 10 * time.Second}
	w := openWorkshop(t, options{config: towline.Config{Syncs: []towline.Sync{s},
		Knobs: towline.Knobs{Lease: 10 * time.Second, MaxLifetime: 30 * time.Second, CapRun: 1}}})
	p := w.plan(towline.RunSpec{Sync: "reports"})
	s.Datasets[0].Retry = towline.Retry{}
	w.o.config.Syncs, w.o.config.Knobs = []towline.Sync{s}, towline.Knobs{}
	w.crash()

	w.step()
	w.dispatch(p.Run)
	require.Equal(t, 1, w.statuses(p.Run)[events.UnitIsDispatching], "the run cap is frozen")
	l := w.claim(w.unit(p.Run, 1).Unit)
	require.Equal(t, 10*time.Second, l.ExpiresIn)
	require.Equal(t, 30*time.Second, l.Lifetime)
	w.advance(4 * time.Second)
	renewed, err := w.e.Renew(context.Background(), l)
	require.NoError(t, err)
	require.Equal(t, 10*time.Second, renewed.ExpiresIn, "a renewal lasts as long as the run says, not the configuration")
	require.Equal(t, start.Add(14*time.Second), w.unit(p.Run, 1).LeaseExpiresAt)
	w.advance(10 * time.Second)
	w.pass()
	require.Equal(t, events.UnitIsRetrying, w.unit(p.Run, 1).Status)
}

// listed is a provider's list of periods, per source.
type listed struct {
	periods map[string][]decider.Period
	errs    map[string]error
	calls   int
	during  func()
}

func (l *listed) Periods(_ context.Context, _, source, _ string, _ events.Calendar) ([]decider.Period, bool, error) {
	l.calls++
	if l.during != nil {
		l.during()
	}
	if err := l.errs[source]; err != nil {
		return nil, true, err
	}
	p, ok := l.periods[source]
	return p, ok, nil
}

func year(y int, fingerprint string) decider.Period {
	from := time.Date(y, 1, 1, 0, 0, 0, 0, time.UTC)
	return decider.Period{Window: events.NewWindow(from, from.AddDate(1, 0, 0)), Fingerprint: fingerprint}
}

// P-12, W-8, HC-50: a source that cannot be listed is left out with its reason, and the plan goes on with the rest;
// what was listed are its units, all in one transaction.
func TestASourceThatCannotBeListedIsLeftOut(t *testing.T) {
	l := &listed{
		periods: map[string][]decider.Period{"north": {year(2024, "a"), year(2025, "b")}},
		errs: map[string]error{
			"south": &towline.ListError{Category: events.NotFound, Err: errors.New("gone")},
			"west":  &towline.ListError{Category: events.Auth, Err: errors.New("refused")},
			"east":  errors.New("who knows"),
		},
	}
	s := towline.Sync{
		Name: "archive", Provider: "press", Sources: []string{"north", "south", "west", "east"},
		Datasets: []towline.Dataset{{Name: "issues", Window: towline.Year}},
	}
	w := openWorkshop(t, options{config: towline.Config{Syncs: []towline.Sync{s}, Lister: l}})
	l.during = func() { w.unchanged(func() {}) } // L-10: no transaction is open while a provider lists
	before := w.head()
	p := w.plan(towline.RunSpec{Sync: "archive", Key: "k"})
	leftOut := []events.LeftOut{{Source: "south", Reason: towline.Unavailable}, {Source: "west", Reason: "auth"},
		{Source: "east", Reason: "provider_error"}}
	require.Equal(t, leftOut, p.LeftOut)
	require.Equal(t, leftOut, w.run(p.Run).LeftOut)
	require.Equal(t, 2, p.Units)
	require.Equal(t, "a", w.unit(p.Run, 1).Fingerprint)
	oneTx(t, w.since(before))

	calls := l.calls
	again := w.plan(towline.RunSpec{Sync: "archive", Key: "k"})
	require.Equal(t, calls, l.calls, "a known key needs no listing")
	require.Equal(t, leftOut, again.LeftOut)

	w.unchanged(func() {
		_, err := w.e.Plan(context.Background(), towline.RunSpec{Sync: "archive", Sources: []string{"south", "west"}})
		var request *towline.RequestError
		require.ErrorAs(t, err, &request)
		require.Equal(t, "sources", request.Field)
	})
}

// P-12, E-1: what a lister says is believed only as far as it can be planned; the rest is an error of the provider.
func TestAListingThatCannotBePlannedLeavesItsSourceOut(t *testing.T) {
	backwards := year(2024, "a")
	backwards.Window.From, backwards.Window.To = backwards.Window.To, backwards.Window.From
	for name, periods := range map[string][]decider.Period{
		"backwards":        {backwards},
		"half a year":      {{Window: events.NewWindow(year(2024, "").Window.From, year(2024, "").Window.From.AddDate(0, 6, 0))}},
		"twice":            {year(2024, "a"), year(2024, "b")},
		"a long mark":      {year(2024, strings.Repeat("a", events.MaxFingerprintBytes+1))},
		"panics (no list)": nil,
	} {
		t.Run(name, func(t *testing.T) {
			l := &listed{periods: map[string][]decider.Period{"north": periods, "south": {year(2025, "b")}}}
			if periods == nil {
				l.during = func() {
					if l.calls == 1 {
						panic("no list")
					}
				}
			}
			s := towline.Sync{
				Name: "archive", Provider: "press", Sources: []string{"north", "south"},
				Datasets: []towline.Dataset{{Name: "issues", Window: towline.Year}},
			}
			w := openWorkshop(t, options{config: towline.Config{Syncs: []towline.Sync{s}, Lister: l}})
			p := w.plan(towline.RunSpec{Sync: "archive"})
			require.Equal(t, []events.LeftOut{{Source: "north", Reason: "provider_error"}}, p.LeftOut)
			require.Equal(t, 1, p.Units)
		})
	}
}

// P-12, W-8: a period is read again when its fingerprint has changed, and only then; the open one always is.
func TestACalendarPeriodIsReadAgainWhenItsFingerprintChanged(t *testing.T) {
	l := &listed{periods: map[string][]decider.Period{"north": {year(2024, "a"), year(2025, "b"), year(2026, "c")}}}
	s := towline.Sync{
		Name: "archive", Provider: "press", Sources: []string{"north"}, Datasets: []towline.Dataset{{Name: "issues",
			Window: towline.Year}},
	}
	w := openWorkshop(t, options{config: towline.Config{Syncs: []towline.Sync{s}, Lister: l}})
	read := func() (names []string) {
		p := w.plan(towline.RunSpec{Sync: "archive"})
		for _, u := range w.units(p.Run) {
			names = append(names, u.Window.Name())
		}
		w.deliver(func(l towline.Lease) {
			require.NoError(t, w.e.Complete(context.Background(), l, events.Result{Fingerprint: l.Unit.Fingerprint,
				Rows: 3}))
		})
		return names
	}
	require.Equal(t, []string{"2024", "2025", "2026"}, read())
	require.Equal(t, []string{"2026"}, read())
	l.periods["north"][1].Fingerprint = "b2"
	require.Equal(t, []string{"2025", "2026"}, read())
	l.periods["north"] = l.periods["north"][1:]
	require.Equal(t, []string{"2024", "2026"}, read(), "a period that vanished is read once more")
	require.Equal(t, []string{"2026"}, read())
	require.Zero(t, watermark(w, "north", "issues"), "W-8: no watermark behaviour")
}

// L-10: a listing that ends with its caller is no plan.
func TestAListingEndsWithItsCaller(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	l := &listed{errs: map[string]error{"north": context.Canceled}, during: cancel}
	s := towline.Sync{
		Name: "archive", Provider: "press", Sources: []string{"north"}, Datasets: []towline.Dataset{{Name: "issues",
			Window: towline.Year}},
	}
	w := openWorkshop(t, options{config: towline.Config{Syncs: []towline.Sync{s}, Lister: l}})
	w.unchanged(func() {
		_, err := w.e.Plan(ctx, towline.RunSpec{Sync: "archive"})
		require.ErrorIs(t, err, context.Canceled)
	})
}

// W-1, SC-098, SC-109: incremental windows meet without a gap, at the time of the plan before.
func TestIncrementalWindowsMeet(t *testing.T) {
	w := newWorkshop(t, single("north"))
	first := w.unit(w.plan(towline.RunSpec{Sync: "north"}).Run, 1)
	require.Equal(t, events.NewWindow(start.AddDate(0, 0, -30), start), first.Window)
	w.advance(time.Minute)
	w.deliver(w.complete)
	w.advance(time.Hour)
	second := w.unit(w.plan(towline.RunSpec{Sync: "north"}).Run, 1)
	require.Equal(t, events.NewWindow(start, start.Add(time.Minute+time.Hour)), second.Window)
}

// P-4, P-6, HC-51: a plan far above the default limit is one transaction, too; no list of it meets a limit of the
// store.
func TestAVeryLargePlanIsOneTransaction(t *testing.T) {
	const units = 1500
	k := daily(towline.Knobs{MaxUnits: units})
	w := openWorkshop(t, options{config: towline.Config{Syncs: []towline.Sync{single("north")}, Knobs: k}})
	before := w.head()
	p := w.plan(days("north", units))
	log := w.since(before)
	oneTx(t, log)
	require.Len(t, enginetest.Only[events.UnitPlanned](log), units)
	w.crash()
	w.step()
	w.dispatch(p.Run)
	require.Equal(t, map[events.UnitStatus]int{events.UnitIsDispatching: 8, events.UnitIsPlanned: units - 8},
		w.statuses(p.Run))
}

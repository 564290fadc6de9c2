package towline_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/internal/enginetest"
	"github.com/towline-dev/towline/projections"
)

func (w *workshop) pauseEngine()  { w.must(w.e.PauseEngine(context.Background(), ada)) }
func (w *workshop) resumeEngine() { w.must(w.e.ResumeEngine(context.Background(), ada)) }
func (w *workshop) pauseSource(source string) {
	w.t.Helper()
	w.must(w.e.PauseSource(context.Background(), source, ada))
}
func (w *workshop) resumeSource(source string) {
	w.t.Helper()
	w.must(w.e.ResumeSource(context.Background(), source, ada))
}

func (w *workshop) must(err error) {
	w.t.Helper()
	require.NoError(w.t, err)
}

func (w *workshop) paused() (out []projections.Pause) {
	w.t.Helper()
	w.view(func(v projections.View) {
		var err error
		out, err = v.Paused()
		require.NoError(w.t, err)
	})
	return out
}

// wait is why a unit waits.
func (w *workshop) wait(unit events.UnitID) (wait decider.Wait) {
	w.t.Helper()
	w.must(w.transact(func(tx *towline.Tx) error {
		wait = tx.Wait(unit)
		return nil
	}))
	return wait
}

// armedFor are the arms of the dispatch registers in a part of the log, by cause.
func armedFor(log []events.Envelope, cause events.ArmCause) (runs []events.RunID) {
	for _, e := range log {
		owner, kind, _ := e.Stream.Register()
		if a, ok := e.Event.(events.OutboxArmed); ok && kind == events.KindDispatch && a.Cause == cause {
			runs = append(runs, owner)
		}
	}
	return runs
}

// X-3, HD-1, SC-282: while the engine is paused triggers, claims of dispatched units, settles and finalize work, and no
// unit is dispatched, by no path; the resume dispatches.
func TestAPausedEngineDispatchesNothingElse(t *testing.T) {
	w := capped(t, towline.Knobs{CapBucket: 1}, "north", "south")
	p := w.started(days("north", 3))
	w.broker.take()
	w.pauseEngine()

	lease := w.claim(w.unit(p.Run, 1).Unit) // it was dispatched before
	other := w.plan(days("south", 1))       // a trigger
	require.Equal(t, decider.DispatchPaused, w.dispatch(other.Run))
	before := w.head()
	w.complete(lease)
	require.Equal(t, []string{"UnitSucceeded"}, enginetest.Types(w.since(before)), "a settle, and no refill (B-6)")
	for range 3 {
		w.pass()
		w.advance(time.Hour)
	}
	require.Empty(t, enginetest.Only[events.UnitDispatched](w.since(before)))
	require.Empty(t, armedFor(w.since(before), events.ArmMaterialized), "REC-7: nothing is owed")
	require.Equal(t, decider.Wait{Reason: decider.WaitEnginePaused}, w.wait(w.unit(p.Run, 2).Unit))
	require.Equal(t, decider.Wait{Reason: decider.WaitEnginePaused}, w.wait(w.unit(other.Run, 1).Unit))

	before = w.head()
	w.resumeEngine()
	log := w.since(before)
	oneTx(t, log)
	require.Equal(t, []events.RunID{p.Run, other.Run}, armedFor(log, events.ArmResumed))
	require.Equal(t, "ada", log[0].Actor)
	w.deliver(w.complete)
	require.Equal(t, events.RunSucceeded, w.run(p.Run).Status)
	require.Equal(t, events.RunSucceeded, w.run(other.Run).Status)
}

// what is paused names who, why and since when, survives a restart, and is paused once.
func TestAPauseIsOnRecordWithItsReason(t *testing.T) {
	w := newWorkshop(t)
	w.pauseSource("south")
	w.advance(time.Minute)
	w.pauseEngine()
	w.unchanged(func() {
		for _, by := range []towline.Actor{ada, {Name: "bob", Reason: "me too"}} {
			w.must(w.e.PauseEngine(context.Background(), by))
			w.must(w.e.PauseSource(context.Background(), "south", by))
		}
		w.resumeSource("north")
	})
	want := []projections.Pause{
		{By: ada.Name, Reason: ada.Reason, Since: start.Add(time.Minute)},
		{Source: "south", By: ada.Name, Reason: ada.Reason, Since: start},
	}
	require.Equal(t, want, w.paused())
	w.crash()
	require.Equal(t, want, w.paused())
	p := w.plan(towline.RunSpec{Sync: "reports", Sources: []string{"north"}})
	require.Equal(t, decider.DispatchPaused, w.dispatch(p.Run))
	w.resumeEngine()
	w.resumeSource("south")
	require.Empty(t, w.paused())
	w.unchanged(func() { w.resumeEngine() })
}

// a source that nobody knows cannot be paused, nor resumed, whatever else is paused.
func TestAPauseOfNoSource(t *testing.T) {
	w := newWorkshop(t)
	ctx := context.Background()
	w.pauseEngine()
	w.unchanged(func() {
		for _, none := range []string{"moon", ""} {
			for _, err := range []error{w.e.PauseSource(ctx, none, ada), w.e.ResumeSource(ctx, none, ada)} {
				require.ErrorIs(t, err, towline.ErrNotFound)
				require.EqualError(t, err, fmt.Sprintf("source: no sync has a source %q; use one of north, south", none))
			}
		}
	})
}

// X-4, U-2 to U-4, HD-3, HD-8, SC-283: the units of a paused source are held in every state in which they wait, and shown;
// its dispatched unit may be claimed, its running one finishes, other sources go on. The resume goes on with all of them.
func TestAPausedSourceHoldsItsUnits(t *testing.T) {
	s := reports()
	s.Datasets[0].Retry = towline.Retry{Max: 1, Backoff: time.Minute, On: []events.Category{events.Network}}
	w := openWorkshop(t, options{config: towline.Config{Syncs: []towline.Sync{s}, Knobs: daily(towline.Knobs{CapBucket: 6})}})
	p := w.started(days("reports", 4)) // north 1 to 4, south 5 to 8; six slots
	unit := func(n int) events.UnitID { return w.unit(p.Run, n).Unit }
	w.fail(w.claim(unit(1)), events.Network) // north, retrying
	running := w.claim(unit(2))              // north, running
	dispatched := unit(3)                    // north, dispatched; 4 too
	w.pauseSource("north")
	w.complete(running)
	w.complete(w.claim(dispatched))
	require.Equal(t, events.UnitIsDispatching, w.unit(p.Run, 8).Status, "the other source goes on")
	w.advance(time.Hour) // 1 is due, 4 is stale
	for _, n := range []int{1, 4} {
		require.Equal(t, decider.Wait{Reason: decider.WaitSourcePaused, On: "north"}, w.wait(unit(n)))
	}
	require.Equal(t, decider.DispatchDispatched, w.dispatch(p.Run)) // south is stale, too
	for n := 5; n <= 8; n++ {
		w.complete(w.claim(unit(n)))
	}
	w.broker.take()
	w.unchanged(func() { require.Equal(t, decider.DispatchWaiting, w.dispatch(p.Run)) })
	for range 3 {
		before := w.head()
		w.pass()
		require.Empty(t, armedFor(w.since(before), events.ArmMaterialized), "REC-7")
		w.advance(time.Hour)
	}
	require.Equal(t, map[events.UnitStatus]int{
		events.UnitHasSucceeded: 6, events.UnitIsRetrying: 1, events.UnitIsDispatching: 1,
	}, w.statuses(p.Run))

	before := w.head()
	w.resumeSource("north")
	require.Equal(t, []events.RunID{p.Run}, armedFor(w.since(before), events.ArmResumed))
	w.deliver(w.complete)
	require.Equal(t, events.RunSucceeded, w.run(p.Run).Status)
}

// X-4, U-14: a unit that was held for days is not failed for it, however often it was dispatched before; it is dispatched
// again, and fails if nobody claims it then either.
func TestWhatWasHeldIsNotGivenUp(t *testing.T) {
	w := newWorkshop(t, single("north"))
	p := w.started(towline.RunSpec{Sync: "north"})
	again := func() { w.advance(15 * time.Minute); w.dispatch(p.Run) }
	for range 3 {
		again()
	}
	w.pauseSource("north")
	for range 4 {
		w.advance(24 * time.Hour)
		w.pass()
		require.Equal(t, decider.DispatchWaiting, w.dispatch(p.Run))
	}
	w.resumeSource("north")
	require.Equal(t, decider.DispatchDispatched, w.dispatch(p.Run))
	require.Equal(t, 5, w.unit(p.Run, 1).Dispatch)
	again()
	require.Equal(t, events.NeverStarted, w.unit(p.Run, 1).ErrorCategory)
}

// X-4, P-8: a plan that names no sources leaves paused ones out and says so; one that names them is accepted and held; one
// for which all is paused is refused, and has written nothing (SC-284).
func TestAPlanLeavesPausedSourcesOut(t *testing.T) {
	w := newWorkshop(t)
	ctx := context.Background()
	w.pauseSource("south")
	p := w.plan(towline.RunSpec{Sync: "reports"})
	left := []events.LeftOut{{Source: "south", Reason: towline.SourcePaused}}
	require.Equal(t, left, p.LeftOut)
	require.Equal(t, left, w.run(p.Run).LeftOut)
	require.Equal(t, 1, p.Units)

	named := w.plan(towline.RunSpec{Sync: "reports", Sources: []string{"north", "south"}})
	require.Empty(t, named.LeftOut)
	require.Equal(t, 2, named.Units)
	require.Equal(t, decider.DispatchDispatched, w.dispatch(named.Run))
	require.Equal(t, decider.WaitSourcePaused, w.wait(w.unit(named.Run, 2).Unit).Reason)

	refused := func(spec towline.RunSpec) {
		t.Helper()
		w.unchanged(func() {
			_, err := w.e.Plan(ctx, spec)
			require.ErrorIs(t, err, towline.ErrSourcePaused)
			var request *towline.RequestError
			require.ErrorAs(t, err, &request)
			require.Equal(t, "sources", request.Field)
			require.ErrorContains(t, err, "ada")
			require.ErrorContains(t, err, ada.Reason)
		})
	}
	refused(towline.RunSpec{Sync: "reports", Sources: []string{"south"}})
	w.pauseSource("north")
	refused(towline.RunSpec{Sync: "reports"})
	require.Equal(t, 0, w.plan(towline.RunSpec{Sync: "reports", Sources: []string{}}).Units, "P-1: who asks for none gets none")
	w.resumeSource("north")
	w.resumeSource("south")
	w.deliver(w.complete)
	require.Equal(t, events.RunSucceeded, w.run(named.Run).Status)
}

// X-4, P-11: a request that was accepted is repeated with the same answer, whatever is paused by now.
func TestAKnownKeyIsAnsweredWhateverIsPaused(t *testing.T) {
	w := newWorkshop(t)
	spec := towline.RunSpec{Sync: "reports", Key: "monday"}
	p := w.plan(spec)
	w.pauseSource("north")
	w.pauseSource("south")
	again := w.plan(spec)
	require.True(t, again.Replayed)
	require.Equal(t, p.Run, again.Run)
}

// X-4, P-12: what is paused is not listed either: its provider is left alone.
func TestAPausedSourceIsNotListed(t *testing.T) {
	s := reports()
	s.Datasets[0].Window = towline.Day
	l := &recordingLister{}
	w := openWorkshop(t, options{config: towline.Config{Syncs: []towline.Sync{s}, Lister: l}})
	w.pauseSource("north")
	p := w.plan(towline.RunSpec{Sync: "reports"})
	require.Equal(t, []string{"south"}, l.asked)
	require.Equal(t, []events.LeftOut{{Source: "north", Reason: towline.SourcePaused}}, p.LeftOut)

	l.during = func() { w.pauseSource("south") } // somebody is faster than the transaction
	w.resumeSource("north")
	p = w.plan(towline.RunSpec{Sync: "reports"})
	require.Equal(t, []events.LeftOut{{Source: "south", Reason: towline.SourcePaused}}, p.LeftOut)
}

// recordingLister lists today, and remembers for whom.
type recordingLister struct {
	asked  []string
	during func()
}

func (l *recordingLister) Periods(_ context.Context, _, source, _ string, c events.Calendar) ([]decider.Period, bool, error) {
	l.asked = append(l.asked, source)
	if l.during != nil {
		l.during()
		l.during = nil
	}
	return []decider.Period{{Window: decider.PeriodAt(c, start), Fingerprint: "x"}}, true, nil
}

// X-3, SC-287: a capped run that is paused in the middle and resumed comes to its end, without the last net.
func TestACappedRunEndsBehindAPause(t *testing.T) {
	w := capped(t, towline.Knobs{CapBucket: 2}, "north")
	p := w.plan(days("north", 12))
	for n := range 3 {
		ended := 0
		w.deliver(func(l towline.Lease) {
			if ended++; ended == 2 {
				w.pauseEngine()
			}
			w.complete(l)
		})
		require.NotEqual(t, events.RunSucceeded, w.run(p.Run).Status, "pause %d", n)
		w.advance(time.Hour)
		w.pass()
		w.resumeEngine()
	}
	before := w.head()
	w.deliver(w.complete)
	w.finalize(p.Run)
	require.Equal(t, events.RunSucceeded, w.run(p.Run).Status)
	require.Empty(t, armedFor(w.since(before), events.ArmMaterialized))
}

// X-3, REC-7: a resume wakes every run that waits, page by page. A process that dies between two pages leaves the rest to
// the materialization, and a resume wakes nobody who waits for something else.
func TestAResumeWakesEveryRun(t *testing.T) {
	const runs = 1100 // three pages
	var syncs []towline.Sync
	for n := range 4 {
		syncs = append(syncs, single(fmt.Sprint("s", n)))
		syncs[n].Sources = []string{fmt.Sprint("source", n)}
	}
	w := openWorkshop(t, options{config: towline.Config{Syncs: syncs, Knobs: towline.Knobs{RepairLimit: 10_000, ScanLimit: 100_000}}})
	w.pauseEngine()
	for n := range runs {
		w.plan(towline.RunSpec{Sync: fmt.Sprint("s", n%4)})
	}
	w.pauseSource("source3")
	w.pass() // their wakeups are dropped: nothing is owed
	before := w.head()
	txs := map[events.Position]int{}
	w.resumeEngine()
	for _, e := range w.since(before) {
		txs[e.Tx]++
	}
	require.Len(t, armedFor(w.since(before), events.ArmResumed), runs*3/4)
	require.Len(t, txs, 3)
	for _, n := range txs {
		require.LessOrEqual(t, n, 501)
	}

	w.step()
	w.broker.take() // lost, as the process is
	w.pauseSource("source0")
	w.advance(time.Hour)
	w.pass()
	w.store.commits, w.store.dies = 0, 1 // the second page is not written
	before = w.head()
	require.NoError(t, w.e.ResumeSource(context.Background(), "source0", ada), "the pause has ended")
	w.store.dies = 0
	woken := len(armedFor(w.since(before), events.ArmResumed))
	require.Positive(t, woken)
	require.Less(t, woken, runs/4)
	w.crash()
	before = w.head()
	w.pass()
	w.advance(time.Minute)
	w.pass()
	rest := map[events.RunID]bool{}
	for _, run := range armedFor(w.since(before), events.ArmMaterialized) {
		rest[run] = true
	}
	require.GreaterOrEqual(t, len(rest), runs/4-woken)
}

// X-3, REC-4: while the engine is paused, the pass reads nothing of the runs that wait.
func TestAPassOfAPausedEngineIsCheap(t *testing.T) {
	w := newWorkshop(t, single("north"))
	for range 20 {
		w.plan(towline.RunSpec{Sync: "north"})
	}
	w.pauseEngine()
	w.pass()
	w.advance(time.Hour)
	w.pass()
	reads := w.file.Stats().Statements
	w.unchanged(func() { w.pass() })
	require.Less(t, w.file.Stats().Statements-reads, int64(40))
}

// a wakeup for a later time is not kept while nothing may be dispatched; the resume keeps it again.
func TestAResumeKeepsTheTimeOfARetry(t *testing.T) {
	s := single("north")
	s.Datasets[0].Retry = towline.Retry{Max: 1, Backoff: time.Hour, On: []events.Category{events.Network}}
	w := newWorkshop(t, s)
	p := w.started(towline.RunSpec{Sync: "north"})
	w.fail(w.claim(w.unit(p.Run, 1).Unit), events.Network)
	due := start.Add(time.Hour)
	require.Equal(t, decider.Wait{Reason: decider.WaitRetryAt, At: events.MicrosOf(due)}, w.wait(w.unit(p.Run, 1).Unit))
	w.pauseEngine()
	require.NoError(t, w.transact(func(tx *towline.Tx) error { // an early wakeup
		_, err := tx.Execute(decider.ArmWakeup{Owner: p.Run, Kind: events.KindDispatch, At: tx.Now(), Cause: events.ArmMaterialized})
		return err
	}))
	w.pass()
	r, _ := w.register(p.Run, events.KindDispatch)
	require.Equal(t, decider.RegisterIdle, r.Status)
	w.resumeEngine()
	require.Equal(t, due, w.pending(p.Run, events.KindDispatch).AvailableAt)
}

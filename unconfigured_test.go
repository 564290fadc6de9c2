package towline_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/internal/enginetest"
)

// configure starts the next process with other syncs.
func (w *workshop) configure(syncs ...towline.Sync) {
	w.t.Helper()
	w.o.config.Syncs = syncs
	w.crash()
}

// feeds is a sync of two datasets, which can be tried again.
func feeds() towline.Sync {
	retry := towline.Retry{Max: 2, Backoff: time.Minute, On: []events.Category{events.Network}}
	return towline.Sync{
		Name: "feeds", Provider: "press", Sources: []string{"north"},
		Datasets: []towline.Dataset{{Name: "articles", Retry: retry}, {Name: "briefs", Retry: retry}},
	}
}

// X-9, HC-53, SC-359: a push that drops a dataset holds its planned, retrying and stale units; running ones end, nothing
// fails for it, and the rest shows what is missing. The push is taken back, and all are dispatched without a command.
func TestAPushThatDropsADatasetFailsNothing(t *testing.T) {
	w := openWorkshop(t, options{shared: true, config: towline.Config{Syncs: []towline.Sync{feeds()}, Knobs: daily(towline.Knobs{CapRun: 6})}})
	p := w.started(days("feeds", 4)) // articles 1 to 4, briefs 5 to 8
	unit := func(n int) events.UnitID { return w.unit(p.Run, n).Unit }
	for n := 1; n <= 4; n++ {
		w.complete(w.claim(unit(n)))
	}
	w.fail(w.claim(unit(5)), events.Network) // retrying
	remote, err := w.e.Claim(context.Background(), unit(6), towline.Worker{Name: "api", Remote: true})
	require.NoError(t, err) // running, and it outlives the process; 7 and 8 are dispatched
	small := feeds()
	small.Datasets = small.Datasets[:1]
	w.configure(small)
	w.complete(remote)
	_, err = w.e.Claim(context.Background(), unit(7), towline.Worker{Name: "worker"})
	require.ErrorIs(t, err, towline.ErrNotClaimable, "HU-1")
	require.ErrorContains(t, err, `dataset "briefs"`)
	w.advance(time.Hour) // 5 is due, 7 and 8 are stale
	for _, n := range []int{5, 7, 8} {
		require.Equal(t, decider.Wait{Reason: decider.WaitUnconfigured, On: `dataset "briefs"`}, w.wait(unit(n)))
	}
	before := w.head()
	for range 48 { // two days
		w.pass()
		w.dispatch(p.Run)
		w.advance(time.Hour)
	}
	require.Empty(t, enginetest.Only[events.UnitDispatched](w.since(before)))
	require.Empty(t, enginetest.Only[events.UnitFailed](w.since(before)), "U-14")
	require.Empty(t, armedFor(w.since(before), events.ArmMaterialized), "REC-7")
	_, err = w.e.Plan(context.Background(), towline.RunSpec{Sync: "feeds", Datasets: []string{"briefs"}})
	require.ErrorIs(t, err, towline.ErrInvalid, "P-4: a new request that names it is refused")

	before = w.head()
	w.configure(feeds())
	require.Equal(t, []events.RunID{p.Run}, armedFor(w.since(before), events.ArmResumed))
	w.broker.take()
	w.deliver(w.complete)
	require.Equal(t, events.RunSucceeded, w.run(p.Run).Status)
	require.Empty(t, armedFor(w.since(before), events.ArmMaterialized))
}

// X-9, SC-095, HD-1: each thing that a unit needs holds it when it is gone, and is named; other sources go on.
func TestWhatIsNoLongerConfiguredHoldsItsUnits(t *testing.T) {
	for what, change := range map[string]func(*towline.Sync){
		`source "south"`:     func(s *towline.Sync) { s.Sources = []string{"north"} },
		`dataset "articles"`: func(s *towline.Sync) { s.Datasets = []towline.Dataset{{Name: "letters"}} },
		`provider "press"`:   func(s *towline.Sync) { s.Provider = "radio" },
		`sync "reports"`:     func(s *towline.Sync) { s.Name = "papers" },
	} {
		t.Run(what, func(t *testing.T) {
			w := newWorkshop(t)
			p := w.plan(towline.RunSpec{Sync: "reports"})
			changed := reports()
			change(&changed)
			w.configure(changed)
			w.deliver(w.complete)
			south := w.unit(p.Run, 2)
			require.Equal(t, events.UnitIsPlanned, south.Status)
			require.Equal(t, decider.Wait{Reason: decider.WaitUnconfigured, On: what}, w.wait(south.Unit))
			if what == `source "south"` {
				require.Equal(t, events.UnitHasSucceeded, w.unit(p.Run, 1).Status)
			}
			w.advance(time.Hour)
			w.unchanged(func() { w.pass() })
			w.configure(reports())
			w.deliver(w.complete)
			require.Equal(t, events.RunSucceeded, w.run(p.Run).Status)
		})
	}
}

// X-9, N-1, L-6: what a node is configured for is on record, also when that is nothing.
func TestWhatANodeIsConfiguredForIsOnRecord(t *testing.T) {
	w := newWorkshop(t, single("b"), reports())
	started := enginetest.Only[events.NodeStarted](w.since(0))[0]
	require.Equal(t, []events.Configured{
		{Sync: "b", Provider: "press", Sources: []string{"north"}, Datasets: []string{"b-articles"}},
		{Sync: "reports", Provider: "press", Sources: []string{"north", "south"}, Datasets: []string{"articles"}},
	}, started.Syncs)
	before := w.head()
	w.configure([]towline.Sync{}...)
	require.Equal(t, []events.Configured{}, enginetest.Only[events.NodeStarted](w.since(before))[0].Syncs)
}

// X-9, C-37: a boot that brings something back and dies half way has woken nobody in vain: the next one wakes them.
func TestABootThatBringsBackIsRepeated(t *testing.T) {
	w := newWorkshop(t)
	p := w.plan(towline.RunSpec{Sync: "reports", Sources: []string{"south"}})
	small := reports()
	small.Sources = []string{"north"}
	w.configure(small)
	w.pass() // drops the wakeup
	require.NoError(t, w.file.Close())
	w.o.config.Syncs = []towline.Sync{reports()}
	w.o.dies = 2 // views, and the start
	require.ErrorIs(t, w.open(), errPlanted)
	w.o.dies = 0
	require.NoError(t, w.open())
	require.Equal(t, []events.RunID{p.Run}, armedFor(w.since(0), events.ArmResumed))
	w.deliver(w.complete)
	require.Equal(t, events.RunSucceeded, w.run(p.Run).Status)

	head := w.head()
	w.crash()
	require.Empty(t, armedFor(w.since(head), events.ArmResumed), "nothing is brought back by a start like the last")
}

// a source that is paused and configured no longer can be resumed, and then is unknown.
func TestAPausedSourceThatIsGoneCanBeResumed(t *testing.T) {
	w := newWorkshop(t)
	p := w.plan(towline.RunSpec{Sync: "reports", Sources: []string{"south"}})
	w.pauseSource("south")
	small := reports()
	small.Sources = []string{"north"}
	w.configure(small)
	require.Equal(t, decider.WaitSourcePaused, w.wait(w.unit(p.Run, 1).Unit).Reason)
	before := w.head()
	w.resumeSource("south")
	require.Empty(t, armedFor(w.since(before), events.ArmResumed), "it is held all the same")
	require.Equal(t, decider.WaitUnconfigured, w.wait(w.unit(p.Run, 1).Unit).Reason)
	require.ErrorIs(t, w.e.ResumeSource(context.Background(), "south", ada), towline.ErrNotFound)
	require.ErrorIs(t, w.e.PauseSource(context.Background(), "south", ada), towline.ErrNotFound)
}

// X-9, D-14: each process of a shared store decides by its own configuration.
func TestEachNodeDecidesByItsOwnConfiguration(t *testing.T) {
	w := openWorkshop(t, options{shared: true})
	small := reports()
	small.Sources = []string{"north"}
	other := openWorkshop(t, options{
		shared: true, path: w.o.path, clock: w.now, config: towline.Config{Syncs: []towline.Sync{small}, Entropy: seeded(2)},
	})
	p := w.plan(towline.RunSpec{Sync: "reports"})
	require.Equal(t, decider.DispatchDispatched, other.dispatch(p.Run))
	require.Equal(t, events.UnitIsDispatching, w.unit(p.Run, 1).Status)
	require.Equal(t, events.UnitIsPlanned, w.unit(p.Run, 2).Status)
	require.Equal(t, decider.DispatchDispatched, w.dispatch(p.Run))
	require.Equal(t, events.UnitIsDispatching, w.unit(p.Run, 2).Status)
	w.complete(other.claim(w.unit(p.Run, 1).Unit))
	w.complete(w.claim(w.unit(p.Run, 2).Unit))
}

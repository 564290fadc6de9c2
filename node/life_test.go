package node_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/internal/enginetest"
	"github.com/towline-dev/towline/node"
	"github.com/towline-dev/towline/provider"
	"github.com/towline-dev/towline/sink"
	"github.com/towline-dev/towline/store"
	"github.com/towline-dev/towline/transport"
	"github.com/towline-dev/towline/transport/local"
)

const day = 24 * time.Hour

var before = time.Date(1999, 6, 1, 0, 0, 0, 0, time.UTC) // a bubble begins in 2000

// Section 20, O-10, SC-219: a node that cannot work refuses to open, with the name of what is wrong; it leaves no store
// behind that it did not find.
func TestAConfigurationThatCannotWorkIsNamed(t *testing.T) {
	dir := t.TempDir()
	good := func() node.Config {
		return node.Config{Store: filepath.Join(dir, "towline.db"), Syncs: []node.Sync{works(nothingToDo)},
			Logger: quiet(), Unsynced: true}
	}
	unconfirmed := transport.FromWatermill("hope", nil, transport.Traits{})
	for want, change := range map[string]func(*node.Config){
		`sync "days": provider is missing`: func(c *node.Config) { c.Syncs[0].Provider = nil },
		`sync "days" is configured twice`: func(c *node.Config) {
			c.Syncs = append(c.Syncs,
				works(nothingToDo))
		},
		`post_sync target "index": it has no action`: func(c *node.Config) { c.Syncs[0].PostSync.Targets[0].SQL = "" },
		`target "index": its sink runs no SQL`:       func(c *node.Config) { c.Syncs[0].Sink = sink.Discard },
		`target "index": its sink runs no SQL (nil)`: func(c *node.Config) { c.Syncs[0].Sink = nil },
		`target "index": its sink keeps no once-ledger`: func(c *node.Config) {
			c.Syncs[0].PostSync.Mode = towline.ExactlyOnce
		},
		`target "index": transport "broker" is not configured`: func(c *node.Config) {
			c.Syncs[0].PostSync.Targets[0] = towline.Target{Name: "index", Transport: "broker"}
		},
		`target "index": transport "broker" cannot confirm`: func(c *node.Config) {
			c.Syncs[0].PostSync.Targets[0] = towline.Target{Name: "index", Transport: "broker"}
			c.Transports = map[string]transport.Publisher{"broker": unconfirmed}
		},
		`target "index": transport "memory" keeps its messages in the memory of this process`: func(c *node.Config) {
			c.Syncs[0].PostSync.Targets[0] = towline.Target{Name: "index", Transport: "memory"}
			c.Transports = map[string]transport.Publisher{"memory": local.New(local.Options{})}
		},
		"name is empty":                   func(c *node.Config) { c.Syncs[0].Name = "" },
		"unit.lease":                      func(c *node.Config) { c.Knobs.Lease = time.Millisecond },
		`transport "hope" cannot confirm`: func(c *node.Config) { c.Routes = map[events.Kind]transport.Publisher{events.KindPostSync: unconfirmed} },
		"open store":                      func(c *node.Config) { c.Store = filepath.Join(dir, "missing", "towline.db") },
	} {
		c := good()
		change(&c)
		_, err := node.Open(t.Context(), c)
		require.ErrorContains(t, err, strings.TrimSuffix(want, " (nil)"))
	}
	_, err := node.Open(t.Context(), node.Config{Store: "", Syncs: []node.Sync{works(nothingToDo)}, Logger: quiet()})
	require.Error(t, err, "a node needs a place")

	var log enginetest.Log
	c := good()
	c.Logger = slog.New(slog.NewTextHandler(&log, nil))
	c.Routes = map[events.Kind]transport.Publisher{events.KindUnit: unconfirmed}
	n, err := node.Open(t.Context(), c)
	require.NoError(t, err)
	require.Contains(t, log.String(), "cannot confirm a publish", "DUR-2 and O-10 are said at the start")
	require.Contains(t, log.String(), "after a power loss")
	require.NoError(t, n.Close())
}

// N-1, N-6: a node that is opened and closed without a run has an incarnation of its own, cleanly ended; a second close
// is as good as the first.
func TestOpenAndClose(t *testing.T) {
	path := filepath.Join(t.TempDir(), "towline.db")
	for range 2 {
		n := open(t, node.Config{Store: path, Syncs: []node.Sync{works(nothingToDo)}})
		require.NoError(t, n.Close())
		require.NoError(t, n.Close())
		_, err := n.Engine().Plan(t.Context(), spec(1))
		require.Error(t, err)
	}
	n := open(t, node.Config{Store: path, Syncs: []node.Sync{works(nothingToDo)}})
	require.Equal(t, []string{
		"NodeStarted", "NodeRecovered", "NodeStopped", "NodeStarted", "NodeRecovered", "NodeStopped", "NodeStarted",
		"NodeRecovered",
	}, enginetest.Types(logOf(t, n)))
	requireGood(t, n)
	require.NoError(t, n.Close())
}

// N-2, SC-257: two nodes on one store of exclusive mode: the second is refused, and can have it afterwards.
func TestASecondNodeIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "towline.db")
	first := open(t, node.Config{Store: path, Syncs: []node.Sync{works(nothingToDo)}})
	_, err := node.Open(t.Context(), node.Config{Store: path, Syncs: []node.Sync{works(nothingToDo)}, Logger: quiet()})
	require.ErrorIs(t, err, store.ErrLocked)
	require.NoError(t, first.Close())
	second := open(t, node.Config{Store: path, Syncs: []node.Sync{works(nothingToDo)}})
	require.NoError(t, second.Close())
}

// N-6: a run whose context has ended already stops cleanly, at once, and leaves nothing behind.
func TestARunThatIsStoppedBeforeItBegins(t *testing.T) {
	path := filepath.Join(t.TempDir(), "towline.db")
	for range 5 { // whichever part is faster
		n := open(t, node.Config{Store: path, Syncs: []node.Sync{works(nothingToDo)}})
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.NoError(t, n.Run(ctx))
	}
	n := open(t, node.Config{Store: path, Syncs: []node.Sync{works(nothingToDo)}})
	require.Len(t, enginetest.Only[events.NodeStopped](logOf(t, n)), 5)
	require.NoError(t, n.Close())
}

// HP-2, SC-075, SC-161, SC-220: runs go from plan to post_sync; each unit is worked on once, and log and
// views agree.
func TestRunsGoFromPlanToPostSync(t *testing.T) {
	var calls atomic.Int64
	s := works(func(context.Context, provider.Unit, sink.Sink) (provider.Result, error) {
		calls.Add(1)
		return provider.Result{}, nil
	})
	n := start(t, open(t, node.Config{Syncs: []node.Sync{s}, Workers: 8}))
	var runs []events.RunID
	for range 5 {
		runs = append(runs, plan(t, n.Node, 12).Run)
	}
	for _, id := range runs {
		run, err := n.Engine().Wait(t.Context(), id)
		require.NoError(t, err)
		require.Equal(t, events.RunSucceeded, run.Status)
	}
	waitFor(t, n.Node, func() bool { return s.Sink.(*memory).ran() == 5 })
	require.EqualValues(t, 60, calls.Load())
	requireGood(t, n.Node)
	for _, x := range logOf(t, n.Node) {
		if a, ok := x.Event.(events.OutboxArmed); ok {
			require.NotEqual(t, events.ArmMaterialized, a.Cause, "nothing was lost, so the last net caught nothing")
		}
	}
	n.end()
}

// waitFor waits until something is so, looking at every commit.
func waitFor(t *testing.T, n *node.Node, so func() bool) {
	t.Helper()
	deadline := time.After(20 * time.Second)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !so() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatal("it did not come to be")
		}
	}
}

// gate is a provider that says when it is called, and works until it is let go or told to stop.
type gate struct {
	called chan provider.Unit
	free   chan struct{}
	deaf   bool
}

func newGate() *gate { return &gate{called: make(chan provider.Unit, 100), free: make(chan struct{})} }

func (g *gate) work(ctx context.Context, u provider.Unit, _ sink.Sink) (provider.Result, error) {
	g.called <- u
	stop := ctx.Done()
	if g.deaf {
		stop = nil
	}
	select {
	case <-g.free:
		return provider.Result{}, nil
	case <-stop:
		return provider.Result{}, ctx.Err()
	}
}

// N-6, SC-188: at a stop running units may finish within the grace, and their success counts; no new unit is begun, and
// nothing waits for the whole of the grace.
func TestAStopGivesRunningUnitsTheirGrace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "towline.db")
	g, bus := newGate(), local.New(local.Options{})
	c := node.Config{Store: path, Syncs: []node.Sync{works(g.work)}, Workers: 2, Bus: bus,
		Knobs: towline.Knobs{ShutdownGrace: time.Hour}}
	n := start(t, open(t, c))
	id := plan(t, n.Node, 6).Run
	<-g.called
	<-g.called
	n.stop()
	waitFor(t, n.Node,
		func() bool { return bus.Waiting(string(events.KindUnit)) == 4 }) // the intake has ended: what stood in line is given back
	close(g.free)
	require.NoError(t, <-n.done)
	require.Empty(t, g.called)

	c.Bus = nil
	again := open(t, c)
	done := 0
	for _, u := range units(t, again, id) {
		require.NotEqual(t, events.UnitIsRunning, u.Status)
		if u.Status == events.UnitHasSucceeded {
			done++
		}
	}
	require.Equal(t, 2, done)
	n = start(t, again)
	run, err := n.Engine().Wait(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, events.RunSucceeded, run.Status)
	requireGood(t, n.Node)
	n.end()
}

// N-6, U-16, SC-186, HC-52: what is not done when the grace is over is handed back, at no cost, and goes on with the
// next start, however often that happens.
func TestWhatIsNotDoneInTheGraceIsHandedBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "towline.db")
	id := events.RunID{}
	c := node.Config{Store: path, Knobs: towline.Knobs{ShutdownGrace: -1, BackoffBase: time.Millisecond,
		BackoffCap: time.Millisecond}}
	for restart := range 5 {
		g := newGate()
		c.Syncs = []node.Sync{works(g.work)}
		n := start(t, open(t, c))
		if restart == 0 {
			id = plan(t, n.Node, 1).Run
		}
		require.Equal(t, restart+1, (<-g.called).Attempt)
		n.end()
	}
	c.Syncs = []node.Sync{works(nothingToDo)}
	n := start(t, open(t, c))
	run, err := n.Engine().Wait(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, events.RunSucceeded, run.Status)
	scheduled := enginetest.Only[events.UnitRetryScheduled](logOf(t, n.Node))
	require.Len(t, scheduled, 5)
	for i, x := range scheduled {
		require.Equal(t, events.HandedBack, x.Cause)
		require.Equal(t, i+1, x.HandBacks)
		require.Zero(t, x.ExpiredLeaseRetries)
	}
	require.Empty(t, enginetest.Only[events.UnitLeaseExpired](logOf(t, n.Node)))
	requireGood(t, n.Node)
	n.end()
}

// N-6, U-16, I-24: a provider that hears nothing does not keep the process for ever; its fenced sink takes nothing of it
// any more, so its unit is handed back, and what it does later is refused.
func TestAProviderThatHearsNothingIsLeftBehind(t *testing.T) {
	t.Parallel() // it waits most of the time
	g := newGate()
	g.deaf = true
	c := node.Config{
		Store: filepath.Join(t.TempDir(), "towline.db"), Syncs: []node.Sync{works(g.work)},
		Knobs: towline.Knobs{ShutdownGrace: -1},
	}
	n := start(t, open(t, c))
	id := plan(t, n.Node, 1).Run
	<-g.called
	n.end()
	again := open(t, c)
	require.Equal(t, 1, units(t, again, id)[0].HandBacks)
	close(g.free) // it ends at last
	all := logOf(t, again)
	require.Equal(t, "NodeRecovered", enginetest.Types(all)[len(all)-1])
	requireGood(t, again)
	require.NoError(t, again.Close())
}

// N-3, N-4, SC-251, SC-252: units that waited in the queue of a process that was stopped are dispatched again at once
// by the next.
func TestTheNextStartGoesOnAtOnce(t *testing.T) {
	g := newGate()
	c := node.Config{Store: filepath.Join(t.TempDir(), "towline.db"), Syncs: []node.Sync{works(g.work)}, Workers: 1}
	n := start(t, open(t, c))
	id := plan(t, n.Node, 4).Run
	<-g.called
	n.stop()
	close(g.free)
	require.NoError(t, <-n.done)
	n = start(t, open(t, c))
	run, err := n.Engine().Wait(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, events.RunSucceeded, run.Status)
	require.Less(t, run.CompletedAt.Sub(run.PlannedAt), 30*time.Second,
		"nobody waited for an interval, a countdown or a stale time")
	n.end()
}

// REC-2, N-3, SC-253, HC-18: two nodes share one store: every unit is worked on once, a stop of one leaves its work to
// the other, and log and views agree.
func TestTwoNodesShareAStore(t *testing.T) {
	path := filepath.Join(t.TempDir(), "towline.db")
	var calls atomic.Int64
	config := func() node.Config {
		return node.Config{Store: path, Shared: true, Workers: 4, Knobs: towline.Knobs{ReconcileInterval: time.Second},
			Syncs: []node.Sync{works(func(context.Context, provider.Unit, sink.Sink) (provider.Result, error) {
				calls.Add(1)
				return provider.Result{}, nil
			})}}
	}
	a, b := start(t, open(t, config())), start(t, open(t, config()))
	var runs []events.RunID
	for i := range 6 {
		n := a
		if i%2 == 1 {
			n = b
		}
		runs = append(runs, plan(t, n.Node, 15).Run)
	}
	for i, id := range runs {
		n := a
		if i%2 == 1 {
			n = b
		}
		run, err := n.Engine().Wait(t.Context(), id)
		require.NoError(t, err)
		require.Equal(t, events.RunSucceeded, run.Status)
	}
	require.EqualValues(t, 90, calls.Load())
	requireGood(t, a.Node)
	a.end()
	last := plan(t, b.Node, 3).Run
	_, err := b.Engine().Wait(t.Context(), last)
	require.NoError(t, err)
	requireGood(t, b.Node)
	b.end()
}

// O-7, K-1: a process without workers plans and reconciles, and leaves what it has no route for to one with workers: not a
// unit waits for a redrive, and no post_sync is lost on its way to nobody.
func TestANodeWithoutWorkersSwallowsNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "towline.db")
	config := func(workers int) node.Config {
		return node.Config{Store: path, Shared: true, Workers: workers, Syncs: []node.Sync{works(nothingToDo)}}
	}
	planner, worker := start(t, open(t, config(-1))), start(t, open(t, config(4)))
	for range 3 {
		run, err := planner.Engine().Wait(t.Context(), plan(t, planner.Node, 5).Run)
		require.NoError(t, err)
		require.Less(t, run.CompletedAt.Sub(run.PlannedAt), 30*time.Second, "nobody waited for an interval")
	}
	planner.end()
	for _, armed := range enginetest.Only[events.OutboxArmed](logOf(t, worker.Node)) {
		require.NotEqual(t, events.ArmMaterialized, armed.Cause)
	}
	worker.end()
}

// P-12, E-1: a provider that lists periods is asked with the configuration of its sync; its errors are typed, and leave
// a source out.
func TestAProviderLists(t *testing.T) {
	s := works(nothingToDo)
	s.Sources, s.Config = []string{"north", "south"}, []byte(`{"depth":1}`)
	s.Datasets = []towline.Dataset{{Name: "a", Window: towline.Year}}
	s.Provider = lists{func(source string, config string) ([]provider.Period, error) {
		if source == "south" {
			return nil, provider.Fail(provider.NotFound, errors.New("gone"))
		}
		require.Equal(t, `{"depth":1}`, config)
		return []provider.Period{{Window: decider.PeriodAt(towline.Year, before), Fingerprint: "f"}}, nil
	}}
	n := open(t, node.Config{Syncs: []node.Sync{s}})
	p, err := n.Engine().Plan(t.Context(), towline.RunSpec{Sync: "days"})
	require.NoError(t, err)
	require.Equal(t, []events.LeftOut{{Source: "south", Reason: towline.Unavailable}}, p.LeftOut)
	require.Equal(t, "f", units(t, n, p.Run)[0].Fingerprint)
	require.NoError(t, n.Close())
}

type lists struct {
	periods func(source, config string) ([]provider.Period, error)
}

func (lists) Sync(context.Context, provider.Unit, sink.Sink) (provider.Result, error) {
	return provider.Result{}, nil
}

func (l lists) Periods(_ context.Context, source, _ string, _ events.Calendar, config json.RawMessage) ([]provider.Period, error) {
	return l.periods(source, string(config))
}

// Section 22, WMILL-1: kinds go where their routes say; without local workers the messages wait for somebody else, and
// a bus that is given is used.
func TestRoutesAndBusAreTheCallers(t *testing.T) {
	elsewhere := local.New(local.Options{})
	bus := local.New(local.Options{})
	n := start(t, open(t, node.Config{
		Syncs: []node.Sync{works(nothingToDo)}, Workers: -1, Bus: bus,
		Routes: map[events.Kind]transport.Publisher{events.KindFinalize: elsewhere, events.KindUnit: nil},
	}))
	id := plan(t, n.Node, 1).Run
	waitFor(t, n.Node, func() bool { return bus.Waiting(string(events.KindDispatch)) == 1 })
	sub := bus.Subscriber(1)
	messages, err := sub.Subscribe(t.Context(), string(events.KindDispatch))
	require.NoError(t, err)
	m := <-messages
	require.Equal(t, decider.MessageID(id, events.KindDispatch, 1), m.UUID)
	m.Ack()
	require.NoError(t, sub.Close())
	require.NoError(t, n.Engine().Transact(t.Context(), "", func(tx *towline.Tx) error {
		_, err := tx.Dispatch(id)
		return err
	}))
	l, err := n.Engine().Claim(t.Context(), units(t, n.Node, id)[0].Unit, towline.Worker{Remote: true})
	require.NoError(t, err)
	require.NoError(t, n.Engine().Complete(t.Context(), l, events.Result{}))
	waitFor(t, n.Node, func() bool { return elsewhere.Waiting(string(events.KindFinalize)) == 1 })
	require.Zero(t, bus.Waiting(string(events.KindFinalize)))
	n.end()
	require.NoError(t, elsewhere.Close())
}

// D-20: an application keeps its own tables in the same file, in transactions of its own, while the node works.
func TestAnApplicationSharesTheFile(t *testing.T) {
	n := start(t, open(t, node.Config{Syncs: []node.Sync{works(nothingToDo)}}))
	_, err := n.DB().Exec(`CREATE TABLE mine (id INTEGER PRIMARY KEY) STRICT`)
	require.NoError(t, err)
	id := plan(t, n.Node, 20).Run
	for range 20 {
		tx, err := n.DB().Begin()
		require.NoError(t, err)
		_, err = tx.Exec(`INSERT INTO mine DEFAULT VALUES`)
		require.NoError(t, err)
		require.NoError(t, tx.Commit())
		n.Nudge()
	}
	run, err := n.Engine().Wait(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, events.RunSucceeded, run.Status)
	n.end()
}

// L-8, I-26: a running node proves its views and its log now and then, and says what it finds; nothing is repaired.
func TestARunningNodeProvesItsViews(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		var log enginetest.Log
		n := start(t, open(t, node.Config{
			Store: filepath.Join(dir, "towline.db"), Syncs: []node.Sync{works(nothingToDo)}, VerifyEvery: time.Hour,
			Logger: slog.New(slog.NewTextHandler(&log, nil)),
		}))
		id := plan(t, n.Node, 2).Run
		_, err := n.Engine().Wait(t.Context(), id)
		require.NoError(t, err)
		<-time.After(time.Hour + time.Minute)
		synctest.Wait()
		require.Contains(t, log.String(), "msg=verified")
		first := n.VerifyState()
		require.Zero(t, first.Failures)
		require.WithinDuration(t, time.Now(), first.LastOK, time.Minute+time.Second)
		_, err = n.DB().Exec(`UPDATE units SET error_text = 'drift'`)
		require.NoError(t, err)
		<-time.After(time.Hour)
		synctest.Wait()
		require.Contains(t, log.String(), "verify found what must not be")
		require.Contains(t, log.String(), "table units")
		require.Equal(t, node.VerifyState{LastOK: first.LastOK, Failures: 1}, n.VerifyState())
		n.end()
	})
}

// HU-4: what runs in this process is shown.
func TestProgressOfANode(t *testing.T) {
	free, working := make(chan struct{}), make(chan struct{})
	n := start(t, open(t, node.Config{Syncs: []node.Sync{works(func(_ context.Context, _ provider.Unit,
		s sink.Sink) (provider.Result, error) {
		s.Progress(1, 2)
		close(working)
		<-free
		return provider.Result{}, nil
	})}}))
	id := plan(t, n.Node, 1).Run
	<-working
	p := n.Progress()
	require.Len(t, p, 1)
	require.Equal(t, id, p[0].Run)
	require.EqualValues(t, 2, p[0].Total)
	close(free)
	_, err := n.Engine().Wait(t.Context(), id)
	require.NoError(t, err)
	n.end()
}

package sim_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/check"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/sim"
	"github.com/towline-dev/towline/store"
	"github.com/towline-dev/towline/store/sqlite"
)

// baseline is the run of a scenario without a fault.
type baseline struct {
	scenario   scenario
	template   string // an empty store with its views, made once: to make one takes longer than most worlds
	nodes      int
	every      bool                 // the views of every world are compared with its log; false: those of a seventh
	boundaries []sim.Boundary       // of the first incarnation
	stops      []stop               // of all
	deaths     []death              // the boundaries of all
	content    map[string][]sim.Row // by unit
}

// stop is a place of an incarnation.
type stop struct {
	sim.Stop
	incarnation int
}

// death is a boundary of an incarnation.
type death struct {
	sim.Boundary
	incarnation int
}

// measure runs a scenario without a fault, and makes sure that this is what it is.
func measure(t *testing.T, s scenario) baseline {
	t.Helper()
	return measureOn(t, s, 1)
}

// measureOn does so on several nodes that share the store.
func measureOn(t *testing.T, s scenario, nodes int) baseline {
	t.Helper()
	b := baseline{scenario: s, template: emptyStore(t), nodes: nodes, content: map[string][]sim.Row{}}
	v := judge(t.TempDir(), func(v *verdict) {
		w := b.world(v)
		e := b.finish(v, w)
		life := w.Lives()[0]
		b.boundaries = life.Boundaries
		for _, l := range w.Lives() {
			for _, at := range l.Boundaries {
				b.deaths = append(b.deaths, death{at, l.Incarnation})
			}
			for _, s := range l.Stops {
				b.stops = append(b.stops, stop{s, l.Incarnation})
			}
		}
		// What another process has committed is seen within a second.
		require.LessOrEqual(v, life.Waited, s.waits+time.Duration(nodes-1)*10*time.Second, "without a fault nothing else waits")
		require.Empty(v, life.Materialized, "without a fault nothing is materialized")
		for _, u := range e.units {
			require.Equal(v, events.UnitHasSucceeded, u.Status, e.name(u))
			b.content[e.name(u)] = w.Outside().Destination.Rows(place(u))
			require.NotEmpty(v, b.content[e.name(u)], e.name(u))
		}
		require.Empty(v, e.losses)
	})
	if len(v.problems) > 0 {
		t.Fatalf("without a fault: %s", v)
	}
	return b
}

func emptyStore(t *testing.T) string {
	t.Helper()
	return newEmptyStore(t, t.TempDir())
}

func newEmptyStore(t require.TestingT, dir string) string {
	path := filepath.Join(dir, "empty.db")
	require.NoError(t, sim.MakeStore(context.Background(), path))
	return path
}

// world is a world of the scenario in the folder of the verdict, on a copy of the empty store. It is buried with it.
func (b baseline) world(v *verdict, kills ...int) *sim.World {
	c := b.config(v)
	c.Kills = kills
	return b.worldOf(v, c)
}

func (b baseline) config(v *verdict) sim.Config {
	return sim.Config{
		Store: b.newStore(v, "towline.db"), Seed: b.scenario.seed, Syncs: b.scenario.syncs, Knobs: b.scenario.knobs,
		Messages: b.scenario.topics, Nodes: b.nodes, Broker: b.scenario.broker, Trace: reachEntry,
	}
}

func (b baseline) worldOf(v *verdict, c sim.Config) *sim.World {
	w := sim.New(c)
	w.Request(b.scenario.requests...)
	w.Act(b.scenario.acts...)
	w.Submit(b.scenario.submissions...)
	v.bury(w)
	return w
}

func (b baseline) newStore(v *verdict, name string) string {
	data, err := os.ReadFile(b.template)
	require.NoError(v, err)
	path := filepath.Join(v.dir, name)
	require.NoError(v, os.WriteFile(path, data, 0o644))
	return path
}

// ending is what a world has come to.
type ending struct {
	w      *sim.World
	log    []events.Envelope
	fold   *check.Checker
	units  []check.Unit
	names  map[events.UnitID]string
	losses []sim.Loss
}

// finish drives a world to the end, through all its deaths, and checks what must be true of every world.
func (b baseline) finish(v *verdict, w *sim.World) ending {
	ctx := context.Background()
	ended := w.Run(ctx)
	if w.Engine() != nil { // else the node did not even start
		log, err := w.Log(ctx)
		require.NoError(v, err)
		v.log = tell(log, w.Crashes())
		reachLog(log)
	}
	v.ended(ended)
	var scratch store.Store
	if b.every || v.n/2%thin() == 0 { // of two windows, before and behind a call, both or none
		s, err := sqlite.Open(ctx, b.newStore(v, "scratch.db"), sqlite.Options{Synchronous: "normal", Inline: true})
		require.NoError(v, err)
		defer s.Close()
		scratch = s
	}
	f, err := sim.Examine(ctx, w, scratch)
	require.NoError(v, err)
	require.Empty(v, f.Problems)
	e := ending{w: w, log: f.Log, fold: f.Fold, losses: f.Losses, names: map[events.UnitID]string{}}
	for _, u := range f.Units {
		e.units = append(e.units, u.Unit)
		e.names[u.ID] = u.Name
	}
	return e
}

func (e *ending) name(u check.Unit) string { return e.names[u.ID] }

func place(u check.Unit) sim.Place {
	return sim.Place{Source: u.Plan.Source, Dataset: u.Plan.Dataset, Window: u.Plan.Window.Name()}
}

// tell is the log for people, from a little before its last crash.
func tell(log []events.Envelope, crashes []sim.Crash) (out []string) {
	const before, most = 12, 40
	from := len(log) - most
	if n := len(crashes); n > 0 {
		from = int(crashes[n-1].Head) - before
	}
	from = max(0, from)
	for _, env := range log[from:min(len(log), from+most)] {
		out = append(out, fmt.Sprintf("%d tx %d %s %s v%d %s", env.Position, env.Tx, env.At, env.Stream, env.Version, events.Describe(env.Event)))
		for _, c := range crashes {
			if c.Head == env.Position {
				out = append(out, "--- crash at "+c.At.String())
			}
		}
	}
	return out
}

// recovered checks what the crashes of a world have cost: waits, materialization, failed units and content.
func (b baseline) recovered(v *verdict, e ending) {
	doomed := map[events.UnitID]events.Category{}
	armable := map[events.StreamID]bool{}
	for i, crash := range e.w.Crashes() {
		o := newOracle(b.scenario, crash, e.log, e.w.Settings(), e.w.Outside())
		life := e.w.Lives()[i+1]
		require.LessOrEqual(v, life.Waited, o.bound(), "bound of %s: waited behind the restart", ids(o.rows()))
		for id, category := range o.doomed() {
			doomed[id] = category
		}
		for s := range o.armable() {
			armable[s] = true
		}
		b.materialized(v, e, crash, life, armable, o)
	}
	for _, u := range e.units {
		category, lost := doomed[u.ID]
		switch {
		case lost:
			require.Equal(v, events.UnitHasFailed, u.Status, "%s ran at the crash and may not be tried again (RW-4)", e.name(u))
			require.Equal(v, category, u.Category, e.name(u))
		default:
			require.Equal(v, events.UnitHasSucceeded, u.Status, "%s: category %s", e.name(u), u.Category)
			require.Equal(v, b.content[e.name(u)], e.w.Outside().Destination.Rows(place(u)), "content of %s", e.name(u))
		}
	}
}

// materialized: the net must not hide a hole. In one life it arms only what a lost message of a closed wakeup has left,
// each at most once (spec 12).
func (b baseline) materialized(v *verdict, e ending, crash sim.Crash, life *sim.Life, armable map[events.StreamID]bool, o *oracle) {
	armed := map[events.Kind]int{}
	next := e.log[len(e.log)-1].Position + 1
	if crashes := e.w.Crashes(); life.Incarnation <= len(crashes) {
		next = crashes[life.Incarnation-1].Head + 1
	}
	for _, env := range e.log {
		a, ok := env.Event.(events.OutboxArmed)
		if !ok || a.Cause != events.ArmMaterialized || env.Position <= crash.Head || env.Position >= next {
			continue
		}
		_, kind, _ := env.Stream.Register()
		armed[kind]++
		require.True(v, armable[env.Stream], "materialized %s, which no row of the crash table names: %s", kind, ids(o.rows()))
		delete(armable, env.Stream)
	}
	if life.Incarnation <= len(e.w.Crashes()) {
		return // its last report died with it
	}
	for k, n := range life.Materialized {
		require.Equal(v, armed[k], n, "Report.Materialized of %s", k)
	}
}

// ids are the rows in order, each once.
func ids(rows []check.CrashRow) []string {
	var out []string
	for _, r := range rows {
		out = append(out, r.ID)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

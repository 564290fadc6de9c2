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
	"github.com/towline-dev/towline/projections"
	"github.com/towline-dev/towline/sim"
	"github.com/towline-dev/towline/store"
	"github.com/towline-dev/towline/store/sqlite"
)

// baseline is the run of a scenario without a fault.
type baseline struct {
	scenario   scenario
	template   string // an empty store, made once: most of a new store's time is its first page on the disk
	nodes      int
	boundaries []sim.Boundary       // of the first incarnation
	stops      []stop               // of all
	content    map[string][]sim.Row // by unit
}

// stop is a place of an incarnation.
type stop struct {
	sim.Stop
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
	s, err := sqlite.Open(context.Background(), path, sqlite.Options{Synchronous: "normal", Inline: true})
	require.NoError(t, err)
	require.NoError(t, s.Close())
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
		Messages: b.scenario.topics, Nodes: b.nodes, Trace: reachEntry,
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
	losses []loss   // post_sync effects that did not happen, and show
	silent []string // and those that do not show
}

// loss is a post_sync effect that did not happen, and how the log shows it.
type loss struct{ sync, target, shown string }

// finish drives a world to the end, through all its deaths, and checks what must be true of every world: the invariants,
// the views, the end of every run, and that there is nothing left to do.
func (b baseline) finish(v *verdict, w *sim.World) ending {
	ctx := context.Background()
	err := w.Run(ctx)
	e := ending{w: w, names: map[events.UnitID]string{}}
	e.read(v)
	v.log = tell(e.log, w.Crashes())
	reachLog(e.log)
	require.NoError(v, err)
	e.invariants(v)
	e.views(v, b.newStore(v, "scratch.db"))
	for _, run := range e.fold.Runs() {
		require.True(v, run.Status.Terminal(), "run of %s is %s (G-1)", run.Sync, run.Status)
	}
	e.posts(v)

	head := e.log[len(e.log)-1].Position
	report := w.Pass(ctx)
	require.NoError(v, report.Err())
	require.Zero(v, report.Changed(), "I-28: a pass with nothing due")
	require.NoError(v, w.Read(ctx, func(r store.Reader) error {
		now, _, err := r.Head()
		require.Equal(v, head, now, "I-28: a pass with nothing due appends nothing")
		return err
	}))
	return e
}

// read folds the log as it is now.
func (e *ending) read(v *verdict) {
	if e.w.Engine() == nil {
		return // the node did not even start
	}
	var err error
	e.log, err = e.w.Log(context.Background())
	require.NoError(v, err)
	e.fold = check.New(check.Options{Keep: true, Broker: true, Settings: e.w.Settings()})
	for _, env := range e.log {
		e.fold.Apply(env)
	}
	e.fold.EndTx()
	e.units = nil
	for _, run := range e.fold.Runs() {
		for _, u := range e.fold.Units(run.ID) {
			e.units = append(e.units, u)
			e.names[u.ID] = fmt.Sprintf("%s %d %s/%s", run.Sync, u.Plan.Ordinal, u.Plan.Source, u.Plan.Dataset)
		}
	}
}

func (e *ending) name(u check.Unit) string { return e.names[u.ID] }

// invariants are those of the log, of the broker and of the providers.
func (e *ending) invariants(v *verdict) {
	out := e.w.Outside()
	e.fold.Finish()
	e.fold.Broker(out.Published)
	e.fold.Providers(out.Called, out.Written)
	e.fold.Standstills(e.w.Now())
	require.Empty(v, lines(e.fold.Violations()), "violations")
}

func lines[T fmt.Stringer](list []T) (out []string) {
	for _, x := range list {
		out = append(out, x.String())
	}
	return out
}

// views compares the tables with the folds of the log (I-26), and then the registers with the checker's fold one by one:
// a number that the rules have forgotten is open there for ever (I-11, SC-372).
func (e *ending) views(v *verdict, scratch string) {
	ctx := context.Background()
	s, err := sqlite.Open(ctx, scratch, sqlite.Options{Synchronous: "normal", Inline: true})
	require.NoError(v, err)
	defer s.Close()
	found, err := e.w.Engine().Verify(ctx, s)
	require.NoError(v, err)
	require.Empty(v, found.Differences, "I-26: differences between the views and the log")
	require.Empty(v, lines(found.Violations), "violations found by Verify")

	err = e.w.Read(ctx, func(r store.Reader) error {
		view := projections.NewView(r)
		for _, want := range e.fold.Registers() {
			rows, err := view.RegistersOf(want.Owner)
			if err != nil {
				return err
			}
			i := slices.IndexFunc(rows, func(r projections.Register) bool { return r.Kind == want.Kind })
			require.GreaterOrEqual(v, i, 0, "I-11: register %s", want.Kind)
			require.Equal(v, string(want.State), string(rows[i].Status), "I-11: state of %s in the view and in the checker's fold", want.Kind)
			require.Equal(v, []int{want.Current, want.Closed, want.Next}, []int{rows[i].Current, rows[i].Closed, rows[i].Next},
				"I-11: numbers of %s in the view and in the checker's fold", want.Kind)
		}
		return nil
	})
	require.NoError(v, err)
}

// posts finds out what became of every post_sync effect that is owed.
func (e *ending) posts(v *verdict) {
	happened := map[sim.Effect]int{}
	for _, f := range e.w.Outside().Destination.Effects() {
		happened[f]++
		require.Equal(v, 1, happened[f], "G-4: effect %q of one run", f.Script)
	}
	for _, run := range e.fold.Runs() {
		if !run.PostSyncOwed {
			continue
		}
		for _, target := range run.Policy.Targets {
			if happened[sim.Effect{Run: run.ID, Script: "refresh " + target}] > 0 {
				continue
			}
			shown := e.shown(run, target)
			if shown == "" {
				e.silent = append(e.silent, run.Sync+" "+target)
				continue
			}
			e.losses = append(e.losses, loss{run.Sync, target, shown})
		}
	}
	require.Empty(v, e.silent, "G-4: post_sync effects that are lost without a trace")
}

// shown is what the log says of a post_sync effect that did not happen; empty: nothing.
func (e *ending) shown(run check.Run, target string) string {
	for _, p := range run.Posts {
		if p.Target == target && p.Started > p.Completed {
			return "started, not completed"
		}
	}
	for _, r := range e.fold.Registers() {
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
func ids(rows []row) []string {
	var out []string
	for _, r := range rows {
		out = append(out, r.id)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

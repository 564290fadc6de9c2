package towlinetest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/sim"
)

// player plays the windows of a matrix one after the other: the provider, and what it writes to, are one for all.
type player struct {
	t      testing.TB
	m      Matrix
	dir    string
	stores stores
	whole  *window // without a kill; nil: it is being played

	endedEarly int // so many windows were played; 0: all
}

func newPlayer(t testing.TB, m Matrix) (*player, error) {
	p := &player{t: t, m: m, dir: t.TempDir()}
	var err error
	p.stores, err = newStores(filepath.Join(p.dir, "empty.db"))
	return p, err
}

// window is what has become of one window.
type window struct {
	record
	at         sim.Boundary // where the node is to die; zero: nowhere
	boundaries []sim.Boundary
	rows       map[sim.Place][]sim.Row
	problems   []string
	found      []string // the problems, without the folder of the window, and stacks
	differs    string   // in which step a second play of it differs; empty: in none
	lost       []string // the datasets without a retry policy that have lost a unit to the kill
}

// death is where the node died; zero: it did not.
func (w *window) death() (at sim.Boundary) {
	if len(w.crashes) > 0 {
		at = w.crashes[0]
	}
	return at
}

// judged plays a window, and if it has failed a second time, to see whether it goes the same way (design 10.1).
func (p *player) judged(at sim.Boundary) *window {
	w := p.play(at.N)
	w.at = at
	if died := w.death(); died.Port != at.Port || died.Behind != at.Behind {
		w.differs = differ(p.whole.steps, w.steps)
		w.problems = append(w.problems, "the same seed has taken another way than without a kill, and did not come to this window")
		return w
	}
	w.at = w.death() // what is put there may be another row, of a provider that walks a map
	if len(w.problems) == 0 {
		return w
	}
	second := p.play(at.N)
	w.differs = differ(w.steps, second.steps)
	how := "passed"
	if len(second.problems) > 0 {
		how = "failed otherwise"
	}
	if w.differs == "" && !slices.Equal(w.found, second.found) {
		w.problems = append(w.problems, "played once more, this window has "+how+", and the log is the same: what is judged has not been reset, or changes by itself")
	}
	return w
}

// play plays one window: the node dies at a boundary, or at none if it is 0.
func (p *player) play(kill int) *window {
	w := &window{}
	dir, err := os.MkdirTemp(p.dir, "window")
	if err != nil {
		p.t.Fatalf("towlinetest: %v", err)
	}
	defer os.RemoveAll(dir)
	j := &judge{TB: p.t, dir: dir}
	j.do(func() {
		if p.m.Reset != nil {
			p.m.Reset(j)
		}
		world := p.world(j, w, kill)
		defer func() {
			if err := world.Bury(); err != nil {
				j.Errorf("bury: %v", err)
			}
		}()
		j.alone(func() { p.drive(j, w, world) }) // however it ends, the oracle is to leave things as they were
		if p.m.Oracle != nil {
			p.m.Oracle(j)
		}
	})
	w.problems = j.found()
	for _, problem := range w.problems {
		problem, _, _ = strings.Cut(problem, "\ngoroutine ") // the stack of a panic has addresses
		w.found = append(w.found, strings.ReplaceAll(problem, dir, ""))
	}
	if j.Skipped() { // a window that nobody has judged is not good
		w.problems = append(w.problems, "the oracle has skipped this window")
	}
	return w
}

func (p *player) world(j *judge, w *window, kill int) *sim.World {
	path := filepath.Join(j.dir, "towline.db")
	if err := p.stores.make(path); err != nil {
		j.Fatal(err)
	}
	s := sim.Sync{Sync: p.m.Sync, Provider: recorded{p.m.Provider, &w.record}, Takes: p.m.Takes}
	if p.m.Sink != nil {
		s.Sink = p.m.Sink(j)
	}
	world := sim.New(sim.Config{
		Store: path, Seed: p.m.Seed, Syncs: []sim.Sync{s}, Knobs: p.m.Knobs, Kills: []int{kill}, Puts: true, Trace: w.trace,
	})
	world.Request(p.m.Runs...)
	j.destination = world.Outside().Destination
	return world
}

// drive brings the world to its end, and judges all but what the oracle does.
func (p *player) drive(j *judge, w *window, world *sim.World) {
	ctx := context.WithoutCancel(p.t.Context())
	err := world.Run(ctx)
	if lives := world.Lives(); len(lives) > 0 {
		w.boundaries = slices.Clone(lives[0].Boundaries)
	}
	if err != nil {
		j.Fatalf("the run does not come to its end: %v", err)
	}
	found, err := p.stores.examine(ctx, world, filepath.Join(j.dir, "scratch.db"))
	if err != nil {
		j.Fatal(err)
	}
	for _, problem := range found.Problems {
		j.Errorf("%s", problem)
	}
	w.rows = map[sim.Place][]sim.Row{}
	for _, u := range found.Units {
		w.rows[u.Place()] = j.destination.Rows(u.Place())
		p.unit(j, w, u)
		if p.whole != nil && !p.m.AnyRows && u.Status == events.UnitHasSucceeded {
			sameRows(j, u.Place(), p.whole.rows[u.Place()], w.rows[u.Place()])
		}
	}
}

// unit: every unit has succeeded, unless a kill has taken its worker, and nothing allows it another.
func (p *player) unit(j *judge, w *window, u sim.Unit) {
	lost := u.Category == events.WorkerLost && !p.m.retries(u.Plan.Dataset)
	switch {
	case u.Status == events.UnitHasSucceeded:
	case u.Status == events.UnitHasFailed && lost && p.whole != nil:
		w.lost = append(w.lost, u.Plan.Dataset)
	case u.Status == events.UnitHasFailed && u.Category == events.ReferenceFailed && p.whole != nil: // its reference unit was lost
	default:
		j.Errorf("unit %s, window %s, is %s: %s", u.Name, u.Plan.Window.Name(), u.Status, u.Category)
	}
}

// sameRows: a place holds what it holds without a kill.
func sameRows(j *judge, at sim.Place, want, got []sim.Row) {
	i := 0
	for i < len(want) && i < len(got) && want[i] == got[i] {
		i++
	}
	row := func(rows []sim.Row) string {
		if i >= len(rows) {
			return fmt.Sprintf("no more than %s", count(i, "row"))
		}
		return fmt.Sprintf("%s/%s %s", rows[i].Surface, rows[i].Key, line(rows[i].JSON))
	}
	if i < len(want) || i < len(got) {
		j.Errorf("the sink holds other rows of %s/%s/%s than without a kill: it has %s, and without a kill %s",
			at.Source, at.Dataset, at.Window, row(got), row(want))
	}
}

// Destination is the destination of the window that an oracle judges, with its rows, if the Matrix has no Sink of its own.
// t is that of the oracle.
func Destination(t testing.TB) *sim.Destination {
	t.Helper()
	j, ok := t.(*judge)
	if !ok {
		t.Fatal(errNoJudge)
	}
	return j.destination
}

var errNoJudge = errors.New("towlinetest: Destination wants the testing.TB that the oracle was called with")

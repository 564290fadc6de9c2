package towlinetest

import (
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/sim"
)

// TB is what NewWorld and Finish ask of a test. A testing.TB has it, and so has the *rapid.T of a property test
// (pgregory.net/rapid), for which a world of its own is made, and removed, for each draw.
type TB interface {
	Helper()
	Name() string
	Cleanup(f func())
	Failed() bool
	Logf(format string, args ...any)
	Fatalf(format string, args ...any)
}

var _ TB = testing.TB(nil)

// NewWorld makes a world for a property test: the production code of a node, on a store of its own, with virtual time. It is
// buried, and its files are removed, at the end of the test. Config needs no more than the Syncs:
//
//	w := towlinetest.NewWorld(t, sim.Config{Syncs: []sim.Sync{{Sync: …, Provider: mine}}, Kills: []int{n}})
//	w.Request(towline.RunSpec{Sync: "readings", Key: "1"})
//	towlinetest.Finish(t, w)
//
// A zero Seed is that of the flag -towline.seed, or else a new one, which is logged if the test fails. Draw it, where
// something else draws: a failure is repeated then by what has drawn it. An empty Store is a new file in a folder that is
// removed with the world.
//
// Of Config, Kills and Holds say when which incarnation is killed, or stopped for a while; Faults says what goes wrong with
// a call, as AtMost bounds it; Puts lets nodes be killed also where the provider puts; Nodes and Broker say how many
// processes there are, and how their messages travel. World.Run drives it to the end of all work, Live to the next death.
// World.Outside has the destination, World.Log the log, World.Engine the engine with all its queries.
func NewWorld(t TB, c sim.Config) *sim.World {
	t.Helper()
	if c.Seed == 0 {
		if c.Seed = *seedFlag; c.Seed == 0 {
			c.Seed = rand.Uint64()
		}
		t.Cleanup(func() {
			if t.Failed() {
				t.Logf("towlinetest: again: %s", again(t.Name(), "-towline.seed="+seedText(c.Seed)))
			}
		})
	}
	if c.Store == "" {
		c.Store = newStore(t)
	}
	w := sim.New(c)
	t.Cleanup(func() {
		if err := w.Bury(); err != nil {
			t.Logf("towlinetest: bury the world: %v", err)
		}
	})
	return w
}

// newStore is a store in a folder of its own. A *rapid.T has no TempDir.
func newStore(t TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "towlinetest-")
	if err != nil {
		t.Fatalf("towlinetest: %v", err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	path := filepath.Join(dir, "towline.db")
	s, err := empty()
	if err == nil {
		err = s.make(path)
	}
	if err != nil {
		t.Fatalf("towlinetest: %v", err)
	}
	return path
}

// empty is made once: a property test makes hundreds of worlds.
var empty = sync.OnceValues(func() (stores, error) {
	dir, err := os.MkdirTemp("", "towlinetest-")
	if err != nil {
		return stores{}, err
	}
	defer os.RemoveAll(dir)
	return newStores(filepath.Join(dir, "empty.db"))
})

// Finish drives a world to the end of all its work, through the deaths that are planned for it, and fails the test if
// anything is not as it must be in every world, whatever has happened in it; see sim.Examine. What it returns tells of the
// units, and of the post_sync effects that a kill has cost in mode at_most_once. The world can be asked until the test ends.
//
// That a unit has succeeded is for the test to say, for without a Retry a kill fails it, and so does a provider:
//
//	for _, u := range towlinetest.Finish(t, w).Units {
//		require.Equal(t, events.UnitHasSucceeded, u.Status, u.Name)
//	}
func Finish(t TB, w *sim.World) sim.Findings {
	t.Helper()
	ctx := context.Background()
	if err := w.Run(ctx); err != nil {
		t.Fatalf("towlinetest: the world does not come to its end: %v\n%s", err, told(ctx, w))
	}
	w.Faults(nil) // what follows asks, and does nothing
	dir, err := os.MkdirTemp("", "towlinetest-")
	if err != nil {
		t.Fatalf("towlinetest: %v", err)
	}
	defer os.RemoveAll(dir)
	s, err := empty()
	if err != nil {
		t.Fatalf("towlinetest: %v", err)
	}
	found, err := s.examine(ctx, w, filepath.Join(dir, "scratch.db"))
	if err != nil {
		t.Fatalf("towlinetest: %v", err)
	}
	if !found.OK() {
		t.Fatalf("towlinetest: this must not be:\n%s\n%s", indented(found.Problems), told(ctx, w))
	}
	return found
}

// AtMost lets at most n calls go wrong, so that a world which is driven to its end comes there. faults is what
// sim.Config.Faults asks for.
func AtMost(n int, faults func(sim.Call) sim.Fault) func(sim.Call) sim.Fault {
	return func(c sim.Call) sim.Fault {
		if n <= 0 {
			return sim.Fault{}
		}
		f := faults(c)
		if f != (sim.Fault{}) {
			n--
		}
		return f
	}
}

// told is the end of the log of a world, with its deaths.
func told(ctx context.Context, w *sim.World) string {
	const most = 30
	if w.Engine() == nil {
		return "no node has come up"
	}
	log, err := w.Log(ctx)
	if err != nil {
		return "the log: " + err.Error()
	}
	var lines []string
	for _, env := range log {
		lines = append(lines, line(env.At.String()+" "+env.Stream.String()+" "+events.Describe(env.Event)))
		for _, c := range w.Crashes() {
			if c.Head == env.Position {
				lines = append(lines, "--- killed "+c.At.String())
			}
		}
	}
	return "the end of the log:\n" + indented(lines[max(0, len(lines)-most):])
}

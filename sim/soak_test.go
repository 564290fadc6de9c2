package sim_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/towline-dev/towline/sim"
)

// soaks are the kinds of worlds of a long run. Each makes of a seed something that no other test has seen.
var soaks = []struct {
	name string
	run  func(v *verdict, seed uint64)
}{
	{"swarm", soakSwarm},
	{"crash windows", soakCrash},
	{"zombie windows", soakZombie},
	{"pairs of crashes", soakPair},
}

// SC-353, SC-354: the long run. For as long as -soak says, worlds of new seeds: schedules of the swarm, crashes, pairs of
// crashes and zombies at random places of scenarios whose order is new. It prints how many, and of a failure what to run
// again.
func TestSoak(t *testing.T) {
	if *soak == 0 {
		t.Skip("it runs for as long as -soak says: make soak")
	}
	first := cmp.Or(*seed, rand.Uint64()>>1)
	t.Logf("seeds from %d: go test ./sim -run TestSoak -soak %s -seed %[1]d", first, *soak)
	end := time.Now().Add(*soak)
	root := t.TempDir()
	var mu sync.Mutex
	next, ran := uint64(0), make([]int, len(soaks))
	stranded := 0
	var failed []string
	take := func() (seed uint64, more bool) {
		mu.Lock()
		defer mu.Unlock()
		next++
		return first + next - 1, time.Now().Before(end) && len(failed) < tooMany
	}
	var workers sync.WaitGroup
	for range 2 * runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for seed, more := take(); more; seed, more = take() {
				kind := int(seed % uint64(len(soaks)))
				v := judge(fmt.Sprintf("%s/%d", root, seed), func(v *verdict) {
					v.name = fmt.Sprintf("%s of seed %d", soaks[kind].name, seed)
					soaks[kind].run(v, seed)
				})
				mu.Lock()
				if !v.left {
					ran[kind]++
				}
				if v.stranded {
					stranded++
				}
				if len(v.problems) > 0 {
					failed = append(failed, v.String())
				}
				mu.Unlock()
			}
		})
	}
	workers.Wait()
	var figures []string
	for i, n := range ran {
		figures = append(figures, fmt.Sprintf("%s %d", soaks[i].name, n))
	}
	t.Logf("in %s: %s; %d stranded, %d wrong otherwise", *soak, strings.Join(figures, ", "), stranded, len(failed)-stranded)
	for _, f := range failed {
		t.Errorf("%s", f)
	}
}

// soakSwarm is a schedule of the swarm.
func soakSwarm(v *verdict, seed uint64) {
	played, err := playAll(v.dir, rapid.Custom(drawSchedule).Example(int(seed>>2)), false)
	v.ended(err, "%s", file(played))
}

// soakCrash, soakPair and soakZombie take a place of a scenario whose order the seed has chosen.
func soakCrash(v *verdict, seed uint64) {
	b, _, chance := soakBaseline(v, seed)
	w := b.world(v, 1+chance.IntN(len(b.boundaries)))
	e := b.finish(v, w)
	b.recovered(v, e)
}

func soakPair(v *verdict, seed uint64) {
	b, _, chance := soakBaseline(v, seed)
	w := b.world(v, 1+chance.IntN(len(b.boundaries)), 1+chance.IntN(len(b.boundaries)))
	e := b.finish(v, w)
	v.left = len(w.Crashes()) < 2 // the second life was too short
	b.recovered(v, e)
}

func soakZombie(v *verdict, seed uint64) {
	b, stops, chance := soakBaseline(v, seed)
	at := stops[chance.IntN(len(stops))]
	c := b.config(v)
	c.Holds = []sim.Hold{{Incarnation: at.incarnation, Stop: at.N, For: zombieSleeps, Whole: chance.IntN(2) == 0}}
	w := b.worldOf(v, c)
	e := b.finish(v, w)
	require.Equal(v, 1, w.Held(), "the same seed takes the same way")
	b.ended(v, e)
}

// soakBaseline runs a scenario in the order of a seed, without a fault.
func soakBaseline(v *verdict, seed uint64) (baseline, []stop, *rand.Rand) {
	s := whole()
	s.seed = seed
	b := baseline{scenario: s, nodes: 1, content: map[string][]sim.Row{}, template: newEmptyStore(v, v.dir)}
	w := b.worldOf(v, b.config(v))
	e := b.finish(v, w)
	for _, u := range e.units {
		b.content[e.name(u)] = slices.Clone(w.Outside().Destination.Rows(place(u)))
	}
	life := w.Lives()[0]
	b.boundaries = life.Boundaries
	var stops []stop
	for _, s := range life.Stops {
		stops = append(stops, stop{s, 1})
	}
	require.NoError(v, w.Bury())
	return b, stops, rand.New(rand.NewPCG(seed, 1))
}

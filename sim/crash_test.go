package sim_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/sim"
)

// G-1, G-4, G-5, SC-119, SC-139, SC-354, spec 12: one crash at every boundary of one scenario that does everything. Each time the work
// ends within the bound of its row, nothing is materialized that no row names, no invariant breaks, and post_sync is lost
// in the windows of the golden list alone.
func TestCrashAtEveryBoundary(t *testing.T) {
	b := measure(t, whole())
	b.every = true
	losses := make([][]sim.Loss, len(b.boundaries))
	var mu sync.Mutex
	seen := map[string]int{}
	enumerate(t, "crash windows", len(b.boundaries), sample, func(v *verdict, i int) {
		at := b.boundaries[i]
		if *window != 0 && at.N != *window {
			v.left = true
			return
		}
		v.name = fmt.Sprintf("crash at %s, seed %d: go test ./sim -run TestCrashAtEveryBoundary -seed %[2]d -window %[3]d", at, b.scenario.seed, at.N)
		w := b.world(v, at.N)
		e := b.finish(v, w)
		require.Len(v, w.Crashes(), 1)
		require.Equal(v, at, w.Crashes()[0].At, "the same seed takes the same way")
		b.recovered(v, e)
		losses[i] = e.losses
		o := newOracle(b.scenario, w.Crashes()[0], e.log, w.Settings(), w.Outside())
		mu.Lock()
		defer mu.Unlock()
		for _, id := range ids(o.rows()) {
			seen[id]++
			reach("crash %s", id)
		}
	})
	if t.Failed() || *window != 0 || sample > 1 || b.scenario.seed != goldenSeed {
		return
	}
	for _, id := range []string{
		"C-1", "C-2", "C-3", "C-4", "C-5", "C-6", "C-7", "C-8", "C-9", "C-10", "C-11", "C-12", "C-13", "C-14", "C-15", "C-16",
		"C-19", "C-20", "C-22", "C-23", "C-24", "C-28", "C-38", "C-46",
	} {
		require.Positive(t, seen[id], "no window of the scenario is row %s of the crash table", id)
	}
	golden := []string{
		"# G-4: a post_sync effect is lost in these windows of TestCrashAtEveryBoundary and in no other, and the log says so:",
		"# where the process died | the effect | what the log shows of it.",
	}
	for i, lost := range losses {
		for _, l := range lost {
			golden = append(golden, fmt.Sprintf("%s | %s %s | %s", b.boundaries[i].Label(), l.Sync, l.Target, l.Shown))
		}
	}
	t.Logf("%d effects of post_sync are lost, each in its window:\n%s", len(golden)-2, strings.Join(golden[2:], "\n"))
	requireGolden(t, "crash/post_sync_losses.txt", golden)
}

// C-37, SC-354: pairs of crashes: a second one anywhere behind the recovery of a first. Both cost what their rows allow.
func TestPairsOfCrashes(t *testing.T) {
	b := measure(t, small())
	const every = 47 * sample // of all pairs; it has no common factor with the number of boundaries
	n := len(b.boundaries)
	enumerate(t, "crash pairs", n*n, every, func(v *verdict, i int) {
		first, again := b.boundaries[i/n].N, i%n+1
		if *window != 0 && first != *window || *second != 0 && again != *second {
			v.left = true
			return
		}
		v.name = fmt.Sprintf("crash at %s, and at boundary %d of the next life, seed %d: go test ./sim -run TestPairsOfCrashes -seed %[3]d -window %[4]d -second %[5]d",
			b.boundaries[i/n], again, b.scenario.seed, first, again)
		w := b.world(v, first, again)
		e := b.finish(v, w)
		require.NotEmpty(v, w.Crashes())
		v.left = len(w.Crashes()) < 2 // the second life was too short
		b.recovered(v, e)
	})
}

// C-2 to C-29, I-24, N-2, SC-354: one of two nodes dies at a boundary, with the messages on a bus in its memory or on a broker
// outside. The other one cannot know, so leases and claims run out; every run ends all the same, within the bounds of the
// table for a shared store.
func TestOneOfTwoNodesDiesAtEveryBoundary(t *testing.T) {
	const shared = 16*time.Minute + 2*time.Minute // the longest bound of the rows that a death can be, and a backoff on each side
	for _, broker := range []bool{false, true} {
		t.Run(fmt.Sprintf("broker=%t", broker), func(t *testing.T) {
			s := whole()
			s.broker = broker
			b := measureOn(t, s, 2)
			enumerate(t, fmt.Sprintf("crash windows of one of two nodes, broker %t", broker), len(b.deaths), thin()*sample, func(v *verdict, i int) {
				at := b.deaths[i]
				if *window != 0 && at.N != *window {
					v.left = true
					return
				}
				v.name = fmt.Sprintf("node %d dies at %s, seed %d: go test ./sim -run 'TestOneOfTwoNodesDiesAtEveryBoundary/broker=%t' -seed %[3]d -window %[5]d",
					at.incarnation, at, b.scenario.seed, broker, at.N)
				c := b.config(v)
				c.Kills = make([]int, 2)
				c.Kills[at.incarnation-1] = at.N
				w := b.worldOf(v, c)
				e := b.finish(v, w)
				require.Len(v, w.Crashes(), 1)
				require.Equal(v, at.Boundary, w.Crashes()[0].At, "the same seed takes the same way")
				b.ended(v, e)
				for _, life := range w.Lives() {
					require.LessOrEqual(v, life.Waited, shared, "waited in incarnation %d", life.Incarnation)
				}
			})
		})
	}
}

// C-37, N-4, SC-354: a second crash at each of the first boundaries of the recovery of a first. Every step of a boot may
// be repeated.
func TestCrashDuringRecovery(t *testing.T) {
	b := measure(t, small())
	const recovery = 14      // boundaries of a boot, its first pass and its first publishes
	const every = 9 * sample // of those pairs; recovery and this have no common factor, so each second boundary has its turn
	enumerate(t, "crashes in a recovery", len(b.boundaries)*recovery, every, func(v *verdict, i int) {
		first, again := b.boundaries[i/recovery].N, i%recovery+1
		if *window != 0 && first != *window || *second != 0 && again != *second {
			v.left = true
			return
		}
		v.name = fmt.Sprintf("crash at %s, and at boundary %d of the recovery, seed %d: go test ./sim -run TestCrashDuringRecovery -seed %[3]d -window %[4]d -second %[5]d",
			b.boundaries[i/recovery], again, b.scenario.seed, first, again)
		w := b.world(v, first, again)
		e := b.finish(v, w)
		require.NotEmpty(v, w.Crashes())
		v.left = len(w.Crashes()) < 2 // the second life was too short
		b.recovered(v, e)
	})
}

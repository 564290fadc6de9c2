package sim_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/events"
)

// HP-3, K-6, REC-10, C-25, C-26: in exactly_once mode a crash at any boundary, before and behind each commit, publish and
// effect, loses no effect and doubles none: the destination has each once, and the log says that each is done.
func TestAnEffectSurvivesACrashAtEveryBoundary(t *testing.T) {
	s := small()
	s.syncs[0].PostSync.Mode = towline.ExactlyOnce
	b := measure(t, s)
	enumerate(t, "crash windows of exactly_once", len(b.boundaries), sample, func(v *verdict, i int) {
		at := b.boundaries[i]
		if *window != 0 && at.N != *window {
			v.left = true
			return
		}
		v.name = fmt.Sprintf("crash at %s, seed %d: go test ./sim -run TestAnEffectSurvivesACrashAtEveryBoundary -seed %[2]d -window %[3]d", at, b.scenario.seed, at.N)
		w := b.world(v, at.N)
		e := b.finish(v, w)
		require.Len(v, w.Crashes(), 1)
		require.Empty(v, e.losses)
		for _, run := range e.fold.Runs() {
			require.Equal(v, run.PostSyncOwed, run.Effects() == "done", "run of %s: its effects are %s", run.Sync, run.Effects())
			for _, p := range run.Posts {
				require.Equal(v, 1, p.Completed, "target %s", p.Target)
			}
		}
		e.requireEffects(v)
	})
}

// requireEffects: each effect that a run owes is at the destination, once.
func (e *ending) requireEffects(v *verdict) {
	happened := map[events.RunID]int{}
	for _, f := range e.w.Outside().Destination.Effects() {
		happened[f.Run]++
	}
	for _, run := range e.fold.Runs() {
		if run.PostSyncOwed {
			require.Equal(v, len(run.Policy.Targets), happened[run.ID], "effects of the run of %s", run.Sync)
		}
	}
}

package sim_test

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/provider"
	"github.com/towline-dev/towline/sim"
)

// Every unit has a budget at the store. Time cannot be asserted, but what is asked of SQLite can: here one goroutine does
// everything and every transaction is a commit of its own, so the figures are exact, and the worst that can be. A change
// of them is a decision; docs/PERFORMANCE.md says what they become when transactions share commits.
func TestTheBudgetOfAUnit(t *testing.T) {
	const runs, units = 8, 50
	before := sim.DefaultStart.Truncate(24 * time.Hour)
	w := sim.New(sim.Config{
		Store: filepath.Join(t.TempDir(), "towline.db"), Seed: goldenSeed, Workers: 8,
		Knobs: towline.Knobs{CapBucket: 20_000, CapRun: 20_000, CapEngine: 20_000, BackfillChunk: 24 * time.Hour},
		Syncs: []sim.Sync{{
			Sync: towline.Sync{
				Name: "s", Provider: "p", Sources: []string{"source"}, Datasets: []towline.Dataset{{Name: "units"}},
				PostSync: towline.PostSync{Targets: []towline.Target{{Name: "after", SQL: "refresh"}}},
			},
			Provider: provider.Func(copyRows),
		}},
	})
	for n := range runs {
		w.Request(towline.RunSpec{
			Sync: "s", Mode: towline.Backfill, Since: before.AddDate(0, 0, -units), Before: before, Key: fmt.Sprint(n),
		})
	}
	require.NoError(t, w.Run(context.Background()))
	s := w.Stats()
	log, err := w.Log(context.Background())
	require.NoError(t, err)
	require.EqualValues(t, len(log), s.Events)
	per := func(n int64) string { return fmt.Sprintf("%.3f", float64(n)/(runs*units)) }
	requireGolden(t, "budget/unit.txt", []string{
		"# What one unit of workload S costs at the store, without group commit: sim.TestTheBudgetOfAUnit.",
		"events       " + per(s.Events),
		"commits      " + per(s.Commits),
		"statements   " + per(s.Statements),
	})
	require.NoError(t, w.Bury())
}

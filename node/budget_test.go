package node_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/node"
)

// cost is what the store had to do for one unit.
type cost struct{ events, transactions, commits, statements, bytes float64 }

func costOf(n *node.Node, w workload) cost {
	s, units := n.StoreStats(), float64(w.runs*w.units)
	var bytes int64
	_ = n.DB().QueryRow(`SELECT page_count * page_size FROM pragma_page_count, pragma_page_size`).Scan(&bytes)
	return cost{
		float64(s.Events) / units, float64(s.Transactions) / units, float64(s.Commits) / units, float64(s.Statements) / units,
		float64(bytes) / units,
	}
}

// What a unit costs when transactions share commits depends on who is faster, so this holds only what cannot be worse
// than in sim, where the figures are exact: TestTheBudgetOfAUnit.
func TestGroupCommitCostsNoMore(t *testing.T) {
	open := towline.Knobs{CapBucket: 20_000, CapRun: 20_000, CapEngine: 20_000}
	for _, workers := range []int{64, 1} {
		w := workload{runs: 10, units: 50, workers: workers, knobs: open, work: nothing}
		n, _, _ := w.run(t, t.TempDir())
		got := costOf(n, w)
		t.Logf("%d workers, per unit: %+v", workers, got)
		require.InDelta(t, 4.4, got.events, 0.1)
		require.LessOrEqual(t, got.transactions, 4.6)
		require.LessOrEqual(t, got.commits, got.transactions)
		require.LessOrEqual(t, got.statements, 26.0)
		v, err := n.Verify(context.Background())
		require.NoError(t, err)
		require.True(t, v.OK())
	}
}

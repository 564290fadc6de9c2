package node_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/node"
)

// L-1, CFG-3: a running node archives what is old enough as soon as it may, which a reload can say; it tells what it has done,
// and its log proves as before.
func TestANodeArchives(t *testing.T) {
	n := open(t, node.Config{Syncs: []node.Sync{works(nothingToDo)}})
	r := start(t, n)
	p := plan(t, n, 3)
	run, err := n.Engine().Wait(t.Context(), p.Run)
	require.NoError(t, err)
	require.Equal(t, events.RunSucceeded, run.Status)
	require.Zero(t, n.PruneState().Archived, "nobody has asked for it")
	require.ErrorContains(t, n.SetRetention(node.Retention{ArchiveAfter: -time.Second}), "is no age")
	before := logOf(t, n)
	age := time.Microsecond
	waitFor(t, n, func() bool { // its last wakeups may be under way still
		age++
		require.NoError(t, n.SetRetention(node.Retention{ArchiveAfter: age}))
		return n.PruneState().Archived.Runs == 1
	})
	s := n.PruneState()
	require.Empty(t, s.Error)
	require.Equal(t, 1, s.Archived.Segments)
	require.False(t, s.Last.IsZero())
	require.Equal(t, before, logOf(t, n)[:len(before)])
	require.Equal(t, age, s.ArchiveAfter)
	requireGood(t, n)
	r.end()
}

// L-1, DUR-7: a store of level 1 is not archived. Its node says what to do, and works.
func TestAStoreOfAnOlderLevelSaysWhy(t *testing.T) {
	path, _ := previousStore(t)
	n := open(t, node.Config{Store: path, Syncs: []node.Sync{works(nothingToDo)}, Retention: node.Retention{ArchiveAfter: time.Hour}})
	r := start(t, n)
	require.NoError(t, n.SetRetention(node.Retention{ArchiveAfter: time.Microsecond}))
	waitFor(t, n, func() bool { return n.PruneState().Error != "" })
	require.Contains(t, n.PruneState().Error, "towline store upgrade")
	require.Zero(t, n.PruneState().Archived)
	require.Zero(t, n.PruneState().FailingSince, "it is no failure: the store may be taken back")
	r.end()
}

// DUR-6: near its size budget a node archives the oldest finished runs before they are old enough, and no more than it must; so a
// store whose runs end is not full for good.
func TestANodeArchivesEarlierNearItsBudget(t *testing.T) {
	const month = 30 * 24 * time.Hour
	n := open(t, node.Config{
		Syncs: []node.Sync{works(nothingToDo)}, MaxBytes: 4 << 20, Retention: node.Retention{ArchiveAfter: month},
		Knobs: towline.Knobs{CapBucket: 100, CapRun: 100, CapEngine: 100}, // one that waits for a slot keeps a wakeup for a minute
	})
	r := start(t, n)
	plan(t, n, 1)
	require.NoError(t, n.SetRetention(node.Retention{ArchiveAfter: month + 1})) // it looks now
	waitFor(t, n, func() bool { return !n.PruneState().Last.IsZero() })
	require.Zero(t, n.PruneState().Archived.Runs, "there is room")

	runs := 1
	for {
		p, err := n.Engine().Plan(t.Context(), spec(100))
		if full := (*towline.DiskBudgetError)(nil); errors.As(err, &full) {
			break
		}
		require.NoError(t, err)
		_, err = n.Engine().Wait(t.Context(), p.Run)
		require.NoError(t, err)
		runs++
		require.Less(t, runs, 100, "nothing is ever refused")
	}
	waitFor(t, n, func() bool { // it was told of the refusal; the last wakeups of a run may be under way still
		_, err := n.Engine().Plan(t.Context(), spec(100))
		return err == nil
	})
	waitFor(t, n, func() bool {
		b, err := n.Engine().Budget(t.Context())
		require.NoError(t, err)
		return b.Ratio() < 0.8
	})
	archived := n.PruneState().Archived.Runs
	require.Positive(t, archived)
	require.Less(t, archived, runs, "the newest are as they were")
	requireGood(t, n)
	r.end()
}

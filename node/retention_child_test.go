//go:build unix

package node_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/node"
	"github.com/towline-dev/towline/projections"
)

// pruneRole makes a child archive what there is, and say so behind each segment.
const (
	pruneRole    = "NODE_TEST_PRUNE"
	saysArchived = "archived"
)

func pruneChild() int {
	ctx := context.Background()
	n, err := node.Open(ctx, node.Config{
		Store: os.Getenv(childVariable), Syncs: []node.Sync{works(nothingToDo)}, Logger: quiet(), Unsynced: true,
	})
	if err == nil {
		_, err = n.Prune(ctx, time.Microsecond, func(a towline.Archived) bool {
			fmt.Println(saysArchived, a.Runs)
			return true
		})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// L-1, HC-54: a real process that archives is killed in the middle of it, again and again. Each time the log is what it was and the
// proof holds; the next one goes on where it was, until nothing is left.
func TestAKilledPruneGoesOn(t *testing.T) {
	const runs = 6
	path := filepath.Join(t.TempDir(), "towline.db")
	n := open(t, node.Config{Store: path, Syncs: []node.Sync{works(nothingToDo)}, Workers: 8,
		Knobs: towline.Knobs{CapRun: 100, CapBucket: 100, CapEngine: 100}, // so that no wakeup waits for a slot behind the end
	})
	r := start(t, n)
	for range runs {
		run, err := n.Engine().Wait(t.Context(), plan(t, n, 100).Run)
		require.NoError(t, err)
		require.Equal(t, events.RunSucceeded, run.Status)
	}
	waitFor(t, n, func() bool {
		var open []projections.Register
		require.NoError(t, n.Engine().View(t.Context(), func(v projections.View) (err error) {
			open, err = v.OpenRegisters(1)
			return err
		}))
		return len(open) == 0
	})
	r.end()
	n = open(t, node.Config{Store: path, Syncs: []node.Sync{works(nothingToDo)}})
	before := logOf(t, n)
	require.NoError(t, n.Close())
	for range 3 {
		p := spawnWith(t, pruneRole+"=yes", childVariable+"="+path)
		require.Equal(t, []string{"1"}, p.hear(saysArchived))
		p.signal(syscall.SIGKILL)
		_, err := p.cmd.Process.Wait()
		require.NoError(t, err)
		n := open(t, node.Config{Store: path, Syncs: []node.Sync{works(nothingToDo)}})
		require.Equal(t, before, logOf(t, n)[:len(before)])
		requireGood(t, n)
		require.NoError(t, n.Close())
	}
	n = open(t, node.Config{Store: path, Syncs: []node.Sync{works(nothingToDo)}})
	rest, err := n.Prune(t.Context(), time.Microsecond, func(towline.Archived) bool { return true })
	require.NoError(t, err)
	require.LessOrEqual(t, rest.Runs, runs-3)
	var live int
	require.NoError(t, n.DB().QueryRow(`SELECT count(*) FROM events WHERE type = 20`).Scan(&live))
	require.Zero(t, live, "no unit is left in the log")
	require.Equal(t, before, logOf(t, n)[:len(before)])
	requireGood(t, n)
	require.NoError(t, n.Close())
}

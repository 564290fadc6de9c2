//go:build unix

package node_test

import (
	"bufio"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/node"
	"github.com/towline-dev/towline/projections"
)

// DUR-5, O-17, K-6, SC-358: a copy that was made under load is restored on another path, behind the kill of the process that
// went on. It sends nothing until it is released. Before that an operator looks at the receiver, and says of every at-most-once
// post_sync that is there and may still be sent that it was delivered. Then no effect outside of the store is there twice, and
// all runs end; what is done exactly once needs no operator.
func TestABackupUnderLoadIsRestoredElsewhere(t *testing.T) {
	dir, elsewhere := t.TempDir(), filepath.Join(t.TempDir(), "restored.db")
	copied := filepath.Join(dir, "copy.db")
	const before, behind = 12, 12 // effects that begin
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), killVariable+"="+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	lines := bufio.NewScanner(out)
	effects := func(n int) {
		for ; n > 0; n-- {
			require.True(t, lines.Scan(), "the process ended by itself")
		}
	}
	effects(before)
	made, err := node.Backup(t.Context(), filepath.Join(dir, "towline.db"), copied, node.BackupOptions{})
	require.NoError(t, err)
	effects(behind)
	require.NoError(t, cmd.Process.Kill())
	for lines.Scan() {
	}
	_ = cmd.Wait() // killed

	restored, err := node.Restore(t.Context(), copied, elsewhere, node.RestoreOptions{})
	require.NoError(t, err)
	require.Equal(t, made.Head, restored.Head)
	e, err := openEffectsOn(t.Context(), elsewhere, dir, func() {})
	require.NoError(t, err)
	at := tally(t, e.own)
	r := start(t, e.Node)
	waitForPasses(t, e.Node, 2)
	require.Equal(t, at, tally(t, e.own), "nothing is sent in the hold")
	by := towline.Actor{Name: "ada", Reason: "the receiver has it"}
	for _, run := range allRuns(t, e.Node) {
		if run.Sync != "most" || at[run.Run.String()] == 0 {
			continue
		}
		if !run.Status.Terminal() { // its effect was sent in the earlier life, so it had ended there
			require.NoError(t, e.Engine().CancelRun(t.Context(), run.Run, by))
		}
		key := towline.RegisterKey{Owner: run.Run, Kind: events.KindPostSync}
		err := e.Engine().Resolve(t.Context(), key, "", events.ResolvedDelivered, by)
		if err != nil { // it was sent before the copy, or is not owed by what is left of it
			require.True(t, isConflictOrMissing(err), "%v", err)
		}
	}
	released, err := e.Engine().ReleaseHold(t.Context(), by)
	require.NoError(t, err)
	require.True(t, released)
	waitFor(t, e.Node, func() bool {
		for _, run := range allRuns(t, e.Node) {
			if !run.Status.Terminal() || run.Sync == "exactly" && run.PostSync.Effects != decider.EffectsDone && run.PostSync.Owed {
				return false
			}
		}
		var open []projections.Register
		require.NoError(t, e.Engine().View(t.Context(), func(v projections.View) (err error) {
			open, err = v.OpenRegisters(10)
			return err
		}))
		return len(open) == 0
	})
	requireGood(t, e.Node)
	after := tally(t, e.own)
	for run, n := range after {
		require.Equal(t, 1, n, "run %s", run)
	}
	require.Greater(t, len(after), before/3)
	r.end()
	require.NoError(t, e.close())
}

func isConflictOrMissing(err error) bool {
	for _, kind := range []error{towline.ErrConflict, towline.ErrNotFound} {
		if errors.Is(err, kind) {
			return true
		}
	}
	return false
}

func allRuns(t *testing.T, n *node.Node) (runs []projections.SyncRun) {
	t.Helper()
	require.NoError(t, n.Engine().View(context.Background(), func(v projections.View) (err error) {
		runs, err = v.Runs(events.RunID{}, 100_000)
		return err
	}))
	return runs
}

// waitForPasses waits until the reconciler has come round so many times.
func waitForPasses(t *testing.T, n *node.Node, passes int) {
	t.Helper()
	var seen time.Time
	waitFor(t, n, func() bool {
		for _, l := range n.Loops() {
			if l.Name == "reconcile" && l.LastSuccess.After(seen) {
				seen = l.LastSuccess
				passes--
			}
		}
		return passes <= 0
	})
}

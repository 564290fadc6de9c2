//go:build unix

package node_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/internal/enginetest"
	"github.com/towline-dev/towline/node"
	"github.com/towline-dev/towline/projections"
)

// shell is a target that a script of the shell does.
func shell(script string) towline.Target {
	return towline.Target{Name: "index", Exec: []string{"/bin/sh", "-c", script}}
}

// followedBy is a run of a sync with one target, behind which nothing is under way any more.
func followedBy(t *testing.T, mode events.DeliveryMode, target towline.Target) (projections.SyncRun, projections.PostTarget) {
	t.Helper()
	s := works(nothingToDo)
	s.PostSync = towline.PostSync{Mode: mode, Targets: []towline.Target{target}}
	n := start(t, open(t, node.Config{Syncs: []node.Sync{s}, Knobs: towline.Knobs{MaxDeliveries: 1}}))
	run, err := n.Engine().WaitPostSync(t.Context(), plan(t, n.Node, 1).Run)
	require.NoError(t, err)
	requireGood(t, n.Node)
	n.end()
	return run, run.PostSync.Targets[0]
}

// K-5, K-9, HP-2: a command gets what the run has brought as JSON on its standard input, and the names of it in its environment;
// what it writes to its standard output is kept for people.
func TestACommandIsToldWhatTheRunHasBrought(t *testing.T) {
	folder := t.TempDir()
	target := shell(`cat >input; env | grep ^TOWLINE_ | sort >variables; echo "$GREETING from $(basename "$PWD")"`)
	target.Dir, target.Env = folder, []string{"GREETING=hello"}
	t.Setenv("TOWLINE_FROM", "of somebody else")
	if services, set := os.LookupEnv("TOWLINE_TEST_SERVICES"); set { // of the whole test run, and the environment is passed on
		t.Setenv("TOWLINE_TEST_SERVICES", services) // back when the test is over
		require.NoError(t, os.Unsetenv("TOWLINE_TEST_SERVICES"))
	}
	run, got := followedBy(t, towline.AtMostOnce, target)
	require.Equal(t, decider.PostCompleted, got.Effect, got.Text)
	require.Equal(t, "hello from "+filepath.Base(folder), got.Result)

	b, err := os.ReadFile(filepath.Join(folder, "input"))
	require.NoError(t, err)
	require.JSONEq(t, `{"sync": "days", "target": "index", "run_id": "`+run.Run.String()+`", "generation": "`+run.Run.String()+`.1",
		"provider": "days", "sources": ["north"], "datasets": ["a"], "from": "1999-05-31T00:00:00Z", "to": "1999-06-01T00:00:00Z"}`, string(b))
	var input towline.PostInput
	require.NoError(t, json.Unmarshal(b, &input))
	require.Equal(t, run.Run, input.Run)
	b, err = os.ReadFile(filepath.Join(folder, "variables"))
	require.NoError(t, err)
	require.Equal(t, []string{
		"TOWLINE_FROM=1999-05-31T00:00:00Z", "TOWLINE_GENERATION=" + run.Run.String() + ".1", "TOWLINE_PROVIDER=days",
		"TOWLINE_RUN_ID=" + run.Run.String(), "TOWLINE_SYNC=days", "TOWLINE_TARGET=index", "TOWLINE_TO=1999-06-01T00:00:00Z",
	}, strings.Fields(string(b)))
}

// E-3, HP-2: the value of a secret is kept of neither stream of a command, whether it succeeds or fails.
func TestTheSecretsOfACommandAreMasked(t *testing.T) {
	for exit, effect := range map[string]decider.PostStatus{"0": decider.PostCompleted, "1": decider.PostFailed} {
		target := shell(`echo "out $WORD"; echo "err $WORD" >&2; exit ` + exit)
		target.Secrets = []string{"WORD=hunter2=hunter2\nhunter2"}
		_, got := followedBy(t, towline.AtMostOnce, target)
		require.Equal(t, effect, got.Effect)
		require.Contains(t, got.Result+got.Text, map[string]string{"0": "out ***", "1": "err ***"}[exit])
		require.NotContains(t, got.Result+got.Text, "hunter2")
	}
}

// HP-2, K-9, E-1, E-3: how a command can fail, with its category and the end of what it wrote to its standard error, bounded and
// without secrets.
func TestACommandThatFails(t *testing.T) {
	slow := shell(`echo working >&2; sleep 60 & sleep 60`)
	slow.Timeout = 100 * time.Millisecond
	missing := towline.Target{Name: "index", Exec: []string{"no-such-program-as-this"}}
	nowhere := shell(`true`)
	nowhere.Dir = filepath.Join(t.TempDir(), "missing")
	for name, c := range map[string]struct {
		target   towline.Target
		category events.Category
		text     string
	}{
		"exit status":     {shell(`echo "no: password=hunter2" >&2; exit 3`), events.HandlerFailed, "/bin/sh: exit status 3: no: password=***"},
		"much to say":     {shell(`yes no | head -c 1000000 >&2; exit 1`), events.HandlerFailed, "no no no"},
		"a signal":        {shell(`kill -9 $$`), events.HandlerFailed, "signal: killed"},
		"timeout":         {slow, events.Timeout, "killed after 100ms: its timeout is over: working"},
		"no such program": {missing, events.Configuration, "executable file not found"},
		"no such folder":  {nowhere, events.Configuration, "no such file or directory"},
	} {
		t.Run(name, func(t *testing.T) {
			_, got := followedBy(t, towline.AtMostOnce, c.target)
			require.Equal(t, decider.PostFailed, got.Effect)
			require.Equal(t, c.category, got.Category)
			require.Contains(t, got.Text, c.text)
			require.LessOrEqual(t, len(got.Text), 2000)
		})
	}
}

// HP-3, REC-10: in exactly_once mode a command that declares itself idempotent runs at least once, under one generation; one
// that fails in as many wakeups as it may is held.
func TestAnIdempotentCommand(t *testing.T) {
	ledger := filepath.Join(t.TempDir(), "ledger")
	good := shell(`mkdir -p "` + ledger + `/$TOWLINE_GENERATION"`)
	good.Idempotent = true
	run, got := followedBy(t, towline.ExactlyOnce, good)
	require.Equal(t, decider.PostCompleted, got.Effect)
	require.DirExists(t, filepath.Join(ledger, run.Run.String()+".1"))
	bad := shell(`exit 1`)
	bad.Idempotent = true
	run, got = followedBy(t, towline.ExactlyOnce, bad)
	require.True(t, got.Held)
	require.Equal(t, decider.EffectsHeld, run.PostSync.Effects)
}

// HP-2: a command that has succeeded and left something behind that holds its output is not waited for for ever.
func TestACommandThatLeavesSomethingBehind(t *testing.T) {
	target := shell(`sleep 8 & echo $!`)
	_, got := followedBy(t, towline.AtMostOnce, target)
	require.Equal(t, decider.PostCompleted, got.Effect)
	require.NotEmpty(t, got.Result)
}

// N-6, HP-2, HP-3: the end of a stop's grace kills a command with all that it has started. At most once that is the end of
// it; exactly once it is no failure, and the next process runs it again at once.
func TestAStopEndsACommand(t *testing.T) {
	for mode, want := range map[events.DeliveryMode]decider.PostStatus{
		towline.AtMostOnce: decider.PostFailed, towline.ExactlyOnce: decider.PostCompleted,
	} {
		t.Run(string(mode), func(t *testing.T) {
			folder := t.TempDir()
			target := shell(`if mkdir first 2>/dev/null; then echo begun >begun; sleep 60 & sleep 60; fi`)
			target.Dir, target.Idempotent = folder, true
			s := works(nothingToDo)
			s.PostSync = towline.PostSync{Mode: mode, Targets: []towline.Target{target}}
			path := filepath.Join(folder, "towline.db")
			n := start(t, open(t, node.Config{Store: path, Syncs: []node.Sync{s}, Knobs: towline.Knobs{ShutdownGrace: 10 * time.Millisecond}}))
			id := plan(t, n.Node, 1).Run
			waitFor(t, n.Node, func() bool {
				_, err := os.Stat(filepath.Join(folder, "begun"))
				return err == nil
			})
			n.end()
			again := start(t, open(t, node.Config{Store: path, Syncs: []node.Sync{s}}))
			run, err := again.Engine().WaitPostSync(t.Context(), id)
			require.NoError(t, err)
			require.Equal(t, want, run.PostSync.Targets[0].Effect)
			failures := enginetest.Only[events.PostSyncFailed](logOf(t, again.Node))
			if mode == towline.AtMostOnce {
				require.Len(t, failures, 1)
				require.Contains(t, failures[0].Text, "killed: the process is stopping")
			} else {
				require.Empty(t, failures)
			}
			again.end()
		})
	}
}

// SC-066, K-6: a function whose effect lives in the store, from plan to completion in a running node; what it commits there
// may be what the engine is to know, so it is told.
func TestAFunctionInTheStore(t *testing.T) {
	var n *node.Node
	target := towline.Target{Name: "index", Func: func(ctx context.Context, tx *sql.Tx, p towline.Post) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO seen VALUES ($1)`, p.Generation)
		return err
	}}
	s := works(nothingToDo)
	s.PostSync = towline.PostSync{Mode: towline.ExactlyOnce, Targets: []towline.Target{target}}
	n = open(t, node.Config{Syncs: []node.Sync{s}})
	_, err := n.DB().Exec(`CREATE TABLE seen (generation TEXT)`)
	require.NoError(t, err)
	r := start(t, n)
	run, err := n.Engine().WaitPostSync(t.Context(), plan(t, n, 1).Run)
	require.NoError(t, err)
	require.Equal(t, decider.EffectsDone, run.PostSync.Effects)
	var seen string
	require.NoError(t, n.DB().QueryRow(`SELECT group_concat(generation) FROM seen`).Scan(&seen))
	require.Equal(t, decider.Generation(run.Run), seen)
	requireGood(t, n)
	r.end()
}

//go:build unix

package docs_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/node"
	"github.com/towline-dev/towline/projections"
	"github.com/towline-dev/towline/provider"
	"github.com/towline-dev/towline/sink"
	"github.com/towline-dev/towline/sink/sqlite"
)

// The tests of this file hold OPERATING.md to what the program does.

// readings is a sync of days that writes a row for each of them.
func readings(dest sink.Opener, does provider.Func) node.Sync {
	return node.Sync{
		Name: "readings", Sources: []string{"harbour"}, Provider: does, Sink: dest,
		Datasets: []towline.Dataset{{Name: "readings", Window: towline.Day, Depth: 2 * days}},
	}
}

// writes puts one row for its window.
func writes(ctx context.Context, u provider.Unit, s sink.Sink) (provider.Result, error) {
	return provider.Result{}, s.Put(ctx, u.Dataset, u.Window.Name(), map[string]string{"run": u.Run.String()})
}

func destination(t *testing.T, path string, opts ...sqlite.Option) *sqlite.Destination {
	t.Helper()
	d := sqlite.File(path, opts...)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	return d
}

// open opens a node that says nothing, on a store of its own or on the one that c names.
func open(t *testing.T, c node.Config) *node.Node {
	t.Helper()
	if c.Store == "" {
		c.Store = filepath.Join(t.TempDir(), "towline.db")
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	c.Unsynced = true // tests lose no power
	c.Knobs.ShutdownGrace = -1
	n, err := node.Open(t.Context(), c)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, n.Close()) })
	return n
}

func plan(t *testing.T, n *node.Node, spec towline.RunSpec) towline.Planned {
	t.Helper()
	p, err := n.Engine().Plan(t.Context(), spec)
	require.NoError(t, err)
	return p
}

// ended plans a run and waits for its end.
func ended(t *testing.T, n *node.Node, spec towline.RunSpec) projections.SyncRun {
	t.Helper()
	run, err := n.Engine().Wait(t.Context(), plan(t, n, spec).Run)
	require.NoError(t, err)
	return run
}

// while runs a node as long as a test needs it.
func while(t *testing.T, n *node.Node, work func()) {
	t.Helper()
	require.NoError(t, n.RunWhile(t.Context(), func(context.Context) error {
		work()
		return nil
	}))
}

// until waits until a store has an answer.
func until(t *testing.T, store, question string) {
	t.Helper()
	deadline := time.After(time.Minute)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for len(query(t, store, question)) == 0 {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("it did not come to be: %s", question)
		}
	}
}

// execute changes a file behind the back of whoever has it open.
func execute(t *testing.T, file, statement string) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+file)
	require.NoError(t, err)
	_, err = db.ExecContext(t.Context(), statement)
	require.NoError(t, errors.Join(err, db.Close()))
}

// sqliteShell is the program with which people look into a store.
func sqliteShell(t *testing.T) string {
	t.Helper()
	shell, err := exec.LookPath("sqlite3")
	if err != nil && os.Getenv("TOWLINE_TEST_SERVICES") != "require" {
		t.Skip("sqlite3 is not installed")
	}
	require.NoError(t, err)
	return shell
}

// the pauses of the document are on record, and end.
func TestPausesOfTheDocument(t *testing.T) {
	n := open(t, node.Config{Store: filepath.Join(t.TempDir(), "towline.db"), Syncs: []node.Sync{{
		Name: "pages", Sources: []string{"wiki"}, Datasets: []towline.Dataset{{Name: "pages"}}, Provider: provider.Func(writes),
	}}})
	require.NoError(t, pauses(t.Context(), n.Engine()))
	_, err := n.Engine().Plan(t.Context(), towline.RunSpec{Sync: "pages"})
	require.ErrorIs(t, err, towline.ErrSourcePaused)
	by := towline.Actor{Name: "ada", Reason: "it has moved"}
	require.NoError(t, n.Engine().ResumeSource(t.Context(), "wiki", by))
	require.NoError(t, n.Engine().ResumeEngine(t.Context(), by))
	id := plan(t, n, towline.RunSpec{Sync: "pages"}).Run
	while(t, n, func() {
		_, err := n.Engine().Wait(t.Context(), id)
		require.NoError(t, err)
	})
}

// Section 6: the document explains every status of a unit and of a register, and no other.
func TestEveryStatusIsExplained(t *testing.T) {
	text, err := os.ReadFile(operating)
	require.NoError(t, err)
	row := regexp.MustCompile("(?m)^\\| `([a-z]+)` \\|")
	explained := func(head string) (out []string) {
		_, rest, ok := strings.Cut(string(text), head)
		require.True(t, ok, head)
		rest, _, _ = strings.Cut(rest, "\n\n")
		for _, m := range row.FindAllStringSubmatch(rest, -1) {
			out = append(out, m[1])
		}
		return out
	}
	terminal := []string{"succeeded", "failed", "cancelled"}
	require.Contains(t, string(text), "`succeeded`, `failed` and `cancelled` are the end.")
	require.ElementsMatch(t, constants(t, "../events/vocabulary.go", "UnitStatus"), append(explained("| unit | why"), terminal...))
	require.ElementsMatch(t, constants(t, "../decider/register.go", "RegisterStatus"), explained("| register | meaning"))
}

// L-12: the commands of the document work, in their order, in a clone.
func TestTheCommandsOfAnOperatorWork(t *testing.T) {
	sqliteShell(t)
	root, err := filepath.Abs("..")
	require.NoError(t, err)
	clone := t.TempDir()
	example := filepath.Join(clone, "examples", "embed")
	require.NoError(t, os.CopyFS(example, os.DirFS("../examples/embed")))
	mod, err := os.ReadFile(filepath.Join(example, "go.mod"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(example, "go.mod"), []byte(strings.Replace(string(mod), "=> ../..", "=> "+root, 1)), 0o644))

	today := time.Now().UTC().Format(time.DateOnly)
	cmd := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", strings.Join(blocks(t, operating, "sh"), ""))
	cmd.Dir = clone
	said, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", said)
	out := strings.Split(string(said), "\n")
	if time.Now().UTC().Format(time.DateOnly) != today {
		t.Skip("midnight has passed: the day that was written is not the last one that was read")
	}
	require.Contains(t, out, "succeeded: 62 of 62 days")
	require.Contains(t, out, "readings|succeeded|62")
	require.Contains(t, out, `harbour|`+today+` 08:00|{"value":"12.5"}`)
	read := 0
	for _, line := range out {
		if strings.HasPrefix(line, "read ") {
			read++
		}
	}
	require.Equal(t, 62, read)
	for _, copied := range []string{"station-backup.db", "readings-backup.db"} {
		require.Equal(t, [][]string{{"ok"}}, query(t, filepath.Join(example, copied), `PRAGMA integrity_check`))
	}
}

// R-1a, P-5, P-11, W-3, W-8: what a second plan takes.
func TestRunSomethingAgain(t *testing.T) {
	start := time.Now()
	now := func() time.Time { // the third of March, about noon
		return time.Date(2026, time.March, 3, 12, 0, 0, 0, time.UTC).Add(time.Since(start))
	}
	at := func(day, hour int) time.Time { return time.Date(2026, time.March, day, hour, 0, 0, 0, time.UTC) }
	var broken atomic.Value
	broken.Store("2026-03-02")
	var mu sync.Mutex
	var read []string
	does := func(ctx context.Context, u provider.Unit, s sink.Sink) (provider.Result, error) {
		mu.Lock()
		read = append(read, u.Source+" "+u.Window.Name())
		mu.Unlock()
		if u.Window.Name() == broken.Load() {
			return provider.Result{}, provider.Fail(provider.Network, errMood)
		}
		return writes(ctx, u, s)
	}
	s := readings(destination(t, filepath.Join(t.TempDir(), "readings.db")), does)
	s.Sources = []string{"harbour", "ridge"}
	moving := readings(sink.Discard, does)
	moving.Name, moving.Datasets = "moving", []towline.Dataset{{Name: "tides"}}
	n := open(t, node.Config{Now: now, Syncs: []node.Sync{s, moving}})

	again := func(spec towline.RunSpec) (took []string, run projections.SyncRun) {
		run = ended(t, n, spec)
		mu.Lock()
		defer mu.Unlock()
		took, read = read, nil
		return took, run
	}
	both := func(windows ...string) (out []string) {
		for _, w := range windows {
			out = append(out, "harbour "+w, "ridge "+w)
		}
		return out
	}
	while(t, n, func() {
		took, first := again(towline.RunSpec{Sync: "readings", Key: "march"})
		require.ElementsMatch(t, both("2026-03-01", "2026-03-02", "2026-03-03"), took, "two days back, and the open one")
		require.Equal(t, events.RunPartialFailed, first.Status)
		took, same := again(towline.RunSpec{Sync: "readings", Key: "march"})
		require.Empty(t, took, "a known key starts nothing")
		require.Equal(t, first.Run, same.Run)

		specs := requests("april", at(1, 12), at(2, 12))
		took, _ = again(specs[0])
		require.ElementsMatch(t, both("2026-03-02", "2026-03-03"), took, "what has failed, and the open day")
		broken.Store("")
		took, _ = again(towline.RunSpec{Sync: "readings"})
		require.ElementsMatch(t, both("2026-03-02", "2026-03-03"), took)
		took, _ = again(towline.RunSpec{Sync: "readings"})
		require.ElementsMatch(t, both("2026-03-03"), took, "without a key each is a run of its own")
		took, _ = again(specs[1])
		require.ElementsMatch(t, both("2026-03-01", "2026-03-02", "2026-03-03"), took)
		took, _ = again(specs[2])
		require.ElementsMatch(t, both("2026-03-01", "2026-03-02"), took, "rounded outward")
		took, _ = again(specs[3])
		require.ElementsMatch(t, []string{"ridge 2026-03-01", "ridge 2026-03-02", "ridge 2026-03-03"}, took)

		broken.Store("2026-02-01")
		_, failed := again(towline.RunSpec{Sync: "readings", Mode: towline.Backfill, Since: at(-27, 0), Before: at(-26, 0)})
		require.Equal(t, events.RunFailed, failed.Status)
		took, _ = again(towline.RunSpec{Sync: "readings"})
		require.ElementsMatch(t, both("2026-03-03"), took, "a backfill that failed lies beyond the depth")

		nothing := plan(t, n, towline.RunSpec{Sync: "readings", Sources: []string{}})
		require.Zero(t, nothing.Units)
		run, err := n.Engine().Wait(t.Context(), nothing.Run)
		require.NoError(t, err)
		require.Equal(t, events.RunFailed, run.Status)
		require.Equal(t, events.ReasonNoUnits, run.Reason)

		windowOf := func(run projections.SyncRun) (from, to time.Time) {
			require.Equal(t, 1, run.Total)
			require.NoError(t, n.Engine().View(t.Context(), func(v projections.View) error {
				units, err := v.Units(run.Run, 0, 1)
				from, to = units[0].Window.From, units[0].Window.To
				return err
			}))
			return from, to
		}
		_, run = again(towline.RunSpec{Sync: "moving", Mode: towline.Backfill, Since: at(1, 12), Before: at(2, 12)})
		from, to := windowOf(run)
		require.Equal(t, []time.Time{at(1, 12), at(2, 12)}, []time.Time{from, to}, "without a calendar nothing is rounded")
		_, run = again(towline.RunSpec{Sync: "moving"})
		from, firstEnd := windowOf(run)
		require.Equal(t, at(3, 12).AddDate(0, 0, -30), from.Truncate(time.Hour))
		_, run = again(towline.RunSpec{Sync: "moving"})
		from, _ = windowOf(run)
		require.Equal(t, firstEnd, from, "from the watermark, which no backfill has moved")
	})
}

// B-2: the workers are the first limit, the cap of the bucket is the second.
func TestTheWorkersAreTheFirstLimit(t *testing.T) {
	for workers, together := range map[int]int{0: 4, 20: 8} {
		t.Run(fmt.Sprint(workers), func(t *testing.T) {
			store := filepath.Join(t.TempDir(), "towline.db")
			began, goOn := make(chan struct{}, 20), make(chan struct{})
			s := readings(nil, func(context.Context, provider.Unit, sink.Sink) (provider.Result, error) {
				began <- struct{}{}
				<-goOn
				return provider.Result{}, nil
			})
			s.Datasets[0].Depth = 11 * days
			n := open(t, node.Config{Store: store, Workers: workers, Syncs: []node.Sync{s}})
			p := plan(t, n, towline.RunSpec{Sync: "readings"})
			while(t, n, func() {
				for range together {
					<-began
				}
				require.Equal(t, [][]string{{fmt.Sprint(together), "8"}}, query(t, store, `
					SELECT sum(status = 'running'), sum(status IN ('running', 'dispatching'))
					FROM units_view`))
				close(goOn)
				_, err := n.Engine().Wait(t.Context(), p.Run)
				require.NoError(t, err)
			})
		})
	}
}

// P-11, WMILL-2: a run starts behind another, once, also when the event of the first comes twice: to a group that begins at
// the first event again, as it does behind a kill.
func TestARunStartsBehindAnother(t *testing.T) {
	store := filepath.Join(t.TempDir(), "towline.db")
	dest := destination(t, filepath.Join(t.TempDir(), "dest.db"))
	mart := readings(dest, writes)
	mart.Name, mart.Sources = "mart", []string{"south"}
	n := open(t, node.Config{Store: store, Syncs: []node.Sync{readings(dest, writes), mart}})
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ran := make(chan error, 1)
	go func() { ran <- n.Run(ctx) }()
	followed, enough := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- startBehind(followed, n, "readings", "mart") }()
	first := ended(t, n, towline.RunSpec{Sync: "readings"})
	until(t, store, `SELECT 1 FROM runs_view WHERE sync = 'mart' AND status = 'succeeded'`)
	enough()
	require.NoError(t, <-done)
	require.NoError(t, planBehind(t.Context(), n.Engine(), "run/"+first.Run.String(), "readings", "mart"))
	require.Len(t, query(t, store, `SELECT 1 FROM runs_view WHERE sync = 'mart'`), 1)
	stop()
	require.NoError(t, <-ran)
}

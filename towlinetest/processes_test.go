//go:build unix

package towlinetest_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/node"
	"github.com/towline-dev/towline/provider"
	"github.com/towline-dev/towline/sim"
	"github.com/towline-dev/towline/sink"
	"github.com/towline-dev/towline/sink/sqlite"
	"github.com/towline-dev/towline/towlinetest"
)

const days = 12

// copyDays is what a program would do: it opens a node, asks for a run, waits for it, and stops.
func copyDays(ctx context.Context, dir string, p provider.Provider) (err error) {
	rows := sqlite.File(filepath.Join(dir, "rows.db"))
	defer func() { err = errors.Join(err, rows.Close()) }()
	n, err := node.Open(ctx, node.Config{
		Store: filepath.Join(dir, "towline.db"), Logger: slog.New(slog.DiscardHandler), Unsynced: true,
		Knobs: towline.Knobs{ReconcileInterval: time.Second},
		Syncs: []node.Sync{{
			Name: "days", Sources: []string{"one"}, Provider: p, Sink: rows,
			Datasets: []towline.Dataset{{Name: "first", Window: towline.Day, Retry: towline.Retry{Max: 100, Backoff: time.Millisecond}}},
		}},
	})
	if err != nil {
		return err
	}
	return n.RunWhile(ctx, func(ctx context.Context) error {
		planned, err := n.Engine().Plan(ctx, towline.RunSpec{
			Sync: "days", Mode: towline.Backfill, Since: sim.DefaultStart.AddDate(0, 0, 1-days), Before: sim.DefaultStart, Key: "1",
		})
		if err != nil {
			return err
		}
		run, err := n.Engine().Wait(ctx, planned.Run)
		if err == nil && run.Succeeded != run.Total {
			err = fmt.Errorf("%d of %d units have succeeded", run.Succeeded, run.Total)
		}
		return err
	})
}

// N-3, HU-5, design 10.1: a node with a sink in a file is killed for real, at random and in the middle of its provider, and
// every row is there once.
func TestProcessesThatAreKilled(t *testing.T) {
	dir := towlinetest.Dir(t)
	p := func(ctx context.Context, u provider.Unit, s sink.Sink) (provider.Result, error) {
		result, err := fenced(ctx, u, s)
		return result, errors.Join(err, towlinetest.Point(ctx, "behind "+u.Window.Name()))
	}
	towlinetest.Processes{
		Work: func(ctx context.Context) error { return copyDays(ctx, dir, provider.Func(p)) },
		Oracle: func(t testing.TB) {
			rows := sqlite.File(filepath.Join(dir, "rows.db"))
			defer rows.Close()
			db, err := rows.DB(context.Background())
			require.NoError(t, err)
			var n int
			require.NoError(t, db.QueryRow(`SELECT count(*) FROM first`).Scan(&n))
			require.Equal(t, 3*days, n)
		},
		Kills: 8,
	}.Run(t)
}

// appended is work that is done again by whoever comes next, until all is done.
func appended(ctx context.Context, dir string) error {
	for n := range 3 {
		done := filepath.Join(dir, fmt.Sprint(n))
		if _, err := os.Stat(done); err == nil {
			continue
		} else if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		f, err := os.OpenFile(filepath.Join(dir, "sent"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(f, n)
		if err := errors.Join(err, f.Close()); err != nil {
			return err
		}
		if err := towlinetest.Point(ctx, "sent"); err != nil {
			return err
		}
		if err := os.WriteFile(done, nil, 0o600); err != nil {
			return err
		}
		<-time.After(300 * time.Millisecond) // real work
	}
	return nil
}

// within is a recorder of which the other processes are those of the test: its calls are counted together.
func within(t *testing.T) *recorder { return &recorder{name: t.Name(), within: t} }

// design 10.1: an effect that is not idempotent is seen behind a kill at the point that follows it. Each call of a test has
// its own processes, and the same folder.
func TestAnEffectThatHappensTwice(t *testing.T) {
	dir := towlinetest.Dir(t)
	require.Equal(t, dir, towlinetest.Dir(t))
	r := within(t).try(func(t testing.TB) {
		towlinetest.Processes{
			Work: func(ctx context.Context) error { return appended(ctx, dir) },
			Oracle: func(t testing.TB) {
				sent, err := os.ReadFile(filepath.Join(dir, "sent"))
				require.NoError(t, err)
				require.Equal(t, 3, bytes.Count(sent, []byte("\n")))
			},
			Kills: 2, First: 300 * time.Millisecond, Seed: 1,
		}.Run(t)
	})
	twice := false
	towlinetest.CrashProcesses(t, func(context.Context) error {
		<-time.After(100 * time.Millisecond)
		_, err := os.Stat(filepath.Join(dir, "sent"))
		return err
	}, func(testing.TB) { twice = true })
	require.True(t, twice, "the second call")

	require.True(t, r.failed)
	require.Contains(t, r.said(), "expected: 3")
	logs := fmt.Sprint(r.logs)
	require.Contains(t, logs, "again, with the same delays: go test github.com/towline-dev/towline/towlinetest -run '^TestAnEffectThatHappensTwice$' -towline.seed=1")
	require.Contains(t, logs, "process 2 was killed at point sent")
}

// A process that ends with an error, without a kill, or never, is a failure, which says what the process has said.
func TestProcessesThatEndOtherwise(t *testing.T) {
	dir := towlinetest.Dir(t)
	run := func(p towlinetest.Processes) string {
		p.Oracle = func(t testing.TB) { t.Fatal("nothing is to be judged") }
		return within(t).try(p.Run).said()
	}
	fails := run(towlinetest.Processes{Work: func(context.Context) error { return errors.New("no " + filepath.Base(dir)) }, First: time.Hour})
	ends := run(towlinetest.Processes{Work: func(context.Context) error { return nil }, First: time.Hour})
	hangs := run(towlinetest.Processes{Work: func(ctx context.Context) error { select {} }, Kills: 1, Limit: 300 * time.Millisecond})
	panics := run(towlinetest.Processes{Work: func(context.Context) error { panic("out of order") }, First: time.Hour})

	require.Contains(t, fails, "process 1 has ended by itself, and not well: exit status 1\nno "+filepath.Base(dir))
	require.Contains(t, ends, "the first process had ended before it was killed")
	require.Contains(t, hangs, "none has ended within 300ms")
	require.Contains(t, panics, "panic: out of order")
}

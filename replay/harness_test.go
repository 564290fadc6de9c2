package replay_test

import (
	"bytes"
	"context"
	"flag"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/internal/enginetest"
	"github.com/towline-dev/towline/projections"
	"github.com/towline-dev/towline/replay"
	"github.com/towline-dev/towline/store"
	"github.com/towline-dev/towline/store/sqlite"
)

var rewrite = flag.Bool("rewrite", false, "write the texts to testfixtures/replay instead of comparing with them")

// stage is a store, a clock, and the processes that use it.
type stage struct {
	t      *testing.T
	path   string
	now    *enginetest.Clock
	shared bool
	starts byte

	schedules []towline.Schedule
}

func newStage(t *testing.T) *stage {
	return &stage{t: t, path: filepath.Join(t.TempDir(), "towline.db"), now: enginetest.NewClock(enginetest.Start)}
}

// actor is one process.
type actor struct {
	s    *stage
	file *sqlite.Store
	e    *towline.Engine
}

// start starts a process that reads something for each of two sources.
func (s *stage) start() *actor {
	s.t.Helper()
	clock := towline.NewClock(s.now.Now)
	file, err := sqlite.Open(context.Background(), s.path, sqlite.Options{Shared: s.shared, Now: clock.Now, Inline: true, Synchronous: "normal"})
	require.NoError(s.t, err)
	s.starts++
	e, err := towline.Open(context.Background(), file, towline.Config{
		Syncs: []towline.Sync{{
			Name: "reports", Provider: "press", Sources: []string{"north", "south"},
			Datasets: []towline.Dataset{{Name: "articles", Retry: towline.Retry{Max: 3}}},
		}},
		Schedules: s.schedules,
		Knobs:     towline.Knobs{BackfillChunk: 24 * time.Hour, MaxUnits: 2000, CapRun: 50, CapBucket: 50},
		Clock:     clock, Entropy: rand.NewChaCha8([32]byte{s.starts}), Logger: slog.New(slog.DiscardHandler),
		Host: "here", PID: 100 + int(s.starts),
	})
	require.NoError(s.t, err)
	return &actor{s, file, e}
}

// kill ends a process without a word.
func (a *actor) kill() { require.NoError(a.s.t, a.file.Close()) }

// stop ends it with one.
func (a *actor) stop() {
	require.NoError(a.s.t, a.e.Stop(context.Background(), "the machine restarts"))
	a.kill()
}

func (a *actor) plan(days int) events.RunID {
	a.s.t.Helper()
	spec := towline.RunSpec{Sync: "reports"}
	if days > 0 {
		spec.Mode, spec.Before = towline.Backfill, a.s.now.Now().Truncate(24*time.Hour)
		spec.Since = spec.Before.AddDate(0, 0, -days)
	}
	p, err := a.e.Plan(context.Background(), spec)
	require.NoError(a.s.t, err)
	return p.Run
}

func (a *actor) dispatch(run events.RunID) {
	a.s.t.Helper()
	require.NoError(a.s.t, a.e.Transact(context.Background(), "", func(tx *towline.Tx) error {
		_, err := tx.Dispatch(run)
		return err
	}))
}

// claim takes a unit by its ordinal.
func (a *actor) claim(run events.RunID, ordinal int) towline.Lease {
	a.s.t.Helper()
	var units []projections.SyncRunUnit
	require.NoError(a.s.t, a.e.View(context.Background(), func(v projections.View) (err error) {
		units, err = v.Units(run, ordinal-1, 1)
		return err
	}))
	require.Len(a.s.t, units, 1)
	l, err := a.e.Claim(context.Background(), units[0].Unit, towline.Worker{Name: "worker"})
	require.NoError(a.s.t, err)
	return l
}

func (a *actor) complete(l towline.Lease) {
	a.s.t.Helper()
	require.NoError(a.s.t, a.e.Complete(context.Background(), l, events.Result{Rows: 3}))
}

func (a *actor) finalize(run events.RunID) {
	a.s.t.Helper()
	require.NoError(a.s.t, a.e.Transact(context.Background(), "", func(tx *towline.Tx) error {
		_, err := tx.Finalize(run)
		return err
	}))
}

// past is the head of a log, or an earlier position.
func past(t testing.TB, log projections.Log, p events.Position) *projections.Past {
	t.Helper()
	if p == 0 {
		require.NoError(t, log.Read(context.Background(), func(r store.Reader) (err error) {
			p, _, err = r.Head()
			return err
		}))
	}
	scratch, err := sqlite.Open(context.Background(), filepath.Join(t.TempDir(), "scratch.db"), sqlite.Options{Inline: true, Synchronous: "normal"})
	require.NoError(t, err)
	out, err := projections.NewPast(context.Background(), log, scratch, p)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, out.Close()) })
	return out
}

func history(t testing.TB, log projections.Log, p events.Position, run events.RunID) *replay.History {
	t.Helper()
	h, err := replay.Open(context.Background(), past(t, log, p), run)
	require.NoError(t, err)
	return h
}

func steps(t *testing.T, h *replay.History) (out []replay.Step) {
	t.Helper()
	for s, err := range h.Steps(context.Background()) {
		require.NoError(t, err)
		out = append(out, s)
	}
	return out
}

func text(t *testing.T, h *replay.History, o replay.TextOptions) string {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, replay.Text(context.Background(), &b, h, o))
	return b.String()
}

// golden compares with a file of testfixtures/replay.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("..", "testfixtures", "replay", name)
	if *rewrite {
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
		return
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err, "run the test with -rewrite")
	require.Equal(t, string(want), got, "read the difference, and run the test with -rewrite if it is meant")
}

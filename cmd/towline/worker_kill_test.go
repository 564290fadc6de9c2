//go:build unix

package main

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/client"
	"github.com/towline-dev/towline/wire"
)

var killSeed = flag.Uint64("kill-seed", 0, "of TestWorkersAndTheirEngineAreKilledAtRandom; 0: a new one")

// gang is an engine and its workers, each a process of its own.
type gang struct {
	t       *testing.T
	dir     string
	engine  *member
	workers []*member
}

type member struct {
	cmd *exec.Cmd
	log *bytes.Buffer
}

// newGang starts an engine without workers.
func newGang(t *testing.T) *gang {
	t.Helper()
	dir, err := os.MkdirTemp("", "gang") //nolint:usetesting // a socket's path is short, and the folder of a test is not
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	g := &gang{t: t, dir: dir}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "towline.yaml"), []byte(gangConfig), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "pull.sh"), []byte(gangPull), 0o600))
	g.engine = g.start("serve")
	t.Cleanup(func() {
		for _, m := range append(g.workers, g.engine) {
			m.kill()
			if t.Failed() {
				t.Logf("%v:\n%s", m.cmd.Args, m.log)
			}
		}
	})
	return g
}

func (g *gang) start(args ...string) *member {
	g.t.Helper()
	return g.startTo(nil, args...)
}

// startTo is start with a standard output; nil: nobody reads it.
func (g *gang) startTo(stdout io.Writer, args ...string) *member {
	g.t.Helper()
	m := &member{cmd: exec.Command("towline", args...), log: &bytes.Buffer{}}
	m.cmd.Dir, m.cmd.Stdout, m.cmd.Stderr = g.dir, stdout, m.log
	m.cmd.Env = append(os.Environ(), "TOWLINE_API_LISTEN=unix:"+filepath.Join(g.dir, socket), "TOWLINE_CONFIG=", "TOWLINE_URL=", "TOWLINE_DB=")
	require.NoError(g.t, m.cmd.Start())
	return m
}

// kill ends a process as a crash would, frozen or not.
func (m *member) kill() {
	_ = m.cmd.Process.Kill()
	_ = m.cmd.Wait() // it was killed
}

func (m *member) signal(t *testing.T, s os.Signal) {
	t.Helper()
	require.NoError(t, m.cmd.Process.Signal(s))
}

const gangConfig = `version: 1
unit: {lease: 1s}
plan: {backfill_chunk: 1d}
retry_policies:
  again: {provider: exec, max_retries: 100, backoff: 20ms}
syncs:
  days:
    provider: exec
    command: [sh, pull.sh]
    datasets: {d: {retry: again}}
    sink: {sqlite: {path: rows.db}}
`

const gangPull = `for n in 1 2 3; do
  printf '{"towline":"record","stream":"d","key":["%s","%d"],"data":{"n":%d}}\n' "$TOWLINE_WINDOW_FROM" $n $n
  sleep 0.02
done
echo '{"towline":"result","rows":3}'
`

// N-5, HU-5, HU-9, C-13, C-15: workers and their engine are killed and frozen at random, again and again. The run ends all the
// same, every window has its rows once, and the store is proved.
func TestWorkersAndTheirEngineAreKilledAtRandom(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes some seconds, and starts some processes")
	}
	seed := *killSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("seed: -kill-seed=%d", seed)
	dice := rand.New(rand.NewPCG(seed, 1))
	g := newGang(t)
	dir := g.dir
	for i := range 3 {
		g.workers = append(g.workers, g.start("worker", "--workers", "2", "--name", fmt.Sprint(i)))
	}
	const days = 60
	c, err := client.New(client.Config{Address: "unix:" + filepath.Join(dir, socket)})
	require.NoError(t, err)
	before := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	var run string
	g.eventually(func(ctx context.Context) error {
		s, err := c.StartRun(ctx, wire.StartRun{Sync: "days", Mode: "backfill", Since: before.AddDate(0, 0, -days), Before: before}, client.StartOptions{Key: "k"})
		run = s.Run.ID.String()
		return err
	})
	succeeded := func(least int) bool {
		r, err := c.Run(t.Context(), run, client.Now)
		return err == nil && (r.Value.Succeeded >= least || r.Value.State.Terminal())
	}
	expired := func() (n int) {
		for _, err := range c.Events(t.Context(), client.EventQuery{Where: "type:UnitLeaseExpired"}) {
			require.NoError(t, err)
			n++
		}
		return n
	}
	for blow := range 14 {
		g.eventually(func(context.Context) error {
			if !succeeded(4 * blow) {
				return fmt.Errorf("fewer than %d units have succeeded", 4*blow)
			}
			return nil
		})
		switch i := dice.IntN(len(g.workers)); dice.IntN(4) {
		case 0:
			g.engine.kill()
			g.engine = g.start("serve")
		case 1:
			lost := expired()
			g.workers[i].signal(t, syscall.SIGSTOP)
			g.eventually(func(ctx context.Context) error {
				if expired() == lost && !succeeded(4*blow+3) { // frozen in its commit, it holds the file of the others
					return errors.New("nobody has gone on, and it has lost nothing")
				}
				return nil
			})
			g.workers[i].signal(t, syscall.SIGCONT)
		default:
			g.workers[i].kill()
			g.workers[i] = g.start("worker", "--workers", "2", "--name", fmt.Sprint(i))
		}
	}
	var end wire.Run
	g.eventually(func(ctx context.Context) error {
		r, err := c.Run(ctx, run, client.Now)
		if end = r.Value; err == nil && !end.State.Terminal() {
			err = fmt.Errorf("run %s", end.State)
		}
		return err
	})
	require.Equal(t, "succeeded", string(end.State))
	require.Equal(t, days, end.Succeeded)
	for _, w := range g.workers {
		w.signal(t, syscall.SIGTERM)
		require.NoError(t, w.cmd.Wait(), "%s", w.log)
	}
	g.engine.signal(t, syscall.SIGTERM)
	require.NoError(t, g.engine.cmd.Wait(), "%s", g.engine.log)
	out, err := exec.Command("towline", "verify", "--db", filepath.Join(dir, "towline.db")).CombinedOutput()
	require.NoError(t, err, "%s", out)
	db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "rows.db")+"?mode=ro")
	require.NoError(t, err)
	defer db.Close()
	var windows, rows, keys int
	require.NoError(t, db.QueryRow(`SELECT count(DISTINCT window), count(*), count(DISTINCT key) FROM d`).Scan(&windows, &rows, &keys))
	require.Equal(t, []int{days, 3 * days, 3 * days}, []int{windows, rows, keys})
}

// eventually asks until there is no error. Nothing tells from outside when another process has come so far.
func (g *gang) eventually(ask func(context.Context) error) {
	g.t.Helper()
	var err error
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for over := time.After(patience); ; {
		if err = ask(g.t.Context()); err == nil {
			return
		}
		select {
		case <-again.C:
		case <-over:
			require.NoError(g.t, errors.Join(errors.New("it does not come so far"), err))
		}
	}
}

// N-6, U-16: a reader of the output that goes away, as head does, takes no unit with it. The worker goes on until it is stopped.
func TestAReaderThatGoesAwayEndsNoWork(t *testing.T) {
	g := newGang(t)
	reader, writer, err := os.Pipe()
	require.NoError(t, err)
	w := g.startTo(writer, "worker", "--workers", "1", "-o", "jsonl")
	g.workers = append(g.workers, w)
	require.NoError(t, writer.Close())
	require.NoError(t, reader.Close())
	c, err := client.New(client.Config{Address: "unix:" + filepath.Join(g.dir, socket)})
	require.NoError(t, err)
	before := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	var run string
	g.eventually(func(ctx context.Context) error {
		s, err := c.StartRun(ctx, wire.StartRun{Sync: "days", Mode: "backfill", Since: before.AddDate(0, 0, -3), Before: before}, client.StartOptions{Key: "k"})
		run = s.Run.ID.String()
		return err
	})
	g.eventually(func(ctx context.Context) error {
		r, err := c.Run(ctx, run, client.Now)
		if err == nil && r.Value.Succeeded < 3 {
			err = fmt.Errorf("%d units have succeeded", r.Value.Succeeded)
		}
		return err
	})
	w.signal(t, syscall.SIGTERM)
	var code *exec.ExitError
	require.ErrorAs(t, w.cmd.Wait(), &code)
	require.Equal(t, int(exitInterrupted), code.ExitCode(), "%s", w.log)
	require.Contains(t, w.log.String(), "stopped cleanly: 3 succeeded")
}

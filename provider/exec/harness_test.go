//go:build unix

package exec_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	osexec "os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/internal/enginetest"
	"github.com/towline-dev/towline/provider"
	"github.com/towline-dev/towline/provider/exec"
	"github.com/towline-dev/towline/provider/providertest"
)

// engineVariable makes the test binary an engine on the store in the folder that it names.
const engineVariable = "EXEC_TEST_ENGINE"

// TestMain also is the main function of the engines that tests kill.
func TestMain(m *testing.M) {
	if dir := os.Getenv(engineVariable); dir != "" {
		os.Exit(engine(dir))
	}
	goleak.VerifyTestMain(m)
}

// unit is one attempt at a day of a source.
func unit() provider.Unit {
	day := time.Date(2024, 3, 1, 0, 0, 0, 0, time.UTC)
	return provider.Unit{
		Run: events.RunID{1, 2, 3, 15: 9}, ID: events.UnitID{4, 5, 6, 15: 7}, Alias: "00000A:orders/commits/2024-03-01", Sync: "code",
		Source: "orders", Dataset: "commits", Mode: events.Incremental, Window: events.NewWindow(day, day.AddDate(0, 0, 1)),
		Surfaces: []string{"commits"}, Attempt: 2, Fence: events.NewFence(1, 1187),
	}
}

// sh is a program that a script of the shell is.
func sh(script string) exec.Options { return exec.Options{Command: []string{"/bin/sh", "-c", script}} }

// outcome is what an attempt has come to.
type outcome struct {
	t      *testing.T
	result provider.Result
	err    error
	sink   *providertest.Sink
	log    *enginetest.Log
}

func newProvider(t *testing.T, o exec.Options) (*exec.Provider, *enginetest.Log) {
	t.Helper()
	if o.Folder == "" {
		o.Folder = filepath.Join(t.TempDir(), "attempts")
	}
	log := &enginetest.Log{}
	o.Logger = slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	p, err := exec.New(o)
	require.NoError(t, err)
	t.Cleanup(func() { requireEmpty(t, o.Folder) })
	return p, log
}

// requireEmpty: no attempt leaves anything in the folder of attempts.
func requireEmpty(t *testing.T, folder string) {
	t.Helper()
	left, err := filepath.Glob(filepath.Join(folder, "[^.]*"))
	require.NoError(t, err)
	require.Empty(t, left)
}

func run(t *testing.T, o exec.Options) outcome {
	t.Helper()
	return runUnit(t.Context(), t, o, unit())
}

func runUnit(ctx context.Context, t *testing.T, o exec.Options, u provider.Unit) outcome {
	t.Helper()
	p, log := newProvider(t, o)
	s := providertest.NewSink(u)
	result, err := p.Sync(ctx, u, s)
	return outcome{t, result, err, s, log}
}

func (o outcome) detail() (d exec.Detail) {
	o.t.Helper()
	if len(o.result.Detail) > 0 {
		require.NoError(o.t, json.Unmarshal(o.result.Detail, &d))
	}
	return d
}

// rows are what has been put, as surface, key and row.
func (o outcome) rows() []string {
	o.t.Helper()
	require.NoError(o.t, o.err, "%s", o.result.Detail)
	var rows []string
	for _, r := range o.sink.Rows() {
		rows = append(rows, r.Surface+" "+r.Key+" "+r.JSON)
	}
	return rows
}

func (o outcome) requireFailed(c provider.Category, text string) {
	o.t.Helper()
	require.ErrorContains(o.t, o.err, text)
	require.Equal(o.t, c, provider.CategoryOf(o.err), "%v", o.err)
}

// eventually waits for something that another process does, by looking: there is nothing else to wait for.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	require.Eventually(t, ok, 20*time.Second, 5*time.Millisecond, what)
}

func exists(path string) func() bool {
	return func() bool {
		_, err := os.Stat(path)
		return err == nil
	}
}

// number waits for a file that holds a number, which a program has written.
func number(t *testing.T, path string) (n int) {
	t.Helper()
	eventually(t, path, func() bool {
		b, err := os.ReadFile(path)
		if err != nil || !strings.HasSuffix(string(b), "\n") {
			return false
		}
		n, err = strconv.Atoi(strings.TrimSpace(string(b)))
		return err == nil
	})
	return n
}

// lives reports a process that is not dead. A dead one whose parent is gone may wait for somebody to reap it.
func lives(pid int) bool {
	state, err := osexec.Command("ps", "-o", "state=", "-p", strconv.Itoa(pid)).Output()
	return err == nil && !strings.HasPrefix(strings.TrimSpace(string(state)), "Z") && !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH)
}

func requireGone(t *testing.T, pid int) {
	t.Helper()
	eventually(t, "process "+strconv.Itoa(pid)+" is gone", func() bool { return !lives(pid) })
}

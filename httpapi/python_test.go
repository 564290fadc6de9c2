package httpapi_test

import (
	"bytes"
	"database/sql"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	_ "modernc.org/sqlite" // the rows that workers write

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/httpapi"
	"github.com/towline-dev/towline/sink"
)

// pythonWorker is clients/python/towline_worker.py as a process of its own, on the socket of a world.
type pythonWorker struct {
	w    *world
	name string
	cmd  *exec.Cmd
	log  *bytes.Buffer
	done chan struct{}
}

// python starts a worker with a mode of testdata/work.py.
func (w *world) python(name, mode string) *pythonWorker {
	w.t.Helper()
	return w.pythonAt("unix:"+w.socket, name, mode)
}

func (w *world) pythonAt(url, name, mode string) *pythonWorker {
	w.t.Helper()
	program, err := exec.LookPath("python3")
	if err != nil {
		w.t.Skip("there is no python3")
	}
	p := &pythonWorker{w: w, name: name, log: &bytes.Buffer{}, done: make(chan struct{})}
	p.cmd = exec.Command(program, "-B", filepath.Join("..", "clients", "python", "towline_worker.py"), "--url", url, "--name", name, "--sync", "days", filepath.Join("testdata", "work.py"))
	p.cmd.Env = append(os.Environ(), "TEST_FOLDER="+w.dir, "TEST_NAME="+name, "TEST_MODE="+mode)
	p.cmd.Stderr = p.log
	require.NoError(w.t, p.cmd.Start())
	go func() {
		defer close(p.done)
		_ = p.cmd.Wait() // most of them are killed
	}()
	w.t.Cleanup(func() {
		p.signal(syscall.SIGCONT)
		p.signal(syscall.SIGKILL)
		<-p.done
		if w.t.Failed() {
			w.t.Logf("worker %s:\n%s", name, p.log)
		}
	})
	return p
}

func (p *pythonWorker) signal(s syscall.Signal) { _ = p.cmd.Process.Signal(s) }

// started is the unit that the worker has claimed.
func (p *pythonWorker) started() string {
	p.w.t.Helper()
	var unit []byte
	p.w.eventually(func() bool {
		unit, _ = os.ReadFile(filepath.Join(p.w.dir, p.name+".started"))
		return len(unit) == 26
	})
	return string(unit)
}

func (p *pythonWorker) goOn() {
	p.w.t.Helper()
	require.NoError(p.w.t, os.WriteFile(filepath.Join(p.w.dir, p.name+".go"), nil, 0o600))
}

// terminate ends it as an init system does, and wants it to obey.
func (p *pythonWorker) terminate() string {
	p.w.t.Helper()
	p.w.eventually(func() bool { // before, the signal would kill it
		_, err := os.Stat(filepath.Join(p.w.dir, p.name+".ready"))
		return err == nil
	})
	p.signal(syscall.SIGTERM)
	<-p.done
	require.True(p.w.t, p.cmd.ProcessState.Success(), "%s", p.log)
	return p.log.String()
}

// rows are what lies in the sink of the workers, one a window: by whom it was written.
func (w *world) rows() map[string]string {
	w.t.Helper()
	db, err := sql.Open("sqlite", filepath.Join(w.dir, "rows.db"))
	require.NoError(w.t, err)
	defer db.Close()
	list, err := db.Query(`SELECT source || '/' || win, worker FROM rows`)
	require.NoError(w.t, err)
	defer list.Close()
	out := map[string]string{}
	for list.Next() {
		var key, by string
		require.NoError(w.t, list.Scan(&key, &by))
		require.Empty(w.t, out[key], "%s is there twice", key)
		out[key] = by
	}
	require.NoError(w.t, list.Err())
	return out
}

// shortLease is a lease that a test can outlive, with or without a retry of lost workers.
func shortLease(retries int) func(*setup) {
	return func(c *setup) {
		c.node.Knobs.Lease = 4 * time.Second
		if retries > 0 {
			c.node.Syncs[0].Datasets[0].Retry = towline.Retry{Max: retries, Backoff: 50 * time.Millisecond, On: []events.Category{events.Network}}
		}
	}
}

// Surfaces 5.4: a worker in another language does the units of a run, from its claim to the end.
func TestAPythonWorkerDoesARun(t *testing.T) {
	w := start(t, oneDay, byWorkers)
	scope := sink.Scope{Store: w.node.Engine().Node().String(), Source: "north", Dataset: "a", Window: events.NewWindow(before.AddDate(0, 0, -1), before), Fence: events.NewFence(1, 1)}
	require.NoError(t, w.guard(scope), "the fence of a worker in Go")
	first, second := w.python("one", ""), w.python("two", "")
	run := w.plan(12)
	require.Equal(t, 12, w.wait(run.ID).Succeeded)
	require.Len(t, w.rows(), 12)
	log := first.terminate() + second.terminate()
	require.Equal(t, 12, strings.Count(log, ": succeeded"), log)
	var units httpapi.List[httpapi.Unit]
	w.send("GET", run.Links.Units, nil).is(http.StatusOK, &units)
	for _, u := range units.Items {
		require.Equal(t, 1, u.Result.Rows)
		require.Contains(t, string(u.Result.State), `"big":1234567890123456789`)
		require.Equal(t, 1, u.Attempt)
	}
	require.ErrorIs(t, w.guard(scope), sink.ErrFenced, "the two languages have one fence")
	scope.Store = "another"
	require.ErrorIs(t, w.guard(scope), sink.ErrForeign)
}

// guard is sink.Guard on the sink of the workers.
func (w *world) guard(s sink.Scope) error {
	w.t.Helper()
	db, err := sql.Open("sqlite", filepath.Join(w.dir, "rows.db"))
	require.NoError(w.t, err)
	defer db.Close()
	_, err = db.Exec(sink.GuardSchema)
	require.NoError(w.t, err)
	tx, err := db.Begin()
	require.NoError(w.t, err)
	defer tx.Rollback()
	if err := sink.Guard(w.t.Context(), tx, s); err != nil {
		return err
	}
	return tx.Commit()
}

// Every way in which a worker ends an attempt has its own outcome: a rate limit and a hand-back come again, a declared
// category is tried again, anything else fails the unit; and secrets in what it says are masked (E-3).
func TestAPythonWorkerEndsAttemptsInEveryWay(t *testing.T) {
	w := start(t, oneDay, byWorkers, shortLease(1), func(c *setup) { c.node.Knobs.Lease = time.Minute })
	run := w.plan(5)
	w.python("one", "categories")
	done := w.wait(run.ID)
	require.Equal(t, "partial_failed", string(done.State))
	var units httpapi.List[httpapi.Unit]
	w.send("GET", run.Links.Units, nil).is(http.StatusOK, &units)
	for _, u := range units.Items {
		switch u.Window.Name[8:] {
		case "24":
			require.Equal(t, 1, u.Attempt)
		case "25":
			require.Equal(t, httpapi.UnitError{Category: "provider_error", Text: "ValueError: unexpected"}, *u.Error)
		case "26", "27", "28":
			require.Equal(t, "succeeded", string(u.State), u.Alias)
			require.Equal(t, 2, u.Attempt, u.Alias)
		}
	}
	require.Len(t, w.rows(), 4)
	log := string(w.send("GET", "/v1/events?limit=1000&where=type:UnitRetryScheduled", nil).body)
	require.Contains(t, log, "no route; token=***")
	require.NotContains(t, log, "abc123")
}

// A result that no node takes fails its unit: the worker goes on with the next one, where each worker in turn would have died of
// it. What stands before a node may answer for it, and is no answer.
func TestAPythonWorkerOutlivesWhatItCannotReport(t *testing.T) {
	w := start(t, oneDay, byWorkers)
	worker := w.pythonAt(w.front("/claim", func(out http.ResponseWriter, _ *http.Request) {
		out.WriteHeader(http.StatusBadGateway)
		_, _ = io.WriteString(out, "<html>502 Bad Gateway</html>")
	}), "one", "unreportable")
	run := w.wait(w.plan(6).ID)
	require.Equal(t, 1, run.Succeeded)
	require.Equal(t, 5, run.Failed)
	var units httpapi.List[httpapi.Unit]
	w.send("GET", run.Links.Units+"?where=state:failed", nil).is(http.StatusOK, &units)
	for _, u := range units.Items {
		require.Equal(t, "provider_error", string(u.Error.Category), u.Alias)
		require.Contains(t, u.Error.Text, "what it reports is not taken: ", u.Alias)
		require.Equal(t, 1, u.Attempt, u.Alias)
	}
	require.Contains(t, worker.terminate(), "the node cannot be asked (no answer of a node: 502)")
}

// front passes requests on, all but the first one of a path: the address of it.
func (w *world) front(path string, first http.HandlerFunc) string {
	w.t.Helper()
	var asked atomic.Bool
	s := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, path) && asked.CompareAndSwap(false, true) {
			first(out, r)
			return
		}
		r.RequestURI, r.URL.Scheme, r.URL.Host = "", "http", "towline"
		answer, err := w.client.Do(r)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		defer answer.Body.Close()
		out.WriteHeader(answer.StatusCode)
		_, _ = io.Copy(out, answer.Body)
	}))
	w.t.Cleanup(s.Close)
	return s.URL
}

// Surfaces 5.4: one renewal that is never answered does not cost the lease.
func TestAPythonWorkerRenewsBehindASilence(t *testing.T) {
	w := start(t, oneDay, byWorkers, func(c *setup) { c.node.Knobs.Lease = 6 * time.Second })
	run := w.plan(1)
	silent := make(chan struct{})
	worker := w.pythonAt(w.front("/renew", func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // behind it the server hears that its client has gone
		<-r.Context().Done()
		close(silent)
	}), "one", "wait")
	unit := worker.started()
	<-silent
	renewed := func() bool {
		return strings.Contains(string(w.send("GET", "/v1/events?where=type:UnitLeaseRenewed", nil).body), unit)
	}
	w.eventually(func() bool { return renewed() || w.send("GET", "/v1/units/"+unit, nil).state() == "failed" })
	require.True(t, renewed())
	worker.goOn()
	require.Equal(t, 1, w.wait(run.ID).Succeeded)
}

// HC-02, N-5: a worker that is killed says nothing. Its lease ends; without a retry the unit is lost, and the run ends.
func TestAKilledPythonWorkerIsLost(t *testing.T) {
	w := start(t, oneDay, byWorkers, shortLease(0))
	run := w.plan(1)
	victim := w.python("one", "wait")
	unit := victim.started()
	victim.signal(syscall.SIGKILL)
	done := w.wait(run.ID)
	require.Equal(t, "failed", string(done.State))
	var u httpapi.Unit
	w.send("GET", "/v1/units/"+unit, nil).is(http.StatusOK, &u)
	require.Equal(t, "worker_lost", string(u.Error.Category))
	require.Equal(t, 1, u.Attempt)
}

// HC-06 variant 1, U-19, HU-5: a worker that was killed is followed by another; one that was suspended, and wakes up behind the
// end of its lease with its mind made up to write, is refused by the fence, and nothing of what the other has written changes.
func TestASuspendedPythonWorkerCannotOverwrite(t *testing.T) {
	w := start(t, oneDay, byWorkers, shortLease(3))
	run := w.plan(1)
	killed := w.python("killed", "wait")
	unit := killed.started()
	killed.signal(syscall.SIGKILL)
	sleeper := w.python("sleeper", "blind")
	require.Equal(t, unit, sleeper.started())
	sleeper.signal(syscall.SIGSTOP)
	w.python("third", "")
	require.Equal(t, 1, w.wait(run.ID).Succeeded)
	sleeper.goOn()
	sleeper.signal(syscall.SIGCONT)
	w.eventually(func() bool { return strings.Contains(sleeper.text(), "lease lost") })
	require.Contains(t, sleeper.text(), "stopped, and wrote nothing more")
	rows := w.rows()
	require.Equal(t, map[string]string{"north/2026-02-28": "third"}, rows)
	var u httpapi.Unit
	w.send("GET", "/v1/units/"+unit, nil).is(http.StatusOK, &u)
	require.Equal(t, "succeeded", string(u.State))
	require.Equal(t, 3, u.Attempt)
}

// text is what a worker has said, once it has ended or at rest.
func (p *pythonWorker) text() string {
	p.signal(syscall.SIGTERM) // it ends behind the unit that it has
	select {
	case <-p.done:
		return p.log.String()
	default:
		return ""
	}
}

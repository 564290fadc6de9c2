package httpapi_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/httpapi"
	"github.com/towline-dev/towline/node"
)

// inside is the API of a reader of the store of w, asked without a network.
func (w *world) inside() http.RoundTripper {
	w.t.Helper()
	r, err := node.OpenReader(context.Background(), node.ReaderConfig{Store: w.dir + "/towline.db", Scratch: w.t.TempDir()})
	require.NoError(w.t, err)
	s, err := httpapi.New(httpapi.Config{Node: r, Version: "1.2.3"})
	require.NoError(w.t, err)
	w.t.Cleanup(func() {
		require.NoError(w.t, s.Close())
		require.NoError(w.t, r.Close())
	})
	return s.Inside()
}

func ask(t *testing.T, by http.RoundTripper, method, path, body string) (int, []byte) {
	t.Helper()
	r, err := http.NewRequestWithContext(context.Background(), method, "http://inside"+path, strings.NewReader(body))
	require.NoError(t, err)
	r.Header.Set("Content-Type", "application/json")
	answer, err := by.RoundTrip(r)
	require.NoError(t, err)
	got, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	return answer.StatusCode, got
}

// DUR-8: the file of a running node gives the same answers as the node, and refuses what would write, whatever it is.
func TestAFileAnswersAsItsNode(t *testing.T) {
	w := start(t, oneDay)
	run := w.wait(w.plan(3).ID)
	file := w.inside()
	for _, path := range []string{
		"/v1/runs", "/v1/runs/" + run.ID.String(), "/v1/runs/" + run.Alias + "/units", "/v1/units?limit=2", "/v1/outbox", "/v1/jobs",
		"/v1/events?limit=5", "/v1/state", "/v1/state?at_seq=3", "/v1/coverage?source=north&dataset=a", "/v1/runs/" + run.Alias + "?at_seq=4",
	} {
		status, got := ask(t, file, "GET", path, "")
		require.Equal(t, http.StatusOK, status, "%s: %s", path, got)
		require.JSONEq(t, string(w.send("GET", path, nil).is(http.StatusOK, nil).body), string(got), path)
	}
	before, err := w.node.Engine().Head(context.Background())
	require.NoError(t, err)
	for _, path := range []string{"/v1/runs", "/v1/runs/" + run.Alias + "/cancel", "/v1/pause", "/v1/leases/claim", "/v1/nothing"} {
		status, got := ask(t, file, "POST", path, `{"reason":"x","sync":"days","worker":"w"}`)
		require.Equal(t, http.StatusForbidden, status, "%s: %s", path, got)
		var p httpapi.Problem
		require.NoError(t, json.Unmarshal(got, &p))
		require.Equal(t, httpapi.CodeReadOnly, p.Code)
	}
	after, err := w.node.Engine().Head(context.Background())
	require.NoError(t, err)
	require.Equal(t, before, after)
	status, got := ask(t, file, "GET", "/readyz", "")
	require.Equal(t, http.StatusServiceUnavailable, status)
	require.Contains(t, string(got), "the store is read without an engine")
}

// DUR-8: the stream of a file goes on with what its node commits, and its handler ends with the reader.
func TestAFileStreams(t *testing.T) {
	w := start(t, oneDay)
	file := w.inside()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://inside/v1/events/stream?where=type:RunPlanned", nil)
	require.NoError(t, err)
	answer, err := file.RoundTrip(r)
	require.NoError(t, err)
	run := w.plan(1)
	lines := bufio.NewScanner(answer.Body)
	for lines.Scan() && !strings.HasPrefix(lines.Text(), "data: ") {
		require.NotEmpty(t, answer.Header.Get("Towline-Seq"))
	}
	require.Contains(t, lines.Text(), run.ID.String())
	require.NoError(t, answer.Body.Close())
	w.wait(run.ID)
}

// AS-3: a time names the newest event of then, at the end of a transaction; before the first there is none.
func TestThePositionOfATime(t *testing.T) {
	w := start(t, oneDay)
	run := w.wait(w.plan(1).ID)
	var at struct{ Seq int64 }
	w.send("GET", "/v1/position?at_time="+run.PlannedAt.Format(time.RFC3339Nano), nil).is(http.StatusOK, &at)
	var past httpapi.Run
	w.send("GET", "/v1/runs/"+run.Alias+"?at_seq="+jsonOf(t, at.Seq), nil).is(http.StatusOK, &past)
	require.Equal(t, "planned", string(past.State))
	w.send("GET", "/v1/position?at_time=1999-01-01T00:00:00Z", nil).problem(httpapi.CodeNotFound)
}

func jsonOf(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	require.NoError(t, err)
	return string(b)
}

// CLK-7: the word of an operator that the clock is right is a request of its own, and where nobody asked for it nothing is
// written.
func TestTheClockIsConfirmed(t *testing.T) {
	w := start(t)
	before, err := w.node.Engine().Head(context.Background())
	require.NoError(t, err)
	w.send("POST", "/v1/resume", map[string]any{"clock_ok": true, "reason": "it was set back"}).is(http.StatusOK, nil)
	after, err := w.node.Engine().Head(context.Background())
	require.NoError(t, err)
	require.Equal(t, before, after)
	w.send("POST", "/v1/resume", map[string]any{"clock_ok": true, "source": "north", "reason": "x"}).problem(httpapi.CodeInvalidRequest)
	w.send("POST", "/v1/pause", map[string]any{"clock_ok": true, "reason": "x"}).problem(httpapi.CodeInvalidRequest)
}

// WHY-1: one path explains whatever has an id, in every form of it; an unknown one is not found.
func TestWhyOfAnything(t *testing.T) {
	w := start(t, oneDay)
	run := w.wait(w.plan(1).ID)
	for of, id := range map[string]string{
		"run": run.Alias, "job": "job/" + run.Job.String(), "register": escape(run.Alias + "/dispatch_sync_run#1"), "unit": escape(run.Alias + ":north/a/2026-02-28"),
	} {
		var got httpapi.Explanation
		w.send("GET", "/v1/why/"+strings.ReplaceAll(id, "job/", "job%2F"), nil).is(http.StatusOK, &got)
		require.Equal(t, of, got.Of)
	}
	w.send("GET", "/v1/why/01M8KSP2PGV3T0X6J2BD7Q4ZKD", nil).problem(httpapi.CodeNotFound)
}

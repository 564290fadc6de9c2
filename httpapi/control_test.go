package httpapi_test

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/docs"
	"github.com/towline-dev/towline/httpapi"
)

// a pause and its end are put on record with who and why; a second pause keeps the first reason.
func TestAPauseSaysWhoAndWhy(t *testing.T) {
	w := start(t, oneDay, byWorkers)
	var p httpapi.Paused
	w.send("POST", "/v1/pause", map[string]any{"reason": "moving house"}, "Towline-Actor", "ann").is(http.StatusOK, &p)
	require.Equal(t, "ann", p.Items[0].By)
	run := w.plan(1)
	w.send("POST", "/v1/pause", map[string]any{"reason": "another", "source": "north"}, "Towline-Actor", "bob").is(http.StatusOK, &p)
	w.send("POST", "/v1/pause", map[string]any{"reason": "again"}).is(http.StatusOK, &p)
	require.Len(t, p.Items, 2)
	require.Equal(t, "moving house", p.Items[0].Reason)
	w.send("POST", "/v1/pause", map[string]any{"reason": "r", "source": "west"}).problem("not_found")
	require.Equal(t, "reason", w.send("POST", "/v1/pause", map[string]any{"reason": "  "}).problem("invalid_request").Field)

	w.send("POST", "/v1/runs", map[string]any{"sync": "days", "sources": []string{"north"}}).problem("source_paused")
	var why httpapi.Explanation
	w.send("GET", "/v1/runs/"+run.Alias+"/why", nil).is(http.StatusOK, &why)
	require.Equal(t, "engine_paused", why.Reason)
	require.True(t, why.NeedsPerson)
	require.Equal(t, "towline resume --reason …", why.Fix)
	require.Contains(t, why.Evidence[0].Text, "moving house")
	w.send("POST", "/v1/resume", map[string]any{"reason": "there"}).is(http.StatusOK, &p)
	require.Len(t, p.Items, 1)
	w.send("GET", "/v1/runs/"+run.Alias+"/why", nil).is(http.StatusOK, &why)
	require.Equal(t, "towline resume --source north --reason …", why.Fix)
	w.send("POST", "/v1/resume", map[string]any{"reason": "there", "source": "north"}).is(http.StatusOK, &p)
	require.Empty(t, p.Items)
	w.claimAndComplete()
	require.Equal(t, "succeeded", string(w.wait(run.ID).State))
}

// Surfaces 5: who may do what. The socket and loopback need no token; a token that is sent counts; a proxy, a page of
// another site and a name that only points here do not pass for this machine.
func TestWhoMayDoWhat(t *testing.T) {
	w := start(t, func(c *setup) {
		c.idle = true
		var err error
		c.api.Tokens, err = httpapi.OpenTokens(c.node.Store)
		require.NoError(t, err)
	})
	fullFile, workerFile := httpapi.TokenFiles(filepath.Join(w.dir, "towline.db"))
	read := func(file string) string {
		info, err := os.Stat(file)
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		return "Bearer " + strings.TrimSpace(string(data))
	}
	full, worker := read(fullFile), read(workerFile)
	run := w.plan(1)
	tcp := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	loopback := func(method, path string, headers ...string) reply {
		return w.sendTo(w.port, tcp, method, path, nil, headers...)
	}
	unit := "/v1/units/000000"
	for _, c := range []struct {
		name    string
		got     reply
		problem string // empty: it is served
	}{
		{"loopback", loopback("GET", "/v1/runs"), ""},
		{"full token", loopback("GET", "/v1/runs", "Authorization", full), ""},
		{"worker token reads", loopback("GET", "/v1/runs", "Authorization", worker), "forbidden"},
		{"worker token cancels", loopback("POST", "/v1/runs/"+run.Alias+"/cancel", "Authorization", worker), "forbidden"},
		{"worker token claims", loopback("POST", unit+"/claim", "Authorization", worker), "invalid_request"},
		{"worker token over the socket", w.send("GET", "/v1/runs", nil, "Authorization", worker), "forbidden"},
		{"unknown token", loopback("GET", "/v1/runs", "Authorization", "Bearer x"), "unauthenticated"},
		{"unknown token over the socket", w.send("GET", "/v1/runs", nil, "Authorization", "Bearer x"), "unauthenticated"},
		{"proxy", loopback("GET", "/v1/runs", "X-Forwarded-For", "10.0.0.1"), "unauthenticated"},
		{"proxy that says via", loopback("GET", "/v1/runs", "Via", "1.1 varnish"), "unauthenticated"},
		{"proxy with a token", loopback("GET", "/v1/runs", "X-Forwarded-For", "10.0.0.1", "Authorization", full), ""},
		{"name that points here", loopback("GET", "/v1/runs", "Host", "evil.example:7480"), "forbidden"},
		{"page of another site", loopback("POST", "/v1/pause", "Origin", "http://evil.example"), "forbidden"},
		{"fetch of another site", loopback("GET", "/v1/runs", "Sec-Fetch-Site", "cross-site"), "forbidden"},
		{"proxy asks for health", loopback("GET", "/healthz", "X-Forwarded-For", "10.0.0.1"), ""},
		{"proxy asks for a page", loopback("GET", "/v1/nothing", "X-Forwarded-For", "10.0.0.1"), "unauthenticated"},
	} {
		if c.problem == "" {
			require.Equal(t, http.StatusOK, c.got.status, "%s: %s", c.name, c.got.body)
			continue
		}
		require.Contains(t, string(c.got.body), `"code":"`+c.problem+`"`, c.name)
	}
	again, err := httpapi.OpenTokens(filepath.Join(w.dir, "towline.db"))
	require.NoError(t, err)
	require.Equal(t, full, "Bearer "+again.Full)
	require.NoError(t, os.Chmod(fullFile, 0o644))
	_, err = httpapi.OpenTokens(filepath.Join(w.dir, "towline.db"))
	require.ErrorContains(t, err, "may be read by others (mode 0644): run chmod 600 ")
	require.NoError(t, os.Chmod(fullFile, 0o600))
	require.NoError(t, os.WriteFile(fullFile, nil, 0o600))
	_, err = httpapi.OpenTokens(filepath.Join(w.dir, "towline.db"))
	require.ErrorContains(t, err, "holds no token: delete it")
}

// Of two that start at once one makes the tokens, and the other reads them; nothing else is left beside the store.
func TestTokensAreMadeOnce(t *testing.T) {
	dir := t.TempDir()
	made := make(chan httpapi.Tokens, 8)
	for range cap(made) {
		go func() {
			tokens, _ := httpapi.OpenTokens(filepath.Join(dir, "towline.db")) // none of it is the answer to an error
			made <- tokens
		}()
	}
	first := <-made
	require.NotEmpty(t, first.Full)
	require.NotEmpty(t, first.Worker)
	for range cap(made) - 1 {
		require.Equal(t, first, <-made)
	}
	files, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, files, 2)
}

// Anything but the socket and loopback needs a token before it listens, and with each request.
func TestStrangersNeedAToken(t *testing.T) {
	w := start(t, func(c *setup) { c.idle = true })
	l, err := httpapi.Listen(t.Context(), "127.0.0.1:0")
	require.NoError(t, err)
	l.Trusted = false // as one that other machines reach
	require.ErrorContains(t, w.server.Serve(t.Context(), l), "can be reached from other machines, and there is no token")
	require.NoError(t, l.Close())
	require.ErrorContains(t, w.server.Serve(t.Context()), "api.listen is empty")
}

// One socket has one server, and a file that is none is left alone; what a dead process has left is replaced.
func TestASocketIsTakenOverFromTheDeadOnly(t *testing.T) {
	w := start(t, func(c *setup) { c.idle = true })
	_, err := httpapi.Listen(t.Context(), "unix:"+w.socket)
	require.ErrorIs(t, err, httpapi.ErrTaken)
	_, err = httpapi.Listen(t.Context(), w.port)
	require.ErrorIs(t, err, httpapi.ErrTaken)
	require.ErrorContains(t, err, "api.listen "+w.port+": another process serves it: stop that one, or use another port")
	info, err := os.Stat(w.socket)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	file := filepath.Join(w.dir, "file")
	require.NoError(t, os.WriteFile(file, []byte("x"), 0o600))
	_, err = httpapi.Listen(t.Context(), "unix:"+file)
	require.ErrorContains(t, err, "a file that is no socket")
	_, err = httpapi.Listen(t.Context(), "unix:"+filepath.Join(w.dir, strings.Repeat("x", 100)))
	require.ErrorContains(t, err, "use a shorter one")

	dead := filepath.Join(w.dir, "dead.sock")
	l, err := httpapi.Listen(t.Context(), "unix:"+dead)
	require.NoError(t, err)
	l.Listener.(interface{ SetUnlinkOnClose(bool) }).SetUnlinkOnClose(false)
	require.NoError(t, l.Close())
	l, err = httpapi.Listen(t.Context(), "unix:"+dead)
	require.NoError(t, err)
	require.NoError(t, l.Close())
}

// HC-13, surfaces 5.1: healthz says that the process answers, readyz that it works: 503 before it runs and when its store is
// gone, with the loops and their last success.
func TestReadyIsWhoWorks(t *testing.T) {
	w := start(t)
	var ready httpapi.Readiness
	w.eventually(func() bool {
		r := w.send("GET", "/readyz", nil)
		r.is(r.status, &ready)
		return ready.Status == "ok" && len(ready.Loops) >= 2
	})
	require.Empty(t, ready.Reasons)
	for _, l := range ready.Loops {
		require.GreaterOrEqual(t, l.LastSuccess, int64(0), l.Name)
	}
	var v httpapi.Version
	w.send("GET", "/version", nil).is(http.StatusOK, &v)
	require.Equal(t, httpapi.Version{Version: "1.2.3", Incarnation: w.node.Engine().Node()}, v)
	w.send("GET", "/healthz", nil).is(http.StatusOK, nil)
	require.NoError(t, w.node.Close())
	r := w.client
	answer, err := r.Get("http://towline/readyz")
	require.NoError(t, err)
	body, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	require.Equal(t, http.StatusServiceUnavailable, answer.StatusCode)
	require.Contains(t, string(body), "store_unavailable")
	answer, err = r.Get("http://towline/healthz")
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	require.Equal(t, http.StatusOK, answer.StatusCode)
	answer, err = r.Post("http://towline/v1/runs", "application/json", strings.NewReader(`{"sync":"days"}`))
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	require.Equal(t, http.StatusServiceUnavailable, answer.StatusCode)
	require.Equal(t, "1", answer.Header.Get("Retry-After"))
}

func TestANodeThatDoesNotRunIsNotReady(t *testing.T) {
	w := start(t, func(c *setup) { c.idle = true })
	var ready httpapi.Readiness
	w.send("GET", "/readyz", nil).is(http.StatusServiceUnavailable, &ready)
	require.Equal(t, "not_running", ready.Reasons[0].What)
	require.NotEmpty(t, ready.Reasons[0].Text)
	var stranger httpapi.Readiness
	w.send("GET", "/readyz", nil, "X-Forwarded-For", "10.0.0.1").is(http.StatusServiceUnavailable, &stranger)
	require.Empty(t, stranger.Reasons[0].Text, "a stranger hears that something is wrong, and not of what")
}

// Surfaces 5.3: every code has a page that the binary serves, which begins with its title and names a fix.
func TestEveryProblemHasAPage(t *testing.T) {
	w := start(t, func(c *setup) { c.idle = true })
	require.Greater(t, len(httpapi.ProblemPages()), 20)
	for _, p := range docs.Handbook() {
		answer, err := w.client.Get("http://towline/problems/" + p.Name)
		require.NoError(t, err)
		body, err := io.ReadAll(answer.Body)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		require.Equal(t, "text/markdown; charset=utf-8", answer.Header.Get("Content-Type"))
		require.True(t, strings.HasPrefix(string(body), "# "+p.Title), p.Name)
	}
	for _, p := range httpapi.ProblemPages() {
		require.GreaterOrEqual(t, p.Status, 400, p.Code)
	}
	w.send("GET", "/problems/none", nil).problem("not_found")
}

// The page at / is plain, and holds nothing of its own that would be loaded or run.
func TestTheStatusPageIsPlain(t *testing.T) {
	w := start(t, oneDay, byWorkers)
	run := w.plan(1)
	answer, err := w.client.Get("http://towline/")
	require.NoError(t, err)
	body, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	require.Equal(t, http.StatusOK, answer.StatusCode)
	require.Contains(t, string(body), run.Alias)
	require.Contains(t, answer.Header.Get("Content-Security-Policy"), "default-src 'none'")
	require.NotContains(t, string(body), "<script")
}

// L-11: a client that goes away gets all or nothing: what it had asked for is done.
func TestAClientThatGoesAwayGetsAllOrNothing(t *testing.T) {
	w := start(t, oneDay, withToken, func(c *setup) { c.idle = true })
	require.Equal(t, http.StatusAccepted, w.hungUp("/v1/runs", `{"sync":"days","datasets":["a"]}`))
	var runs httpapi.List[httpapi.Run]
	w.send("GET", "/v1/runs", nil).is(http.StatusOK, &runs)
	require.Len(t, runs.Items, 1)
	var units httpapi.List[httpapi.Unit]
	w.send("GET", runs.Items[0].Links.Units, nil).is(http.StatusOK, &units)
	require.Len(t, units.Items, runs.Items[0].Units)
	require.Len(t, units.Items, 2)
	require.Equal(t, http.StatusOK, w.hungUp("/v1/pause", `{"reason":"r"}`))
	var state httpapi.State
	w.send("GET", "/v1/state", nil).is(http.StatusOK, &state)
	require.Len(t, state.Paused, 1)
}

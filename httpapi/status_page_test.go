package httpapi_test

import (
	"crypto/sha256"
	"encoding/base64"
	"html"
	"io"
	"net/http"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/httpapi"
)

// page asks for the page; it is no operation of the document.
func (w *world) page() (header http.Header, text string) {
	w.t.Helper()
	r, err := w.client.Get("http://towline/")
	require.NoError(w.t, err)
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	require.NoError(w.t, err)
	require.Equal(w.t, http.StatusOK, r.StatusCode)
	return r.Header, string(body)
}

// Surfaces 6: the page says as of when it is, what needs a person, and what goes on, with commands to copy; it brings no
// script, nothing from elsewhere, and what people have written is text in it.
func TestTheStatusPage(t *testing.T) {
	w := start(t, oneDay, byWorkers, func(c *setup) { c.idle = true })
	_, empty := w.page()
	require.Contains(t, empty, "No run is open. To start one: <code>towline run start SYNC</code>")
	require.Contains(t, empty, "<b>not_running</b>")

	run := w.plan(2)
	dispatch := towline.RegisterKey{Owner: run.ID, Kind: events.KindDispatch}
	require.NoError(t, w.node.Engine().Park(t.Context(), dispatch, towline.Actor{Name: "ann", Reason: "r"}))
	w.send("POST", "/v1/pause", map[string]any{"source": "south", "reason": "<script>alert(1)</script>"}).is(http.StatusOK, nil)
	header, page := w.page()
	require.Equal(t, "text/html; charset=utf-8", header.Get("Content-Type"))
	require.Contains(t, page, "as of seq "+header.Get("Towline-Seq")+" · unavailable")
	for _, says := range []string{
		"<code>towline run watch " + run.Alias + "</code>",
		"<b>parked</b> " + run.Alias + "/dispatch_sync_run#1",
		"<code>towline outbox requeue " + run.Alias + "/dispatch_sync_run#1 --reason …</code>",
		"source south", "<code>towline resume --source south --reason …</code>", "&lt;script&gt;alert(1)&lt;/script&gt;",
	} {
		require.Contains(t, page, says)
	}
	require.NotContains(t, empty, "<b>parked</b>")
	require.NotContains(t, page, "<script")
	style := regexp.MustCompile(`(?s)<style>(.*)</style>`).FindStringSubmatch(page)
	sum := sha256.Sum256([]byte(style[1]))
	require.Equal(t, "default-src 'none'; style-src 'sha256-"+base64.StdEncoding.EncodeToString(sum[:])+"'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
		header.Get("Content-Security-Policy"))
	links := regexp.MustCompile(`href="([^"]*)"`).FindAllStringSubmatch(page, -1)
	require.Greater(t, len(links), 4)
	for _, link := range links {
		status := http.StatusOK
		if link[1] == "/readyz" {
			status = http.StatusServiceUnavailable // the node does not run
		}
		answer, err := w.client.Get("http://towline" + html.UnescapeString(link[1]))
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		require.Equal(t, status, answer.StatusCode, link[1])
	}
}

// console.enabled: false: there is no page, and the API is there all the same.
func TestWithoutPages(t *testing.T) {
	w := start(t, func(c *setup) { c.api.NoPages = true })
	w.send("GET", "/", nil).problem(httpapi.CodeNotFound)
	w.send("GET", "/healthz", nil).is(http.StatusOK, nil)
}

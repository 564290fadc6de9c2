package httpapi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/httpapi"
	"github.com/towline-dev/towline/node"
	"github.com/towline-dev/towline/provider"
	"github.com/towline-dev/towline/sink"
	"github.com/towline-dev/towline/transport"
	"github.com/towline-dev/towline/transport/pull"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a node that runs on a store of its own, and the API of it on a real socket and a real port.
type world struct {
	t      *testing.T
	dir    string
	node   *node.Node
	knobs  towline.Knobs // that it began with
	server *httpapi.Server
	socket string // path
	port   string // of loopback: host:port
	client *http.Client

	stop     context.CancelFunc
	ended    chan error
	routing  routers.Router
	document *openapi3.T
}

// setup is what a test changes of the node and the API before they start.
type setup struct {
	node node.Config
	api  httpapi.Config
	idle bool // the node does not run
}

func days(does provider.Func) node.Sync {
	return node.Sync{
		Name: "days", Sources: []string{"north", "south"}, Provider: does,
		Datasets: []towline.Dataset{{Name: "a"}, {Name: "ref", Tier: towline.Reference}, {Name: "months", Window: towline.Month}},
		PostSync: towline.PostSync{Targets: []towline.Target{{Name: "index", Exec: []string{"true"}}}},
		Config:   json.RawMessage(`{"big":1234567890123456789}`),
	}
}

func succeeds(context.Context, provider.Unit, sink.Sink) (provider.Result, error) {
	return provider.Result{Rows: 7}, nil
}

func start(t *testing.T, change ...func(*setup)) *world {
	t.Helper()
	dir, err := os.MkdirTemp("", "towline") //nolint:usetesting // a socket's path is short, and the folder of a test is not
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	c := setup{node: node.Config{
		Store: filepath.Join(dir, "towline.db"), Syncs: []node.Sync{days(succeeds)}, Unsynced: true, Logger: slog.New(slog.DiscardHandler),
	}}
	for _, f := range change {
		f(&c)
	}
	w := &world{t: t, dir: dir, knobs: c.node.Knobs, ended: make(chan error, 2)}
	w.node, err = node.Open(context.Background(), c.node)
	require.NoError(t, err)
	c.api.Node, c.api.Version = w.node, "1.2.3"
	if c.api.Logger == nil {
		c.api.Logger = slog.New(slog.DiscardHandler)
	}
	w.server, err = httpapi.New(c.api)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	w.stop = cancel
	if c.idle {
		w.ended <- nil
	} else {
		go func() { w.ended <- w.node.Run(ctx) }()
	}
	w.socket = filepath.Join(dir, "api.sock")
	unix, err := httpapi.Listen(ctx, "unix:"+w.socket)
	require.NoError(t, err)
	loopback, err := httpapi.Listen(ctx, "127.0.0.1:0")
	require.NoError(t, err)
	w.port = loopback.Addr().String()
	go func() { w.ended <- w.server.Serve(ctx, unix, loopback) }()
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", w.socket)
	}}
	w.client = &http.Client{Transport: transport}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		w.end()
	})
	w.loadDocument()
	return w
}

// end stops node and server, once, and wants both to stop cleanly.
func (w *world) end() {
	w.t.Helper()
	if w.stop == nil {
		return
	}
	w.stop()
	w.stop = nil
	for range 2 {
		require.NoError(w.t, <-w.ended)
	}
	require.NoError(w.t, w.node.Close())
}

// loadDocument takes the document that the server serves: every answer is held against it.
func (w *world) loadDocument() {
	w.t.Helper()
	r, err := w.client.Get("http://towline/openapi.json")
	require.NoError(w.t, err)
	defer r.Body.Close()
	data, err := io.ReadAll(r.Body)
	require.NoError(w.t, err)
	doc, err := openapi3.NewLoader().LoadFromData(data)
	require.NoError(w.t, err)
	doc.Servers = nil
	require.NoError(w.t, doc.Validate(context.Background()))
	w.document = doc
	w.routing, err = gorillamux.NewRouter(doc)
	require.NoError(w.t, err)
}

// reply is an answer that fits the document.
type reply struct {
	t      *testing.T
	status int
	header http.Header
	body   []byte
}

// send sends a request over the socket and holds the answer against the document.
func (w *world) send(method, path string, body any, headers ...string) reply {
	w.t.Helper()
	return w.sendTo("towline", w.client, method, path, body, headers...)
}

func (w *world) sendTo(host string, client *http.Client, method, path string, body any, headers ...string) reply {
	w.t.Helper()
	var send []byte
	switch b := body.(type) {
	case nil:
	case string:
		send = []byte(b)
	default:
		var err error
		send, err = json.Marshal(b)
		require.NoError(w.t, err)
	}
	r, err := http.NewRequestWithContext(context.Background(), method, "http://"+host+path, bytes.NewReader(send))
	require.NoError(w.t, err)
	if len(send) > 0 {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		if headers[i] == "Host" {
			r.Host = headers[i+1]
			continue
		}
		r.Header.Set(headers[i], headers[i+1])
	}
	answer, err := client.Do(r)
	require.NoError(w.t, err)
	defer answer.Body.Close()
	got, err := io.ReadAll(answer.Body)
	require.NoError(w.t, err)
	out := reply{w.t, answer.StatusCode, answer.Header, got}
	w.fits(r, out)
	return out
}

// fits holds an answer against the document.
func (w *world) fits(r *http.Request, got reply) {
	w.t.Helper()
	require.NotEmpty(w.t, got.header.Get("Towline-Seq"), "%s %s: the answer does not say as of when it is", r.Method, r.URL)
	asked := r.Clone(context.Background())
	asked.URL.Scheme, asked.URL.Host, asked.Host = "", "", ""
	route, params, err := w.routing.FindRoute(asked)
	if err != nil { // no operation: a problem all the same
		require.Equal(w.t, "application/problem+json", got.header.Get("Content-Type"), "%s %s: %s", r.Method, r.URL, got.body)
		return
	}
	answered.Store(route.Method+" "+route.Path, true)
	if got.status == http.StatusNotModified {
		require.Empty(w.t, got.body)
		return
	}
	in := &openapi3filter.ResponseValidationInput{
		RequestValidationInput: &openapi3filter.RequestValidationInput{Request: asked, PathParams: params, Route: route},
		Status:                 got.status, Header: got.header, Body: io.NopCloser(bytes.NewReader(got.body)),
		Options: &openapi3filter.Options{IncludeResponseStatus: true, MultiError: true},
	}
	require.NoError(w.t, openapi3filter.ValidateResponse(context.Background(), in), "%s %s: %d %s", r.Method, r.URL, got.status, got.body)
}

// is wants a status and reads the body.
func (r reply) is(status int, into any) reply {
	r.t.Helper()
	require.Equal(r.t, status, r.status, "%s", r.body)
	if into != nil {
		dec := json.NewDecoder(bytes.NewReader(r.body))
		dec.DisallowUnknownFields()
		require.NoError(r.t, dec.Decode(into), "%s", r.body)
	}
	return r
}

// problem wants a problem of a code: with its page, and a fix.
func (r reply) problem(code string) httpapi.Problem {
	r.t.Helper()
	var p httpapi.Problem
	require.NoError(r.t, json.Unmarshal(r.body, &p), "%s", r.body)
	require.Equal(r.t, code, p.Code, "%s", r.body)
	page, ok := httpapi.ProblemPageOf(code)
	require.True(r.t, ok)
	require.Equal(r.t, page.Status, r.status, "%s", r.body)
	require.Equal(r.t, r.status, p.Status)
	require.Equal(r.t, "application/problem+json", r.header.Get("Content-Type"))
	require.Equal(r.t, "/problems/"+code, p.Type)
	require.NotEmpty(r.t, p.Fix)
	require.NotEmpty(r.t, p.Detail)
	require.NotEmpty(r.t, p.Instance)
	return p
}

const testToken = "a token of the test"

func withToken(c *setup) { c.api.Tokens.Full = testToken }

// hungUp answers a request whose client has gone by the time that a handler sees it. Only the server has an answer then; over
// a connection nothing tells a test whether the server knows already that it has lost its client. It needs withToken.
func (w *world) hungUp(path, body string) (status int) {
	w.t.Helper()
	ctx, cancel := context.WithCancel(w.t.Context())
	cancel()
	return w.unconnected(ctx, path, body).Code
}

// unconnected answers a request without a connection. It needs withToken.
func (w *world) unconnected(ctx context.Context, path, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+testToken)
	answer := httptest.NewRecorder()
	w.server.Handler().ServeHTTP(answer, r)
	return answer
}

// plan starts a run of the sync days: a backfill of so many days of dataset a, for each source.
func (w *world) plan(units int, more ...string) httpapi.Run {
	w.t.Helper()
	body := map[string]any{
		"sync": "days", "mode": "backfill", "datasets": []string{"a"}, "sources": []string{"north"},
		"since": before.AddDate(0, 0, -units), "before": before,
	}
	var run httpapi.Run
	w.send("POST", "/v1/runs", body, more...).is(http.StatusAccepted, &run)
	return run
}

var before = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)

// wait waits for the end of a run.
func (w *world) wait(run events.RunID) httpapi.Run {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	_, err := w.node.Engine().WaitPostSync(ctx, run)
	require.NoError(w.t, err)
	var out httpapi.Run
	w.send("GET", "/v1/runs/"+run.String(), nil).is(http.StatusOK, &out)
	return out
}

// eventually asks until something holds. Nothing tells from outside when a process has come so far.
func (w *world) eventually(holds func() bool) {
	w.t.Helper()
	require.Eventually(w.t, holds, time.Minute, 5*time.Millisecond)
}

// byWorkers leaves the units to those who ask for them.
func byWorkers(c *setup) {
	c.node.Routes = map[events.Kind]transport.Publisher{events.KindUnit: pull.Publisher{}}
	c.node.Workers = 1
}

func oneDay(c *setup) { c.node.Knobs.BackfillChunk = 24 * time.Hour }

// broker is a transport that a test lets fail.
type broker struct {
	mu      sync.Mutex
	refuses bool
	sent    []string
}

func (b *broker) Name() string { return "broker" }

func (b *broker) Send(_ context.Context, topic string, m *message.Message) transport.Receipt {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.refuses {
		return transport.Refused(fmt.Errorf("the broker is away"))
	}
	b.sent = append(b.sent, topic+" "+m.UUID)
	return transport.Accepted("")
}

func (b *broker) refuse(is bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refuses = is
}

func escape(id string) string {
	return strings.NewReplacer("/", "%2F", "#", "%23", ":", "%3A").Replace(id)
}

package worker_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/client"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/httpapi"
	"github.com/towline-dev/towline/node"
	"github.com/towline-dev/towline/projections"
	"github.com/towline-dev/towline/provider"
	"github.com/towline-dev/towline/sink"
	"github.com/towline-dev/towline/sink/jsonl"
	"github.com/towline-dev/towline/transport"
	"github.com/towline-dev/towline/transport/pull"
	"github.com/towline-dev/towline/wire"
	"github.com/towline-dev/towline/worker"
)

// office is an engine without workers of its own, its API, and one process of workers, between which a test stands.
type office struct {
	t       *testing.T
	node    *node.Node
	api     *httpapi.Server
	line    *line
	client  *client.Client
	syncs   []node.Sync
	works   chan string // aliases, as their providers begin
	goOn    chan struct{}
	ended   chan worker.Ended
	away    chan error // what people are told
	result  chan error // of the workers
	stop    context.CancelFunc
	stopped bool
}

// line is the network: a test may lose answers that were given.
type line struct {
	to   http.RoundTripper
	as   func(*http.Request) *http.Response                 // of setup
	lose atomic.Pointer[func(path string, given bool) bool] // given: the answer has content
	seen sync.Map                                           // path to *atomic.Int64
}

func (l *line) count(path string) int64 {
	n, _ := l.seen.LoadOrStore(path, &atomic.Int64{})
	return n.(*atomic.Int64).Load()
}

func (l *line) RoundTrip(r *http.Request) (*http.Response, error) {
	frame, err := l.answer(r)
	if err != nil {
		return nil, err
	}
	n, _ := l.seen.LoadOrStore(r.URL.Path, &atomic.Int64{})
	n.(*atomic.Int64).Add(1)
	body, err := io.ReadAll(frame.Body) // the engine has done what it was asked for
	_ = frame.Body.Close()
	if lose := l.lose.Load(); lose != nil && (*lose)(r.URL.Path, len(body) > 0) {
		return nil, errors.New("the answer is lost")
	}
	frame.Body = io.NopCloser(bytes.NewReader(body))
	return frame, err
}

func (l *line) answer(r *http.Request) (*http.Response, error) {
	if l.as != nil {
		if frame := l.as(r); frame != nil {
			return frame, nil
		}
	}
	return l.to.RoundTrip(r)
}

// empty is what there is to say where no unit waits.
func empty() *http.Response {
	return &http.Response{StatusCode: http.StatusNoContent, Header: http.Header{}, Body: http.NoBody}
}

type job struct{ o *office }

// Sync waits until the test lets it go on.
func (j job) Sync(ctx context.Context, u provider.Unit, s sink.Sink) (provider.Result, error) {
	j.o.works <- u.Alias
	select {
	case <-j.o.goOn:
	case <-ctx.Done():
		return provider.Result{}, context.Cause(ctx)
	}
	if err := s.Put(ctx, u.Dataset, u.Window.Name(), map[string]string{"day": u.Window.Name()}); err != nil {
		return provider.Result{}, err
	}
	return provider.Result{}, nil
}

const lease = 2 * time.Second

// setup is what a test wants otherwise.
type setup struct {
	token   string
	refuse  string // path of which no request comes through
	without int    // syncs that the worker does not know

	instead func(*http.Request) *http.Response // answers in the place of the engine; nil, also what it gives: the engine does
}

// open starts an engine for the syncs "days" and "others".
func open(t *testing.T, with setup) *office {
	t.Helper()
	o := &office{t: t, works: make(chan string, 100), goOn: make(chan struct{}), ended: make(chan worker.Ended, 100), away: make(chan error, 100), result: make(chan error, 1)}
	dir := t.TempDir()
	syncs := []node.Sync{o.sync("days", "north", dir), o.sync("others", "south", dir)}
	quiet := slog.New(slog.DiscardHandler)
	var err error
	o.node, err = node.Open(t.Context(), node.Config{
		Store: filepath.Join(dir, "towline.db"), Syncs: syncs, Workers: 1, Logger: quiet,
		Routes: map[events.Kind]transport.Publisher{events.KindUnit: pull.Publisher{}},
		Knobs:  towline.Knobs{Lease: lease, BackfillChunk: 24 * time.Hour},
	})
	require.NoError(t, err)
	ran := make(chan error, 1)
	running, stop := context.WithCancel(context.Background())
	go func() { ran <- o.node.Run(running) }()
	o.api, err = httpapi.New(httpapi.Config{Node: o.node, Logger: quiet})
	require.NoError(t, err)
	o.line = &line{to: refusing{o.api.Inside(), with.refuse}, as: with.instead}
	c, err := client.New(client.Config{Address: "http://localhost", Token: with.token, Transport: o.line})
	require.NoError(t, err)
	o.client, o.syncs = c, syncs
	w, err := worker.New(worker.Config{
		Client: c, Syncs: syncs[with.without:], Workers: 2, Name: "one", Logger: quiet, Grace: -1, Ended: func(e worker.Ended) { o.ended <- e },
		Away: func(err error) { o.away <- err },
	})
	require.NoError(t, err)
	working, end := context.WithCancel(context.Background())
	o.stop = end
	go func() { o.result <- w.Run(working) }()
	t.Cleanup(func() {
		o.end()
		stop()
		require.NoError(t, <-ran)
		require.NoError(t, o.api.Close())
	})
	return o
}

func (o *office) sync(name, source, dir string) node.Sync {
	return node.Sync{
		Name: name, Sources: []string{source}, Provider: job{o}, Sink: jsonl.Dir(filepath.Join(dir, name)),
		Datasets: []towline.Dataset{{Name: "d", Surfaces: []string{"d"}}},
	}
}

// end stops the workers, and returns what they say.
func (o *office) end() error {
	o.stop()
	if o.stopped {
		return nil
	}
	o.stopped = true
	return <-o.result
}

var before = time.Date(2026, 1, 10, 0, 0, 0, 0, time.UTC)

func (o *office) plan(sync string, days int) events.RunID {
	o.t.Helper()
	p, err := o.node.Engine().Plan(o.t.Context(), towline.RunSpec{
		Sync: sync, Mode: events.Backfill, Since: before.AddDate(0, 0, -days), Before: before, By: towline.Actor{Name: "test"},
	})
	require.NoError(o.t, err)
	require.Equal(o.t, days, p.Units)
	return p.Run
}

func (o *office) units(run events.RunID) (out []projections.SyncRunUnit) {
	o.t.Helper()
	require.NoError(o.t, o.node.Engine().View(o.t.Context(), func(v projections.View) (err error) {
		out, err = v.Units(run, 0, 100)
		return err
	}))
	return out
}

func (o *office) wait(run events.RunID) projections.SyncRun {
	o.t.Helper()
	row, err := o.node.Engine().Wait(o.t.Context(), run)
	require.NoError(o.t, err)
	return row
}

// HU-9: of a report whose answer is lost nobody knows whether it was taken. It is repeated, and is one: nothing is late, and no
// attempt is added.
func TestAReportWithoutAnAnswerIsRepeatedUntilItHasOne(t *testing.T) {
	o := open(t, setup{})
	var lost atomic.Int64
	lose := func(path string, _ bool) bool { return path == "/v1/leases/complete" && lost.Add(1)%3 != 0 }
	o.line.lose.Store(&lose)
	close(o.goOn)
	run := o.plan("days", 4)
	require.Equal(t, events.RunSucceeded, o.wait(run).Status)
	for range 4 {
		e := <-o.ended
		require.NoError(t, e.Err)
		require.IsType(t, towline.Completed{}, e.How)
	}
	require.Greater(t, o.line.count("/v1/leases/complete"), int64(4), "some answers were lost")
	for _, u := range o.units(run) {
		require.Equal(t, 1, u.Attempt)
		require.Zero(t, u.LateResults)
		require.Equal(t, 1, u.Result.Rows)
	}
}

// N-5, HC-11: an answer to a claim that is lost on the way is asked for again, and no attempt is lost with it.
func TestALeaseWhoseAnswerIsLostIsGivenAgain(t *testing.T) {
	o := open(t, setup{})
	var lost atomic.Int64
	lose := func(path string, given bool) bool { return path == "/v1/leases/claim" && given && lost.Add(1) <= 2 }
	o.line.lose.Store(&lose)
	close(o.goOn)
	run := o.plan("days", 3)
	require.Equal(t, events.RunSucceeded, o.wait(run).Status)
	require.GreaterOrEqual(t, lost.Load(), int64(2), "answers with leases were lost")
	for _, u := range o.units(run) {
		require.Equal(t, 1, u.Attempt, u.Alias)
	}
}

// U-6, HU-3: a unit that takes longer than its lease keeps it, also when every other answer to a renewal is lost.
func TestALeaseIsKeptWhenRenewalsAreLost(t *testing.T) {
	o := open(t, setup{})
	var n atomic.Int64
	lose := func(path string, _ bool) bool { return path == "/v1/leases/renew" && n.Add(1)%2 == 1 }
	o.line.lose.Store(&lose)
	run := o.plan("days", 1)
	<-o.works
	require.Eventually(t, func() bool { return n.Load() >= 8 }, time.Minute, time.Millisecond) // longer than two leases
	close(o.goOn)
	require.Equal(t, events.RunSucceeded, o.wait(run).Status)
	require.Equal(t, 1, o.units(run)[0].Attempt)
}

// HU-4, C-17: a lease that cannot be renewed ends here, by this machine's clock, and nothing is offered. The unit is left to the
// expiry in the log.
func TestALeaseThatCannotBeRenewedEnds(t *testing.T) {
	o := open(t, setup{refuse: "/v1/leases/renew"})
	run := o.plan("days", 1)
	<-o.works
	e := <-o.ended
	require.Nil(t, e.How)
	require.Equal(t, events.RunFailed, o.wait(run).Status)
	u := o.units(run)[0]
	require.Equal(t, events.WorkerLost, u.ErrorCategory)
	require.Zero(t, u.LateResults)
}

// refusing lets no request for a path through.
type refusing struct {
	to   http.RoundTripper
	path string
}

func (r refusing) RoundTrip(q *http.Request) (*http.Response, error) {
	if q.URL.Path == r.path {
		return nil, errors.New("no way")
	}
	return r.to.RoundTrip(q)
}

// HU-1, X-9: a worker asks for units of what it knows, by sync, provider, source and dataset together, and leaves all else.
func TestAWorkerTakesOnlyWhatItKnows(t *testing.T) {
	o := open(t, setup{without: 1})
	close(o.goOn)
	days, others := o.plan("days", 2), o.plan("others", 2)
	require.Equal(t, events.RunSucceeded, o.wait(others).Status)
	claims := o.line.count("/v1/leases/claim")
	require.Eventually(t, func() bool { return o.line.count("/v1/leases/claim") > claims+1 }, time.Minute, time.Millisecond) // it has asked since
	for _, u := range o.units(days) {
		require.Zero(t, u.Attempt, u.Alias)
	}
}

// U-16, N-6: a clean stop hands back what is at work, once its grace is over, and the unit waits for the next worker.
func TestACleanStopHandsBack(t *testing.T) {
	o := open(t, setup{})
	run := o.plan("days", 1)
	<-o.works
	require.NoError(t, o.end())
	e := <-o.ended
	require.IsType(t, towline.HandedBack{}, e.How)
	require.NoError(t, e.Err)
	u := o.units(run)[0]
	require.Equal(t, 1, u.HandBacks)
	require.False(t, u.Status.Terminal(), u.Status)
	require.Zero(t, u.ExpiredLeaseRetries)
}

// what an operator cancels is learned with the next renewal. Its provider stops, and nothing is offered.
func TestACancelStopsTheProvider(t *testing.T) {
	o := open(t, setup{})
	run := o.plan("days", 1)
	<-o.works
	require.NoError(t, o.node.Engine().CancelRun(t.Context(), run, towline.Actor{Name: "test", Reason: "test"}))
	e := <-o.ended
	require.Nil(t, e.How)
	require.Zero(t, o.units(run)[0].LateResults)
}

// A token that the engine does not know ends the workers at once, with its answer.
func TestAnUnknownTokenEndsTheWorkers(t *testing.T) {
	o := open(t, setup{token: "wrong"})
	var refused *client.Error
	err := <-o.result
	o.stopped = true
	require.ErrorAs(t, err, &refused)
	require.Equal(t, http.StatusUnauthorized, refused.Status)
}

// HU-9, U-16: behind its stop a worker asks for nothing, whatever hands are free: what it got it would only hand back.
func TestAStoppedWorkerAsksForNothing(t *testing.T) {
	o := open(t, setup{})
	require.NoError(t, o.end())
	claims := o.line.count("/v1/leases/claim")
	w, err := worker.New(worker.Config{Client: o.client, Syncs: o.syncs, Workers: 2, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	stopped, stop := context.WithCancel(t.Context())
	stop()
	for range 20 { // what select draws would be right now and then
		require.NoError(t, w.Run(stopped))
	}
	require.Equal(t, claims, o.line.count("/v1/leases/claim"))
}

// HU-9, U-16: more leases than were asked for, as two requests with one secret can bring, are handed back untouched. No more units
// are at work than there are workers, and the stop waits for nobody.
func TestMoreLeasesThanWereAskedForAreHandedBack(t *testing.T) {
	more := func(r *http.Request) *http.Response {
		if r.URL.Path != "/v1/leases/claim" {
			return nil
		}
		var asks wire.ClaimAny
		body, err := io.ReadAll(r.Body)
		if err == nil {
			err = json.Unmarshal(body, &asks)
		}
		if err != nil {
			return empty() // the engine would say what is wrong
		}
		asks.Max = 5
		if body, err = json.Marshal(asks); err == nil {
			r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		}
		return nil
	}
	o := open(t, setup{instead: more})
	run := o.plan("days", 5)
	begun := map[string]bool{<-o.works: true, <-o.works: true}
	back := 0
	for back < 3 {
		e := <-o.ended
		require.NoError(t, e.Err)
		require.IsType(t, towline.HandedBack{}, e.How)
		require.False(t, e.Begun)
		require.False(t, begun[e.Lease.Alias])
		back++
	}
	require.Empty(t, o.works)
	close(o.goOn)
	require.Equal(t, events.RunSucceeded, o.wait(run).Status)
	require.NoError(t, o.end())
}

// An answer without a unit that comes at once, as of a server that stops or of something in between, is not asked for again at once.
func TestAnAnswerThatDoesNotWaitIsNoHotLoop(t *testing.T) {
	var n atomic.Int64
	hasty := func(r *http.Request) *http.Response {
		n.Add(1)
		return empty()
	}
	began := time.Now()
	open(t, setup{instead: hasty})
	require.Eventually(t, func() bool { return n.Load() >= 5 }, time.Minute, time.Millisecond)
	require.Greater(t, time.Since(began), 700*time.Millisecond, "four pauses")
}

// HU-9: an engine that answers one question and not the other, as with a full disk, is away until it has answered all. People are
// told that once, and once that it is back.
func TestAnEngineThatAnswersHalfIsAwayOnce(t *testing.T) {
	o := open(t, setup{})
	lose := func(path string, _ bool) bool { return path == "/v1/leases/complete" }
	o.line.lose.Store(&lose)
	close(o.goOn)
	run := o.plan("days", 1)
	require.Error(t, <-o.away)
	claims, reports := o.line.count("/v1/leases/claim"), o.line.count("/v1/leases/complete")
	require.Eventually(t, func() bool { // both, again and again
		return o.line.count("/v1/leases/claim") > claims+2 && o.line.count("/v1/leases/complete") > reports+2
	}, time.Minute, time.Millisecond)
	require.Empty(t, o.away)
	o.line.lose.Store(nil)
	require.NoError(t, <-o.away)
	require.Equal(t, events.RunSucceeded, o.wait(run).Status)
	require.Empty(t, o.away)
}

// HU-7, HU-9: where a result cannot be stored a failure is reported in its place, and that is repeated too until it has an answer.
// So the unit ends as what it was, and not as that of a lost worker.
func TestAFailureInThePlaceOfAResultIsRepeated(t *testing.T) {
	var refused atomic.Int64
	half := func(r *http.Request) *http.Response {
		answer := func(status int, code string) *http.Response {
			return &http.Response{
				StatusCode: status, Header: http.Header{"Content-Type": {"application/problem+json"}},
				Body: io.NopCloser(strings.NewReader(`{"status":` + strconv.Itoa(status) + `,"code":"` + code + `","title":"no"}`)),
			}
		}
		switch {
		case r.URL.Path == "/v1/leases/complete":
			return answer(http.StatusUnprocessableEntity, "invalid_request")
		case r.URL.Path == "/v1/leases/fail" && refused.Add(1) <= 2:
			return answer(http.StatusServiceUnavailable, "store_unavailable")
		}
		return nil
	}
	o := open(t, setup{instead: half})
	close(o.goOn)
	run := o.plan("days", 1)
	require.Equal(t, events.RunFailed, o.wait(run).Status)
	require.Equal(t, events.ProviderError, o.units(run)[0].ErrorCategory)
	require.EqualValues(t, 3, refused.Load())
}

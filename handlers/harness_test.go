package handlers_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/handlers"
	"github.com/towline-dev/towline/internal/enginetest"
	"github.com/towline-dev/towline/projections"
	"github.com/towline-dev/towline/provider"
	"github.com/towline-dev/towline/sink"
	"github.com/towline-dev/towline/store"
	"github.com/towline-dev/towline/store/sqlite"
	"github.com/towline-dev/towline/transport"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// shop is one process with handlers: an engine, a provider and a destination that do as they are told, and no relay: a
// test delivers the messages. It lives in a bubble, whose time moves by itself when everybody waits.
type shop struct {
	t        *testing.T
	o        options
	file     *sqlite.Store
	store    *faulty
	e        *towline.Engine
	h        *handlers.Handlers
	provider *stub
	sink     *destination
	log      *enginetest.Log
	starts   byte
	ending   []func() // before the handlers stop
	began    time.Time
	ahead    atomic.Int64 // by which the wall clock has been set forward

	stop context.CancelFunc
	done chan error
}

type options struct {
	workers    int
	knobs      towline.Knobs
	path       string
	shared     bool // other processes may open the store
	unfenced   bool
	watched    bool // the silence of its provider says something
	noScripts  bool
	noLedger   bool
	syncs      func([]towline.Sync)
	unverified bool
	ports      map[string]handlers.Ports
}

// run makes a shop in a bubble.
func run(t *testing.T, o options, test func(*testing.T, *shop)) {
	t.Helper()
	dir := t.TempDir() // outside of the bubble: its clean-up comes last
	synctest.Test(t, func(t *testing.T) {
		if o.path == "" {
			o.path = filepath.Join(dir, "towline.db")
		}
		s := &shop{t: t, o: o, provider: &stub{}, sink: &destination{}, log: &enginetest.Log{}, began: time.Now()}
		s.open()
		test(t, s)
		s.close()
	})
}

// wall is what the wall clock shows: the time of the bubble, and by how much it was set forward.
func (s *shop) wall() time.Time { return time.Now().Add(time.Duration(s.ahead.Load())) }

func (s *shop) open() {
	s.t.Helper()
	clock := towline.NewClockPair(s.wall, func() time.Duration { return time.Since(s.began) })
	var err error
	s.file, err = sqlite.Open(context.Background(), s.o.path, sqlite.Options{Now: clock.Now, Synchronous: "normal", Shared: s.o.shared})
	require.NoError(s.t, err)
	s.store = &faulty{Store: s.file}
	s.e, err = towline.Open(context.Background(), s.store, s.config(clock))
	require.NoError(s.t, err)
	var opener sink.Opener = s.sink
	switch {
	case s.o.unfenced:
		opener = struct{ sink.Opener }{s.sink} // hides Fenced and Script
	case s.o.noScripts:
		opener = fencedOnly{s.sink}
	case s.o.noLedger:
		opener = scriptsOnly{fencedOnly{s.sink}}
	}
	ports := s.o.ports
	if ports == nil {
		ports = map[string]handlers.Ports{"days": {Provider: s.provider, Sink: opener}}
		if s.o.watched {
			ports["days"] = handlers.Ports{Provider: watched{s.provider}, Sink: opener}
		}
	}
	s.h = handlers.New(s.e, handlers.Config{Ports: ports, DB: s.file.DB(), Workers: s.o.workers, Name: "worker"})
	ctx, cancel := context.WithCancel(context.Background())
	s.stop, s.done = cancel, make(chan error, 1)
	go func() { s.done <- s.h.Run(ctx) }()
}

func (s *shop) config(clock *towline.Clock) towline.Config {
	syncs := []towline.Sync{{
		Name: "days", Provider: "p", Sources: []string{"north"}, Config: json.RawMessage(`{"a":1}`),
		Datasets: []towline.Dataset{{Name: "a", Surfaces: []string{"rows", "more"}}},
		PostSync: towline.PostSync{Targets: []towline.Target{{Name: "index", SQL: "UPDATE x"}}},
	}}
	if s.o.syncs != nil {
		s.o.syncs(syncs)
	}
	k := s.o.knobs
	k.BackfillChunk = 24 * time.Hour
	s.starts++
	return towline.Config{
		Syncs: syncs, Knobs: k, Clock: clock, Entropy: rand.NewChaCha8([32]byte{s.starts}),
		Logger: slog.New(slog.NewTextHandler(s.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
}

// colleague is the engine of another process on the same store.
func (s *shop) colleague() *towline.Engine {
	s.t.Helper()
	clock := towline.NewClock(nil)
	file, err := sqlite.Open(context.Background(), s.o.path, sqlite.Options{Now: clock.Now, Synchronous: "normal", Shared: true})
	require.NoError(s.t, err)
	s.ending = append(s.ending, func() { require.NoError(s.t, file.Close()) })
	e, err := towline.Open(context.Background(), file, s.config(clock))
	require.NoError(s.t, err)
	return e
}

type fencedOnly struct{ d *destination }

func (f fencedOnly) Open(ctx context.Context, s sink.Scope) (sink.Writer, error) {
	return f.d.Open(ctx, s)
}
func (fencedOnly) Fenced() bool { return true }

type scriptsOnly struct{ fencedOnly }

func (s scriptsOnly) Script(ctx context.Context, script string, args ...any) error {
	return s.d.Script(ctx, script, args...)
}

func (s *shop) close() {
	s.t.Helper()
	for _, end := range s.ending {
		end()
	}
	s.h.Stop()
	s.stop()
	require.NoError(s.t, <-s.done)
	synctest.Wait()
	if !s.t.Failed() && !s.o.unverified {
		s.verify()
	}
	require.NoError(s.t, s.file.Close())
}

// restart ends the process without a word, and starts the next.
func (s *shop) restart() {
	s.t.Helper()
	s.h.Stop()
	s.stop()
	require.NoError(s.t, <-s.done)
	synctest.Wait()
	require.NoError(s.t, s.file.Close())
	s.open()
}

func (s *shop) verify() {
	s.t.Helper()
	enginetest.RequireVerified(s.t, s.e, filepath.Dir(s.o.path)) // a new folder would be removed by the bubble
}

// faulty is a store that a test can take away.
type faulty struct {
	store.Store
	gone   atomic.Bool
	freeze atomic.Int64 // how long the next write takes to begin
	writes atomic.Int64
}

var errAway = fmt.Errorf("disk full: %w", store.ErrUnavailable)

func (f *faulty) Write(ctx context.Context, fn func(store.Tx) error) error {
	if f.gone.Load() {
		return errAway
	}
	if most := f.freeze.Swap(0); most > 0 {
		<-time.After(time.Duration(most))
	}
	f.writes.Add(1)
	return f.Store.Write(ctx, fn)
}

// stub is a provider that records its calls and does as it is told.
type stub struct {
	mu    sync.Mutex
	calls []provider.Unit
	does  func(context.Context, provider.Unit, sink.Sink) (provider.Result, error)
}

func (p *stub) Sync(ctx context.Context, u provider.Unit, s sink.Sink) (provider.Result, error) {
	p.mu.Lock()
	p.calls = append(p.calls, u)
	does := p.does
	p.mu.Unlock()
	if does == nil {
		return provider.Result{}, nil
	}
	return does(ctx, u, s)
}

// obey changes what it does while an earlier call still runs.
func (p *stub) obey(does func(context.Context, provider.Unit, sink.Sink) (provider.Result, error)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.does = does
}

func (p *stub) called() []provider.Unit {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.calls)
}

// destination is a fenced sink in memory that breaks where it is told to.
type destination struct {
	mu        sync.Mutex
	fences    map[string]events.Fence
	committed []string // rows, in order of their commits
	aborts    int
	scripts   []string
	ledger    map[string]bool
	breaks    map[string]func(context.Context) error // by method
}

func (*destination) Fenced() bool { return true }

func (d *destination) broken(ctx context.Context, method string) error {
	d.mu.Lock()
	f := d.breaks[method]
	d.mu.Unlock()
	if f != nil {
		return f(ctx)
	}
	return nil
}

func (d *destination) brokenLocked(ctx context.Context, method string) error {
	if f := d.breaks[method]; f != nil {
		return f(ctx)
	}
	return nil
}

func (d *destination) breakAt(method string, f func(context.Context) error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.breaks == nil {
		d.breaks = map[string]func(context.Context) error{}
	}
	d.breaks[method] = f
}

func (d *destination) rows() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.committed)
}

func (d *destination) Script(ctx context.Context, script string, args ...any) error {
	d.mu.Lock()
	d.scripts = append(d.scripts, strings.TrimSpace(fmt.Sprintln(append([]any{script}, args...)...)))
	d.mu.Unlock()
	return d.broken(ctx, "script")
}

// ScriptOnce takes note of a script that commits, once for a key. It breaks before it is taken, and behind that.
func (d *destination) ScriptOnce(ctx context.Context, key, script string, args ...any) (bool, error) {
	if err := d.broken(ctx, "script"); err != nil {
		return false, err
	}
	d.mu.Lock()
	first := !d.ledger[key]
	if d.ledger == nil {
		d.ledger = map[string]bool{}
	}
	d.ledger[key] = true
	if first {
		d.scripts = append(d.scripts, strings.TrimSpace(fmt.Sprintln(append([]any{script}, args...)...)))
	}
	d.mu.Unlock()
	return first, d.broken(ctx, "scripted")
}

func (d *destination) aborted() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.aborts
}

func (d *destination) ran() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.scripts)
}

func (d *destination) Open(ctx context.Context, s sink.Scope) (sink.Writer, error) {
	if err := d.broken(ctx, "open"); err != nil {
		return nil, err
	}
	return &writer{d: d, scope: s}, nil
}

type writer struct {
	d     *destination
	scope sink.Scope
	rows  []string
	state json.RawMessage
	taken bool
}

func (w *writer) Put(ctx context.Context, surface, key string, _ any) error {
	if err := w.scope.Declares(surface); err != nil {
		return err
	}
	if err := w.d.broken(ctx, "put"); err != nil {
		return err
	}
	w.rows = append(w.rows, surface+"/"+key)
	return nil
}

func (*writer) Progress(int64, int64)     {}
func (w *writer) State(s json.RawMessage) { w.state = s }

func (w *writer) Commit(ctx context.Context) error {
	if err := w.d.broken(ctx, "commit"); err != nil {
		return err
	}
	w.d.mu.Lock()
	defer w.d.mu.Unlock()
	key := w.scope.Source + "/" + w.scope.Dataset + "/" + w.scope.Window.Name()
	if w.d.fences == nil {
		w.d.fences = map[string]events.Fence{}
	}
	if w.scope.Fence < w.d.fences[key] {
		return sink.ErrFenced
	}
	w.d.fences[key] = w.scope.Fence
	w.d.committed = append(w.d.committed, w.rows...)
	w.taken = true
	return w.d.brokenLocked(ctx, "committed") // it has taken it, and the answer is lost
}

func (w *writer) Abort() error {
	w.d.mu.Lock()
	w.d.aborts++
	w.d.mu.Unlock()
	return w.d.broken(context.Background(), "abort")
}

func (w *writer) Rows() int             { return len(w.rows) }
func (w *writer) Left() json.RawMessage { return w.state }
func (w *writer) Committed() bool       { return w.taken }

// The actions of a test.

// dispatched plans a run of so many units and dispatches them; their messages are in order.
func (s *shop) dispatched(days int) (events.RunID, []*message.Message) {
	s.t.Helper()
	id := s.plan(days)
	require.NoError(s.t, s.deliver(transport.Notice{Kind: events.KindDispatch, Run: id, Wakeup: 1}))
	return id, s.messages(id)
}

func (s *shop) plan(days int) events.RunID {
	s.t.Helper()
	before := time.Date(1999, 6, 1, 0, 0, 0, 0, time.UTC) // the bubble begins in 2000
	p, err := s.e.Plan(context.Background(), towline.RunSpec{Sync: "days", Mode: towline.Backfill,
		Since: before.AddDate(0, 0, -days), Before: before})
	require.NoError(s.t, err)
	return p.Run
}

// messages are those of the units that are dispatching.
func (s *shop) messages(run events.RunID) (out []*message.Message) {
	s.t.Helper()
	for _, u := range s.units(run) {
		if u.Status == events.UnitIsDispatching {
			n := transport.Notice{Kind: events.KindUnit, Run: run, Wakeup: 1, Unit: u.Unit, Attempt: u.Attempt + 1}
			m, err := n.Message("m")
			require.NoError(s.t, err)
			out = append(out, m)
		}
	}
	return out
}

func (s *shop) deliver(n transport.Notice) error {
	s.t.Helper()
	m, err := n.Message("m")
	require.NoError(s.t, err)
	return s.h.Handle(context.Background(), m)
}

// begin delivers a message in a goroutine of its own, as a router does, and waits until everybody waits.
func (s *shop) begin(m *message.Message) <-chan error {
	done := make(chan error, 1)
	go func() { done <- s.h.Handle(context.Background(), m) }()
	synctest.Wait()
	return done
}

// wait lets time pass.
func wait(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// The questions of a test.

func (s *shop) units(run events.RunID) (units []projections.SyncRunUnit) {
	s.t.Helper()
	require.NoError(s.t, s.e.View(context.Background(), func(v projections.View) (err error) {
		units, err = v.Units(run, 0, 10_000)
		return err
	}))
	return units
}

func (s *shop) unit(run events.RunID) projections.SyncRunUnit {
	s.t.Helper()
	return s.units(run)[0]
}

func (s *shop) run(id events.RunID) (run projections.SyncRun) {
	s.t.Helper()
	require.NoError(s.t, s.e.View(context.Background(), func(v projections.View) (err error) {
		run, _, err = v.Run(id)
		return err
	}))
	return run
}

func (s *shop) events(p events.Position) []events.Envelope {
	s.t.Helper()
	return enginetest.Since(s.t, s.e, p)
}

func (s *shop) head() events.Position {
	s.t.Helper()
	return enginetest.Head(s.t, s.e)
}

func (s *shop) unchanged(fn func()) {
	s.t.Helper()
	before := s.head()
	fn()
	require.Empty(s.t, enginetest.Types(s.events(before)), "something was written")
}

// ended ends a run of one unit well.
func (s *shop) ended() events.RunID {
	s.t.Helper()
	id, messages := s.dispatched(1)
	require.NoError(s.t, s.h.Handle(context.Background(), messages[0]))
	require.NoError(s.t, s.deliver(transport.Notice{Kind: events.KindFinalize, Run: id, Wakeup: 1}))
	return id
}

// marked ends a run of one unit well and marks its post_sync, as a relay does.
func (s *shop) marked() events.RunID {
	s.t.Helper()
	id := s.ended()
	require.NoError(s.t, s.e.Transact(context.Background(), "", func(tx *towline.Tx) error {
		token := tx.NewToken()
		_, err := tx.Execute(
			decider.ClaimWakeup{
				Owner: id, Kind: events.KindPostSync, Mode: events.AtMostOnce, At: tx.Now(), Token: token,
				ExpiresAt: tx.Now().Add(events.SpanOf(time.Minute)), Messages: 1, MaxAttempts: 20,
			},
			decider.MarkWakeup{
				Owner: id, Kind: events.KindPostSync, Mode: events.AtMostOnce, At: tx.Now(), N: 1, Token: token,
				Transport: "test", Messages: 1,
			},
			decider.RecordOutcome{Owner: id, Kind: events.KindPostSync, N: 1, Target: "index", Outcome: events.Accepted})
		return err
	}))
	return id
}

var errPlanted = errors.New("planted fault")

package towline_test

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	watermill "github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/internal/enginetest"
	"github.com/towline-dev/towline/projections"
	"github.com/towline-dev/towline/relay"
	"github.com/towline-dev/towline/store"
	"github.com/towline-dev/towline/store/sqlite"
	"github.com/towline-dev/towline/transport"
)

// workshop is one process on a store of its own: an engine without goroutines, a relay that a test drives, a broker
// that records, and a clock that only the test moves. Every workshop ends with a proof that views, memory and log agree
// (I-26).
type workshop struct {
	t      *testing.T
	o      options
	now    *enginetest.Clock
	file   *sqlite.Store
	store  *faulty
	e      *towline.Engine
	relay  *relay.Relay
	broker *broker
	posts  []sent // post_sync messages that deliver has met
	made   int    // messages of an application
}

type options struct {
	path       string
	shared     bool
	clock      *enginetest.Clock // nil: one of its own
	config     towline.Config
	grouped    bool // concurrent callers share commits, as in production
	dies       int  // commits of the engine's start before the store fails; zero: it does not
	unverified bool // the test plants what the proof at the end would find
}

var start = enginetest.Start

// reports is a sync with nothing special: two sources, one dataset with watermarks.
func reports() towline.Sync {
	return towline.Sync{
		Name: "reports", Provider: "press", Sources: []string{"north", "south"},
		Datasets: []towline.Dataset{{Name: "articles"}},
		PostSync: towline.PostSync{Targets: []towline.Target{{Name: "index", SQL: "SELECT 1"}}},
	}
}

func newWorkshop(t *testing.T, syncs ...towline.Sync) *workshop {
	return openWorkshop(t, options{config: towline.Config{Syncs: syncs}})
}

func openWorkshop(t *testing.T, o options) *workshop {
	t.Helper()
	if o.path == "" {
		o.path = filepath.Join(t.TempDir(), "towline.db")
	}
	if o.config.Syncs == nil {
		o.config.Syncs = []towline.Sync{reports()}
	}
	if o.config.Entropy == nil {
		o.config.Entropy = seeded(1)
	}
	w := &workshop{t: t, o: o, now: o.clock, broker: &broker{}}
	if w.now == nil {
		w.now = enginetest.NewClock(start)
	}
	require.NoError(t, w.open())
	t.Cleanup(func() {
		if !t.Failed() && !w.o.unverified {
			w.verify()
		}
		require.NoError(t, w.file.Close())
	})
	return w
}

// seeded is entropy that is the same in every run of a test.
func seeded(seed byte) io.Reader { return rand.NewChaCha8([32]byte{seed}) }

func (w *workshop) open() error {
	clock := towline.NewClockPair(w.now.Now, w.now.Ran)
	file, err := sqlite.Open(context.Background(), w.o.path, sqlite.Options{
		Shared: w.o.shared, Now: clock.Now, Inline: !w.o.grouped, Synchronous: "normal",
	})
	if err != nil {
		return err
	}
	w.file, w.store = file, &faulty{Store: file, dies: w.o.dies}
	c := w.o.config
	c.Clock = clock
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if w.e, err = towline.Open(context.Background(), w.store, c); err != nil {
		return errors.Join(err, file.Close())
	}
	w.relay, err = relay.Synchronous(w.e, func(events.Kind) transport.Publisher { return w.broker })
	return err
}

// crash ends the process without a word, and starts the next.
func (w *workshop) crash() {
	w.t.Helper()
	require.NoError(w.t, w.file.Close())
	require.NoError(w.t, w.open())
}

// restart ends the process cleanly, and starts the next.
func (w *workshop) restart() {
	w.t.Helper()
	require.NoError(w.t, w.e.Stop(context.Background(), "test"))
	w.crash()
}

func (w *workshop) advance(d time.Duration) { w.now.Step(d) }

// untilDue lets time pass until a retrying unit is due; one that waits for nothing costs no time.
func (w *workshop) untilDue(u projections.SyncRunUnit) {
	if !u.AvailableAt.IsZero() {
		w.advance(max(u.AvailableAt.Sub(w.now.Now()), 0))
	}
}

// jump sets the wall clock forward or back, and no time passes.
func (w *workshop) jump(d time.Duration) { w.now.Jump(d) }

// verify is the proof of I-26, and of the memory beside it.
func (w *workshop) verify() {
	w.t.Helper()
	enginetest.RequireVerified(w.t, w.e, w.t.TempDir())
	differences, err := w.e.CompareMemory(context.Background())
	require.NoError(w.t, err)
	require.Empty(w.t, differences)
}

// openFile opens the store of a workshop without an engine.
func openFile(path string) (*sqlite.Store, error) {
	return sqlite.Open(context.Background(), path, sqlite.Options{Inline: true, Synchronous: "normal"})
}

// faulty is a store that a test can break: it refuses to write, or loses a commit when everything is decided.
type faulty struct {
	store.Store
	refuse    error  // what every Write says
	lose      error  // what the next commit says; once
	failQuery string // what a query of a transaction must hold to fail
	failRead  int    // which reading of the log by a transaction fails, from now; zero: none
	commits   int
	dies      int // how many commits succeed; zero: all
	reads     atomic.Int64
	afterRead func() // runs behind the next Read; once
	before    func() // runs before the next Write; once
	after     func() // runs behind the next Write that fails, before its caller hears of it; once
	failExec  string // what a statement of a transaction must hold to fail
}

func (f *faulty) Unwrap() store.Store { return f.Store }

func (f *faulty) Attach(h store.Hooks) {
	before := h.BeforeCommit
	h.BeforeCommit = func(tx store.Tx) error {
		if err := f.lose; err != nil {
			f.lose = nil
			return err
		}
		if f.commits++; f.dies > 0 && f.commits > f.dies {
			return errPlanted
		}
		return before(tx)
	}
	f.Store.Attach(h)
}

func (f *faulty) Read(ctx context.Context, fn func(store.Reader) error) error {
	f.reads.Add(1)
	err := f.Store.Read(ctx, fn)
	if after := f.afterRead; after != nil {
		f.afterRead = nil
		after()
	}
	return err
}

func (f *faulty) Write(ctx context.Context, fn func(store.Tx) error) error {
	if f.refuse != nil {
		return f.refuse
	}
	if before := f.before; before != nil {
		f.before = nil
		before()
	}
	err := f.Store.Write(ctx, func(tx store.Tx) error { return fn(faultyTx{tx, f}) })
	if after := f.after; after != nil && err != nil {
		f.after = nil
		after()
	}
	return err
}

type faultyTx struct {
	store.Tx
	f *faulty
}

func (t faultyTx) Unwrap() store.Tx { return t.Tx }

func (t faultyTx) Query(scan func(store.Row) error, query string, args ...any) error {
	if t.f.failQuery != "" && strings.Contains(query, t.f.failQuery) {
		return errPlanted
	}
	return t.Tx.Query(scan, query, args...)
}

func (t faultyTx) Stream(id events.StreamID) ([]events.Envelope, error) {
	if t.f.readFails() {
		return nil, errPlanted
	}
	return t.Tx.Stream(id)
}

func (t faultyTx) After(p events.Position, limit int) ([]events.Envelope, error) {
	if t.f.readFails() {
		return nil, errPlanted
	}
	return t.Tx.After(p, limit)
}

func (f *faulty) readFails() bool {
	if f.failRead == 0 {
		return false
	}
	f.failRead--
	return f.failRead == 0
}

func (t faultyTx) Exec(query string, args ...any) error {
	if t.f.failExec != "" && strings.Contains(query, t.f.failExec) {
		return errPlanted
	}
	return t.Tx.Exec(query, args...)
}

var errPlanted = errors.New("planted fault")

// sent is one message that reached the broker.
type sent struct {
	topic, id string
	notice    transport.Notice
	app       *watermill.Message // an application's; nil: a notice
}

// broker is a publisher that records, and does as it is told.
type broker struct {
	name   string                       // empty: "broker"
	script func(sent) transport.Receipt // nil: everything is accepted
	sent   []sent
}

func (b *broker) Name() string { return cmp.Or(b.name, "broker") }

func (b *broker) Send(_ context.Context, topic string, m *watermill.Message) transport.Receipt {
	s := sent{topic: topic, id: m.UUID}
	if m.Metadata.Get(events.MetadataMessageID) != "" {
		s.app = m
	} else {
		var err error
		if s.notice, err = transport.ParseNotice(m); err != nil {
			return transport.Refused(err)
		}
	}
	b.sent = append(b.sent, s)
	if b.script != nil {
		return b.script(s)
	}
	return transport.Accepted("recorded")
}

// take returns what has arrived since the last take.
func (b *broker) take() []sent {
	s := b.sent
	b.sent = nil
	return s
}

// The actions of a process, each of which must succeed.

func (w *workshop) plan(spec towline.RunSpec) towline.Planned {
	w.t.Helper()
	p, err := w.e.Plan(context.Background(), spec)
	require.NoError(w.t, err)
	return p
}

func (w *workshop) pass() relay.Report {
	w.t.Helper()
	r := w.relay.Pass(context.Background())
	require.NoError(w.t, r.Err())
	return r
}

func (w *workshop) step() relay.Report {
	w.t.Helper()
	r := w.relay.Step(context.Background())
	require.NoError(w.t, r.Err())
	return r
}

func (w *workshop) dispatch(run events.RunID) decider.DispatchCode {
	w.t.Helper()
	var code decider.DispatchCode
	require.NoError(w.t, w.transact(func(tx *towline.Tx) (err error) {
		code, err = tx.Dispatch(run)
		return err
	}))
	return code
}

func (w *workshop) finalize(run events.RunID) bool {
	w.t.Helper()
	var done bool
	require.NoError(w.t, w.transact(func(tx *towline.Tx) (err error) {
		done, err = tx.Finalize(run)
		return err
	}))
	return done
}

func (w *workshop) transact(fn func(*towline.Tx) error) error {
	return w.e.Transact(context.Background(), "", fn)
}

func (w *workshop) claim(unit events.UnitID) towline.Lease {
	w.t.Helper()
	l, err := w.e.Claim(context.Background(), unit, towline.Worker{Name: "worker"})
	require.NoError(w.t, err)
	return l
}

func (w *workshop) complete(l towline.Lease) {
	w.t.Helper()
	require.NoError(w.t, w.e.Complete(context.Background(), l, events.Result{}))
}

func (w *workshop) fail(l towline.Lease, c events.Category) {
	w.t.Helper()
	require.NoError(w.t, w.e.Fail(context.Background(), l, c, "it broke"))
}

// started plans a run, publishes its first wakeup and dispatches it, as the handler would.
func (w *workshop) started(spec towline.RunSpec) towline.Planned {
	w.t.Helper()
	p := w.plan(spec)
	w.step()
	w.dispatch(p.Run)
	w.step()
	return p
}

// deliver handles everything that reached the broker, as the handlers would, until nothing is left. work settles a
// unit.
func (w *workshop) deliver(work func(towline.Lease)) {
	w.t.Helper()
	const most = 10_000
	for range most {
		messages := w.broker.take()
		if len(messages) == 0 {
			if w.step(); len(w.broker.sent) == 0 {
				return
			}
			continue
		}
		for _, m := range messages {
			w.handle(m, work)
		}
	}
	w.t.Fatal("the workshop does not come to rest")
}

func (w *workshop) handle(m sent, work func(towline.Lease)) {
	w.t.Helper()
	switch m.notice.Kind {
	case events.KindDispatch:
		w.dispatch(m.notice.Run)
	case events.KindFinalize:
		w.finalize(m.notice.Run)
	case events.KindPostSync:
		w.posts = append(w.posts, m)
	case events.KindUnit:
		l, err := w.e.Claim(context.Background(), m.notice.Unit, towline.Worker{Name: "worker"})
		if errors.Is(err, towline.ErrNotClaimable) {
			return
		}
		require.NoError(w.t, err)
		work(l)
	}
}

// The questions of a test.

func (w *workshop) view(fn func(projections.View)) {
	w.t.Helper()
	require.NoError(w.t, w.e.View(context.Background(), func(v projections.View) error {
		fn(v)
		return nil
	}))
}

func (w *workshop) head() events.Position {
	w.t.Helper()
	return enginetest.Head(w.t, w.e)
}

// since is the log behind a position.
func (w *workshop) since(p events.Position) []events.Envelope {
	w.t.Helper()
	return enginetest.Since(w.t, w.e, p)
}

// oneTx fails unless all events have been appended by one transaction.
func oneTx(t *testing.T, envs []events.Envelope) {
	t.Helper()
	require.NotEmpty(t, envs)
	for _, e := range envs {
		require.Equal(t, envs[0].Position, e.Tx, "event %d belongs to another transaction", e.Position)
	}
}

func (w *workshop) run(id events.RunID) projections.SyncRun {
	w.t.Helper()
	var run projections.SyncRun
	w.view(func(v projections.View) {
		var ok bool
		var err error
		run, ok, err = v.Run(id)
		require.NoError(w.t, err)
		require.True(w.t, ok)
	})
	return run
}

func (w *workshop) units(run events.RunID) []projections.SyncRunUnit {
	w.t.Helper()
	var units []projections.SyncRunUnit
	w.view(func(v projections.View) {
		var err error
		units, err = v.Units(run, 0, 10_000)
		require.NoError(w.t, err)
	})
	return units
}

// unit is the unit of a run at a place, from 1.
func (w *workshop) unit(run events.RunID, ordinal int) projections.SyncRunUnit {
	w.t.Helper()
	return w.units(run)[ordinal-1]
}

// statuses counts the units of a run by state.
func (w *workshop) statuses(run events.RunID) map[events.UnitStatus]int {
	w.t.Helper()
	out := map[events.UnitStatus]int{}
	for _, u := range w.units(run) {
		out[u.Status]++
	}
	return out
}

// register is the register of a run, and false if it was never armed.
func (w *workshop) register(run events.RunID, k events.Kind) (projections.Register, bool) {
	w.t.Helper()
	var found projections.Register
	ok := false
	w.view(func(v projections.View) {
		all, err := v.RegistersOf(run)
		require.NoError(w.t, err)
		i := slices.IndexFunc(all, func(r projections.Register) bool { return r.Kind == k })
		if ok = i >= 0; ok {
			found = all[i]
		}
	})
	return found, ok
}

func (w *workshop) pending(run events.RunID, k events.Kind) projections.Register {
	w.t.Helper()
	r, ok := w.register(run, k)
	require.True(w.t, ok, "register %s was never armed", k)
	require.Equal(w.t, decider.RegisterPending, r.Status)
	return r
}

// sql runs statements through the application's handle of the same file.
func (w *workshop) sql(statements ...string) {
	w.t.Helper()
	for _, s := range statements {
		_, err := w.file.DB().Exec(s)
		require.NoError(w.t, err)
	}
}

// unchanged fails if fn appends anything.
func (w *workshop) unchanged(fn func()) {
	w.t.Helper()
	before := w.head()
	fn()
	require.Empty(w.t, enginetest.Types(w.since(before)), "something was written")
}

// days is a backfill of so many units, one per day and source.
func days(sync string, n int) towline.RunSpec {
	before := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	return towline.RunSpec{Sync: sync, Mode: towline.Backfill, Since: before.AddDate(0, 0, -n), Before: before}
}

// daily makes backfills of one unit per day.
func daily(k towline.Knobs) towline.Knobs {
	k.BackfillChunk, k.BackfillChunkWorkItem = 24*time.Hour, 24*time.Hour
	return k
}

// single is a sync of one source and one dataset, so that a run of n days has n units.
func single(name string) towline.Sync {
	return towline.Sync{
		Name: name, Provider: "press", Sources: []string{"north"}, Datasets: []towline.Dataset{{Name: name + "-articles"}},
	}
}

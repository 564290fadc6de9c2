package relay_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

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

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// office is one process with a relay: an engine on an inline store, a broker that does as it is told, and a clock that
// only the test moves. It ends with a proof that views and log agree (I-26).
type office struct {
	t      *testing.T
	o      options
	clock  *enginetest.Clock
	file   *sqlite.Store
	store  *faulty
	e      *towline.Engine
	relay  *relay.Relay
	broker *broker
	log    *enginetest.Log
	made   int // messages of an application
}

type options struct {
	path       string
	shared     bool
	grouped    bool // a store with its goroutine, as in production
	clock      *enginetest.Clock
	wall       func() time.Time // in place of clock
	knobs      towline.Knobs
	entropy    byte
	unverified bool
	targets    []string
	post       *towline.PostSync // in place of targets
	queue      *broker           // a transport that targets may name
	units      *named            // takes run_sync_unit; nil: the broker does
}

var start = enginetest.Start

func newOffice(t *testing.T) *office { return openOffice(t, options{}) }

func openOffice(t *testing.T, o options) *office {
	t.Helper()
	if enginetest.Race && testing.Short() && !o.grouped {
		t.Skip("it is told in one goroutine, where the race detector has nothing to find")
	}
	if o.path == "" {
		o.path = filepath.Join(t.TempDir(), "towline.db")
	}
	if o.targets == nil {
		o.targets = []string{"index"}
	}
	x := &office{t: t, o: o, clock: o.clock, broker: &broker{}, log: &enginetest.Log{}}
	if x.clock == nil {
		x.clock = enginetest.NewClock(start)
	}
	x.open()
	t.Cleanup(func() {
		if !t.Failed() && !x.o.unverified {
			x.verify()
		}
		require.NoError(t, x.file.Close())
	})
	return x
}

// syncs are one that has units per day, and one with two units.
func (x *office) syncs() []towline.Sync {
	post := towline.PostSync{}
	for _, name := range x.o.targets {
		post.Targets = append(post.Targets, towline.Target{Name: name, SQL: "SELECT 1"})
	}
	if x.o.post != nil {
		post = *x.o.post
	}
	return []towline.Sync{
		{
			Name: "days", Provider: "p", Sources: []string{"north"}, Datasets: []towline.Dataset{{Name: "a"}},
			PostSync: post,
		},
		{
			Name: "retried", Provider: "q", Sources: []string{"north"}, PostSync: post,
			Datasets: []towline.Dataset{{Name: "b", Retry: towline.Retry{Max: 3, Backoff: 7 * time.Second,
				On: []events.Category{events.Network, events.ExpiredLease}}}},
		},
	}
}

func (x *office) open() {
	x.t.Helper()
	clock := towline.NewClockPair(x.clock.Now, x.clock.Ran)
	if x.o.wall != nil {
		clock = towline.NewClock(x.o.wall)
	}
	var err error
	x.file, err = sqlite.Open(context.Background(), x.o.path, sqlite.Options{
		Shared: x.o.shared, Now: clock.Now, Inline: !x.o.grouped, Synchronous: "normal",
	})
	require.NoError(x.t, err)
	x.store = &faulty{Store: x.file}
	k := x.o.knobs
	k.BackfillChunk = 24 * time.Hour
	x.o.entropy++
	x.e, err = towline.Open(context.Background(), x.store, towline.Config{
		Syncs: x.syncs(), Knobs: k, Clock: clock, Entropy: rand.NewChaCha8([32]byte{x.o.entropy}),
		Logger: slog.New(slog.NewTextHandler(x.log, nil)),
	})
	require.NoError(x.t, err)
	x.relay = x.newRelay(x.broker)
}

func (x *office) newRelay(p transport.Publisher) *relay.Relay {
	x.t.Helper()
	named := map[string]transport.Publisher{}
	if x.o.queue != nil {
		named["queue"] = x.o.queue
	}
	r, err := relay.Synchronous(x.e, x.routes(p), relay.Transports(named))
	require.NoError(x.t, err)
	return r
}

func (x *office) routes(p transport.Publisher) relay.Routes {
	return func(k events.Kind) transport.Publisher {
		if k == events.KindUnit && x.o.units != nil {
			return x.o.units
		}
		return p
	}
}

// crash ends the process without a word, and starts the next.
func (x *office) crash() {
	x.t.Helper()
	require.NoError(x.t, x.file.Close())
	x.open()
}

func (x *office) verify() {
	x.t.Helper()
	enginetest.RequireVerified(x.t, x.e, x.t.TempDir())
}

var errPlanted = errors.New("planted fault")

// faulty is a store that a test can break. It counts the transactions that are asked of it.
type faulty struct {
	store.Store
	refuse  atomic.Pointer[error] // what every Write and, with blind, every Read says
	blind   atomic.Bool
	writes  atomic.Int64
	reads   atomic.Int64
	asked   atomic.Int64 // while it was away
	panics  atomic.Bool  // the next Read
	failing func(query string, args []any) bool
}

func (f *faulty) away(err error) {
	if err == nil {
		f.refuse.Store(nil)
		return
	}
	f.refuse.Store(&err)
}

func (f *faulty) Read(ctx context.Context, fn func(store.Reader) error) error {
	if f.panics.CompareAndSwap(true, false) {
		panic("planted")
	}
	if err := f.refuse.Load(); err != nil && f.blind.Load() {
		f.asked.Add(1)
		return *err
	}
	f.reads.Add(1)
	return f.Store.Read(ctx, fn)
}

func (f *faulty) Write(ctx context.Context, fn func(store.Tx) error) error {
	if err := f.refuse.Load(); err != nil {
		f.asked.Add(1)
		return *err
	}
	f.writes.Add(1)
	return f.Store.Write(ctx, func(tx store.Tx) error { return fn(faultyTx{tx, f}) })
}

type faultyTx struct {
	store.Tx
	f *faulty
}

func (t faultyTx) Exec(query string, args ...any) error {
	if t.f.failing != nil && t.f.failing(query, args) {
		return errPlanted
	}
	return t.Tx.Exec(query, args...)
}

var errAway = fmt.Errorf("disk full: %w", store.ErrUnavailable)

// sent is one message that reached the broker.
type sent struct {
	topic, id string
	notice    transport.Notice
	app       *message.Message // an application's; nil: a notice
}

// broker records, and does as its script says.
type broker struct {
	name   string // empty: "broker"
	mu     sync.Mutex
	script func(sent) transport.Receipt // nil: everything is accepted
	got    []sent
	stacks []string
}

func (b *broker) Name() string { return cmp.Or(b.name, "broker") }

func (b *broker) Send(_ context.Context, topic string, m *message.Message) transport.Receipt {
	s := sent{topic: topic, id: m.UUID}
	if m.Metadata.Get(events.MetadataMessageID) != "" {
		s.app = m
	} else {
		var err error
		if s.notice, err = transport.ParseNotice(m); err != nil {
			return transport.Refused(err)
		}
	}
	b.mu.Lock()
	b.got = append(b.got, s)
	b.stacks = append(b.stacks, stack())
	script := b.script
	b.mu.Unlock()
	if script != nil {
		return script(s)
	}
	return transport.Accepted("recorded")
}

// obey changes the script while others publish.
func (b *broker) obey(script func(sent) transport.Receipt) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.script = script
}

// take returns what has arrived since the last take.
func (b *broker) take() []sent {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.got
	b.got = nil
	return s
}

func idsOf(messages []sent) (out []string) {
	for _, m := range messages {
		out = append(out, m.id)
	}
	return out
}

// The actions of a process.

func (x *office) plan(days int) towline.Planned {
	x.t.Helper()
	return x.planOf("days", days)
}

func (x *office) planOf(sync string, days int) towline.Planned {
	x.t.Helper()
	before := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	p, err := x.e.Plan(context.Background(), towline.RunSpec{Sync: sync, Mode: towline.Backfill,
		Since: before.AddDate(0, 0, -days), Before: before})
	require.NoError(x.t, err)
	return p
}

func (x *office) pass() relay.Report {
	x.t.Helper()
	r := x.relay.Pass(context.Background())
	require.NoError(x.t, r.Err())
	return r
}

func (x *office) step() relay.Report {
	x.t.Helper()
	r := x.relay.Step(context.Background())
	require.NoError(x.t, r.Err())
	return r
}

func (x *office) dispatch(run events.RunID) {
	x.t.Helper()
	require.NoError(x.t, x.e.Transact(context.Background(), "", func(tx *towline.Tx) error {
		_, err := tx.Dispatch(run)
		return err
	}))
}

func (x *office) finalize(run events.RunID) {
	x.t.Helper()
	require.NoError(x.t, x.e.Transact(context.Background(), "", func(tx *towline.Tx) error {
		_, err := tx.Finalize(run)
		return err
	}))
}

func (x *office) claim(unit events.UnitID) towline.Lease {
	x.t.Helper()
	l, err := x.e.Claim(context.Background(), unit, towline.Worker{Name: "worker"})
	require.NoError(x.t, err)
	return l
}

func (x *office) complete(l towline.Lease) {
	x.t.Helper()
	require.NoError(x.t, x.e.Complete(context.Background(), l, events.Result{}))
}

// ended plans a run of one unit and ends it, so that its post_sync is pending.
func (x *office) ended() events.RunID {
	x.t.Helper()
	p := x.plan(1)
	x.step()
	x.dispatch(p.Run)
	x.step()
	x.complete(x.claim(x.units(p.Run)[0].Unit))
	x.step()
	x.finalize(p.Run)
	x.broker.take()
	return p.Run
}

// handle does what a message asks for, as the handlers would; units succeed.
func (x *office) handle(m sent) {
	x.t.Helper()
	switch m.notice.Kind {
	case events.KindDispatch:
		x.dispatch(m.notice.Run)
	case events.KindFinalize:
		x.finalize(m.notice.Run)
	case events.KindUnit:
		l, err := x.e.Claim(context.Background(), m.notice.Unit, towline.Worker{Name: "worker"})
		if errors.Is(err, towline.ErrNotClaimable) {
			return
		}
		require.NoError(x.t, err)
		x.complete(l)
	}
}

// The questions of a test.

func (x *office) view(fn func(projections.View)) {
	x.t.Helper()
	require.NoError(x.t, x.e.View(context.Background(), func(v projections.View) error {
		fn(v)
		return nil
	}))
}

func (x *office) head() events.Position {
	x.t.Helper()
	return enginetest.Head(x.t, x.e)
}

func (x *office) since(p events.Position) []events.Envelope {
	x.t.Helper()
	return enginetest.Since(x.t, x.e, p)
}

func (x *office) unchanged(fn func()) {
	x.t.Helper()
	before := x.head()
	fn()
	require.Empty(x.t, enginetest.Types(x.since(before)), "something was written")
}

func (x *office) units(run events.RunID) (units []projections.SyncRunUnit) {
	x.t.Helper()
	x.view(func(v projections.View) {
		var err error
		units, err = v.Units(run, 0, 10_000)
		require.NoError(x.t, err)
	})
	return units
}

func (x *office) run(id events.RunID) (run projections.SyncRun) {
	x.t.Helper()
	x.view(func(v projections.View) {
		var err error
		run, _, err = v.Run(id)
		require.NoError(x.t, err)
	})
	return run
}

func (x *office) register(run events.RunID, k events.Kind) (r projections.Register) {
	x.t.Helper()
	x.view(func(v projections.View) {
		all, err := v.RegistersOf(run)
		require.NoError(x.t, err)
		for _, one := range all {
			if one.Kind == k {
				r = one
			}
		}
	})
	return r
}

func (x *office) requireStatus(want decider.RegisterStatus, run events.RunID, k events.Kind) projections.Register {
	x.t.Helper()
	r := x.register(run, k)
	require.Equal(x.t, want, r.Status)
	return r
}

func (x *office) sql(statements ...string) {
	x.t.Helper()
	for _, s := range statements {
		_, err := x.file.DB().Exec(s)
		require.NoError(x.t, err)
	}
}

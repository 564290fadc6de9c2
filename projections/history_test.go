package projections_test

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/internal/enginetest"
	"github.com/towline-dev/towline/projections"
	"github.com/towline-dev/towline/relay"
	"github.com/towline-dev/towline/store"
	"github.com/towline-dev/towline/store/sqlite"
	"github.com/towline-dev/towline/transport"
)

// draw chooses one of n things, from 0.
type draw func(label string, n int) int

// tester is a test, or one try of a property.
type tester interface {
	require.TestingT
	Helper()
}

// history is a lawful past in the making: an engine over a store of its own, a broker that loses, doubles and refuses,
// and a clock. Each step does one thing that can happen in the life of a process.
type history struct {
	tb    tester
	draw  draw
	path  string
	now   time.Time     // what the wall clock shows
	ran   time.Duration // by the monotonic clock
	file  *sqlite.Store
	e     *towline.Engine
	relay *relay.Relay

	waiting []transport.Notice
	apps    []string // deliveries of application messages
	made    byte     // ids of them
	leases  []towline.Lease
	tokens  []events.Token
	starts  byte
	lacks   int // what this life is not configured for
}

var start = time.Date(2026, 3, 14, 9, 0, 0, 0, time.UTC)

// syncs have every kind of dataset, and retries.
func syncs() []towline.Sync {
	retry := towline.Retry{Max: 2, Backoff: 30 * time.Second, On: []events.Category{events.ExpiredLease, events.Network}}
	family := []string{"work-items", "work-item-labels", "work-item-projects", "work-item-history", "work-item-comments"}
	return []towline.Sync{
		{
			Name: "plain", Provider: "p", Sources: []string{"north", "south"},
			Datasets: []towline.Dataset{{Name: "a"}, {Name: "b", Retry: retry, Cost: towline.Light}, {Name: "ref",
				Tier: towline.Reference}},
			PostSync: towline.PostSync{Targets: []towline.Target{{Name: "index", SQL: "SELECT 1"}, {Name: "mail",
				SQL: "SELECT 1"}}},
		},
		{
			Name: "calendar", Provider: "p", Sources: []string{"north"},
			Datasets: []towline.Dataset{{Name: "weeks", Window: towline.Week, Retry: retry}, {Name: "all", Snapshot: true}},
			PostSync: towline.PostSync{Mode: towline.ExactlyOnce, Targets: []towline.Target{{Name: "mart"},
				{Name: "queue", Transport: "queue", Idempotent: true}}},
		},
		{
			Name: "linear", Provider: "linear", Sources: []string{"team"},
			Datasets: []towline.Dataset{{Name: "work", Members: family, Surfaces: family}},
		},
		{Name: "nothing", Provider: "p"},
	}
}

// configured are the syncs of this life: all of them, or all but one thing.
func (h *history) configured() []towline.Sync {
	all := syncs()
	switch h.lacks {
	case 1:
		all[0].Sources = []string{"north"}
	case 2:
		all[0].Datasets = all[0].Datasets[:2] // no reference units
	case 3:
		all = slices.Delete(all, 1, 2)
	case 4:
		all[2].Provider = "another"
	}
	return all
}

// schedules are two of one sync; an odd life changes one, and lacks the other from time to time.
func (h *history) schedules() []towline.Schedule {
	often := towline.Schedule{Name: "often", Sync: "plain", Cron: "*/10 * * * *", Overlap: towline.OverlapQueue, AutoPause: 3}
	hourly := towline.Schedule{Name: "hourly", Sync: "plain", Cron: "0 * * * *", CatchUp: towline.CatchUpAll, Max: 1 + int(h.starts/4)%2}
	if h.starts%8 == 7 {
		return []towline.Schedule{hourly}
	}
	return []towline.Schedule{often, hourly}
}

// missing says the same of a unit.
func (h *history) missing(sync, provider, source, dataset string) string {
	for _, s := range h.configured() {
		if s.Name == sync && s.Provider == provider && slices.Contains(s.Sources, source) &&
			slices.ContainsFunc(s.Datasets, func(d towline.Dataset) bool { return d.Name == dataset }) {
			return ""
		}
	}
	switch h.lacks {
	case 1:
		return `source "south"`
	case 2:
		return `dataset "ref"`
	case 3:
		return `sync "calendar"`
	}
	return `provider "linear"`
}

// hotKnobs are those of the engine.
func (h *history) hotKnobs() projections.HotKnobs {
	k := hotKnobs()
	k.Missing = h.missing
	return k
}

func newHistory(tb tester, dir string, d draw) *history {
	tb.Helper()
	h := &history{tb: tb, draw: d, path: filepath.Join(dir, "towline.db"), now: start}
	h.open()
	return h
}

func (h *history) open() {
	h.tb.Helper()
	clock := towline.NewClockPair(func() time.Time { return h.now }, func() time.Duration { return h.ran })
	var err error
	h.file, err = sqlite.Open(context.Background(), h.path, sqlite.Options{Now: clock.Now, Inline: true,
		Synchronous: "normal"})
	require.NoError(h.tb, err)
	h.starts++
	h.e, err = towline.Open(context.Background(), h.file, towline.Config{
		Syncs: h.configured(), Schedules: h.schedules(), Clock: clock, Entropy: rand.NewChaCha8([32]byte{h.starts}), Logger: slog.New(slog.DiscardHandler),
		Knobs: towline.Knobs{CapBucket: 3, CapRun: 4, CapEngine: 5, MaxAttempts: 4, BreakerFailures: 2, BreakerOpen: time.Second,
			DrainRate: 1000, BackfillChunk: 24 * time.Hour, BackfillChunkWorkItem: 24 * time.Hour, MaxDeliveries: 2,
			PostSyncRedriveAfter: time.Minute},
	})
	require.NoError(h.tb, err)
	h.relay, err = relay.Synchronous(h.e, func(events.Kind) transport.Publisher { return h },
		relay.Transports(map[string]transport.Publisher{"queue": queue{h}}))
	require.NoError(h.tb, err)
}

func (h *history) close() { require.NoError(h.tb, h.file.Close()) }

// Name makes the broker the in-process transport, whose messages die with the process.
func (*history) Name() string { return events.TransportLocal }

// Send keeps the message, refuses it, or does not know.
func (h *history) Send(_ context.Context, _ string, m *message.Message) transport.Receipt {
	keep := func() { h.apps = append(h.apps, m.UUID) }
	if m.Metadata.Get(events.MetadataMessageID) == "" {
		n, err := transport.ParseNotice(m)
		require.NoError(h.tb, err)
		keep = func() { h.waiting = append(h.waiting, n) }
	}
	switch h.draw("publish", 24) {
	case 0:
		return transport.Refused(errors.New("no"))
	case 1:
		keep()
		return transport.Unknown(errors.New("timeout"))
	case 2:
		return transport.Unknown(errors.New("timeout"))
	case 3:
		return transport.Receipt{Outcome: events.Refused, Uncounted: true, Err: errors.New("full")}
	case 4:
		if h.draw("permanent", 4) == 0 {
			return transport.Receipt{Outcome: events.Refused, Permanent: true, Err: errors.New("too large")}
		}
	}
	keep()
	return transport.Accepted("")
}

// queue is a broker that nobody of the history reads.
type queue struct{ h *history }

func (queue) Name() string { return "queue" }

func (q queue) Send(ctx context.Context, topic string, m *message.Message) transport.Receipt {
	before := len(q.h.waiting)
	r := q.h.Send(ctx, topic, m)
	q.h.waiting = q.h.waiting[:before]
	return r
}

var steps = []struct {
	name   string
	weight int
	do     func(*history)
}{
	{"plan", 2, func(h *history) {
		spec := towline.RunSpec{Sync: []string{"plain", "calendar", "linear", "nothing"}[h.draw("sync", 4)],
			Key: fmt.Sprint("key-", h.draw("key", 100))}
		if h.draw("backfill", 2) > 0 {
			spec.Mode, spec.Since, spec.Before = towline.Backfill, h.now.AddDate(0, 0, -1-h.draw("days", 3)), h.now
		}
		if spec.Sync == "nothing" {
			spec.Mode, spec.Since, spec.Before = "", time.Time{}, time.Time{}
		}
		if spec.Sync == "linear" && h.lacks == 4 {
			return // its units would belong to a provider that no other life has
		}
		_, err := h.e.Plan(context.Background(), spec)
		if !errors.Is(err, towline.ErrKeyReused) && !errors.Is(err, towline.ErrNotFound) && !errors.Is(err, towline.ErrSourcePaused) {
			require.NoError(h.tb, err)
		}
	}},
	{"hold", 2, func(h *history) {
		ctx, by := context.Background(), towline.Actor{Name: "ada", Reason: fmt.Sprint("reason ", h.draw("reason", 3))}
		source := []string{"north", "south", "team"}[h.draw("source", 3)]
		switch h.draw("hold", 12) {
		case 0:
			require.NoError(h.tb, h.e.PauseEngine(ctx, by))
		case 1, 2, 3, 4:
			require.NoError(h.tb, h.e.ResumeEngine(ctx, by))
		case 5, 6:
			if err := h.e.PauseSource(ctx, source, by); !errors.Is(err, towline.ErrNotFound) {
				require.NoError(h.tb, err)
			}
		default:
			if err := h.e.ResumeSource(ctx, source, by); !errors.Is(err, towline.ErrNotFound) {
				require.NoError(h.tb, err)
			}
		}
	}},
	{"schedule", 4, func(h *history) {
		ctx, by := context.Background(), towline.Actor{Name: "ada", Reason: "to see"}
		name := []string{"often", "hourly"}[h.draw("schedule", 2)]
		var err error
		switch h.draw("what", 8) {
		case 0:
			err = h.e.PauseSchedule(ctx, name, by)
		case 1, 2:
			err = h.e.ResumeSchedule(ctx, name, by)
		default:
			_, err = h.e.Tick(ctx, name)
		}
		if !errors.Is(err, towline.ErrNotFound) {
			require.NoError(h.tb, err)
		}
	}},
	{"relay", 8, func(h *history) { require.NoError(h.tb, h.relay.Step(context.Background()).Err()) }},
	{"pass", 3, func(h *history) { require.NoError(h.tb, h.relay.Pass(context.Background()).Err()) }},
	{"deliver", 40, func(h *history) {
		if len(h.waiting) == 0 {
			return
		}
		i := h.draw("which", len(h.waiting))
		n := h.waiting[i]
		if h.draw("twice", 8) > 0 {
			h.waiting = slices.Delete(h.waiting, i, i+1)
		}
		if h.draw("lost", 16) > 0 {
			h.handle(n)
		}
	}},
	{"settle", 30, func(h *history) {
		if len(h.leases) == 0 {
			return
		}
		i := h.draw("which", len(h.leases))
		l := h.leases[i]
		if h.draw("again", 8) > 0 {
			h.leases = slices.Delete(h.leases, i, i+1)
		}
		h.settle(l)
	}},
	{"renew", 3, func(h *history) {
		if len(h.leases) > 0 {
			_, err := h.e.RenewAll(context.Background(), h.leases)
			require.NoError(h.tb, err)
		}
	}},
	{"wait", 8, func(h *history) {
		d := []time.Duration{
			time.Second, time.Millisecond, 6 * time.Second, time.Second, 6 * time.Second, 21 * time.Second,
			6 * time.Second, 61 * time.Second,
			61 * time.Second, 16 * time.Minute, 9 * time.Hour,
		}[h.draw("how long", 11)]
		h.now, h.ran = h.now.Add(d), h.ran+d
	}},
	{"clock steps", 2, func(h *history) {
		h.now = h.now.Add([]time.Duration{-time.Hour, 20 * time.Second, 2 * time.Minute, time.Hour, 14 * 24 * time.Hour}[h.draw("how far", 5)])
	}},
	{"confirm", 1, func(h *history) {
		_, err := h.e.ConfirmClock(context.Background(), towline.Actor{Name: "ada", Reason: "it is right"})
		require.NoError(h.tb, err)
	}},
	{"operator", 2, (*history).operate},
	{"crash", 1, func(h *history) {
		h.close()
		h.restart()
	}},
	{"stop", 1, func(h *history) {
		require.NoError(h.tb, h.e.Stop(context.Background(), "test"))
		h.close()
		h.restart()
	}},
	{"restore", 1, func(h *history) {
		h.sql(`INSERT INTO restores (epoch, at, head) SELECT coalesce(max(epoch), 1) + 1, 0, 0 FROM restores`)
		h.close()
		h.restart()
		released, err := h.e.ReleaseHold(context.Background(), towline.Actor{Name: "ada", Reason: "looked"})
		require.NoError(h.tb, err)
		require.True(h.tb, released)
	}},
	{"submit", 2, func(h *history) {
		_, err := h.e.Submit(context.Background(), towline.Message{Topic: "t", Payload: []byte("{}"),
			Key: []string{"", "a", "b"}[h.draw("key", 3)]})
		require.NoError(h.tb, err)
	}},
	{"publish", 2, func(h *history) { h.publish(1 + h.draw("messages", 3)) }},
	{"consume", 6, func(h *history) {
		if len(h.apps) == 0 {
			return
		}
		i := h.draw("which", len(h.apps))
		delivery := h.apps[i]
		if h.draw("twice", 4) > 0 {
			h.apps = slices.Delete(h.apps, i, i+1)
		}
		h.consume(delivery)
	}},
	{"fail", 2, func(h *history) {
		planted := errors.New("planted")
		require.ErrorIs(h.tb, h.e.Transact(context.Background(), "", func(tx *towline.Tx) error {
			if len(h.waiting) > 0 {
				if _, err := tx.Dispatch(h.waiting[0].Run); err != nil {
					return err
				}
			}
			return planted
		}), planted)
	}},
}

// operate is one action of an operator on something that is there, whether or not it is in a state for it.
func (h *history) operate() {
	ctx, by := context.Background(), towline.Actor{Name: "ada", Reason: "a look at it"}
	var runs []projections.SyncRun
	var units []projections.SyncRunUnit
	var registers, held []projections.Register
	h.view(func(v projections.View) {
		var err error
		runs, err = v.Runs(events.RunID{}, 5)
		require.NoError(h.tb, err)
		if len(runs) > 0 {
			units, err = v.Units(runs[h.draw("run", len(runs))].Run, 0, 20)
			require.NoError(h.tb, err)
		}
		registers, err = v.OpenRegisters(5)
		require.NoError(h.tb, err)
		held, err = v.HeldRegisters(5)
		require.NoError(h.tb, err)
	})
	var err error
	switch action := h.draw("action", 9); {
	case action == 0 && len(runs) > 0:
		err = h.e.CancelRun(ctx, runs[h.draw("which", len(runs))].Run, by)
	case action <= 2 && len(units) > 0:
		err = h.e.CancelUnit(ctx, units[h.draw("which", len(units))].Unit, by)
	case action == 3 && len(h.leases) > 0:
		err = h.e.ReleaseUnit(ctx, h.leases[h.draw("which", len(h.leases))].Unit.Unit, by)
	case action == 4 && len(runs) > 0:
		_, err = h.e.RetryFailed(ctx, towline.RetrySpec{Run: runs[h.draw("which", len(runs))].Run, Cancelled: h.draw("cancelled", 2) > 0, By: by})
	case action == 5 && len(registers) > 0:
		err = h.e.Park(ctx, registers[h.draw("which", len(registers))].Key(), by)
	case len(held) > 0:
		g := held[h.draw("which", len(held))]
		if g.Kind != events.KindPostSync {
			err = h.e.Redrive(ctx, g.Key(), by)
			break
		}
		target := []string{"index", "mail"}[h.draw("target", 2)]
		err = h.e.Resolve(ctx, g.Key(), target, events.ResolvedLost, by)
	}
	switch { // it is not in the state for it, or what it names is paused or no longer configured
	case errors.Is(err, towline.ErrConflict), errors.Is(err, towline.ErrInvalid), errors.Is(err, towline.ErrNotFound),
		errors.Is(err, towline.ErrSourcePaused):
		return
	}
	require.NoError(h.tb, err)
}

func (h *history) restart() {
	h.waiting, h.apps = nil, nil
	h.lacks = max(0, h.draw("lacks", 9)-4)
	h.open()
}

// step does one random thing, and returns its name.
func (h *history) step() string {
	total := 0
	for _, s := range steps {
		total += s.weight
	}
	n := h.draw("step", total)
	for _, s := range steps {
		if n -= s.weight; n < 0 {
			s.do(h)
			return s.name
		}
	}
	panic("unreachable")
}

func (h *history) handle(n transport.Notice) {
	ctx := context.Background()
	switch n.Kind {
	case events.KindDispatch:
		require.NoError(h.tb, h.e.Transact(ctx, "", func(tx *towline.Tx) error {
			_, err := tx.Dispatch(n.Run)
			return err
		}))
	case events.KindFinalize:
		require.NoError(h.tb, h.e.Transact(ctx, "", func(tx *towline.Tx) error {
			_, err := tx.Finalize(n.Run)
			return err
		}))
	case events.KindUnit:
		l, err := h.e.Claim(ctx, n.Unit, towline.Worker{Name: "worker", Remote: h.draw("remote", 6) == 0})
		if errors.Is(err, towline.ErrNotClaimable) || errors.Is(err, towline.ErrTooEarly) {
			return
		}
		require.NoError(h.tb, err)
		h.leases, h.tokens = append(h.leases, l), append(h.tokens, l.Token)
	case events.KindPostSync:
		p, taken, err := h.e.StartPost(ctx, n.Run, n.Target)
		require.NoError(h.tb, err)
		if !taken || h.draw("dies", 4) == 0 {
			return
		}
		if h.draw("fails", 3) == 0 {
			require.NoError(h.tb, h.e.FailPost(ctx, p, events.SinkError, "no"))
			return
		}
		require.NoError(h.tb, h.e.CompletePost(ctx, p, "done"))
	}
}

// follow lets the engine see what an application has done last.
func (h *history) follow() {
	h.tb.Helper()
	require.NoError(h.tb, h.e.Follow(context.Background()))
}

// publish commits messages in a transaction of an application, or rolls it back.
func (h *history) publish(n int) {
	h.tb.Helper()
	tx, err := h.file.DB().Begin()
	require.NoError(h.tb, err)
	box := sqlite.OutboxAt(tx, func() events.Micros { return events.MicrosOf(h.now) })
	for range n {
		h.made++
		id := events.MessageID{0: 1, 1: 0x9d, 14: h.starts, 15: h.made}
		m := message.NewMessage(id.String(), []byte("text"))
		if h.draw("later", 4) == 0 {
			m.Metadata.Set(events.MetadataAvailableAt, h.now.Add(time.Minute).Format(time.RFC3339Nano))
		}
		require.NoError(h.tb, box.Publish([]string{"t", "other"}[h.draw("topic", 2)], m))
	}
	if h.draw("rolls back", 4) == 0 {
		require.NoError(h.tb, tx.Rollback())
		return
	}
	require.NoError(h.tb, tx.Commit())
}

// consume handles a delivery, or rejects it.
func (h *history) consume(delivery string) {
	h.tb.Helper()
	id, err := events.ParseMessageID(delivery[:26])
	require.NoError(h.tb, err)
	if h.draw("rejects", 4) == 0 {
		require.NoError(h.tb, h.e.RejectMessage(context.Background(), id, events.InvalidPayload, "no"))
		return
	}
	_, err = h.file.Consume(context.Background(), id, delivery, func(context.Context, *sql.Tx) error { return nil })
	require.NoError(h.tb, err)
}

func (h *history) settle(l towline.Lease) {
	ctx := context.Background()
	var err error
	switch h.draw("how", 14) {
	case 0:
		err = h.e.Fail(ctx, l, events.Network, "reset")
	case 1:
		err = h.e.Fail(ctx, l, events.Auth, "password=hunter2")
	case 2:
		err = h.e.Release(ctx, l, "stopping")
	case 4:
		err = h.e.Settle(ctx, l, towline.Failed{
			Category: events.RateLimit, Text: "slow down", After: []time.Duration{0, time.Second, time.Second, 6 * time.Second, 20 * time.Second, 20 * time.Second, 3 * time.Hour}[h.draw("after", 7)],
			Account: []string{"", "", "shared"}[h.draw("account", 3)],
		})
	case 3:
		err = h.e.Complete(ctx, l, events.Result{State: []byte(`{ "seen": "<1>" }`), Detail: []byte(`[1, 2]`)})
	default:
		err = h.e.Complete(ctx, l, events.Result{Rows: 3, Fingerprint: l.Unit.Fingerprint})
	}
	if !errors.Is(err, towline.ErrLeaseLost) {
		require.NoError(h.tb, err)
	}
}

// read runs fn on a snapshot.
func (h *history) read(fn func(store.Reader)) {
	h.tb.Helper()
	require.NoError(h.tb, h.file.Read(context.Background(), func(r store.Reader) error {
		fn(r)
		return nil
	}))
}

func (h *history) view(fn func(projections.View)) {
	h.tb.Helper()
	h.read(func(r store.Reader) { fn(projections.NewView(r)) })
}

// verify is the proof of I-26 over the whole of it.
func (h *history) verify(dir string) {
	h.tb.Helper()
	enginetest.RequireVerified(h.tb, h.e, dir)
}

// told is a history of many steps, the same in every run of a test.
func told(t *testing.T, seed byte, n int) *history {
	t.Helper()
	random := rand.New(rand.NewChaCha8([32]byte{seed}))
	h := newHistory(t, t.TempDir(), func(_ string, n int) int { return random.IntN(n) })
	t.Cleanup(h.close)
	for range n {
		h.step()
	}
	h.follow()
	return h
}

// toldUntil is a history that goes on until something can be seen in it, so that no test hangs on what a seed happens to
// bring.
func toldUntil(t *testing.T, seed byte, seen func(*history) bool) *history {
	t.Helper()
	const step, most = 20, 5000
	h := told(t, seed, step)
	for n := step; !seen(h); n += step {
		require.Less(t, n, most, "seed %d: not seen in %d steps", seed, n)
		for range step {
			h.step()
		}
		h.follow()
	}
	return h
}

// check runs a property n times, unless the flag asks for another number: each has a store of its own, which is slow.
func check(t *testing.T, n int, property func(*rapid.T)) {
	t.Helper()
	f := flag.Lookup("rapid.checks")
	if f != nil && f.Value.String() == f.DefValue {
		require.NoError(t, f.Value.Set(fmt.Sprint(n)))
		defer func() { _ = f.Value.Set(f.DefValue) }()
	}
	rapid.Check(t, property)
}

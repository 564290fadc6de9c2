package towline_test

import (
	"context"
	"os"
	"path/filepath"
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

// inProcess makes the broker of a workshop the in-process transport: its messages die with the process.
type inProcess struct{ *broker }

func (inProcess) Name() string { return events.TransportLocal }

// local drives a workshop over the in-process transport.
func (w *workshop) local() *workshop {
	w.t.Helper()
	var err error
	w.relay, err = relay.Synchronous(w.e, func(events.Kind) transport.Publisher { return inProcess{w.broker} })
	require.NoError(w.t, err)
	return w
}

// N-1, N-6, L-6: an incarnation begins with NodeStarted, says what it recovered, and ends with NodeStopped; every start
// is a new one.
func TestAnIncarnationIsOnRecord(t *testing.T) {
	w := openWorkshop(t, options{config: towline.Config{Version: "1.2.3", Host: "edge-7", PID: 42}})
	first := w.e.Node()
	log := w.since(0)
	require.Equal(t, []string{"NodeStarted", "NodeRecovered"}, enginetest.Types(log))
	started := log[0].Event.(events.NodeStarted)
	require.Equal(t, "1.2.3", started.Version)
	require.Equal(t, "edge-7", started.Host)
	require.Equal(t, 42, started.PID)
	require.Equal(t, events.StoreExclusive, started.StoreMode)
	require.Contains(t, string(started.Config), `"cap.bucket":8`)
	require.Equal(t, first, log[0].Node)

	w.restart()
	require.NotEqual(t, first, w.e.Node())
	require.Equal(t, []string{"NodeStarted", "NodeRecovered", "NodeStopped", "NodeStarted", "NodeRecovered"},
		enginetest.Types(w.since(0)))
	w.view(func(v projections.View) {
		nodes, err := v.Nodes(10)
		require.NoError(t, err)
		require.Len(t, nodes, 2)
		require.Equal(t, w.e.Node(), nodes[0].Incarnation)
		require.False(t, nodes[0].Gone)
		require.True(t, nodes[1].Gone)
		require.False(t, nodes[1].StoppedAt.IsZero())
	})
	require.NoError(t, w.e.Stop(context.Background(), "twice"))
	w.unchanged(func() { require.NoError(t, w.e.Stop(context.Background(), "twice")) })
	w.crash()
}

// I-24, N-6: NodeStopped is the last word of an incarnation; a handler that outlives the stop writes nothing more, and
// its unit is left to recovery.
func TestAStoppedIncarnationWritesNothing(t *testing.T) {
	w := newWorkshop(t)
	p := w.started(towline.RunSpec{Sync: "reports"})
	l := w.claim(w.unit(p.Run, 1).Unit)
	require.NoError(t, w.e.Stop(context.Background(), "test"))
	w.unchanged(func() {
		require.ErrorIs(t, w.e.Complete(context.Background(), l, events.Result{}), towline.ErrStopped)
		_, err := w.e.Plan(context.Background(), towline.RunSpec{Sync: "reports"})
		require.ErrorIs(t, err, towline.ErrStopped)
	})
	w.crash()
	require.Equal(t, events.WorkerLost, w.unit(p.Run, 1).ErrorCategory)
}

// N-6: a stop whose commit is lost has not happened.
func TestAStopThatIsNotCommittedHasNotHappened(t *testing.T) {
	w := newWorkshop(t)
	w.store.lose = errPlanted
	require.ErrorIs(t, w.e.Stop(context.Background(), "test"), errPlanted)
	w.plan(towline.RunSpec{Sync: "reports"})
	w.deliver(w.complete)
}

// N-3, N-4, C-13, SC-213, SC-251: in exclusive mode a restart decides at once what the killed process held: leases,
// claims and marks without an outcome. Host and process id are the same, and prove nothing.
func TestARestartRecoversAtOnce(t *testing.T) {
	w := openWorkshop(t, options{config: towline.Config{Syncs: []towline.Sync{linear(nil), reports()}, Host: "same",
		PID: 1}})
	eligible, lost := w.started(days("linear", 10)), w.started(towline.RunSpec{Sync: "reports"})
	w.claim(w.unit(eligible.Run, 1).Unit)
	w.claim(w.unit(lost.Run, 1).Unit)
	claimed := w.plan(towline.RunSpec{Sync: "reports"})
	w.claimRegister(claimed.Run, events.KindDispatch)
	gone := w.e.Node()
	before := w.head()

	w.crash()

	log := w.since(before)
	require.Equal(t, events.NodeRecovered{GoneIncarnations: 1, Leases: 2, Claims: 1}, enginetest.Only[events.NodeRecovered](log)[0])
	require.Equal(t, "NodeStarted", enginetest.Types(log)[0])
	require.Equal(t, "NodeRecovered", enginetest.Types(log)[len(log)-1])
	for _, x := range enginetest.Only[events.UnitLeaseExpired](log) {
		require.Equal(t, events.LeaseIncarnationGone, x.Cause)
		require.Equal(t, gone, x.LeaseNode)
	}
	require.Equal(t, events.UnitIsRetrying, w.unit(eligible.Run, 1).Status)
	require.Equal(t, events.WorkerLost, w.unit(lost.Run, 1).ErrorCategory)
	released := enginetest.Only[events.OutboxReleased](log)[0]
	require.Equal(t, events.ReleaseIncarnationGone, released.Cause)
	require.True(t, released.Counted)
	require.True(t, released.MaybePublished)
	require.Equal(t, start, w.pending(claimed.Run, events.KindDispatch).AvailableAt, "due now, no expiry awaited")
	w.pass()
	r, _ := w.register(claimed.Run, events.KindDispatch)
	require.Equal(t, decider.RegisterIdle, r.Status)
}

// claimRegister claims a wakeup as a relay does that dies right after the commit.
func (w *workshop) claimRegister(run events.RunID, k events.Kind) {
	w.t.Helper()
	require.NoError(w.t, w.transact(func(tx *towline.Tx) error {
		results, err := tx.Execute(decider.ClaimWakeup{
			Owner: run, Kind: k, Mode: events.AtMostOnce, At: tx.Now(), Token: tx.NewToken(),
			ExpiresAt: tx.Now().Add(events.SpanOf(time.Minute)),
			Messages:  1, MaxAttempts: 20,
		})
		if err == nil {
			require.Len(w.t, results[0].Events, 1)
		}
		return err
	}))
}

// N-3, N-4, U-4, SC-252, SC-370: units whose in-process message died with the process are dispatched again at once; a
// fan-out whose wakeup is still open is published as it is.
func TestInProcessMessagesDieWithTheirProcess(t *testing.T) {
	w := newWorkshop(t, single("north"), single("south")).local()
	dead := w.started(towline.RunSpec{Sync: "north"})
	open := w.plan(towline.RunSpec{Sync: "south"})
	w.step()
	w.dispatch(open.Run)
	w.broker.take() // lost
	w.crash()
	w.local()
	require.Equal(t, events.NodeRecovered{GoneIncarnations: 1, Dispatches: 1}, enginetest.Only[events.NodeRecovered](w.since(0))[1])

	w.pass()
	var kinds []events.Kind
	for _, m := range w.broker.take() {
		kinds = append(kinds, m.notice.Kind)
		w.handle(m, w.complete)
	}
	require.ElementsMatch(t, []events.Kind{events.KindUnit, events.KindDispatch}, kinds)
	require.Equal(t, events.UnitHasSucceeded, w.unit(open.Run, 1).Status)
	require.Equal(t, 1, w.unit(open.Run, 1).Dispatch, "its wakeup was open, so it is published as it is")
	require.Equal(t, 2, w.unit(dead.Run, 1).Dispatch)
	d := enginetest.Only[events.UnitDispatched](w.since(0))
	require.Equal(t, events.DispatchIncarnationGone, d[len(d)-1].Cause)
	w.deliver(w.complete)
	require.Equal(t, events.RunSucceeded, w.run(dead.Run).Status)
	require.Equal(t, events.RunSucceeded, w.run(open.Run).Status)
}

// N-3: the message of a unit stays dead over several restarts, whoever closes the next wakeup; one that is dispatched
// anew lives.
func TestADeadMessageStaysDead(t *testing.T) {
	w := openWorkshop(t, options{config: towline.Config{Syncs: []towline.Sync{single("north")},
		Knobs: daily(towline.Knobs{CapEngine: 2})}})
	w.local()
	p := w.started(days("north", 2))
	for range 3 {
		w.broker.take()
		w.crash()
		w.local()
		w.verify()
		w.pass()
		w.dispatch(p.Run)
		w.pass()
		w.verify()
		require.Equal(t, map[events.UnitStatus]int{events.UnitIsDispatching: 2}, w.statuses(p.Run))
		w.unchanged(func() { require.Equal(t, decider.DispatchWaiting, w.dispatch(p.Run)) })
	}
	require.Equal(t, 4, w.unit(p.Run, 1).Dispatch)
}

// N-4, C-37, SC-255: a recovery that dies half way leaves the rest to the next, and the end is that of one recovery.
func TestARecoveryThatDiesIsRepeated(t *testing.T) {
	w := newWorkshop(t, reports(), single("north"))
	a, b := w.started(towline.RunSpec{Sync: "reports"}), w.plan(towline.RunSpec{Sync: "north"})
	w.claim(w.unit(a.Run, 1).Unit)
	w.claimRegister(b.Run, events.KindDispatch)
	require.NoError(t, w.file.Close())
	for i, commits := range []int{1, 2, 2} { // after NodeStarted; after the leases; after the claims, when no lease is left
		w.o.config.Entropy = seeded(byte(10 + i))
		require.ErrorIs(t, w.openDying(commits), errPlanted)
	}
	w.o.config.Entropy = seeded(20)
	require.NoError(t, w.open())
	require.Equal(t, events.WorkerLost, w.unit(a.Run, 1).ErrorCategory)
	w.pending(b.Run, events.KindDispatch)
	require.Len(t, enginetest.Only[events.UnitLeaseExpired](w.since(0)), 1)
	require.Len(t, enginetest.Only[events.OutboxReleased](w.since(0)), 1)
	require.Len(t, enginetest.Only[events.NodeStarted](w.since(0)), 5)
	require.Len(t, enginetest.Only[events.NodeRecovered](w.since(0)), 2)
	w.deliver(w.complete)
}

// openDying opens the store, and fails every commit behind the first n.
func (w *workshop) openDying(n int) error {
	w.t.Helper()
	w.o.dies = n
	defer func() { w.o.dies = 0 }()
	return w.open()
}

// O-12, C-22, C-23, SC-052: a post_sync that was marked by a process that died has an unknown outcome, which is shown
// and never sent again.
func TestAMarkWithoutAnOutcomeIsUnknownAfterARestart(t *testing.T) {
	w := newWorkshop(t)
	p := w.plan(towline.RunSpec{Sync: "reports"})
	w.broker.script = func(s sent) transport.Receipt {
		if s.notice.Kind == events.KindPostSync {
			w.store.refuse = errPlanted // the process dies before it can record the outcome
		}
		return transport.Accepted("")
	}
	for len(w.broker.sent) == 0 || w.broker.sent[len(w.broker.sent)-1].notice.Kind != events.KindPostSync {
		messages := w.broker.take()
		for _, m := range messages {
			w.handle(m, w.complete)
		}
		w.relay.Step(context.Background())
	}
	w.broker.script = nil
	w.broker.take()
	w.crash()
	r, _ := w.register(p.Run, events.KindPostSync)
	require.Equal(t, decider.RegisterUnresolved, r.Status)
	require.Equal(t, []decider.TargetOutcome{{Target: "index", Outcome: events.Unknown,
		Cause: events.OutcomeRelayDied}}, r.Outcomes)
	for range 10 {
		w.advance(time.Hour)
		w.pass()
	}
	require.Empty(t, w.broker.take())
}

// N-2, SC-257: a second process is refused on an exclusive store, with a message that says so.
func TestASecondProcessIsRefused(t *testing.T) {
	w := newWorkshop(t)
	second := &workshop{t: t, o: w.o, now: w.now, broker: &broker{}}
	err := second.open()
	require.ErrorIs(t, err, store.ErrLocked)
	require.NotEmpty(t, err.Error())
}

// N-3, REC-5, SC-253, SC-254: in shared mode a start leaves the leases of others alone; those of a killed process end
// by expiry, those of a stopped one at once.
func TestInSharedModeALeaseEndsWithItsTimeOrItsIncarnation(t *testing.T) {
	clock := enginetest.NewClock(start)
	a := openWorkshop(t, options{shared: true, clock: clock, unverified: true})
	p := a.started(towline.RunSpec{Sync: "reports"})
	l := a.claim(a.unit(p.Run, 1).Unit)
	b := openWorkshop(t, options{path: a.o.path, shared: true, clock: clock, config: towline.Config{Entropy: seeded(2)}})
	b.pass()
	require.Equal(t, events.UnitIsRunning, b.unit(p.Run, 1).Status)
	a.complete(l)
	a.claim(a.unit(p.Run, 2).Unit)
	require.NoError(t, a.e.Stop(context.Background(), "test"))
	require.Equal(t, 1, b.pass().ExpiredFailed)
	require.Equal(t, []events.UnitLeaseExpired{{
		Attempt: 1, LeaseExpiresAt: events.MicrosOf(start.Add(time.Minute)), Cause: events.LeaseIncarnationGone,
		LeaseNode: a.e.Node(),
	}}, enginetest.Only[events.UnitLeaseExpired](b.since(0)))

	c := openWorkshop(t, options{path: a.o.path, shared: true, clock: clock, unverified: true,
		config: towline.Config{Entropy: seeded(3)}})
	q := c.started(towline.RunSpec{Sync: "reports", Mode: towline.FullResync})
	c.claim(c.unit(q.Run, 1).Unit) // and is killed
	clock.Step(time.Minute - time.Microsecond)
	b.pass()
	require.Equal(t, events.UnitIsRunning, b.unit(q.Run, 1).Status)
	clock.Step(time.Microsecond)
	b.pass()
	require.Equal(t, events.WorkerLost, b.unit(q.Run, 1).ErrorCategory)
}

// N-3, U-4, I-26: in shared mode the message of a unit is gone with the process in whose memory it is, and with no
// other: that somebody else has published a later wakeup of the run does not make it stale. It is, at once, when its
// process stops.
func TestAMessageIsGoneWithItsOwnProcess(t *testing.T) {
	clock := enginetest.NewClock(start)
	config := func(seed byte) towline.Config {
		return towline.Config{Syncs: []towline.Sync{single("north")}, Knobs: daily(towline.Knobs{CapBucket: 2}),
			Entropy: seeded(seed)}
	}
	a := openWorkshop(t, options{shared: true, clock: clock, config: config(1), unverified: true})
	b := openWorkshop(t, options{path: a.o.path, shared: true, clock: clock, config: config(2)})
	a.local()
	b.local()
	p := a.started(days("north", 4)) // two units, whose messages are with a
	b.complete(b.claim(b.unit(p.Run, 1).Unit))
	b.step() // the third unit, whose message is with b
	for _, w := range []*workshop{a, b} {
		w.memoryIsTrue()
		w.unchanged(func() { require.Equal(t, decider.DispatchCapped, w.dispatch(p.Run)) })
		w.unchanged(func() { w.pass() })
	}
	require.NoError(t, a.e.Stop(context.Background(), "test"))
	require.Equal(t, decider.DispatchDispatched, b.dispatch(p.Run))
	require.Equal(t, 2, b.unit(p.Run, 2).Dispatch)
	require.Equal(t, 1, b.unit(p.Run, 3).Dispatch)
	last := enginetest.Only[events.UnitDispatched](b.since(0))
	require.Equal(t, events.DispatchIncarnationGone, last[len(last)-1].Cause)
	b.memoryIsTrue()
	b.deliver(b.complete)
	require.Equal(t, events.RunSucceeded, b.run(p.Run).Status)
}

// B-1, L-4, N-3: a process of a shared store counts the slots of one that has come since its last look.
func TestAProcessCountsTheSlotsOfANewcomer(t *testing.T) {
	clock := enginetest.NewClock(start)
	k := daily(towline.Knobs{CapBucket: 1})
	a := openWorkshop(t, options{shared: true, clock: clock,
		config: towline.Config{Syncs: []towline.Sync{single("north")}, Knobs: k}})
	p := a.started(days("north", 2))
	b := openWorkshop(t, options{path: a.o.path, shared: true, clock: clock, unverified: true,
		config: towline.Config{Syncs: []towline.Sync{single("north")}, Knobs: k, Entropy: seeded(2)}})
	l := b.claim(b.unit(p.Run, 1).Unit)
	require.Equal(t, decider.DispatchCapped, a.dispatch(p.Run), "the lease of the newcomer holds the only slot")
	b.complete(l)
	require.Equal(t, events.UnitIsDispatching, a.unit(p.Run, 2).Status)
	a.complete(a.claim(a.unit(p.Run, 2).Unit))
}

// I-31, L-8, D-14, SC-362: with every view dropped, the next start decides byte for byte the same from the log.
func TestRecoveryIsReplay(t *testing.T) {
	log := func(drop bool) []events.Envelope {
		w := openWorkshop(t, options{config: towline.Config{Syncs: []towline.Sync{linear(nil), reports()}}})
		p := w.started(days("linear", 30))
		q := w.started(towline.RunSpec{Sync: "reports"})
		w.claim(w.unit(p.Run, 1).Unit)
		w.complete(w.claim(w.unit(q.Run, 1).Unit))
		w.advance(20 * time.Second)
		if drop {
			require.NoError(t, w.store.Store.Write(context.Background(),
				func(tx store.Tx) error { return projections.Drop(tx) }))
		}
		w.o.config.Entropy = seeded(9)
		w.crash()
		w.broker.take()
		for range 5 {
			w.advance(time.Minute)
			w.pass()
			w.deliver(w.complete)
		}
		return w.since(0)
	}
	kept, dropped := log(false), log(true)
	require.Equal(t, kept, dropped)
	require.Greater(t, len(kept), 40)
}

// powerCut copies the files of a store while its process works, as a power cut leaves them, and opens the copy. That they
// were synced before anybody was answered is the store's to prove (DUR-1).
func (w *workshop) powerCut() *workshop {
	w.t.Helper()
	o := w.o
	o.path, o.clock, o.config.Entropy = filepath.Join(w.t.TempDir(), "towline.db"), w.now, seeded(77)
	for _, suffix := range []string{"", "-wal"} {
		b, err := os.ReadFile(w.o.path + suffix)
		require.NoError(w.t, err)
		require.NoError(w.t, os.WriteFile(o.path+suffix, b, 0o600))
	}
	return openWorkshop(w.t, o)
}

// C-43, DUR-1, SC-338, SC-339: whatever was answered before a power cut is there behind it, and goes on as after any
// crash at that step: an accepted run ends, and a post_sync that was marked is not sent a second time.
func TestAPowerCutKeepsWhatWasAnswered(t *testing.T) {
	w := newWorkshop(t)
	p := w.plan(towline.RunSpec{Sync: "reports", Key: "k"})
	early := w.powerCut()
	require.Equal(t, p.Run, early.plan(towline.RunSpec{Sync: "reports", Key: "k"}).Run)
	early.deliver(early.complete)
	require.Equal(t, events.RunSucceeded, early.run(p.Run).Status)

	var late *workshop
	w.broker.script = func(s sent) transport.Receipt {
		if s.notice.Kind == events.KindPostSync {
			late = w.powerCut() // between the mark and the outcome
		}
		return transport.Accepted("")
	}
	w.deliver(w.complete)
	r, _ := late.register(p.Run, events.KindPostSync)
	require.Equal(t, decider.RegisterUnresolved, r.Status)
	for range 10 {
		late.advance(time.Hour)
		late.pass()
	}
	require.Empty(t, late.broker.take())
}

// HU-5, M-1: a store is known by its first incarnation, also if an application has committed a message before there was
// one: two stores that were begun so are two, and each stays the same.
func TestAStoreThatAnApplicationBegan(t *testing.T) {
	known := map[string]bool{}
	for n := range byte(2) {
		path := filepath.Join(t.TempDir(), "towline.db")
		file, err := sqlite.Open(t.Context(), path, sqlite.Options{Inline: true, Synchronous: "normal"})
		require.NoError(t, err)
		tx, err := file.DB().Begin()
		require.NoError(t, err)
		box := sqlite.OutboxAt(tx, func() events.Micros { return events.MicrosOf(start) })
		require.NoError(t, box.Publish("topic", watermill.NewMessage(events.MessageID{1}.String(), []byte("1"))))
		require.NoError(t, tx.Commit())
		require.NoError(t, file.Close())

		w := openWorkshop(t, options{path: path, config: towline.Config{Entropy: seeded(n + 1)}})
		first := w.e.Node().String()
		for range 2 {
			p := w.started(towline.RunSpec{Sync: "reports"})
			l := w.claim(w.unit(p.Run, 1).Unit)
			require.Equal(t, first, l.Store)
			w.crash()
		}
		known[first] = true
	}
	require.Len(t, known, 2)
}

package towline_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/internal/enginetest"
	"github.com/towline-dev/towline/store"
	"github.com/towline-dev/towline/store/sqlite"
)

// pair are two processes on one shared store, with one clock.
func pair(t *testing.T, k towline.Knobs, syncs ...towline.Sync) (a, b *workshop) {
	t.Helper()
	clock := enginetest.NewClock(start)
	config := func(seed byte) towline.Config {
		return towline.Config{Syncs: syncs, Knobs: daily(k), Entropy: seeded(seed)}
	}
	a = openWorkshop(t, options{shared: true, clock: clock, config: config(1)})
	b = openWorkshop(t, options{path: a.o.path, shared: true, clock: clock, config: config(2), unverified: true})
	return a, b
}

// L-3, L-4, N-3, I-26: what another process has done on a shared store is in the memory of this one at its next
// transaction, whatever it was: two processes take turns at random, die, stop, and look after each other's backlog of any
// length.
func TestTwoProcessesFollowEachOther(t *testing.T) {
	for seed := range byte(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			s := tiered()
			s.Datasets[1].Retry = towline.Retry{Max: 2, Backoff: 30 * time.Second, On: []events.Category{events.Network}}
			s.PostSync = towline.PostSync{Targets: []towline.Target{{Name: "index", SQL: "SELECT 1"}}}
			a, b := pair(t, towline.Knobs{CapBucket: 3, CapEngine: 4}, s, single("north"))
			r := rand.New(rand.NewChaCha8([32]byte{seed}))
			var leases []towline.Lease
			for range enginetest.Fewer(250) {
				w := []*workshop{a, b}[r.IntN(2)]
				leases = w.turn(r, leases)
				if r.IntN(4) == 0 {
					a.memoryIsTrue()
					b.memoryIsTrue()
				}
			}
			a.memoryIsTrue()
			b.memoryIsTrue()
		})
	}
}

// turn does one random thing. What is done with a lease may be refused, because its time is over.
func (w *workshop) turn(r *rand.Rand, leases []towline.Lease) []towline.Lease {
	w.t.Helper()
	ctx := context.Background()
	tolerate := func(err error, others ...error) {
		for _, o := range others {
			if errors.Is(err, o) {
				return
			}
		}
		require.NoError(w.t, err)
	}
	switch n := r.IntN(40); {
	case n < 2:
		w.plan(towline.RunSpec{Sync: "tracker"})
	case n < 3:
		w.plan(days("north", 1+r.IntN(6)))
	case n < 5:
		w.now.Step([]time.Duration{time.Second, 31 * time.Second, 2 * time.Minute, 16 * time.Minute}[r.IntN(4)])
		if r.IntN(4) == 0 {
			w.jump([]time.Duration{-time.Hour, 20 * time.Second, time.Hour, 14 * 24 * time.Hour}[r.IntN(4)])
		}
	case n < 6:
		w.crash()
	case n < 7:
		w.restart()
	case n < 8:
		require.ErrorIs(w.t, w.spoil(), errPlanted)
	case n < 9:
		w.pass()
	case n < 14:
		w.step()
	case n < 26:
		for _, m := range w.broker.take() {
			if m.notice.Kind != events.KindUnit {
				w.handle(m, nil)
				continue
			}
			l, err := w.e.Claim(ctx, m.notice.Unit, towline.Worker{Name: "worker"})
			tolerate(err, towline.ErrNotClaimable, towline.ErrTooEarly)
			if err == nil {
				leases = append(leases, l)
			}
		}
	case len(leases) > 0:
		l := leases[0]
		leases = leases[1:]
		switch r.IntN(6) {
		case 0:
			tolerate(w.e.Fail(ctx, l, events.Network, "reset"), towline.ErrLeaseLost)
		case 1:
			tolerate(w.e.Complete(ctx, l, events.Result{State: []byte(`{"seen":1}`)}), towline.ErrLeaseLost)
		default:
			tolerate(w.e.Complete(ctx, l, events.Result{}), towline.ErrLeaseLost)
		}
	}
	return leases
}

// L-3, DUR-4: what a process pays for the transaction of another is the price of its events. The tables of the runs that
// they belong to, which may be large, are not read.
func TestForeignEventsAreFoldedNotReadAgain(t *testing.T) {
	a, b := pair(t, towline.Knobs{CapBucket: 2}, single("north"))
	p := a.started(days("north", 5))
	b.memoryIsTrue()
	b.store.failQuery = "JOIN" // every reading of units does
	lease := a.claim(a.unit(p.Run, 1).Unit)
	require.NoError(t, b.transact(func(*towline.Tx) error { return nil }))
	a.complete(lease)
	require.NoError(t, b.transact(func(tx *towline.Tx) error {
		u, err := tx.Unit(lease.Unit.Unit)
		require.Equal(t, events.UnitHasSucceeded, u.Status)
		return err
	}))
	b.store.failQuery = ""
	b.memoryIsTrue()
	b.deliver(b.complete)
	a.deliver(a.complete)
}

// L-3: a backlog that is longer than what it is about is read from the tables, which is faster.
func TestALongBacklogIsReadFromTheTables(t *testing.T) {
	a, b := pair(t, towline.Knobs{}, single("north"))
	b.memoryIsTrue()
	p := a.plan(days("north", 600))
	b.store.failQuery = "JOIN units"
	require.ErrorIs(t, b.transact(func(*towline.Tx) error { return nil }), errPlanted)
	b.store.failQuery = ""
	b.memoryIsTrue()
	require.Equal(t, decider.DispatchDispatched, b.dispatch(p.Run))
	a.memoryIsTrue()
}

// foreign appends a whole plan to the log of a workshop, in the transaction of a program that knows no tables.
func (w *workshop) foreign(seed byte) events.RunID {
	w.t.Helper()
	donor := openWorkshop(w.t, options{config: towline.Config{Syncs: w.o.config.Syncs, Knobs: w.o.config.Knobs,
		Entropy: seeded(seed)}, clock: w.now})
	before := donor.head()
	p := donor.plan(towline.RunSpec{Sync: "north"})
	file, err := sqlite.Open(context.Background(), w.o.path, sqlite.Options{
		Shared: true, Now: func() events.Micros { return events.MicrosOf(w.now.Now()) }, Inline: true, Synchronous: "normal",
	})
	require.NoError(w.t, err)
	require.NoError(w.t, file.Write(context.Background(), func(tx store.Tx) error {
		for _, env := range donor.since(before) {
			m := events.Meta{Command: env.Command, Node: w.e.Node()}
			if _, err := tx.Append(env.Stream, env.Version-1, m, env.Event); err != nil {
				return err
			}
		}
		return nil
	}))
	require.NoError(w.t, file.Close())
	return p.Run
}

// L-8, I-26: what an application has appended in a transaction of its own is applied to the views before a commit says
// that they hold the whole log. That depends neither on what is in memory, nor on which transaction does it: one that
// fails takes back what it has applied.
func TestTheViewsHoldWhatAnApplicationHasAppended(t *testing.T) {
	memories := map[string]func(*workshop){
		"in use": func(*workshop) {},
		"void": func(w *workshop) {
			w.store.lose = errPlanted
			_, err := w.e.Plan(context.Background(), towline.RunSpec{Sync: "north"})
			require.ErrorIs(w.t, err, errPlanted)
		},
		"not undone": func(w *workshop) { require.ErrorIs(w.t, w.spoil(), errPlanted) },
	}
	failures := map[string]func(*workshop, events.RunID){
		"none": func(*workshop, events.RunID) {},
		"of two transactions": func(w *workshop, run events.RunID) {
			for range 2 {
				require.ErrorIs(w.t, w.transact(func(tx *towline.Tx) error {
					_, err := tx.Dispatch(run)
					require.NoError(w.t, err)
					return errPlanted
				}), errPlanted)
			}
		},
		"of a reading": func(w *workshop, _ events.RunID) {
			w.e.ForgetMemory()
			w.store.failQuery = "JOIN units"
			require.ErrorIs(w.t, w.transact(func(*towline.Tx) error { return nil }), errPlanted)
			w.store.failQuery = ""
		},
	}
	for memory, prepare := range memories {
		for failure, fail := range failures {
			t.Run("memory "+memory+", failure "+failure, func(t *testing.T) {
				w := openWorkshop(t, options{shared: true, config: towline.Config{Syncs: []towline.Sync{single("north")}}})
				prepare(w)
				run := w.foreign(7)
				fail(w, run)
				w.plan(towline.RunSpec{Sync: "north"})
				w.deliver(w.complete)
				require.Equal(t, events.RunSucceeded, w.run(run).Status)
			})
		}
	}
}

// L-2, L-9, I-26: the same for transactions that share a commit, whose checkpoint is not written before its end: what one
// of them has applied is not applied again when the memory of the next has to be read anew.
func TestNothingIsAppliedTwiceInACommit(t *testing.T) {
	w := openWorkshop(t, options{shared: true, grouped: true, config: towline.Config{Syncs: []towline.Sync{single("north")}}})
	run := w.foreign(7)
	plan := func() error {
		_, err := w.e.Plan(context.Background(), towline.RunSpec{Sync: "north"})
		return err
	}
	errs := w.oneCommit(w.spoil, plan, w.spoil, plan, w.spoil, plan)
	for i, err := range errs {
		require.Equal(t, i%2 == 0, errors.Is(err, errPlanted), "%v", err)
	}
	w.deliver(w.complete)
	require.Equal(t, events.RunSucceeded, w.run(run).Status)
}

// spoil is a transaction that fails, and that the memory cannot undo in place.
func (w *workshop) spoil() error {
	return w.transact(func(tx *towline.Tx) error {
		if _, err := tx.Execute(decider.StopNode{Node: w.e.Node()}); err != nil {
			return err
		}
		return errPlanted
	})
}

// oneCommit runs transactions in one commit, in order: they queue behind another that waits for them.
func (w *workshop) oneCommit(fns ...func() error) []error {
	w.t.Helper()
	begun, queued := make(chan struct{}), make(chan struct{})
	var all sync.WaitGroup
	all.Go(func() {
		_ = w.file.Write(context.Background(), func(store.Tx) error {
			close(begun)
			<-queued
			return errPlanted
		})
	})
	<-begun
	errs := make([]error, len(fns))
	for i, fn := range fns {
		all.Go(func() { errs[i] = fn() })
		for w.file.Queued() <= i {
			runtime.Gosched()
		}
	}
	close(queued)
	all.Wait()
	return errs
}

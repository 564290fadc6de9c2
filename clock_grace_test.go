package towline_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/internal/enginetest"
	"github.com/towline-dev/towline/projections"
)

// CLK-3, CLK-4, C-45, HC-23, SC-335: a forward step with 50 live leases is on record, costs none of them, and gives each
// one lease; workers that beat go on as long as they would have, and those that are silent are taken for lost at its end.
func TestAForwardStepExpiresNobody(t *testing.T) {
	for _, far := range []time.Duration{46 * time.Second, time.Hour, fortnight, 40 * 365 * 24 * time.Hour} {
		t.Run(far.String(), func(t *testing.T) {
			w := wideWorkshop(t)
			p, leases := w.beating(50)
			w.advance(15 * time.Second)
			w.jump(far)
			report := w.pass()
			require.Zero(t, report.ExpiredFailed)
			require.Len(t, w.steps(0), 1)
			grace := events.MicrosOf(w.now.Now().Add(time.Minute))
			require.Equal(t, grace, w.steps(0)[0].GraceUntil)
			require.Equal(t, map[events.UnitStatus]int{events.UnitIsRunning: 50}, w.statuses(p.Run))

			w.advance(time.Minute - time.Microsecond) // a renewal of the last microsecond counts
			require.Zero(t, w.pass().ExpiredFailed)
			w.renewed(leases[:40])
			w.complete(leases[49])
			w.advance(time.Microsecond)
			require.Equal(t, 9, w.pass().ExpiredFailed, "they are silent")
			require.ErrorIs(t, w.e.Complete(context.Background(), leases[48], events.Result{}), towline.ErrLeaseLost)

			for range 150 { // 50 minutes: the lifetime of an hour has not ended by a step
				w.advance(20 * time.Second)
				w.renewed(leases[:40])
			}
			for _, l := range leases[:40] {
				w.complete(l)
			}
			w.deliver(nil)
			require.Equal(t, events.RunPartialFailed, w.run(p.Run).Status)
			require.Equal(t, 41, w.run(p.Run).Succeeded)
		})
	}
}

// CLK-4, I-6, C-18: a step moves the end of a lifetime by its own length, so a worker that beats for ever ends when it
// would have ended.
func TestALifetimeMovesWithTheClock(t *testing.T) {
	w := wideWorkshop(t)
	p, leases := w.beating(1)
	w.advance(20 * time.Second)
	w.jump(3 * time.Hour)
	w.renewed(leases)
	require.Equal(t, 59*time.Minute+40*time.Second, leases[0].Lifetime)
	require.Equal(t, time.Minute, leases[0].ExpiresIn)
	for range 178 { // up to 40 s before its end
		w.advance(20 * time.Second)
		w.renewed(leases)
	}
	w.advance(19999999 * time.Microsecond)
	w.renewed(leases)
	w.advance(time.Microsecond)
	require.Equal(t, 1, w.pass().ExpiredFailed)
	require.Equal(t, events.WorkerLost, w.unit(p.Run, 1).ErrorCategory)
}

// CLK-4, SC-337: of several steps each attempt gets one grace. The second step ends those that had theirs; the next
// attempt of the unit has its own again.
func TestEachAttemptGetsOneGrace(t *testing.T) {
	s := single("north")
	s.Datasets[0].Retry = towline.Retry{Max: 5, Backoff: time.Second}
	w := openWorkshop(t, options{config: towline.Config{Syncs: []towline.Sync{s}, Knobs: wide()}})
	p, leases := w.beating(2)
	w.jump(time.Hour)
	require.Zero(t, w.pass().ExpiredRetried)
	w.complete(leases[1])
	third := w.started(days("north", 1)) // claimed behind the first step
	young := w.claim(w.unit(third.Run, 1).Unit)
	w.jump(time.Hour)
	require.Equal(t, 1, w.pass().ExpiredRetried, "it had its grace")
	require.Equal(t, events.UnitIsRetrying, w.unit(p.Run, 1).Status)
	w.complete(young)

	w.advance(time.Second)
	w.pass()
	w.dispatch(p.Run)
	again := w.claim(w.unit(p.Run, 1).Unit)
	require.Equal(t, 2, again.Unit.Attempt)
	w.jump(fortnight)
	require.Zero(t, w.pass().ExpiredRetried)
	w.advance(59 * time.Second)
	w.complete(again)
	require.Len(t, w.steps(0), 3)
	w.jump(time.Hour)
	w.look()
	require.Zero(t, w.steps(0)[3].GraceUntil, "nobody is there")
}

// CLK-4: what had ended before the step gets nothing, and what is claimed behind it needs nothing.
func TestAGraceIsForWhatWasLive(t *testing.T) {
	w := wideWorkshop(t)
	p, leases := w.beating(2)
	w.advance(30 * time.Second)
	w.renewed(leases[:1])
	w.advance(31 * time.Second) // the second has ended, and no pass has looked
	w.jump(time.Hour)
	require.Equal(t, 1, w.pass().ExpiredFailed)
	require.Equal(t, events.UnitIsRunning, w.unit(p.Run, 1).Status)
	require.Equal(t, events.WorkerLost, w.unit(p.Run, 2).ErrorCategory)
	w.complete(leases[0])
}

// CLK-4, N-3, N-5: the lease of an API worker gets the grace like any other; that of a gone incarnation gets none, also
// when it is alone.
func TestAGraceForAPIWorkersAndNotForTheGone(t *testing.T) {
	clock := enginetest.NewClock(start)
	config := func(seed byte) towline.Config {
		return towline.Config{Syncs: []towline.Sync{single("north")}, Knobs: wide(), Entropy: seeded(seed)}
	}
	a := openWorkshop(t, options{shared: true, clock: clock, config: config(1), unverified: true})
	b := openWorkshop(t, options{path: a.o.path, shared: true, clock: clock, config: config(2)})
	p := a.started(days("north", 3))
	a.claim(a.unit(p.Run, 1).Unit)
	require.NoError(t, a.e.Stop(context.Background(), "test"))
	clock.Jump(time.Hour)
	b.look()
	require.Zero(t, b.steps(0)[0].GraceUntil)

	l, err := b.e.Claim(context.Background(), b.unit(p.Run, 2).Unit, towline.Worker{Name: "edge", Remote: true})
	require.NoError(t, err)
	clock.Jump(time.Hour)
	report := b.pass()
	require.Equal(t, 1, report.ExpiredFailed)
	require.Equal(t, []events.UnitStatus{events.UnitHasFailed, events.UnitIsRunning},
		[]events.UnitStatus{b.unit(p.Run, 1).Status, b.unit(p.Run, 2).Status})
	require.NotZero(t, b.steps(0)[1].GraceUntil)
	clock.Step(59 * time.Second)
	b.complete(l)
}

// CLK-4, CFG-2: the grace is the longest of the leases that the runs have frozen, whatever the configuration says now.
func TestTheGraceIsTheLongestLease(t *testing.T) {
	w := openWorkshop(t, options{config: towline.Config{Syncs: []towline.Sync{single("north")}, Knobs: daily(towline.Knobs{Lease: 10 * time.Minute})}})
	long := w.started(days("north", 1))
	w.o.config.Knobs.Lease = time.Minute
	w.restart()
	short := w.started(days("north", 1))
	w.pass()
	w.dispatch(long.Run)
	a, b := w.claim(w.unit(long.Run, 1).Unit), w.claim(w.unit(short.Run, 1).Unit)
	w.jump(time.Hour)
	w.pass()
	require.Equal(t, events.MicrosOf(w.now.Now().Add(10*time.Minute)), w.steps(0)[0].GraceUntil)
	w.advance(5 * time.Minute)
	require.Zero(t, w.pass().ExpiredFailed)
	w.complete(a)
	renewed, err := w.e.Renew(context.Background(), b)
	require.NoError(t, err)
	require.Equal(t, 5*time.Minute, renewed.ExpiresIn, "a renewal takes nothing of it away")
	w.memoryIsTrue()
	w.advance(5 * time.Minute)
	require.Equal(t, 1, w.pass().ExpiredFailed)
}

// CLK-4, B-1, I-17, I-26: a lease under its grace holds its slot, in memory, in the tables and in the fold of the
// checker; a memory that is read anew knows the grace, and whose it was.
func TestAGraceHoldsItsSlot(t *testing.T) {
	w := openWorkshop(t, options{config: towline.Config{Syncs: []towline.Sync{single("north")}, Knobs: daily(towline.Knobs{CapBucket: 2})}})
	p := w.started(days("north", 4))
	leases := []towline.Lease{w.claim(w.unit(p.Run, 1).Unit), w.claim(w.unit(p.Run, 2).Unit)}
	w.jump(fortnight)
	w.pass()
	for range 2 {
		w.dispatch(p.Run)
		require.Equal(t, events.UnitIsPlanned, w.unit(p.Run, 3).Status)
		w.memoryIsTrue()
		w.e.ForgetMemory()
	}
	w.advance(30 * time.Second)
	w.renewed(leases)
	w.memoryIsTrue()
	w.verify()
	w.e.ForgetMemory()
	w.jump(fortnight)
	require.Equal(t, 2, w.pass().ExpiredFailed, "they had their grace")
	w.memoryIsTrue()
}

// CLK-4, REC-1, REC-5: while a grace runs the next due time is its end, so a relay does not look again and again.
func TestTheEndOfAGraceIsWhatIsDue(t *testing.T) {
	w := wideWorkshop(t)
	w.beating(3)
	w.advance(2 * time.Minute) // past the wakeups of the run
	w.jump(-2 * time.Minute)
	w.look()
	_, leases := w.beating(1)
	w.jump(fortnight)
	w.pass()
	w.view(func(v projections.View) {
		found, err := v.ExpiredLeases(w.e.Now(), projections.LeaseCursor{}, 10)
		require.NoError(t, err)
		require.Empty(t, found)
		next, err := v.NextExpiry()
		require.NoError(t, err)
		require.Equal(t, w.steps(0)[len(w.steps(0))-1].GraceUntil, next)
	})
	w.complete(leases[0])
}

// CLK-4, B-1, L-4, I-26: a process whose clock is a little ahead may have seen a lease end before another grants it a
// grace. What it remembers of the slot is right again when it follows the log.
func TestAGraceRevivesALeaseThatSeemedOver(t *testing.T) {
	clock, ahead := enginetest.NewClock(start), enginetest.NewClock(start.Add(10*time.Second))
	config := func(seed byte) towline.Config {
		return towline.Config{Syncs: []towline.Sync{single("north")}, Knobs: daily(towline.Knobs{CapBucket: 1}), Entropy: seeded(seed)}
	}
	a := openWorkshop(t, options{shared: true, clock: clock, config: config(1)})
	p := a.started(days("north", 2))
	lease := a.claim(a.unit(p.Run, 1).Unit)
	b := openWorkshop(t, options{path: a.o.path, shared: true, clock: ahead, unverified: true, config: config(2)})
	renewed, err := a.e.Renew(context.Background(), lease)
	require.NoError(t, err)
	require.Equal(t, 50*time.Second, renewed.ExpiresIn, "the start of the other has brought time forward")
	clock.Step(45 * time.Second)
	ahead.Step(51 * time.Second)
	room := func() (fits bool) {
		require.NoError(t, b.transact(func(tx *towline.Tx) error {
			fits = tx.HasRoom(p.Run)
			return nil
		}))
		return fits
	}
	require.True(t, room(), "the lease is over for it")
	clock.Jump(time.Hour)
	a.look()
	require.Len(t, a.steps(0), 1)
	require.False(t, room())
	b.memoryIsTrue()
	a.complete(lease)
	a.memoryIsTrue()
	require.NoError(t, b.e.Stop(context.Background(), "test"))
}

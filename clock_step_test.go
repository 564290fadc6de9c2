package towline_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/internal/enginetest"
	"github.com/towline-dev/towline/projections"
)

const fortnight = 14 * 24 * time.Hour

// look is a transaction that does nothing.
func (w *workshop) look() {
	w.t.Helper()
	require.NoError(w.t, w.transact(func(*towline.Tx) error { return nil }))
}

// steps are the steps of the wall clock that are on record behind a position, without an operator's words.
func (w *workshop) steps(p events.Position) (out []events.ClockStepped) {
	w.t.Helper()
	for _, s := range enginetest.Only[events.ClockStepped](w.since(p)) {
		if s.Actor == "" {
			out = append(out, s)
		}
	}
	return out
}

// beating is a run of so many units, all of them with workers.
func (w *workshop) beating(n int) (towline.Planned, []towline.Lease) {
	w.t.Helper()
	p := w.started(days("north", n))
	var leases []towline.Lease
	for _, u := range w.units(p.Run) {
		leases = append(leases, w.claim(u.Unit))
	}
	return p, leases
}

// renewed renews leases that must not be lost.
func (w *workshop) renewed(leases []towline.Lease) {
	w.t.Helper()
	lost, err := w.e.RenewAll(context.Background(), leases)
	require.NoError(w.t, err)
	for i, err := range lost {
		require.NoError(w.t, err, "lease %d", i)
	}
}

func wide() towline.Knobs {
	return daily(towline.Knobs{CapBucket: 100, CapRun: 100, CapEngine: 100})
}

func wideWorkshop(t *testing.T) *workshop {
	t.Helper()
	return openWorkshop(t, options{config: towline.Config{Syncs: []towline.Sync{single("north")}, Knobs: wide()}})
}

// CLK-2, CLK-3: what a move of the wall clock leaves on record, from one transaction to the next. Times are since the start.
func TestWhichStepsAreOnRecord(t *testing.T) {
	type step struct{ before, after time.Duration }
	advance := func(d time.Duration) func(*workshop) { return func(w *workshop) { w.advance(d) } }
	jump := func(d time.Duration) func(*workshop) { return func(w *workshop) { w.jump(d) } }
	look := func(w *workshop) { w.look() }
	ask := func(w *workshop) { w.e.Now() }
	type moves []func(*workshop)
	for name, tt := range map[string]struct {
		moves moves
		want  []step
	}{
		"time that passes is no step":           {moves{advance(fortnight)}, nil},
		"a step of the bound":                   {moves{jump(30 * time.Second)}, nil},
		"a step above it":                       {moves{jump(30*time.Second + time.Microsecond)}, []step{{0, 30*time.Second + time.Microsecond}}},
		"back by the bound":                     {moves{jump(-30 * time.Second)}, nil},
		"back by more":                          {moves{jump(-30*time.Second - time.Microsecond)}, []step{{0, -30*time.Second - time.Microsecond}}},
		"it counts from where time was":         {moves{advance(time.Hour), jump(time.Minute), advance(time.Second)}, []step{{time.Hour + time.Second, time.Hour + time.Minute + time.Second}}},
		"once":                                  {moves{jump(fortnight), look, look}, []step{{0, fortnight}}},
		"small steps with nothing between":      {moves{jump(20 * time.Second), jump(20 * time.Second)}, []step{{0, 40 * time.Second}}},
		"small steps and somebody asks":         {moves{jump(20 * time.Second), ask, jump(20 * time.Second)}, []step{{0, 40 * time.Second}}},
		"small steps, a transaction between":    {moves{jump(20 * time.Second), look, jump(20 * time.Second)}, nil},
		"forward and back, unseen":              {moves{jump(time.Hour), jump(-time.Hour)}, nil},
		"forward and back, and somebody asks":   {moves{jump(time.Hour), ask, jump(-time.Hour)}, []step{{0, time.Hour}}},
		"back, and forward to where it was":     {moves{jump(-time.Hour), look, jump(time.Hour)}, []step{{0, -time.Hour}, {0, 0}}},
		"back, and forward half the way":        {moves{jump(-time.Hour), look, jump(30 * time.Minute)}, []step{{0, -time.Hour}, {0, -30 * time.Minute}}},
		"back, and forward beyond where it was": {moves{jump(-time.Hour), look, jump(2 * time.Hour)}, []step{{0, -time.Hour}, {0, time.Hour}}},
		"time goes on behind a step back":       {moves{jump(-time.Hour), look, advance(time.Minute), jump(-time.Hour)}, []step{{0, -time.Hour}, {time.Minute, -2*time.Hour + time.Minute}}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorkshop(t)
			before := w.head()
			for _, move := range tt.moves {
				move(w)
			}
			w.look()
			var got []step
			for _, s := range w.steps(before) {
				require.Zero(t, s.GraceUntil, "no lease is live")
				got = append(got, step{s.Before.Time().Sub(start), s.After.Time().Sub(start)})
			}
			require.Equal(t, tt.want, got)
			w.unchanged(func() { w.look() })
		})
	}
}

// CLK-3: a lease that beats must outlive a step that nobody records, so with short leases the bound is half of one.
func TestTheBoundFollowsTheLease(t *testing.T) {
	w := openWorkshop(t, options{config: towline.Config{Syncs: []towline.Sync{single("north")}, Knobs: daily(towline.Knobs{Lease: 9 * time.Second})}})
	_, leases := w.beating(1)
	w.advance(3*time.Second - time.Microsecond) // a moment before the renewal is due
	w.jump(4500 * time.Millisecond)
	w.advance(time.Microsecond)
	w.renewed(leases)
	require.Empty(t, w.steps(0))
	w.advance(3*time.Second - time.Microsecond)
	w.jump(4501 * time.Millisecond)
	w.advance(time.Microsecond)
	w.renewed(leases)
	require.Len(t, w.steps(0), 1)
}

// CLK-3, U-5: whatever transaction is the first behind a step begins with it, in the name of nobody.
func TestAStepIsTheFirstWord(t *testing.T) {
	for name, first := range map[string]func(*workshop, []towline.Lease){
		"a pass":    func(w *workshop, _ []towline.Lease) { w.pass() },
		"a renewal": func(w *workshop, l []towline.Lease) { w.renewed(l[:1]) },
		"a settle":  func(w *workshop, l []towline.Lease) { w.complete(l[0]) },
		"a hand-back": func(w *workshop, l []towline.Lease) {
			require.NoError(w.t, w.e.Release(context.Background(), l[0], "stopping"))
		},
		"a plan": func(w *workshop, _ []towline.Lease) {
			w.plan(towline.RunSpec{Sync: "north", Key: "second", By: towline.Actor{Name: "ada"}})
		},
		"a claim": func(w *workshop, l []towline.Lease) { w.claim(w.unit(l[0].Unit.Run, 3).Unit) },
		"a stop":  func(w *workshop, _ []towline.Lease) { require.NoError(w.t, w.e.Stop(context.Background(), "test")) },
	} {
		t.Run(name, func(t *testing.T) {
			w := openWorkshop(t, options{config: towline.Config{Syncs: []towline.Sync{single("north")}, Knobs: wide()}})
			p := w.started(days("north", 3))
			leases := []towline.Lease{w.claim(w.unit(p.Run, 1).Unit), w.claim(w.unit(p.Run, 2).Unit)}
			before := w.head()
			w.jump(10 * time.Minute)
			first(w, leases)
			log := w.since(before)
			require.Equal(t, events.ClockStepped{
				Before: events.MicrosOf(start), After: events.MicrosOf(start.Add(10 * time.Minute)),
				GraceUntil: events.MicrosOf(start.Add(11 * time.Minute)),
			}, log[0].Event)
			require.Equal(t, events.NodeStream(w.e.Node()), log[0].Stream)
			require.Equal(t, "note_step", log[0].Command)
			require.Equal(t, log[0].Position, log[0].Tx)
			require.Empty(t, log[0].Actor)
			if name == "a plan" {
				require.Equal(t, "ada", log[1].Actor)
				require.Equal(t, start.Add(11*time.Minute), w.unit(p.Run, 1).GraceUntil, "spec 4.2")
				require.Zero(t, w.unit(p.Run, 3).GraceUntil)
			}
			w.crash()
		})
	}
}

// CLK-3: a step is on record when its transaction is. One that fails, alone or with its whole commit, leaves it to the
// next; one that was kept is not recorded again, whatever fails behind it.
func TestAStepIsNeitherLostNorDoubled(t *testing.T) {
	w := wideWorkshop(t)
	_, leases := w.beating(3)
	w.jump(fortnight)
	planted := errors.New("planted")
	require.ErrorIs(t, w.transact(func(*towline.Tx) error { return planted }), planted)
	require.Empty(t, w.steps(0))
	w.store.lose = planted
	require.ErrorIs(t, w.transact(func(*towline.Tx) error { return nil }), planted)
	require.Empty(t, w.steps(0))
	w.renewed(leases[:1])
	require.Len(t, w.steps(0), 1)
	w.store.lose = planted
	require.ErrorIs(t, w.e.Complete(context.Background(), leases[1], events.Result{}), planted)
	w.complete(leases[1])
	require.Len(t, w.steps(0), 1)

	w.jump(-time.Hour)
	w.store.lose = planted
	require.ErrorIs(t, w.e.Complete(context.Background(), leases[2], events.Result{}), planted)
	w.complete(leases[2])
	require.Len(t, w.steps(0), 2)
	require.Zero(t, w.steps(0)[1].GraceUntil)
}

// CLK-3, L-9: of the callers who share a commit behind a step one records it.
func TestCallersOfOneCommitRecordAStepOnce(t *testing.T) {
	w := openWorkshop(t, options{grouped: true, config: towline.Config{Syncs: []towline.Sync{single("north")}, Knobs: wide()}})
	_, leases := w.beating(20)
	for n := 1; n <= 3; n++ {
		w.jump(-time.Hour)
		var all sync.WaitGroup
		for i := range leases {
			all.Add(1)
			go func() {
				defer all.Done()
				_, err := w.e.RenewAll(context.Background(), leases[i:i+1])
				if err != nil {
					t.Error(err)
				}
			}()
		}
		all.Wait()
		require.Len(t, w.steps(0), n)
	}
}

// CLK-3, CLK-4: the log of the process tells what happened, once.
func TestAStepIsLogged(t *testing.T) {
	log := &enginetest.Log{}
	w := openWorkshop(t, options{config: towline.Config{Syncs: []towline.Sync{single("north")}, Knobs: wide(),
		Logger: slog.New(slog.NewTextHandler(log, nil))}})
	w.beating(1)
	w.jump(time.Hour)
	w.look()
	w.look()
	require.Equal(t, 1, strings.Count(log.String(), "does not agree"))
	for _, said := range []string{"WARN", "before=2026-03-14T09:00:00.000000Z", "after=2026-03-14T10:00:00.000000Z", "leases_live_until=2026-03-14T10:01:00.000000Z"} {
		require.Contains(t, log.String(), said)
	}
}

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

// CLK-2, CLK-3, SC-336: a clock that is set back is on record, no time goes back, and every timer comes when it would have.
func TestABackwardStepFreezesNothing(t *testing.T) {
	s := single("north")
	s.Datasets[0].Retry = towline.Retry{Max: 1, Backoff: 7 * time.Second, On: []events.Category{events.Network}, Modes: []events.Mode{events.Backfill}}
	other := single("south")
	w := openWorkshop(t, options{config: towline.Config{Syncs: []towline.Sync{s, other}, Knobs: wide()}})
	p, leases := w.beating(2)
	q := w.started(days("south", 1))
	w.claim(w.unit(q.Run, 1).Unit)
	w.fail(leases[0], events.Network)
	w.jump(-fortnight)
	w.advance(7*time.Second - time.Microsecond)
	w.pass()
	require.Equal(t, events.UnitIsRetrying, w.unit(p.Run, 1).Status)
	w.advance(time.Microsecond)
	w.pass()
	w.dispatch(p.Run)
	require.Equal(t, events.UnitIsDispatching, w.unit(p.Run, 1).Status)
	w.advance(53*time.Second - time.Microsecond)
	w.complete(leases[1])
	w.advance(time.Microsecond)
	require.Equal(t, 1, w.pass().ExpiredFailed)
	require.Equal(t, []events.ClockStepped{{
		Before: events.MicrosOf(start.Add(7 * time.Second)), After: events.MicrosOf(start.Add(7*time.Second - fortnight)),
	}}, w.steps(0))
	last := events.Micros(0)
	for _, env := range w.since(0) {
		require.GreaterOrEqual(t, env.At, last)
		last = env.At
	}
	require.Equal(t, events.MicrosOf(start.Add(time.Minute)), last)
}

// CLK-3, CLK-4, REC-2, D-15: two processes of one host see one step. Each records it; the leases get one grace.
func TestTwoProcessesSeeOneStep(t *testing.T) {
	a, b := pair(t, towline.Knobs{CapBucket: 10}, single("north"))
	p := a.started(days("north", 4))
	ofA := []towline.Lease{a.claim(a.unit(p.Run, 1).Unit), a.claim(a.unit(p.Run, 2).Unit)}
	ofB := []towline.Lease{b.claim(b.unit(p.Run, 3).Unit)}
	a.jump(time.Hour)
	a.pass()
	late := a.claim(a.unit(p.Run, 4).Unit)
	a.advance(time.Second)
	b.pass()
	b.renewed(ofB)
	a.renewed(ofA)
	steps := a.steps(0)
	require.Len(t, steps, 2)
	require.NotZero(t, steps[0].GraceUntil)
	require.Equal(t, events.ClockStepped{
		Before: events.MicrosOf(start.Add(time.Hour)), After: events.MicrosOf(start.Add(time.Hour + time.Second)),
	}, steps[1], "the first has moved the log; nobody else is hurt")
	a.memoryIsTrue()
	b.memoryIsTrue()
	a.jump(time.Hour)
	b.pass()
	require.Equal(t, events.UnitIsRunning, a.unit(p.Run, 4).Status, "it had no grace before")
	a.complete(late)
	require.NoError(t, b.e.Stop(context.Background(), "test"))
}

// CLK-4, G-17, D-15, I-5, I-6, I-26: whatever a wall clock does, a worker that beats loses its lease only to a second step
// forward, and one that is silent is lost within a lease and a grace of real time. Memory, tables, log and checker agree.
func TestClocksThatDoWhatTheyLike(t *testing.T) {
	jumps := []time.Duration{-fortnight, -time.Hour, -20 * time.Second, 20 * time.Second, time.Minute, time.Hour, fortnight}
	const tries = 100
	lost, kept := 0, 0
	for seed := range byte(8) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := rand.New(rand.NewChaCha8([32]byte{seed}))
			s := single("north")
			s.Datasets[0].Retry = towline.Retry{Max: 100, Backoff: time.Second}
			w := openWorkshop(t, options{config: towline.Config{Syncs: []towline.Sync{s}, Knobs: wide()}})
			c := crew{w: w, run: w.started(days("north", 6)).Run, at: map[events.UnitID]*attempt{}}
			for range enginetest.Fewer(tries) {
				switch r.IntN(8) {
				case 0:
					w.jump(jumps[r.IntN(len(jumps))])
				case 1:
					w.pass()
					c.requireSilentOnesGone()
					w.dispatch(c.run)
					c.claim(r)
				case 2:
					w.memoryIsTrue()
					w.e.ForgetMemory()
				default:
					w.advance(20 * time.Second)
				}
				c.beat()
			}
			lost, kept = lost+c.lost, kept+len(c.at)
		})
	}
	require.Positive(t, kept)
	if enginetest.Fewer(tries) == tries {
		require.Positive(t, lost)
	}
}

// crew are the workers of a run.
type crew struct {
	w    *workshop
	run  events.RunID
	at   map[events.UnitID]*attempt
	lost int // that beat
}

type attempt struct {
	lease   towline.Lease
	silent  bool
	claimed events.Micros
	since   time.Duration // by the monotonic clock
}

func (c *crew) claim(r *rand.Rand) {
	c.w.t.Helper()
	for _, u := range c.w.units(c.run) {
		if u.Status == events.UnitIsDispatching {
			l := c.w.claim(u.Unit)
			c.at[u.Unit] = &attempt{l, r.IntN(3) == 0, events.MicrosOf(l.Unit.ClaimedAt), c.w.now.Ran()}
		}
	}
}

// beat renews the lease of every worker that is not silent.
func (c *crew) beat() {
	c.w.t.Helper()
	for _, u := range c.w.units(c.run) {
		a := c.at[u.Unit]
		if a == nil || a.silent {
			continue
		}
		_, err := c.w.e.Renew(context.Background(), a.lease)
		if err == nil {
			continue
		}
		require.ErrorIs(c.w.t, err, towline.ErrLeaseLost)
		forward := 0
		for _, s := range c.w.steps(0) {
			if s.After.Sub(s.Before) > events.SpanOf(30*time.Second) && a.claimed <= s.Before {
				forward++
			}
		}
		require.Greater(c.w.t, forward, 1, "unit %s, claimed at %s", u.Alias, a.claimed)
		delete(c.at, u.Unit)
		c.lost++
	}
}

// requireSilentOnesGone: behind a pass nobody is held for a worker that has not said a word in a lease and a grace.
func (c *crew) requireSilentOnesGone() {
	c.w.t.Helper()
	for _, u := range c.w.units(c.run) {
		if a := c.at[u.Unit]; a != nil && a.silent && a.lease.Unit.Attempt == u.Attempt && u.Status == events.UnitIsRunning {
			require.Less(c.w.t, c.w.now.Ran()-a.since, 2*time.Minute)
		}
	}
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

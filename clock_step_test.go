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

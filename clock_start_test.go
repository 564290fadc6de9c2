package towline_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/internal/enginetest"
)

// conditions are the names of what Health says.
func (w *workshop) conditions() (names []string) {
	w.t.Helper()
	all, err := w.e.Health(context.Background())
	require.NoError(w.t, err)
	for _, c := range all {
		names = append(names, c.Name)
	}
	return names
}

// clockHeld is what a schedule would be told.
func (w *workshop) clockHeld() (held bool) {
	w.t.Helper()
	require.NoError(w.t, w.transact(func(tx *towline.Tx) error {
		held = tx.ClockHeld()
		return nil
	}))
	return held
}

func (w *workshop) confirm() bool {
	w.t.Helper()
	confirmed, err := w.e.ConfirmClock(context.Background(), towline.Actor{Name: "ada", Reason: "the radio clock says so"})
	require.NoError(w.t, err)
	return confirmed
}

// CLK-7, HC-23: a start on a clock that lies before the newest event by more than the bound holds the schedules, says so,
// and names both times; within the bound it does not. It lasts until the wall clock has caught up with that event.
func TestAStartOnAClockThatIsBehind(t *testing.T) {
	log := &enginetest.Log{}
	w := openWorkshop(t, options{config: towline.Config{Logger: slog.New(slog.NewTextHandler(log, nil))}})
	require.Empty(t, w.conditions())
	w.jump(-30 * time.Second)
	w.crash()
	require.Empty(t, w.conditions())
	require.False(t, w.clockHeld())
	require.NotContains(t, log.String(), "before the newest event")

	newest := w.since(0)[w.head()-1].At
	w.now.Step(newest.Time().Sub(w.now.Now()))
	w.jump(-time.Hour)
	w.crash()
	require.True(t, w.clockHeld())
	require.Equal(t, []string{towline.ClockEarlier}, w.conditions())
	for _, said := range []string{"WARN", "before the newest event", "wall=2026-03-14T08:00:00.000000Z", "newest_event=2026-03-14T09:00:00.000000Z"} {
		require.Contains(t, log.String(), said)
	}
	p := w.plan(towline.RunSpec{Sync: "reports", Mode: towline.FullResync}) // a person may
	w.deliver(w.complete)
	require.Equal(t, events.RunSucceeded, w.run(p.Run).Status)

	w.advance(59*time.Minute + 30*time.Second - time.Microsecond)
	require.True(t, w.clockHeld())
	w.advance(time.Microsecond)
	require.False(t, w.clockHeld(), "it has caught up")
	require.Equal(t, []string{towline.ClockBehind}, w.conditions(), "engine time is still an hour ahead")
	w.jump(time.Hour)
	require.Empty(t, w.conditions())
}

// CLK-7, HC-23: a clock of the year 2000 is one that nobody need wait for: it is set right, and all is well.
func TestAClockThatIsSetRight(t *testing.T) {
	w := newWorkshop(t)
	back := w.now.Now().Sub(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC))
	w.jump(-back)
	w.crash()
	require.True(t, w.clockHeld())
	w.advance(10 * time.Second)
	w.jump(back)
	require.False(t, w.clockHeld())
	require.Empty(t, w.conditions())
	require.Len(t, w.steps(0), 1)
	require.Zero(t, w.steps(0)[0].GraceUntil, "engine time has not moved")
}

// CLK-7: an operator's word is on record with who and why, ends the hold, and is remembered by later starts; a clock that
// is set back further is in doubt again. Where there is nothing to confirm nothing is written.
func TestAnOperatorConfirmsTheClock(t *testing.T) {
	w := newWorkshop(t)
	w.unchanged(func() { require.False(t, w.confirm()) })
	w.advance(fortnight)
	w.crash()
	w.jump(-fortnight)
	w.crash()
	require.True(t, w.clockHeld())
	before := w.head()
	require.True(t, w.confirm())
	log := w.since(before)
	require.Len(t, log, 1)
	require.Equal(t, events.ClockStepped{
		Before: events.MicrosOf(start.Add(fortnight)), After: events.MicrosOf(start), Actor: "ada", Reason: "the radio clock says so",
	}, log[0].Event)
	require.Equal(t, []string{"ada", "confirm_clock"}, []string{log[0].Actor, log[0].Command})
	require.False(t, w.clockHeld())
	require.Empty(t, w.conditions())
	w.unchanged(func() { require.False(t, w.confirm()) })

	for range 2 {
		w.advance(24 * time.Hour)
		w.crash()
		require.False(t, w.clockHeld(), "a restart remembers")
		require.Empty(t, w.conditions())
		w.memoryIsTrue()
	}
	w.jump(-3 * 24 * time.Hour)
	w.crash()
	require.True(t, w.clockHeld(), "it lies further behind than was confirmed")
	require.True(t, w.confirm())
	require.False(t, w.clockHeld())
	w.unchanged(func() { require.False(t, w.confirm()) })

	for _, beyond := range []time.Duration{fortnight, 40 * 24 * time.Hour} { // up to an hour behind, and ahead
		w.jump(beyond)
		w.look()
		w.memoryIsTrue()
		w.jump(-2 * 24 * time.Hour)
		w.crash()
		require.True(t, w.clockHeld(), "it had caught up since")
		w.memoryIsTrue()
		require.True(t, w.confirm())
	}
}

// CLK-7, X-7: a confirmation needs a name and a reason.
func TestNobodyConfirmsNoClock(t *testing.T) {
	w := newWorkshop(t)
	w.jump(-time.Hour)
	w.crash()
	w.unchanged(func() {
		for problem, by := range map[string]towline.Actor{
			"by.name: it is empty": {Reason: "it is right"}, "by.name: 201 bytes": {Name: strings.Repeat("x", 201), Reason: "it is right"},
			"by.reason": {Name: "ada"},
		} {
			_, err := w.e.ConfirmClock(context.Background(), by)
			require.ErrorIs(t, err, towline.ErrInvalid)
			require.ErrorContains(t, err, problem)
		}
	})
	require.True(t, w.clockHeld())
}

// CLK-7, CLK-2: a clock that is set back while the process runs holds nothing, and health says how it stands.
func TestAClockThatIsSetBackLaterHoldsNothing(t *testing.T) {
	w := newWorkshop(t)
	w.jump(-fortnight)
	require.False(t, w.clockHeld())
	require.Equal(t, []string{towline.ClockBehind}, w.conditions())
	require.True(t, w.confirm())
	require.Empty(t, w.conditions())
}

// CLK-7, N-2: beside a process whose clock runs ahead the others say that they are behind: nobody else can know.
func TestTheOthersNameAClockThatRunsAhead(t *testing.T) {
	clock, ahead := enginetest.NewClock(start), enginetest.NewClock(start.Add(time.Hour))
	a := openWorkshop(t, options{shared: true, clock: clock})
	b := openWorkshop(t, options{path: a.o.path, shared: true, clock: ahead, unverified: true, config: towline.Config{Entropy: seeded(2)}})
	require.Empty(t, b.conditions())
	require.Equal(t, []string{towline.ClockBehind}, a.conditions())
	require.False(t, a.clockHeld())
	require.Empty(t, a.steps(0), "its own clock has not moved")
	require.NoError(t, b.e.Stop(context.Background(), "test"))
}

// CLK-9, N-3, REC-5: a process that starts with a clock that runs ahead costs the workers of another nothing: their leases
// are good for one lease more. Its engine time is that of all from then on.
func TestAStartWithAClockThatRunsAhead(t *testing.T) {
	clock, ahead := enginetest.NewClock(start), enginetest.NewClock(start.Add(time.Hour))
	config := func(seed byte) towline.Config {
		return towline.Config{Syncs: []towline.Sync{single("north")}, Knobs: wide(), Entropy: seeded(seed)}
	}
	a := openWorkshop(t, options{shared: true, clock: clock, config: config(1)})
	p, leases := a.beating(3)
	before := a.head()
	b := openWorkshop(t, options{path: a.o.path, shared: true, clock: ahead, unverified: true, config: config(2)})
	log := a.since(before)
	require.Equal(t, []string{"NodeStarted", "ClockStepped"}, enginetest.Types(log)[:2])
	oneTx(t, log[:2])
	require.Equal(t, events.ClockStepped{
		Before: events.MicrosOf(start), After: events.MicrosOf(start.Add(time.Hour)),
		GraceUntil: events.MicrosOf(start.Add(time.Hour + time.Minute)),
	}, log[1].Event)
	require.Zero(t, b.pass().ExpiredFailed)
	for range 3 {
		clock.Step(20 * time.Second)
		ahead.Step(20 * time.Second)
		a.renewed(leases[:2])
		a.memoryIsTrue()
		b.memoryIsTrue()
	}
	require.Equal(t, 1, b.pass().ExpiredFailed, "the silent one")
	a.complete(leases[0])
	b.complete(leases[1])
	require.Equal(t, 2, a.run(p.Run).Succeeded)
	require.Len(t, a.steps(0), 1)
	require.NoError(t, b.e.Stop(context.Background(), "test"))
}

// CLK-9, N-5, C-45: the lease of an API worker that was live when the process died is live when the next one starts, for
// one lease, however long that took; those of the process itself are dead (N-3).
func TestARestartLeavesAPIWorkersTheirLeases(t *testing.T) {
	w := wideWorkshop(t)
	p := w.started(days("north", 3))
	remote := func(n int) towline.Lease {
		l, err := w.e.Claim(context.Background(), w.unit(p.Run, n).Unit, towline.Worker{Name: "edge", Remote: true})
		require.NoError(t, err)
		return l
	}
	own, one, two := w.claim(w.unit(p.Run, 3).Unit), remote(1), remote(2)
	w.advance(10 * time.Minute)
	w.crash()
	require.Equal(t, events.WorkerLost, w.unit(p.Run, 3).ErrorCategory)
	require.ErrorIs(t, w.e.Complete(context.Background(), own, events.Result{}), towline.ErrLeaseLost)
	require.Zero(t, w.pass().ExpiredFailed)
	require.Len(t, w.steps(0), 1)
	w.advance(59 * time.Second)
	w.complete(one)
	w.advance(time.Second)
	require.Equal(t, 1, w.pass().ExpiredFailed)
	require.ErrorIs(t, w.e.Complete(context.Background(), two, events.Result{}), towline.ErrLeaseLost)
}

// CLK-9, I-28: a start that nobody's lease depends on says nothing of time that has passed.
func TestAStartAfterALongTimeIsNoStep(t *testing.T) {
	w := wideWorkshop(t)
	w.beating(2)
	w.advance(fortnight)
	w.crash()
	w.restart()
	require.Empty(t, w.steps(0))
	require.Empty(t, w.conditions())
}

// CLK-4, CLK-7, N-4: a step between two processes, in either direction: leases of the first are dead, and engine time
// goes on.
func TestAStepWhileNobodyRuns(t *testing.T) {
	for _, far := range []time.Duration{-fortnight, fortnight} {
		w := wideWorkshop(t)
		p, _ := w.beating(2)
		w.jump(far)
		w.crash()
		require.Equal(t, map[events.UnitStatus]int{events.UnitHasFailed: 2}, w.statuses(p.Run))
		require.Empty(t, w.steps(0))
		require.Equal(t, far < 0, w.clockHeld())
		w.deliver(w.complete)
		require.Equal(t, events.RunFailed, w.run(p.Run).Status)
	}
}

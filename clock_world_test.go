package towline_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/projections"
)

// CLK-8, U-14: a unit that waits in a queue is not given up for the days that a clock has skipped. The day counts from the
// step, and then it is given up.
func TestASkippedDayGivesNobodyUp(t *testing.T) {
	w := openWorkshop(t, options{config: towline.Config{Syncs: []towline.Sync{single("north")}, Knobs: daily(towline.Knobs{})}})
	p := w.started(days("north", 1))
	again := func() events.UnitStatus {
		w.pass()
		w.dispatch(p.Run)
		return w.unit(p.Run, 1).Status
	}
	w.jump(fortnight)
	for range 3 { // stale each time: it is announced anew
		require.Equal(t, events.UnitIsDispatching, again())
		w.advance(15 * time.Minute)
	}
	require.GreaterOrEqual(t, w.unit(p.Run, 1).Dispatch, 3)
	w.e.ForgetMemory()
	w.memoryIsTrue()
	require.Equal(t, events.UnitIsDispatching, again())
	w.advance(24*time.Hour - 45*time.Minute - time.Microsecond)
	require.Equal(t, events.UnitIsDispatching, again())
	w.advance(15 * time.Minute)
	require.Equal(t, events.UnitHasFailed, again())
	require.Equal(t, events.NeverStarted, w.unit(p.Run, 1).ErrorCategory)
}

// CLK-10, W-1, WM-2: behind a clock that ran ahead and was set right, engine time stays ahead, and windows end where the
// world is: nothing that comes into it meanwhile is skipped.
func TestWindowsEndWhereTheWorldIs(t *testing.T) {
	w := newWorkshop(t, single("north"))
	window := func() events.Window {
		p := w.started(towline.RunSpec{Sync: "north"})
		u := w.unit(p.Run, 1)
		w.complete(w.claim(u.Unit))
		return u.Window
	}
	first := window()
	require.Equal(t, start, first.To)
	w.jump(fortnight)
	w.look()
	w.jump(-fortnight)
	w.advance(time.Hour)
	require.Equal(t, events.MicrosOf(start.Add(fortnight+time.Hour)), w.e.Now())
	second := window()
	require.Equal(t, []time.Time{start, start.Add(time.Hour)}, []time.Time{second.From, second.To})
	w.advance(24 * time.Hour)
	w.crash() // also behind a start, which the log has brought ahead
	third := window()
	require.Equal(t, []time.Time{second.To, start.Add(25 * time.Hour)}, []time.Time{third.From, third.To})
	w.view(func(v projections.View) {
		marks, err := v.Watermarks()
		require.NoError(t, err)
		require.Equal(t, third.To, marks[0].At)
	})
}

// CLK-10, W-6: a clock that is wrong and behind plans windows that read little; they move no watermark, so nothing is lost.
func TestWindowsOfAClockThatIsBehind(t *testing.T) {
	w := newWorkshop(t, single("north"))
	p := w.started(towline.RunSpec{Sync: "north"})
	w.complete(w.claim(w.unit(p.Run, 1).Unit))
	w.jump(-fortnight)
	q := w.started(towline.RunSpec{Sync: "north"})
	u := w.unit(q.Run, 1)
	require.Equal(t, start.Add(-fortnight), u.Window.To)
	require.Equal(t, start.Add(-fortnight-time.Hour), u.Window.From)
	w.complete(w.claim(u.Unit))
	w.jump(fortnight)
	w.advance(time.Hour)
	r := w.started(towline.RunSpec{Sync: "north"})
	require.Equal(t, []time.Time{start, start.Add(time.Hour)}, []time.Time{w.unit(r.Run, 1).Window.From, w.unit(r.Run, 1).Window.To})
}

// CLK-8, RL-2, I-20: a unit that waits for a rate limit is not failed for the hours that a clock has skipped; two hours of
// real time are its budget, as ever.
func TestSkippedHoursSpendNoBudget(t *testing.T) {
	w := newWorkshop(t, single("north"))
	p := w.started(days("north", 1))
	limited := func() events.UnitStatus {
		l := w.claim(w.unit(p.Run, 1).Unit)
		require.NoError(t, w.e.Settle(context.Background(), l, towline.Failed{Category: events.RateLimit, After: 59 * time.Minute}))
		return w.unit(p.Run, 1).Status
	}
	again := func(passes time.Duration) {
		w.advance(passes)
		w.pass()
		w.dispatch(p.Run)
	}
	require.Equal(t, events.UnitIsRetrying, limited())
	w.jump(fortnight)
	again(0)
	for range 2 {
		require.Equal(t, events.UnitIsRetrying, limited())
		again(59 * time.Minute)
	}
	require.Equal(t, events.UnitIsRetrying, limited())
	again(2 * time.Minute) // what was left of the two hours
	require.Equal(t, events.UnitHasFailed, limited())
	require.Equal(t, events.RateLimitExhausted, w.unit(p.Run, 1).ErrorCategory)
}

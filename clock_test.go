package towline_test

import (
	"context"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/internal/enginetest"
)

// CLK-2, SC-336: engine time is the wall clock, but it never goes backwards, and goes on from where it was when the
// wall clock is set back.
func TestEngineTimeNeverGoesBackwards(t *testing.T) {
	wall := enginetest.NewClock(start)
	c := towline.NewClock(wall.Now)
	want := events.MicrosOf(start)
	for _, x := range []struct {
		step time.Duration // of the wall
		goes time.Duration // of engine time
	}{
		{0, 0}, {time.Second, time.Second}, {time.Nanosecond, 0}, {-time.Hour, 0}, {0, 0}, {time.Second, time.Second},
		{2 * time.Hour, 2 * time.Hour}, {-time.Second, 0}, {3 * time.Second, 3 * time.Second},
	} {
		wall.Step(x.step)
		want = want.Add(events.SpanOf(x.goes))
		require.Equal(t, want, c.Now(), "after a step of %s", x.step)
	}
}

// CLK-2: where there is a monotonic clock, engine time is never slower than it.
func TestEngineTimeFollowsTheMonotonicClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		behind := time.Duration(0)
		c := towline.NewClock(func() time.Time { return time.Now().Add(-behind) })
		first := c.Now()
		<-time.After(time.Minute) // of the bubble
		require.Equal(t, first.Add(events.SpanOf(time.Minute)), c.Now())
		behind = 0
		require.Equal(t, first.Add(events.SpanOf(time.Minute)), c.Now())
		require.NotZero(t, towline.NewClock(nil).Now())
	})
}

// CLK-2, L-6: after a start on a clock that was set back, the log goes on without a step back, and nothing waits until
// the wall clock has caught up.
func TestAClockThatWasSetBackFreezesNothing(t *testing.T) {
	s := single("north")
	s.Datasets[0].Retry = towline.Retry{Max: 1, Backoff: 7 * time.Second, On: []events.Category{events.Network}}
	w := newWorkshop(t, s)
	w.plan(towline.RunSpec{Sync: "north"})
	w.advance(time.Hour)
	w.deliver(w.complete)

	w.advance(-3 * time.Hour)
	w.crash()
	head := w.since(0)[w.head()-1].At
	p := w.plan(towline.RunSpec{Sync: "north", Mode: towline.FullResync})
	require.Len(t, w.broker.sent, 0)
	w.step()
	require.Len(t, w.broker.take(), 1, "what is due is due at once")
	w.dispatch(p.Run)
	l := w.claim(w.unit(p.Run, 1).Unit)
	w.fail(l, events.Network)
	w.advance(7*time.Second - time.Microsecond)
	w.pass()
	require.Equal(t, events.UnitIsRetrying, w.unit(p.Run, 1).Status)
	w.advance(time.Microsecond)
	w.deliver(w.complete)
	require.Equal(t, events.RunSucceeded, w.run(p.Run).Status)
	last := events.Micros(0)
	for _, e := range w.since(0) {
		require.GreaterOrEqual(t, e.At, last)
		last = e.At
	}
	require.Equal(t, head.Add(events.SpanOf(7*time.Second)), last)
}

// CLK-1, CLK-2: a store that was opened with the defaults has no second clock beside that of its engine. When the wall
// clock is set back, a transaction is as late as the engine says, and both go on.
func TestAStoreHasTheClockOfItsEngine(t *testing.T) {
	s, err := openFile(filepath.Join(t.TempDir(), "towline.db"))
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	wall := enginetest.NewClock(start)
	e, err := towline.Open(context.Background(), s, towline.Config{Clock: towline.NewClock(wall.Now), Entropy: seeded(1)})
	require.NoError(t, err)
	want := events.MicrosOf(start)
	for _, step := range []time.Duration{0, time.Second, -time.Hour, time.Second, 2 * time.Second} {
		wall.Step(step)
		want = want.Add(events.SpanOf(max(step, 0)))
		require.NoError(t, e.Transact(context.Background(), "", func(tx *towline.Tx) error {
			require.Equal(t, want, tx.Now(), "after a step of %s", step)
			return nil
		}))
		require.Equal(t, want, e.Now())
	}
}

// CLK-2, N-3: a process whose clock is behind that of another does not wait for its own; it goes on from the newest
// event.
func TestAProcessThatIsBehindFollowsTheLog(t *testing.T) {
	ahead, behind := enginetest.NewClock(start.Add(time.Hour)), enginetest.NewClock(start)
	a := openWorkshop(t, options{shared: true, clock: ahead})
	b := openWorkshop(t, options{path: a.o.path, shared: true, clock: behind, unverified: true,
		config: towline.Config{Entropy: seeded(2)}})
	p := a.plan(towline.RunSpec{Sync: "reports"})
	b.plan(towline.RunSpec{Sync: "reports", Sources: []string{"north"}}) // b sees the time of a
	b.step()
	require.Len(t, b.broker.take(), 2)
	require.Equal(t, events.MicrosOf(start.Add(time.Hour)), b.e.Now())
	require.NoError(t, b.e.Stop(context.Background(), "test"))
	require.Equal(t, events.RunIsPlanned, a.run(p.Run).Status)
}

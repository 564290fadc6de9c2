package relay_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/events"
)

// done plans runs of one unit and works on all of them, up to their finalize.
func (x *office) done(runs int) (ids []events.RunID) {
	x.t.Helper()
	for range runs {
		ids = append(ids, x.plan(1).Run)
	}
	x.step()
	for _, id := range ids {
		x.dispatch(id)
		x.complete(x.claim(x.units(id)[0].Unit))
	}
	x.step()
	x.broker.take()
	return ids
}

func (x *office) statuses(k events.Kind, runs ...events.RunID) map[decider.RegisterStatus]int {
	x.t.Helper()
	counts := map[decider.RegisterStatus]int{}
	for _, id := range runs {
		counts[x.register(id, k).Status]++
	}
	return counts
}

// O-12, O-16: a wakeup that is sent only once is no probe while any other is pending, due or not: it would be spent for
// nothing. Where none is, nothing else could ever tell, and one goes alone.
func TestWhatIsSentOnceIsNoProbe(t *testing.T) {
	x := openOffice(t, options{knobs: towline.Knobs{BreakerFailures: 1}})
	posts := x.done(3)
	other := x.outage(1, refused)[0].Run
	for _, id := range posts {
		x.finalize(id)
	}
	for range 3 {
		x.broker.take()
		x.clock.Step(x.openBreakers()[0].Until.Sub(x.clock.Now()))
		require.Equal(t, 1, x.step().Claimed)
		require.Equal(t, other, x.broker.take()[0].notice.Run)
	}
	x.clock.Step(4 * time.Second) // the failed one is not due
	x.step()
	require.Equal(t, map[decider.RegisterStatus]int{decider.RegisterPending: 3}, x.statuses(events.KindPostSync, posts...))

	x.dispatch(other)
	x.complete(x.claim(x.units(other)[0].Unit))
	x.finalize(other)
	posts = append(posts, other)
	for lost := 1; lost <= 2; lost++ {
		x.clock.Step(x.openBreakers()[0].Until.Sub(x.clock.Now()))
		x.step()
		require.Len(t, x.broker.take(), 1)
		require.Equal(t, map[decider.RegisterStatus]int{decider.RegisterPending: 4 - lost, decider.RegisterIdle: lost},
			x.statuses(events.KindPostSync, posts...))
	}
	x.broker.script = nil
	x.clock.Step(5 * time.Minute)
	x.step()
	require.Equal(t, map[decider.RegisterStatus]int{decider.RegisterIdle: 4}, x.statuses(events.KindPostSync, posts...))
	require.Len(t, x.broker.take(), 2)
}

// O-12, O-16, I-27: what could be the probe only in the far future is not waited for: a message for next month does not hold
// up for a month what is sent only once.
func TestAMessageForNextMonthIsNoProbe(t *testing.T) {
	run(t, options{knobs: towline.Knobs{BreakerFailures: 1}}, func(t *testing.T, x *running) {
		_, err := x.e.Submit(t.Context(), towline.Message{Topic: "t", AvailableAt: time.Now().AddDate(0, 1, 0)})
		require.NoError(t, err)
		posts := x.done(3)
		synctest.Wait()
		x.broker.obey(always(refused))
		for _, id := range posts {
			x.finalize(id)
		}
		synctest.Wait()
		require.Equal(t, map[decider.RegisterStatus]int{decider.RegisterIdle: 1, decider.RegisterPending: 2},
			x.statuses(events.KindPostSync, posts...), "one is lost, and the breaker is open")
		x.broker.obey(nil)
		wait(10*time.Second + time.Millisecond)
		require.Equal(t, map[decider.RegisterStatus]int{decider.RegisterIdle: 3}, x.statuses(events.KindPostSync, posts...))
		require.Empty(t, x.openBreakers())
	})
}

// O-12, O-16: what is marked and cannot be sent is lost, so no more is marked at once than opens the breaker.
func TestAnOutageFindsFewThatAreSentOnce(t *testing.T) {
	x := openOffice(t, options{knobs: towline.Knobs{BreakerFailures: 3}})
	posts := x.done(10)
	for _, id := range posts {
		x.finalize(id)
	}
	x.broker.script = always(refused)
	x.step()
	require.Len(t, x.broker.take(), 3)
	require.Equal(t, map[decider.RegisterStatus]int{decider.RegisterIdle: 3, decider.RegisterPending: 7},
		x.statuses(events.KindPostSync, posts...))
	require.Len(t, x.openBreakers(), 1)
}

// O-12: a transport that works is kept from nothing by that.
func TestManyThatAreSentOnceGoInTurn(t *testing.T) {
	x := openOffice(t, options{knobs: towline.Knobs{BreakerFailures: 3}})
	posts := x.done(10)
	for _, id := range posts {
		x.finalize(id)
	}
	for range 4 {
		x.step()
	}
	require.Len(t, x.broker.take(), 10)
}

package relay_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/internal/enginetest"
	"github.com/towline-dev/towline/transport"
)

// O-16, O-20, K-2: of a fan-out that is the probe one message goes first, and the others only behind it; and one that is
// under way when the breaker opens goes no further. Either costs no attempt.
func TestAFanOutStopsAtAnOpenBreaker(t *testing.T) {
	x := newOffice(t)
	p := x.plan(8)
	x.step()
	x.dispatch(p.Run)
	x.broker.take()
	x.broker.script = func(sent) transport.Receipt {
		if len(x.broker.got) > 2 {
			return refused
		}
		return transport.Accepted("")
	}
	x.step()
	require.Len(t, x.broker.take(), 2+5)
	released := enginetest.Only[events.OutboxReleased](x.since(0))[0]
	require.True(t, released.MaybePublished)
	require.False(t, released.Counted)
	require.Equal(t, events.RegisterStream(p.Run, events.KindUnit).String(), x.openBreakers()[0].Only)

	x.broker.script = always(refused)
	x.clock.Step(10 * time.Second)
	x.step()
	require.Len(t, x.broker.take(), 1)
	x.broker.script = nil
	x.clock.Step(20 * time.Second)
	x.step()
	require.Len(t, x.broker.take(), 8)
	require.Zero(t, x.spent())
}

// O-16, O-20: a fan-out under way is cut by the failures of others, too, and loses no attempt by it: its rest was not sent.
func TestAFanOutIsCutByTheFailuresOfOthers(t *testing.T) {
	const units, others = 80, 5 // 64 messages go side by side
	k := towline.Knobs{CapBucket: 100, CapRun: 100, CapEngine: 100}
	run(t, options{knobs: k}, func(t *testing.T, x *running) {
		p := x.plan(units)
		synctest.Wait()
		x.broker.take()
		var first atomic.Bool
		x.broker.obey(func(s sent) transport.Receipt {
			switch {
			case s.notice.Kind == events.KindUnit:
				<-time.After(3 * time.Second)
				return transport.Accepted("")
			case first.CompareAndSwap(false, true):
				<-time.After(time.Second) // what follows is due in one batch
				return transport.Accepted("")
			}
			<-time.After(time.Second)
			return refused
		})
		x.plan(1)
		synctest.Wait()
		for range others {
			x.plan(1)
		}
		wait(time.Millisecond)
		x.dispatch(p.Run)
		wait(2 * time.Second)
		require.LessOrEqual(t, len(x.broker.take()), 1+64+others, "no more than the failures have made room for")
		wait(3 * time.Second)
		for _, env := range x.since(0) {
			if r, ok := env.Event.(events.OutboxReleased); ok && env.Stream == events.RegisterStream(p.Run, events.KindUnit) {
				require.Equal(t, [3]any{events.ReleaseBreakerOpen, false, true}, [3]any{r.Cause, r.Counted, r.MaybePublished})
			}
		}
		require.Equal(t, "breaker_open", x.register(p.Run, events.KindUnit).LastCause)
		require.Empty(t, x.openBreakers(), "what was under way has been accepted")
	})
}

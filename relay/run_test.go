package relay_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/internal/enginetest"
	"github.com/towline-dev/towline/relay"
	"github.com/towline-dev/towline/transport"
)

// running is an office whose relay has its loop, in a bubble whose time moves by itself when everybody waits.
type running struct {
	*office
	runner *relay.Runner
	stop   context.CancelFunc
	ended  chan error
	begun  time.Time
}

// run starts the loop in a bubble, and ends it behind the test.
func run(t *testing.T, o options, test func(*testing.T, *running)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		o.grouped, o.wall = true, time.Now
		x := &running{office: openOffice(t, o), ended: make(chan error, 1), begun: time.Now()}
		var err error
		x.runner, err = relay.New(x.e, x.routes(x.broker))
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		x.stop = cancel
		go func() { x.ended <- x.runner.Run(ctx) }()
		synctest.Wait()
		test(t, x)
		cancel()
		require.NoError(t, <-x.ended)
	})
}

// wait lets time pass.
func wait(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// REC-1, SC-234: a commit that makes something due is published at once; nobody waits for the interval.
func TestANudgePublishesAtOnce(t *testing.T) {
	run(t, options{}, func(t *testing.T, x *running) {
		wait(17 * time.Second)
		begun := time.Now()
		p := x.plan(1)
		synctest.Wait()
		require.Equal(t, []string{decider.MessageID(p.Run, events.KindDispatch, 1)}, idsOf(x.broker.take()))
		require.Zero(t, time.Since(begun))
		x.requireStatus(decider.RegisterIdle, p.Run, events.KindDispatch)
	})
}

// REC-1, N-2: in shared mode a relay publishes within a second what another process has made due, and whoever waits hears as
// soon of a run that has ended there. Nobody waits for the interval.
func TestTheCommitsOfAnotherProcessAreNoticed(t *testing.T) {
	run(t, options{shared: true}, func(t *testing.T, x *running) {
		other := openOffice(t, options{path: x.o.path, shared: true, grouped: true, wall: time.Now, entropy: 100})
		wait(1700 * time.Millisecond)
		p := other.plan(1)
		synctest.Wait()
		require.Empty(t, x.broker.take())
		wait(time.Second)
		require.Equal(t, []string{decider.MessageID(p.Run, events.KindDispatch, 1)}, idsOf(x.broker.take()))

		heard := make(chan events.RunStatus, 1)
		go func() {
			run, err := x.e.Wait(t.Context(), p.Run)
			if err == nil {
				heard <- run.Status
			}
		}()
		synctest.Wait()
		require.NoError(t, other.e.CancelRun(t.Context(), p.Run, towline.Actor{Name: "ada", Reason: "enough"}))
		wait(time.Second)
		require.Equal(t, events.RunIsCancelled, <-heard)
	})
}

// REC-1, N-2: a store that one process holds alone is not watched.
func TestAnExclusiveStoreIsNotWatched(t *testing.T) {
	run(t, options{knobs: towline.Knobs{ReconcileInterval: time.Hour}}, func(t *testing.T, x *running) {
		wait(time.Second)
		before := x.store.reads.Load()
		wait(10 * time.Minute)
		require.Equal(t, before, x.store.reads.Load())
	})
}

// REC-1, SC-235, C-28: the loop wakes at the due time of a register, though the interval is a minute.
func TestTheLoopWakesAtADueTime(t *testing.T) {
	run(t, options{}, func(t *testing.T, x *running) {
		p := x.planOf("retried", 1)
		synctest.Wait()
		x.dispatch(p.Run)
		synctest.Wait()
		require.NoError(t, x.e.Fail(context.Background(), x.claim(x.units(p.Run)[0].Unit), events.Network, ""))
		x.broker.take()
		wait(7*time.Second - time.Millisecond)
		require.Empty(t, x.broker.take())
		wait(time.Millisecond)
		require.Len(t, x.broker.take(), 1)
	})
}

// REC-1, REC-7, C-5, C-14: the pass comes on its interval, and when a lease that it knows of ends.
func TestThePassComesOnItsInterval(t *testing.T) {
	run(t, options{}, func(t *testing.T, x *running) {
		lost := x.plan(1)
		synctest.Wait()
		x.broker.take()
		wait(time.Minute + time.Millisecond) // it has been closed for a minute, and a pass comes
		require.Equal(t, []string{decider.MessageID(lost.Run, events.KindDispatch, 2)}, idsOf(x.broker.take()))
		x.dispatch(lost.Run)
		synctest.Wait()
		x.claim(x.units(lost.Run)[0].Unit)
		wait(2 * time.Minute) // lease and interval
		require.Equal(t, events.WorkerLost, x.units(lost.Run)[0].ErrorCategory)
	})
}

// REC-1, REC-5: a lease that ends between two passes is expired when it ends, once a round has seen it.
func TestTheLoopWakesAtTheEndOfALease(t *testing.T) {
	run(t, options{knobs: towline.Knobs{ReconcileInterval: time.Hour}}, func(t *testing.T, x *running) {
		p := x.plan(1)
		synctest.Wait()
		x.dispatch(p.Run)
		synctest.Wait()
		x.claim(x.units(p.Run)[0].Unit)
		x.plan(1) // some other commit: its round sees the lease
		wait(time.Minute)
		require.Equal(t, events.WorkerLost, x.units(p.Run)[0].ErrorCategory)
	})
}

// REC-1, CFG-3: leases that a reload has made shorter are looked at as soon as the shorter length asks for.
func TestTheLoopLooksAfterLeasesOfTheKnobsInForce(t *testing.T) {
	run(t, options{knobs: towline.Knobs{ReconcileInterval: time.Hour, Lease: time.Hour}}, func(t *testing.T, x *running) {
		require.NoError(t, x.e.Reload(t.Context(), towline.Knobs{ReconcileInterval: time.Hour, Lease: 4 * time.Second}, towline.Actor{Name: "ada"}))
		p := x.plan(1)
		synctest.Wait()
		x.dispatch(p.Run)
		synctest.Wait()
		x.claim(x.units(p.Run)[0].Unit)
		wait(5 * time.Second)
		require.Equal(t, events.WorkerLost, x.units(p.Run)[0].ErrorCategory)
	})
}

// REC-3, HC-13, C-44, SC-240, SC-340: while the store is away the loop tries once a second and says so once a minute;
// when it is back everything that is due goes out.
func TestTheLoopOutlivesAStoreThatIsAway(t *testing.T) {
	for _, blind := range []bool{false, true} {
		run(t, options{knobs: towline.Knobs{CapBucket: 50, CapRun: 50}}, func(t *testing.T, x *running) {
			p := x.plan(50)
			synctest.Wait()
			x.dispatch(p.Run)
			synctest.Wait()
			for _, u := range x.units(p.Run) {
				x.claim(u.Unit)
			}
			x.broker.obey(func(sent) transport.Receipt {
				<-time.After(time.Second)
				return transport.Accepted("")
			})
			x.plan(1) // is under way when the store goes
			synctest.Wait()
			x.broker.obey(nil)
			x.broker.take()
			due := x.plan(1)
			x.store.away(errAway)
			x.store.blind.Store(blind)
			synctest.Wait()
			asked := x.store.asked.Load()
			wait(90 * time.Second)
			require.LessOrEqual(t, x.store.asked.Load()-asked, int64(10*90), "no hot loop")
			require.GreaterOrEqual(t, x.store.asked.Load()-asked, int64(80), "and it does not give up")
			x.broker.take()
			x.store.away(nil)
			wait(2 * time.Second)
			for _, u := range x.units(p.Run) {
				require.Equal(t, events.WorkerLost, u.ErrorCategory)
			}
			require.NotEqual(t, decider.RegisterPending, x.register(due.Run, events.KindDispatch).Status)
			complaints := strings.Count(x.log.String(), "level=ERROR")
			require.LessOrEqual(t, complaints, 3)
			require.Positive(t, complaints)
		})
	}
}

// O-11, SC-072, HC-13: while the broker is down a run is accepted all the same; the publisher that refuses is named
// in the log once a minute, in its own words and without a stack; when it is back the run goes out.
func TestARefusalIsSaidOnceAMinute(t *testing.T) {
	run(t, options{}, func(t *testing.T, x *running) {
		x.broker.obey(always(transport.Refused(errors.New("no such exchange"))))
		p := x.plan(1)
		wait(50 * time.Second)
		require.Greater(t, len(x.broker.take()), 3)
		said := `level=WARN msg=publish error="outbox/` + p.Run.String() + `/dispatch_sync_run: refused by broker: no such exchange"`
		require.Equal(t, 1, strings.Count(x.log.String(), said), x.log.String())
		require.NotContains(t, x.log.String(), "level=ERROR")
		wait(5 * time.Minute)
		require.LessOrEqual(t, strings.Count(x.log.String(), "no such exchange"), 6)
		x.broker.take()
		x.broker.obey(nil)
		wait(6 * time.Minute)
		require.Len(t, x.broker.take(), 1)
		x.requireStatus(decider.RegisterIdle, p.Run, events.KindDispatch)
	})
}

// REC-3, HC-13: a panic in a round is reported like an error, and the loop goes on.
func TestTheLoopOutlivesAPanic(t *testing.T) {
	run(t, options{}, func(t *testing.T, x *running) {
		x.store.panics.Store(true)
		x.plan(1)
		wait(2 * time.Second)
		require.Len(t, x.broker.take(), 1)
		require.Contains(t, x.log.String(), "panic: planted")
	})
}

// REC-2, SC-241: nudges that come while a round runs cause one more round, and rounds never overlap.
func TestNudgesDuringARoundCauseOneMore(t *testing.T) {
	run(t, options{}, func(t *testing.T, x *running) {
		x.broker.obey(func(sent) transport.Receipt {
			wait := time.After(3 * time.Second)
			<-wait
			return transport.Accepted("")
		})
		x.plan(1)
		synctest.Wait()
		require.Len(t, x.broker.take(), 1)
		for range 5 {
			x.plan(1)
			x.e.Nudge()
		}
		wait(2 * time.Second)
		require.Empty(t, x.broker.take(), "the first round is under way")
		wait(2 * time.Second)
		require.Len(t, x.broker.take(), 5)
	})
}

// REC-18, HC-56: an idle engine writes nothing, and looks a few times a minute at most.
func TestAnIdleLoopIsQuiet(t *testing.T) {
	run(t, options{}, func(t *testing.T, x *running) {
		p := x.plan(3)
		synctest.Wait()
		for range 3 {
			for _, m := range x.broker.take() {
				x.handle(m)
			}
			synctest.Wait()
		}
		require.Equal(t, events.RunSucceeded, x.run(p.Run).Status)
		wait(time.Minute)
		x.unchanged(func() {
			writes, reads := x.store.writes.Load(), x.store.reads.Load()
			wait(10 * time.Minute)
			require.Equal(t, writes, x.store.writes.Load())
			require.LessOrEqual(t, x.store.reads.Load()-reads, int64(10*20), "ten passes")
		})
	})
}

// O-10, O-11, REC-15: publishes run side by side, and one that does not come back in time is unknown when its time is
// over; the others do not wait for it.
func TestASlowPublishDoesNotHoldUpTheOthers(t *testing.T) {
	run(t, options{}, func(t *testing.T, x *running) {
		var first sync.Once
		x.broker.obey(func(sent) transport.Receipt {
			slow := false
			first.Do(func() { slow = true })
			if slow {
				<-time.After(5 * time.Second)
				return transport.Unknown(context.DeadlineExceeded)
			}
			<-time.After(time.Second)
			return transport.Accepted("")
		})
		for range 21 {
			x.plan(1)
		}
		wait(6*time.Second + time.Millisecond)
		log := x.since(0)
		require.Len(t, enginetest.Only[events.OutboxDispatched](log), 20)
		released := enginetest.Only[events.OutboxReleased](log)
		require.Len(t, released, 1)
		require.Equal(t, events.ReleasePublishUnknown, released[0].Cause)
	})
}

// REC-16, N-6, SC-047: a stop lets the publish in progress end, records it, and gives the rest back; nothing of the
// loop is left.
func TestAStopFinishesWhatIsInProgress(t *testing.T) {
	run(t, options{}, func(t *testing.T, x *running) {
		x.broker.obey(func(sent) transport.Receipt {
			<-time.After(3 * time.Second)
			return transport.Accepted("")
		})
		p := x.plan(1)
		synctest.Wait()
		x.stop()
		begun := time.Now()
		require.NoError(t, <-x.ended)
		require.Equal(t, 3*time.Second, time.Since(begun))
		x.ended <- nil
		x.requireStatus(decider.RegisterIdle, p.Run, events.KindDispatch)
	})
}

// REC-16: a loop that is stopped before it has begun ends at once, and writes nothing but what its first round finds.
func TestAStopBeforeTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := openOffice(t, options{grouped: true, wall: time.Now})
		runner, err := relay.New(x.e, func(events.Kind) transport.Publisher { return x.broker })
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		begun := time.Now()
		require.NoError(t, runner.Run(ctx))
		require.Zero(t, time.Since(begun))
	})
}

// WMILL-1: with its loop, too, the relay publishes through Watermill's forwarder and nothing else.
func TestTheLoopPublishesThroughTheForwarder(t *testing.T) {
	run(t, options{}, func(t *testing.T, x *running) {
		p := x.plan(3)
		synctest.Wait()
		x.dispatch(p.Run)
		synctest.Wait()
		require.Len(t, x.broker.take(), 4)
		for _, s := range x.broker.stacks {
			require.Contains(t, s, "components/forwarder.(*Forwarder).forwardMessage")
			require.Contains(t, s, "message.(*handler).handleMessage", "by the router's own loop")
		}
	})
}

// O-10, O-19, WMILL-1: a publisher that panics inside the router has an unknown outcome, and the loop goes on.
func TestAPanicInTheRouterIsUnknown(t *testing.T) {
	run(t, options{}, func(t *testing.T, x *running) {
		x.broker.obey(func(sent) transport.Receipt { panic(errors.New("out of order")) })
		p := x.plan(1)
		synctest.Wait()
		x.broker.obey(nil)
		require.Equal(t, events.ReleasePublishUnknown, enginetest.Only[events.OutboxReleased](x.since(0))[0].Cause)
		wait(6 * time.Second)
		x.requireStatus(decider.RegisterIdle, p.Run, events.KindDispatch)
	})
}

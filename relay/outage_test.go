package relay_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/internal/enginetest"
	"github.com/towline-dev/towline/projections"
	"github.com/towline-dev/towline/relay"
	"github.com/towline-dev/towline/transport"
)

var refused = transport.Refused(errBroker)

// spent are the attempts that all registers together have used up.
func (x *office) spent() (n int) {
	x.t.Helper()
	require.NoError(x.t, x.file.DB().QueryRow(`SELECT coalesce(sum(attempts), 0) FROM outbox`).Scan(&n))
	return n
}

func (x *office) openBreakers() (open []projections.Breaker) {
	x.t.Helper()
	x.view(func(v projections.View) {
		var err error
		open, err = v.OpenBreakers()
		require.NoError(x.t, err)
	})
	return open
}

// outage plans so many runs into a broker that answers like r, and takes the steps that open the breaker.
func (x *office) outage(runs int, r transport.Receipt) (planned []towline.Planned) {
	x.t.Helper()
	x.broker.obey(always(r))
	for range runs {
		planned = append(planned, x.plan(1))
	}
	x.step()
	require.NotEmpty(x.t, x.openBreakers())
	return planned
}

// O-16, C-39, D-2, REC-1, SC-032, SC-033, SC-247, HC-47: an outage of the publisher of an hour burns no attempt of
// any register, while every trigger is accepted. The backlog then drains at the configured rate. A poison message is
// parked in the end, and its neighbours pass.
func TestAnOutageOfAnHourBurnsNoAttempt(t *testing.T) {
	const bursts = 50
	burst := enginetest.Fewer(40)
	backlog := bursts * burst                                                                // 2000
	once := towline.Knobs{RedriveAfter: 24 * time.Hour, ReconcileInterval: 20 * time.Minute} // nobody handles these messages
	run(t, options{knobs: once}, func(t *testing.T, x *running) {
		x.broker.obey(always(refused))
		begun := time.Now()
		var poisoned towline.Planned
		for range bursts {
			for range burst {
				poisoned = x.plan(1) // is accepted
			}
			wait(time.Hour / bursts)
			require.Zero(t, x.spent())
		}
		require.Equal(t, time.Hour, time.Since(begun))
		require.Zero(t, x.spent())
		outage := x.since(0)
		for _, released := range enginetest.Only[events.OutboxReleased](outage) {
			require.False(t, released.Counted)
		}
		require.Empty(t, enginetest.Only[events.OutboxParked](outage))
		require.LessOrEqual(t, len(x.broker.take()), 64+20, "what was side by side when it opened, and a probe every 5 min at last")
		require.Len(t, x.openBreakers(), 1)

		x.broker.obey(poison(poisoned.Run, refused))
		up := x.head()
		wait(5*time.Minute + time.Duration(backlog/40)*time.Second)
		requireDrained(t, x.since(up), backlog, 40)
		for _, r := range x.openRuns() {
			require.Equal(t, r.Run != poisoned.Run, x.register(r.Run, events.KindDispatch).Closed >= 1, "the neighbours have passed")
		}

		for range 120 { // a run a minute, which passes at once
			p := x.plan(1)
			synctest.Wait()
			x.requireStatus(decider.RegisterIdle, p.Run, events.KindDispatch)
			wait(time.Minute)
		}
		reg := x.requireStatus(decider.RegisterParked, poisoned.Run, events.KindDispatch)
		require.Equal(t, "attempts", reg.LastCause)
		require.Equal(t, 20, reg.Attempts)
		require.Len(t, enginetest.Only[events.OutboxParked](x.since(0)), 1)
		require.Empty(t, x.openBreakers())
	})
}

// O-16: a drain comes to an end also where more comes in than its rate. It keeps to the rate for as long as that makes the
// backlog smaller; else a short outage would limit for good what went through the transport before it.
func TestADrainEndsThoughMoreComesInThanItsRate(t *testing.T) {
	run(t, options{knobs: towline.Knobs{DrainRate: 1, BreakerFailures: 1, RedriveAfter: 24 * time.Hour, ReconcileInterval: 20 * time.Minute}}, func(t *testing.T, x *running) {
		due := func() (n int) {
			x.view(func(v projections.View) {
				var err error
				n, err = v.CountDue(projections.Wakeups{Kinds: events.Kinds[:]}, x.e.Now())
				require.NoError(t, err)
			})
			return n
		}
		x.broker.obey(always(refused))
		arrive := func(minutes int) { // two a second
			for range minutes * 120 {
				x.plan(1)
				wait(time.Second / 2)
			}
		}
		arrive(1)
		require.Greater(t, due(), 100)
		x.broker.obey(nil)
		arrive(10)
		require.Empty(t, x.openBreakers())
		require.Less(t, due(), 10)
		x.plan(1)
		synctest.Wait()
		require.Zero(t, due(), "there is no limit any more")
	})
}

// requireDrained: behind the close of a breaker, claims keep to the rate until the backlog is gone, and are no slower.
func requireDrained(t *testing.T, log []events.Envelope, backlog, rate int) {
	t.Helper()
	var closed events.Micros
	var claimed []events.Micros
	for _, env := range log {
		switch env.Event.(type) {
		case events.BreakerClosed:
			closed = events.Earliest(closed, env.At)
		case events.OutboxClaimed:
			if closed != 0 {
				claimed = append(claimed, env.At)
			}
		}
	}
	require.NotZero(t, closed)
	require.GreaterOrEqual(t, len(claimed), backlog-1, "the probe was the first")
	claimed = claimed[:backlog-1]
	for i, at := range claimed {
		if i >= rate {
			require.GreaterOrEqual(t, at.Sub(claimed[i-rate]).Std(), time.Second, "claim %d", i)
		}
	}
	took := claimed[len(claimed)-1].Sub(closed).Std()
	require.InDelta(t, float64(backlog)/float64(rate), took.Seconds(), 1)
}

// O-16, SC-035: a batch in whose middle the breaker opens: what was not published yet is given back at no cost, and is due
// at once; nothing of it is claimed before the time of the probe.
func TestABatchIsCaughtByAnOpeningBreaker(t *testing.T) {
	x := openOffice(t, options{knobs: towline.Knobs{BreakerFailures: 3}})
	x.outage(8, refused)
	require.Len(t, x.broker.take(), 3)
	log := x.since(0)
	causes := map[events.ReleaseCause]int{}
	for _, r := range enginetest.Only[events.OutboxReleased](log) {
		causes[r.Cause]++
		require.False(t, r.Counted)
		require.Equal(t, r.Cause == events.ReleaseBreakerOpen, r.AvailableAt == events.MicrosOf(x.clock.Now()))
		require.Equal(t, r.Cause == events.ReleaseRefused, r.Transport == "broker")
	}
	require.Equal(t, map[events.ReleaseCause]int{events.ReleaseRefused: 3, events.ReleaseBreakerOpen: 5}, causes)
	opened := enginetest.Only[events.BreakerOpened](log)
	require.Equal(t, []events.BreakerOpened{{
		Transport: "broker", Cause: "the broker says no: password=***", Until: events.MicrosOf(start.Add(10 * time.Second)),
		Kinds: events.Kinds[:],
	}}, opened)
	x.clock.Step(10*time.Second - time.Microsecond)
	x.unchanged(func() {
		r := x.pass()
		require.Equal(t, 8, r.Suspended, "SC-247: they are pending, and nothing else has changed")
		require.Equal(t, events.MicrosOf(start.Add(10*time.Second)), r.NextDue, "the loop sleeps until the probe")
	})
}

// O-16, SC-034: half-open, exactly one of many due wakeups is claimed; it fails at no cost, and the next probe is another
// one, twice as late.
func TestAHalfOpenBreakerLetsOneThrough(t *testing.T) {
	x := newOffice(t)
	x.outage(50, refused)
	x.broker.take()
	tried := map[events.RunID]bool{}
	for _, until := range []time.Duration{10, 20, 40, 80, 160, 300, 300} {
		x.clock.Step(until * time.Second)
		before := x.head()
		r := x.step()
		require.Equal(t, [2]int{1, 1}, [2]int{r.Claimed, r.Released})
		released := enginetest.Only[events.OutboxReleased](x.since(before))[0]
		require.Equal(t, events.ReleaseBreakerOpen, released.Cause)
		require.False(t, released.Counted)
		require.False(t, released.MaybePublished)
		require.GreaterOrEqual(t, released.AvailableAt.Sub(events.MicrosOf(x.clock.Now())).Std(), 5*time.Second)
		got := x.broker.take()
		require.Len(t, got, 1)
		require.False(t, tried[got[0].notice.Run])
		tried[got[0].notice.Run] = true
		x.unchanged(func() { x.step() })
	}
	require.Zero(t, x.spent())
	x.broker.script = nil
	x.clock.Step(5 * time.Minute)
	x.step()
	require.Len(t, x.broker.take(), 1+10, "the probe, and the first step of the backlog")
	require.Empty(t, x.openBreakers())
}

// O-16, O-6: a probe of which nobody knows may have arrived, so the next wish gets a new id; it costs no attempt either.
func TestAProbeThatEndsUnknown(t *testing.T) {
	x := newOffice(t)
	x.outage(5, transport.Unknown(context.DeadlineExceeded))
	x.clock.Step(10 * time.Second)
	before := x.head()
	x.step()
	released := enginetest.Only[events.OutboxReleased](x.since(before))[0]
	require.Equal(t, events.ReleaseBreakerOpen, released.Cause)
	require.True(t, released.MaybePublished)
	require.Zero(t, x.spent())
}

// O-16, O-15, B-8: neither a refusal for ever nor a full queue says anything of the transport; as a probe, the one is parked
// and the next goes, and the other waits like any probe that failed.
func TestWhatSaysNothingOfTheTransport(t *testing.T) {
	for name, r := range map[string]transport.Receipt{
		"for ever": {Outcome: events.Refused, Permanent: true, Err: errBroker}, "full": transport.NotBegun(errBroker),
	} {
		x := newOffice(t)
		x.broker.script = always(r)
		for range 20 {
			x.plan(1)
		}
		x.step()
		require.Empty(t, x.openBreakers(), name)
		x.outage(20, refused)
		x.broker.script = always(r)
		x.clock.Step(10 * time.Second)
		got := x.step()
		require.Equal(t, name == "for ever", got.Parked > 1)
		require.Equal(t, name == "full", got.Claimed == 1)
		require.Len(t, x.openBreakers(), 1)
	}
}

// O-16: as long as only one wakeup fails, it may be its own fault: another one need not wait for the time of the probe.
// When that one fails as well, all wait.
func TestOneBadMessageHoldsUpNoOther(t *testing.T) {
	run(t, options{knobs: towline.Knobs{RedriveAfter: 24 * time.Hour}}, func(t *testing.T, x *running) {
		bad := x.plan(1)
		x.broker.obey(poison(bad.Run, refused))
		wait(10 * time.Minute)
		require.Len(t, x.openBreakers(), 1, "it was alone: nobody could tell")
		require.Zero(t, x.spent())
		good := x.plan(1)
		synctest.Wait()
		x.requireStatus(decider.RegisterIdle, good.Run, events.KindDispatch)
		require.Empty(t, x.openBreakers())

		x.broker.obey(always(refused))
		wait(20 * time.Minute)
		x.broker.take()
		x.plan(1)
		synctest.Wait()
		require.Len(t, x.broker.take(), 1, "it tries")
		x.plan(1)
		synctest.Wait()
		require.Empty(t, x.broker.take(), "and now it is known")
	})
}

// O-16, N-1: a breaker belongs to a node and begins closed. What a start into an outage costs is one batch, and no attempt,
// however often it happens.
func TestARestartLoopInAnOutageBurnsNothing(t *testing.T) {
	x := openOffice(t, options{knobs: towline.Knobs{MaxAttempts: 3}})
	x.broker.script = always(refused)
	p := x.plan(1)
	for range 20 {
		x.step()
		x.clock.Step(6 * time.Second)
		x.crash()
		x.broker.script = always(refused)
	}
	require.Zero(t, x.spent())
	x.outage(10, refused)
	require.Len(t, x.openBreakers(), 1)
	x.crash()
	require.Empty(t, x.openBreakers(), "what a dead node thought says nothing")
	x.broker.script = nil
	x.clock.Step(6 * time.Second)
	x.step()
	x.requireStatus(decider.RegisterIdle, p.Run, events.KindDispatch)
}

// O-16: a broker that comes and goes is asked less and less often, and everything goes out in the end.
func TestAFlappingBroker(t *testing.T) {
	run(t, options{}, func(t *testing.T, x *running) {
		begun := time.Now()
		x.broker.obey(func(sent) transport.Receipt {
			if int(time.Since(begun).Seconds())%20 < 4 {
				return transport.Accepted("")
			}
			return refused
		})
		var planned []towline.Planned
		for range enginetest.Fewer(600) {
			planned = append(planned, x.plan(1))
			wait(2 * time.Second)
		}
		opened := len(enginetest.Only[events.BreakerOpened](x.since(0)))
		require.LessOrEqual(t, opened, 40, "in 20 minutes; asked every 10 s it would be 120")
		require.Empty(t, enginetest.Only[events.OutboxParked](x.since(0)))
		x.broker.obey(nil)
		wait(10 * time.Minute)
		for _, p := range planned {
			require.Positive(t, x.register(p.Run, events.KindDispatch).Closed)
		}
	})
}

// O-16, REC-1, REC-18: an open breaker makes nothing spin. Between two probes the loop looks as often as an idle one, a
// commit costs it a look, and it writes nothing.
func TestAnOpenBreakerDoesNotSpin(t *testing.T) {
	run(t, options{}, func(t *testing.T, x *running) {
		x.broker.obey(always(refused))
		for range 100 {
			x.plan(1)
		}
		wait(20 * time.Minute) // until it is asked every five
		before, reads := x.head(), x.store.reads.Load()
		wait(time.Hour)
		require.LessOrEqual(t, x.store.reads.Load()-reads, int64(60*20), "sixty passes")
		probes := enginetest.Only[events.OutboxClaimed](x.since(before))
		require.LessOrEqual(t, len(probes), 12)
		require.GreaterOrEqual(t, len(probes), 11)
		require.LessOrEqual(t, x.store.reads.Load()-reads, int64(60*20))
	})
}

// O-16, HC-13: what a breaker does is said once: that it opened, with the error, and that it closed.
func TestABreakerIsSaidOnce(t *testing.T) {
	run(t, options{}, func(t *testing.T, x *running) {
		x.broker.obey(always(refused))
		for range 10 {
			x.plan(1)
		}
		wait(time.Hour)
		x.broker.obey(nil)
		wait(6 * time.Minute)
		log := x.log.String()
		require.Equal(t, 1, strings.Count(log, `level=WARN msg="a transport fails; its messages wait" transport=broker`), log)
		require.Equal(t, 1, strings.Count(log, `level=INFO msg="a transport works again" transport=broker`), log)
		require.NotContains(t, log, "hunter2")
	})
}

// O-16, L-11: a breaker that moved while the store was away is on record with the outcome that moved it, also if its time is
// over by then.
func TestABreakerOutlivesAStoreThatIsAway(t *testing.T) {
	for _, long := range []time.Duration{0, 12 * time.Second} {
		t.Run(long.String(), func(t *testing.T) {
			x := newOffice(t)
			for range 5 {
				x.plan(1)
			}
			x.broker.script = func(sent) transport.Receipt {
				x.store.away(errAway)
				return refused
			}
			require.ErrorIs(t, x.relay.Step(context.Background()).Err(), towline.ErrUnavailable)
			x.clock.Step(long)
			x.store.away(nil)
			x.broker.script = always(refused)
			x.step()
			require.Len(t, x.openBreakers(), 1)
			require.Zero(t, x.spent())
			x.unchanged(func() { x.step() })
		})
	}
}

// O-16: a lane has what its routes give it; an outage of one transport touches no kind that goes through another, and
// claims of both go on in one step.
func TestTransportsHaveBreakersOfTheirOwn(t *testing.T) {
	x := newOffice(t)
	units := &named{broker: &broker{}, name: "other"}
	var err error
	x.relay, err = relay.Synchronous(x.e, func(k events.Kind) transport.Publisher {
		if k == events.KindUnit {
			return units
		}
		return x.broker
	})
	require.NoError(t, err)
	p := x.plan(6)
	x.step()
	x.dispatch(p.Run)
	units.obey(always(refused))
	x.step()
	require.Len(t, units.take(), 5)
	x.plan(1)
	require.Equal(t, 1, x.step().Dispatched)
	require.Equal(t, []projections.Breaker{{
		Node: x.e.Node(), Transport: "other", Cause: "the broker says no: password=***", OpenedAt: x.clock.Now(),
		Until: x.clock.Now().Add(10 * time.Second), Kinds: []events.Kind{events.KindUnit},
		Only: events.RegisterStream(p.Run, events.KindUnit).String(),
	}}, x.openBreakers())
}

// named is a broker of another name.
type named struct {
	*broker
	name string
}

func (n *named) Name() string { return n.name }

// REC-2, REC-3, O-16: a transport that hangs holds up neither a kind that goes through another, nor a pass: leases are
// expired beside it.
func TestATransportThatHangsHoldsUpNothingElse(t *testing.T) {
	run(t, options{units: &named{broker: &broker{}, name: "slow"}}, func(t *testing.T, x *running) {
		p := x.plan(2)
		synctest.Wait()
		x.dispatch(p.Run)
		synctest.Wait()
		x.claim(x.units(p.Run)[0].Unit) // and its worker dies
		x.o.units.obey(func(sent) transport.Receipt {
			<-time.After(5 * time.Second) // as long as a publish may take
			return transport.Unknown(context.DeadlineExceeded)
		})
		hung := x.plan(1)
		synctest.Wait()
		x.dispatch(hung.Run)
		synctest.Wait()
		x.broker.take()
		for range 30 {
			wait(4 * time.Second)
			p := x.plan(1)
			synctest.Wait()
			require.Contains(t, idsOf(x.broker.take()), decider.MessageID(p.Run, events.KindDispatch, 1), "at once")
		}
		require.Equal(t, events.WorkerLost, x.units(p.Run)[0].ErrorCategory)
	})
}

// O-19, O-16: wakeups that cannot be claimed, however old and many, keep neither a probe nor the backlog of an outage.
func TestBadWakeupsAreInNobodysWayBehindAnOutage(t *testing.T) {
	x := openOffice(t, options{knobs: towline.Knobs{RelayBatch: 4, BreakerFailures: 4}})
	bad := map[string]bool{}
	for range 11 {
		id := x.plan(1).Run
		bad[string(id[:])] = true
	}
	x.store.failing = func(query string, args []any) bool {
		return strings.HasPrefix(query, "UPDATE outbox SET status = 'claimed'") && bad[string(args[0].([]byte))]
	}
	x.clock.Step(time.Second)
	x.broker.script = always(refused)
	for range 30 {
		x.plan(1)
	}
	for range 4 { // behind the bad ones there is room for one in each batch
		require.Error(t, x.relay.Step(context.Background()).Err())
	}
	require.NotEmpty(t, x.openBreakers())
	x.broker.script = nil
	x.broker.take()
	x.clock.Step(10 * time.Second)
	for range 30 {
		x.relay.Step(context.Background())
		x.clock.Step(time.Second)
	}
	require.Len(t, x.broker.take(), 30)
	require.Empty(t, x.openBreakers())
	x.store.failing = nil
	x.pass()
	require.Len(t, x.broker.take(), 11)
}

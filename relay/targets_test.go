package relay_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/internal/enginetest"
	"github.com/towline-dev/towline/transport"
)

// mixed is an office whose runs are followed by two targets that go to a queue of their own, and by one that a handler does.
func mixed(t *testing.T, mode events.DeliveryMode) *office {
	t.Helper()
	post := &towline.PostSync{Mode: mode, Targets: []towline.Target{
		{Name: "tell", Transport: "queue", Topic: "ended", Idempotent: true}, {Name: "index", SQL: "SELECT 1"},
		{Name: "mail", Transport: "queue", Idempotent: true},
	}}
	return openOffice(t, options{post: post, queue: &broker{name: "nats"}})
}

func topics(messages []sent) (out []string) {
	for _, m := range messages {
		out = append(out, m.topic+" "+m.notice.Target)
	}
	return out
}

// K-8, O-12, HP-4: a target that names a transport is published there, on its topic, as a message like the others; the
// outcome is that of its publish, and once it is accepted nobody is waited for.
func TestATargetGoesStraightToItsTransport(t *testing.T) {
	x := mixed(t, events.AtMostOnce)
	run := x.ended()
	x.o.queue.script = func(s sent) transport.Receipt {
		if s.notice.Target == "mail" {
			return transport.Refused(errBroker)
		}
		return transport.Accepted("stored")
	}
	x.step()
	require.Equal(t, []string{"post_sync index"}, topics(x.broker.take()))
	queued := x.o.queue.take()
	require.Equal(t, []string{"ended tell", "post_sync mail"}, topics(queued))
	require.Equal(t, []string{run.String() + ".post_sync.1.tell", run.String() + ".post_sync.1.mail"}, idsOf(queued))
	require.Equal(t, decider.Generation(run), queued[0].notice.Post.Generation)
	targets := x.run(run).PostSync.Targets
	require.Equal(t, events.Accepted, targets[0].Outcome)
	require.Equal(t, events.Refused, targets[2].Outcome)
	require.Equal(t, []bool{false, true, true}, []bool{targets[0].Unconfirmed, targets[1].Unconfirmed, targets[2].Unconfirmed})
	require.Equal(t, "broker", x.register(run, events.KindPostSync).Transport)
	require.Empty(t, x.run(run).PostSync.Posts)
}

// HP-3, K-8, O-11: in exactly_once mode an accepted publish completes such a target, in the transaction of the settle; a
// fan-out that is released as a whole is published again without it, under the same ids.
func TestAnAcceptedPublishCompletesItsTarget(t *testing.T) {
	x := mixed(t, events.ExactlyOnce)
	run := x.ended()
	x.o.queue.script = func(s sent) transport.Receipt {
		if s.notice.Target == "mail" {
			return transport.Unknown(errBroker)
		}
		return transport.Accepted("stored")
	}
	before := x.head()
	x.step()
	log := x.since(before)
	require.Equal(t, []string{"OutboxClaimed", "PostSyncCompleted", "OutboxReleased"}, enginetest.Types(log))
	require.Equal(t, log[1].Tx, log[2].Tx)
	require.Equal(t, events.PostSyncCompleted{
		Generation: decider.Generation(run), Target: "tell", MessageID: run.String() + ".post_sync.1.tell", Result: "stored",
	}, log[1].Event)
	first := append(x.o.queue.take(), x.broker.take()...)
	require.Len(t, first, 3)

	x.o.queue.script = nil
	x.clock.Step(6 * time.Second)
	x.step()
	require.Equal(t, idsOf(first[1:2]), idsOf(x.o.queue.take()), "unknown: the same id again")
	require.Equal(t, idsOf(first[2:]), idsOf(x.broker.take()))
	reg := x.requireStatus(decider.RegisterIdle, run, events.KindPostSync)
	require.Equal(t, "broker", reg.Transport)
	require.Equal(t, decider.EffectsOpen, x.run(run).PostSync.Effects, "one is left to a handler")
	x.clock.Step(15 * time.Minute)
	x.pass()
	require.Empty(t, x.o.queue.take())
	require.Equal(t, []string{"post_sync index"}, topics(x.broker.take()))
}

// C-4, C-26, K-3: a process that dies between such a publish and its settle publishes it again, under the same id and
// generation: at least once, and whoever receives it deduplicates by generation.
func TestACrashBehindAPublishPublishesAgain(t *testing.T) {
	x := openOffice(t, options{queue: &broker{name: "nats"}, post: &towline.PostSync{Mode: towline.ExactlyOnce,
		Targets: []towline.Target{{Name: "tell", Transport: "queue", Idempotent: true}}}})
	run := x.ended()
	x.o.queue.script = func(sent) transport.Receipt {
		x.store.away(errAway) // the settle does not commit
		return transport.Accepted("stored")
	}
	require.ErrorIs(t, x.relay.Step(t.Context()).Err(), towline.ErrUnavailable)
	first := x.o.queue.take()
	x.o.queue.script = nil
	x.crash()
	x.pass()
	require.Equal(t, idsOf(first), idsOf(x.o.queue.take()))
	require.Equal(t, decider.EffectsDone, x.run(run).PostSync.Effects)
	require.Equal(t, "nats", x.register(run, events.KindPostSync).Transport, "no other transport had a part in it")
	x.clock.Step(time.Hour)
	x.unchanged(func() { x.pass() })
}

// O-11, O-15: a transport that is not there refuses; the register shows why, and no other target is lost with it.
func TestATransportThatIsNotThere(t *testing.T) {
	x := openOffice(t, options{post: &towline.PostSync{Mode: towline.ExactlyOnce, Targets: []towline.Target{
		{Name: "tell", Transport: "queue", Idempotent: true}, {Name: "index", SQL: "SELECT 1"},
	}}})
	run := x.ended()
	x.step()
	require.Equal(t, []string{"post_sync index"}, topics(x.broker.take()))
	reg := x.requireStatus(decider.RegisterPending, run, events.KindPostSync)
	require.Equal(t, `transport "queue" is not configured here`, reg.LastText)
	x.o.queue = &broker{name: "nats"}
	x.crash()
	x.clock.Step(time.Minute)
	x.pass()
	require.Equal(t, []string{"post_sync tell"}, topics(x.o.queue.take()))
}

// O-16, K-8: what goes straight to another transport is no probe of the one that fails, and is not held up by it: the first
// message that goes through it is. Both fail here, and the wakeup still waits for its backoff.
func TestTheProbeOfAMixedFanOutGoesByItsRoute(t *testing.T) {
	x := openOffice(t, options{queue: &broker{name: "nats"}, knobs: towline.Knobs{BreakerFailures: 1}, post: &towline.PostSync{
		Mode: towline.ExactlyOnce, Targets: []towline.Target{{Name: "tell", Transport: "queue", Idempotent: true}, {Name: "index"}, {Name: "mail"}},
	}})
	run := x.ended()
	x.broker.script = always(refused)
	x.o.queue.script = always(refused)
	x.step()
	require.Equal(t, []string{"post_sync tell"}, topics(x.o.queue.take()))
	require.Equal(t, []string{"post_sync index"}, topics(x.broker.take()))
	for range 3 {
		ctx, cancel := context.WithCancel(t.Context())
		x.o.queue.script = func(sent) transport.Receipt {
			if len(x.o.queue.got) > 1 {
				cancel() // a step without end
			}
			return refused
		}
		x.clock.Step(x.openBreakers()[0].Until.Sub(x.clock.Now()))
		require.NoError(t, x.relay.Step(ctx).Err())
		cancel()
		require.Equal(t, []string{"post_sync tell"}, topics(x.o.queue.take()))
		require.Equal(t, []string{"post_sync index"}, topics(x.broker.take()))
		x.unchanged(func() { x.step() })
	}
	x.broker.script = nil
	x.clock.Step(5 * time.Minute)
	x.step()
	require.Empty(t, x.openBreakers())
	require.Equal(t, []string{"post_sync index", "post_sync mail"}, topics(x.broker.take()))
	require.Equal(t, "refused", x.register(run, events.KindPostSync).LastCause)
}

// O-15, O-19, K-8: a target that its own transport refuses for ever parks the wakeup when it is all that is left, and not
// before: what else is outstanding is sent again until it is done, whether it was lost behind its publish or not published.
func TestATargetThatIsRefusedForEverHoldsUpNoOther(t *testing.T) {
	x := openOffice(t, options{queue: &broker{name: "nats"}, post: &towline.PostSync{Mode: towline.ExactlyOnce, Targets: []towline.Target{
		{Name: "tell", Transport: "queue", Idempotent: true}, {Name: "index"}, {Name: "mail", Transport: "queue", Idempotent: true},
	}}})
	run := x.ended()
	mailed := refused
	x.o.queue.script = func(s sent) transport.Receipt {
		if s.notice.Target == "mail" {
			return mailed
		}
		return transport.Receipt{Outcome: events.Refused, Permanent: true, Err: errBroker}
	}
	x.step()
	x.requireStatus(decider.RegisterPending, run, events.KindPostSync)
	x.broker.take() // and nobody handles it
	x.clock.Step(6 * time.Second)
	x.step()
	require.Equal(t, []string{"post_sync index"}, topics(x.broker.take()))
	post, taken, err := x.e.StartPost(t.Context(), run, "index")
	require.NoError(t, err)
	require.True(t, taken)
	require.NoError(t, x.e.CompletePost(t.Context(), post, ""))
	x.clock.Step(11 * time.Second)
	x.step()
	x.requireStatus(decider.RegisterPending, run, events.KindPostSync)

	mailed = transport.Accepted("")
	x.clock.Step(22 * time.Second)
	x.step()
	reg := x.requireStatus(decider.RegisterParked, run, events.KindPostSync)
	require.Equal(t, "permanent", reg.LastCause)
	require.Equal(t, []string{"mail", "index"}, []string{x.run(run).PostSync.Posts[1].Target, x.run(run).PostSync.Posts[0].Target})
}

// K-9, O-16: what is left of a fan-out may go straight to a transport of its own. It says nothing of the route that fails, so
// the next wakeup is the probe of that.
func TestWhatGoesStraightIsNoProbe(t *testing.T) {
	for name, second := range map[string]transport.Receipt{"accepted": transport.Accepted(""), "refused": refused} {
		t.Run(name, func(t *testing.T) {
			x := openOffice(t, options{queue: &broker{name: "nats"}, post: &towline.PostSync{Mode: towline.ExactlyOnce, Targets: []towline.Target{
				{Name: "index", SQL: "SELECT 1"}, {Name: "mail", Transport: "queue", Idempotent: true},
			}}})
			run := x.ended()
			x.o.queue.script = always(refused)
			x.step()
			post, taken, err := x.e.StartPost(t.Context(), run, "index")
			require.NoError(t, err)
			require.True(t, taken)
			require.NoError(t, x.e.CompletePost(t.Context(), post, ""))

			x.broker.take()
			x.o.queue.take()
			x.o.queue.script = always(second)
			x.clock.Step(time.Second) // so that it is due before the others
			x.outage(5, refused)
			x.broker.take()
			x.clock.Step(x.openBreakers()[0].Until.Sub(x.clock.Now()))
			x.step()
			require.Len(t, x.o.queue.take(), 1)
			require.Len(t, x.broker.take(), 1, "the probe")
		})
	}
}

// HP-4, K-9: what a target does is not frozen in a run. One that goes straight to a transport now, and did not when its run
// was planned, ends with its accepted publish as well: nobody would ever report on it.
func TestATargetThatHasBecomeAMessage(t *testing.T) {
	x := openOffice(t, options{queue: &broker{name: "nats"}})
	run := x.ended()
	x.o.post = &towline.PostSync{Targets: []towline.Target{{Name: "index", Transport: "queue"}}}
	x.crash()
	x.step()
	require.Len(t, x.o.queue.take(), 1)
	got := x.run(run).PostSync
	require.False(t, got.Targets[0].Unconfirmed)
	require.Equal(t, decider.PostCompleted, got.Targets[0].Effect)
	require.True(t, got.Over())
}

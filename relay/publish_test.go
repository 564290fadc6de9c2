package relay_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/internal/enginetest"
	"github.com/towline-dev/towline/relay"
	"github.com/towline-dev/towline/transport"
)

var errBroker = errors.New("the broker says no: password=hunter2")

// always is a script of one answer.
func always(r transport.Receipt) func(sent) transport.Receipt {
	return func(sent) transport.Receipt { return r }
}

// poison is a script that answers to the messages of one run, and accepts all others: so it is the run's fault.
func poison(run events.RunID, r transport.Receipt) func(sent) transport.Receipt {
	return func(s sent) transport.Receipt {
		if s.notice.Run == run {
			return r
		}
		return transport.Accepted("")
	}
}

// O-5, O-7, O-9, O-11, K-3, SC-015, SC-018, C-2: an accepted publish is claimed, published once under its id, and
// marked; claim and mark are on record with token and attempt.
func TestAnAcceptedPublishIsMarked(t *testing.T) {
	x := newOffice(t)
	p := x.plan(2)
	before := x.head()
	x.broker.script = func(sent) transport.Receipt {
		require.Equal(t, []string{"OutboxClaimed"}, enginetest.Types(x.since(before)),
			"I-16: the claim is committed before the publish")
		return transport.Accepted("")
	}
	r := x.step()
	require.Equal(t, relay.Report{Materialized: r.Materialized, Claimed: 1, Dispatched: 1}, r)
	require.Equal(t, []string{p.Run.String() + ".dispatch_sync_run.1"}, idsOf(x.broker.take()))
	log := x.since(before)
	require.Equal(t, []string{"OutboxClaimed", "OutboxDispatched"}, enginetest.Types(log))
	claimed, marked := log[0].Event.(events.OutboxClaimed), log[1].Event.(events.OutboxDispatched)
	require.Equal(t, events.OutboxClaimed{N: 1, Token: claimed.Token,
		ClaimExpiresAt: events.MicrosOf(start.Add(time.Minute)), Attempt: 1, MessageCount: 1}, claimed)
	require.Equal(t, events.OutboxDispatched{N: 1, Token: claimed.Token, Order: events.PublishFirst,
		Transport: "broker", MessageCount: 1}, marked)
	reg := x.requireStatus(decider.RegisterIdle, p.Run, events.KindDispatch)
	require.Equal(t, "broker", reg.Transport)
	x.unchanged(func() { x.step() })
}

// CLK-1, SC-017: a wakeup is taken at its time, not a microsecond earlier.
func TestAWakeupIsTakenAtItsTime(t *testing.T) {
	x := newOffice(t)
	p := x.planOf("retried", 1)
	x.step()
	x.dispatch(p.Run)
	x.step()
	require.NoError(t, x.e.Fail(context.Background(), x.claim(x.units(p.Run)[0].Unit), events.Network, ""))
	x.broker.take()
	x.clock.Step(7*time.Second - time.Microsecond)
	x.unchanged(func() { require.Equal(t, events.MicrosOf(start.Add(7*time.Second)), x.step().NextDue) })
	x.clock.Step(time.Microsecond)
	require.Equal(t, 1, x.step().Dispatched)
}

// O-11, O-13, O-15, O-16, M-6, SC-023, SC-024, SC-029, C-40, HC-13: a publish that is refused while others pass goes back
// with its cause, its redacted text and a growing wait, under the same id; at the last attempt it is parked, shown, and
// never claimed again.
func TestARefusedPublishBacksOffAndIsParked(t *testing.T) {
	x := openOffice(t, options{knobs: towline.Knobs{MaxAttempts: 9}})
	p := x.plan(1)
	x.broker.script = poison(p.Run, transport.Refused(errBroker))
	waits := []time.Duration{5, 10, 20, 40, 80, 160, 300, 300}
	for i, wait := range waits {
		x.plan(1) // a neighbour, which passes
		before := x.head()
		r := x.step()
		require.Equal(t, [4]int{2, 1, 1, 0}, [4]int{r.Claimed, r.Dispatched, r.Released, r.Parked})
		released := enginetest.Only[events.OutboxReleased](x.since(before))[0]
		require.Equal(t, events.ReleaseRefused, released.Cause)
		require.True(t, released.Counted)
		require.False(t, released.MaybePublished)
		require.Equal(t, "broker", released.Transport)
		require.Equal(t, "the broker says no: password=***", released.Text)
		reg := x.requireStatus(decider.RegisterPending, p.Run, events.KindDispatch)
		require.Equal(t, i+1, reg.Attempts)
		backoff := reg.AvailableAt.Sub(x.clock.Now())
		require.GreaterOrEqual(t, backoff, wait*time.Second)
		require.LessOrEqual(t, backoff, wait*time.Second+wait*time.Second/10)
		x.clock.Step(backoff - time.Microsecond)
		x.unchanged(func() { x.step() })
		x.clock.Step(time.Microsecond)
	}
	x.plan(1)
	r := x.step()
	require.Equal(t, [3]int{2, 1, 1}, [3]int{r.Claimed, r.Released, r.Parked})
	reg := x.requireStatus(decider.RegisterParked, p.Run, events.KindDispatch)
	require.Equal(t, "attempts", reg.LastCause)
	require.Equal(t, "the broker says no: password=***", reg.LastText)
	tries := 0
	for _, s := range x.broker.take() {
		if s.notice.Run == p.Run {
			tries++
			require.Equal(t, p.Run.String()+".dispatch_sync_run.1", s.id)
		}
	}
	require.Equal(t, 9, tries)
	require.Empty(t, enginetest.Only[events.BreakerOpened](x.since(0)), "nor is it a reason to hold the others")
	x.broker.script = nil
	x.clock.Step(24 * time.Hour)
	x.pass()
	before := x.head()
	require.Equal(t, 1, x.pass().Held, "REC-12, SC-013: owed but held is reported, not armed")
	for _, env := range x.since(before) {
		require.NotEqual(t, events.RegisterStream(p.Run, events.KindDispatch), env.Stream)
	}
}

// O-10, O-11, SC-027, SC-028: an unknown publish goes out again under the same id, and the next wish behind it gets a
// new one.
func TestAnUnknownPublishGoesOutAgain(t *testing.T) {
	x := newOffice(t)
	p := x.plan(1)
	x.broker.script = always(transport.Unknown(context.DeadlineExceeded))
	require.Equal(t, 1, x.step().Released)
	released := enginetest.Only[events.OutboxReleased](x.since(0))[0]
	require.Equal(t, events.ReleasePublishUnknown, released.Cause)
	require.False(t, released.Counted, "O-16: nothing says that it is the message's fault")
	require.True(t, released.MaybePublished)

	x.dispatch(p.Run) // its message was handled after all
	u := x.units(p.Run)[0]
	x.broker.script = nil
	x.step()
	l := x.claim(u.Unit)
	require.NoError(t, x.e.Release(context.Background(), l,
		"stopping")) // arms dispatch: it must not travel under the old id
	x.clock.Step(6 * time.Second)
	x.step()
	x.step()
	var ids []string
	for _, m := range x.broker.take() {
		if m.notice.Kind == events.KindDispatch {
			ids = append(ids, m.id)
		}
	}
	require.Equal(t, []string{p.Run.String() + ".dispatch_sync_run.1"}, ids[:1])
	x.requireStatus(decider.RegisterIdle, p.Run, events.KindDispatch)
}

// O-15, SC-030: a permanent refusal parks at the first attempt.
func TestAPermanentRefusalParksAtOnce(t *testing.T) {
	x := newOffice(t)
	p := x.plan(1)
	x.broker.script = always(transport.Receipt{Outcome: events.Refused, Permanent: true,
		Err: &transport.TooLargeError{Bytes: 2, Limit: 1}})
	require.Equal(t, 1, x.step().Parked)
	reg := x.requireStatus(decider.RegisterParked, p.Run, events.KindDispatch)
	require.Equal(t, "permanent", reg.LastCause)
	require.Contains(t, reg.LastText, "payload too large")
	require.Equal(t, 1, reg.Attempts)
}

// O-10, O-15: of a fan-out one message is too large and of another nobody knows: the release says the one, and the parked
// wakeup the other.
func TestAParkedFanOutSaysWhatParkedIt(t *testing.T) {
	for text, err := range map[string]error{
		"payload too large: 2 bytes, the transport takes 1": &transport.TooLargeError{Bytes: 2, Limit: 1}, "refused for ever": nil,
	} {
		t.Run(text, func(t *testing.T) {
			x := newOffice(t)
			p := x.plan(3)
			x.dispatch(p.Run)
			unit := x.units(p.Run)[1].Unit
			x.broker.script = func(s sent) transport.Receipt {
				if s.notice.Kind == events.KindUnit && s.notice.Unit == unit {
					return transport.Receipt{Outcome: events.Refused, Permanent: true, Err: err}
				}
				return transport.Unknown(context.DeadlineExceeded)
			}
			require.ErrorContains(t, x.step().Refusal, "publish_unknown by broker: context deadline exceeded")
			released := enginetest.Only[events.OutboxReleased](x.since(0))
			require.Equal(t, "context deadline exceeded", released[len(released)-1].Text)
			reg := x.requireStatus(decider.RegisterParked, p.Run, events.KindUnit)
			require.Equal(t, []string{"permanent", text}, []string{reg.LastCause, reg.LastText})
		})
	}
}

// O-8, O-15: at the last attempt what is owed is looked at first: nothing owed is dropped, not parked.
func TestWhatIsNotOwedIsDroppedNotParked(t *testing.T) {
	x := openOffice(t, options{knobs: towline.Knobs{MaxAttempts: 1}})
	p := x.plan(1)
	x.clock.Step(time.Second)
	x.plan(1) // a neighbour, which passes behind it
	x.broker.script = func(s sent) transport.Receipt {
		if s.notice.Run != p.Run {
			return transport.Accepted("")
		}
		x.dispatch(p.Run) // somebody else has seen to it meanwhile
		return transport.Refused(errBroker)
	}
	before := x.head()
	r := x.step()
	require.Equal(t, [3]int{0, 0, 1}, [3]int{r.Released, r.Parked, r.Dropped})
	require.Equal(t, []string{"OutboxClaimed", "OutboxClaimed", "UnitDispatched", "RunDispatchStarted", "OutboxArmed",
		"OutboxDropped", "OutboxDispatched"}, enginetest.Types(x.since(before)))
	x.requireStatus(decider.RegisterIdle, p.Run, events.KindDispatch)
}

// B-8, O-5, SC-348: a full queue burns no attempt, and is tried again behind the first backoff, so that there is no hot
// loop.
func TestAFullQueueBurnsNoAttempt(t *testing.T) {
	x := openOffice(t, options{knobs: towline.Knobs{MaxAttempts: 2}})
	p := x.plan(1)
	x.broker.script = always(transport.NotBegun(errors.New("full")))
	for range 5 {
		r := x.step()
		require.Equal(t, [2]int{1, 1}, [2]int{r.Claimed, r.Released})
		reg := x.requireStatus(decider.RegisterPending, p.Run, events.KindDispatch)
		require.Zero(t, reg.Attempts)
		require.GreaterOrEqual(t, reg.AvailableAt.Sub(x.clock.Now()), 5*time.Second)
		x.clock.Step(6 * time.Second)
	}
}

// O-8, SC-044: the wakeup of what is no longer owed is claimed and dropped in one transaction, and nothing is
// published.
func TestAWakeupThatNobodyNeedsIsDropped(t *testing.T) {
	x := newOffice(t)
	p := x.plan(1)
	x.dispatch(p.Run) // before its message
	before := x.head()
	r := x.step()
	require.Equal(t, 1, r.Dropped)
	log := x.since(before)
	require.Equal(t, []string{"OutboxClaimed", "OutboxDropped", "OutboxClaimed"}, enginetest.Types(log)[:3])
	require.Equal(t, log[0].Tx, log[1].Tx)
	require.Equal(t, events.DropNothingOwed, log[1].Event.(events.OutboxDropped).Reason)
	for _, m := range x.broker.take() {
		require.Equal(t, events.KindUnit, m.notice.Kind)
	}
}

// K-1, K-2, K-3, C-8, SC-138: a fan-out that fails half way is released as a whole; the next claim repeats every unit
// that is still dispatching, under the same ids.
func TestAFanOutThatFailsHalfWayIsRepeated(t *testing.T) {
	x := newOffice(t)
	p := x.plan(4)
	x.step()
	x.dispatch(p.Run)
	x.broker.take()
	x.broker.script = func(s sent) transport.Receipt {
		if len(x.broker.got) > 2 {
			return transport.Refused(errBroker)
		}
		return transport.Accepted("")
	}
	x.step()
	first := x.broker.take()
	require.Len(t, first, 4, "a fan-out that has begun is finished")
	released := enginetest.Only[events.OutboxReleased](x.since(0))[0]
	require.True(t, released.MaybePublished)
	require.False(t, released.Counted, "O-16: an outage that begins in the middle is not the run's fault")
	started := x.claim(first[0].notice.Unit)

	x.broker.script = nil
	x.clock.Step(6 * time.Second)
	x.step()
	require.Equal(t, idsOf(first[1:]), idsOf(x.broker.take()))
	for i, m := range first {
		require.Equal(t, fmt.Sprintf("%s.run_sync_unit.1.%s.1", p.Run, x.units(p.Run)[i].Unit), m.id)
	}
	x.complete(started)
}

// K-1, SC-140, SC-141: two dispatches before one publish travel with one expansion; what is dispatched while a fan-out
// is claimed travels with the next, which holds nothing else.
func TestAnExpansionCoversWhatItsWakeupAnnounces(t *testing.T) {
	x := openOffice(t, options{knobs: towline.Knobs{CapRun: 2}})
	p := x.plan(4)
	x.step()
	x.dispatch(p.Run)
	x.broker.take()
	units := x.units(p.Run)
	x.complete(x.claim(units[0].Unit)) // B-6: the third unit is dispatched under the wakeup that is still pending
	x.broker.script = func(s sent) transport.Receipt {
		if s.notice.Unit == units[1].Unit {
			x.complete(x.claim(units[1].Unit)) // and the fourth while the fan-out is claimed
		}
		return transport.Accepted("")
	}
	x.step()
	got := x.broker.take()
	require.Len(t, got, 3)
	require.Equal(t, []events.UnitID{units[1].Unit, units[2].Unit, units[3].Unit}, []events.UnitID{got[0].notice.Unit,
		got[1].notice.Unit, got[2].notice.Unit})
	require.Equal(t, []int{1, 1, 2}, []int{got[0].notice.Wakeup, got[1].notice.Wakeup, got[2].notice.Wakeup})
}

// K-1, SC-142: when every unit of an expansion has been started already, the wakeup is dropped.
func TestAnEmptyExpansionIsDropped(t *testing.T) {
	x := newOffice(t)
	p := x.plan(1)
	x.step()
	x.dispatch(p.Run)
	x.claim(x.units(p.Run)[0].Unit)
	x.step()
	require.Equal(t, events.DropUnitGone, enginetest.Only[events.OutboxDropped](x.since(0))[0].Reason)
	x.o.unverified = false
}

// O-7: a claim lasts longer the more messages share it.
func TestALargeFanOutHasALongerClaim(t *testing.T) {
	x := openOffice(t, options{knobs: towline.Knobs{CapBucket: 1000, CapRun: 1000, CapEngine: 1000}})
	p := x.plan(201)
	x.step()
	x.dispatch(p.Run)
	before := x.head()
	x.step()
	claimed := enginetest.Only[events.OutboxClaimed](x.since(before))[0]
	require.Equal(t, 201, claimed.MessageCount)
	require.Equal(t, events.MicrosOf(start.Add(time.Minute+2*5*time.Second)), claimed.ClaimExpiresAt)
	require.Len(t, x.broker.take(), 202)
}

// O-20, SC-036: past half of the claim time no publish begins; the tail is released uncounted, and nothing is published
// twice.
func TestTheTailIsShed(t *testing.T) {
	x := newOffice(t)
	for range 50 {
		x.plan(1)
	}
	x.broker.script = func(sent) transport.Receipt {
		x.clock.Step(2 * time.Second)
		return transport.Accepted("")
	}
	r := x.step()
	require.Equal(t, 50, r.Claimed)
	require.Equal(t, 15, r.Dispatched)
	require.Equal(t, 35, r.Shed)
	for range 3 {
		x.step()
	}
	got := idsOf(x.broker.take())
	require.Len(t, got, 50)
	seen := map[string]bool{}
	for _, id := range got {
		require.False(t, seen[id])
		seen[id] = true
	}
	require.Len(t, enginetest.Only[events.OutboxDispatched](x.since(0)), 50)
	for _, released := range enginetest.Only[events.OutboxReleased](x.since(0)) {
		require.False(t, released.Counted)
		require.Equal(t, events.ReleaseShed, released.Cause)
	}
}

// O-9, M-10, SC-019, SC-020: a relay whose claim was taken over cannot mark; the refusal is counted and reported with
// its register, and the new claim is not touched.
func TestARefusedMarkIsLoud(t *testing.T) {
	x := newOffice(t)
	p := x.plan(1)
	second := &broker{}
	other := x.newRelay(second)
	x.broker.script = func(sent) transport.Receipt {
		x.clock.Step(time.Minute) // this relay sleeps
		require.NoError(t, other.Step(context.Background()).Err())
		x.clock.Step(6 * time.Second)
		require.NoError(t, other.Step(context.Background()).Err())
		return transport.Accepted("")
	}
	r := x.relay.Step(context.Background())
	var refused *relay.RefusedMarkError
	require.ErrorAs(t, r.Err(), &refused)
	require.ErrorIs(t, r.Err(), decider.ErrClaimLost)
	require.Equal(t, p.Run, refused.Key.Owner)
	require.Equal(t, 1, refused.N)
	require.Contains(t, refused.Error(), p.Run.String()+"/dispatch_sync_run")
	require.Zero(t, r.Dispatched)
	require.EqualValues(t, 1, x.e.Tally().RefusedMarks)
	require.Equal(t, idsOf(x.broker.take()), idsOf(second.take()))
	require.Len(t, enginetest.Only[events.OutboxDispatched](x.since(0)), 1)
	x.requireStatus(decider.RegisterIdle, p.Run, events.KindDispatch)
}

// O-9, CLK-1, SC-021, SC-022: a mark at the end of the claim is refused; one a microsecond earlier counts.
func TestAMarkNeedsALiveClaim(t *testing.T) {
	for _, c := range []struct {
		takes time.Duration
		ok    bool
	}{{time.Minute - time.Microsecond, true}, {time.Minute, false}} {
		x := newOffice(t)
		x.plan(1)
		x.broker.script = func(sent) transport.Receipt {
			x.clock.Step(c.takes)
			return transport.Accepted("")
		}
		r := x.relay.Step(context.Background())
		require.Equal(t, c.ok, r.Err() == nil)
		require.Equal(t, c.ok, r.Dispatched == 1)
	}
}

// M-3, O-7, REC-2, SC-016, SC-042, HC-18: of several processes each due wakeup is claimed by one and published once.
func TestSeveralRelaysPublishEachWakeupOnce(t *testing.T) {
	clock := enginetest.NewClock(start)
	a := openOffice(t, options{shared: true, clock: clock, knobs: towline.Knobs{RelayBatch: 3}})
	b := openOffice(t, options{path: a.o.path, shared: true, clock: clock, knobs: towline.Knobs{RelayBatch: 3},
		entropy: 9, unverified: true})
	for range 12 {
		a.plan(1)
	}
	a.broker.script = func(sent) transport.Receipt {
		b.relay.Step(context.Background()) // while a has its claims
		return transport.Accepted("")
	}
	require.NoError(t, a.relay.Step(context.Background()).Err())
	all := append(idsOf(a.broker.take()), idsOf(b.broker.take())...)
	require.Len(t, all, 12)
	seen := map[string]bool{}
	for _, id := range all {
		require.False(t, seen[id], "twice")
		seen[id] = true
	}
	require.Len(t, enginetest.Only[events.OutboxClaimed](a.since(0)), 12)
}

// REC-16, O-20, SC-047, N-6: a relay that is stopped publishes nothing more: what it has claimed is given back
// uncounted, and the publish in progress is finished and recorded.
func TestAStoppedRelayGivesBackWhatItHasNotPublished(t *testing.T) {
	x := newOffice(t)
	for range 5 {
		x.plan(1)
	}
	ctx, cancel := context.WithCancel(context.Background())
	x.broker.script = func(sent) transport.Receipt {
		cancel()
		return transport.Accepted("")
	}
	r := x.relay.Step(ctx)
	require.Equal(t, [3]int{5, 1, 4}, [3]int{r.Claimed, r.Dispatched, r.Released})
	require.Len(t, x.broker.take(), 1)
	for _, released := range enginetest.Only[events.OutboxReleased](x.since(0)) {
		require.False(t, released.Counted)
		require.Equal(t, events.ReleaseShutdown, released.Cause)
		require.Equal(t, events.MicrosOf(x.clock.Now()), released.AvailableAt, "due at once for the next")
	}
	x.broker.script = nil
	x.step()
	require.Len(t, x.broker.take(), 4)
}

// REC-16, O-12: a mark that has committed is published all the same when the relay is stopped; it would be lost
// otherwise.
func TestAStoppedRelayPublishesWhatIsMarked(t *testing.T) {
	x := openOffice(t, options{targets: []string{"a", "b"}})
	run := x.ended()
	ctx, cancel := context.WithCancel(context.Background())
	x.broker.script = func(sent) transport.Receipt {
		cancel()
		return transport.Accepted("")
	}
	x.relay.Step(ctx)
	require.Len(t, x.broker.take(), 2)
	x.requireStatus(decider.RegisterIdle, run, events.KindPostSync)
}

// REC-14: due wakeups are claimed in the order of their time.
func TestTheOldestIsClaimedFirst(t *testing.T) {
	x := openOffice(t, options{knobs: towline.Knobs{RelayBatch: 1}})
	var want []string
	for range 5 {
		want = append(want, x.plan(1).Run.String()+".dispatch_sync_run.1")
		x.clock.Step(time.Second)
	}
	x.step()
	require.Equal(t, want, idsOf(x.broker.take()))
}

// WMILL-1, O-10: whatever is published comes through Watermill's forwarder; a panic of the publisher is an unknown
// outcome of that message alone.
func TestTheForwarderIsTheOnlyCarrier(t *testing.T) {
	x := newOffice(t)
	a, b := x.plan(1), x.plan(1)
	x.broker.script = func(s sent) transport.Receipt {
		if s.notice.Run == a.Run {
			panic("out of order")
		}
		return transport.Accepted("")
	}
	r := x.step()
	require.Equal(t, [2]int{1, 1}, [2]int{r.Dispatched, r.Released})
	for _, s := range x.broker.stacks {
		require.Contains(t, s, "components/forwarder.(*Forwarder).forwardMessage")
	}
	require.Equal(t, events.ReleasePublishUnknown, enginetest.Only[events.OutboxReleased](x.since(0))[0].Cause)
	x.requireStatus(decider.RegisterIdle, b.Run, events.KindDispatch)
}

// stack is that of whoever asked for this publish: code of an application runs in a goroutine of its own, and its caller
// waits for it (HU-6).
func stack() string {
	all := make([]byte, 1<<20)
	mine, others, _ := strings.Cut(string(all[:runtime.Stack(all, true)]), "\n\n")
	_, caller, _ := strings.Cut(mine, " in goroutine ")
	caller, _, _ = strings.Cut(caller, "\n")
	_, others, _ = strings.Cut("\n\n"+others, "\n\ngoroutine "+caller+" ")
	its, _, _ := strings.Cut(others, "\n\n")
	return its
}

// O-7, HD-6: a kind that this process does not publish stays due for one that does, and keeps no other kind.
func TestAKindWithoutAPublisherIsLeftToOthers(t *testing.T) {
	x := newOffice(t)
	x.ended() // owes its post_sync
	x.broker.take()
	quiet, err := relay.Synchronous(x.e, func(k events.Kind) transport.Publisher {
		if k == events.KindPostSync {
			return nil
		}
		return x.broker
	})
	require.NoError(t, err)
	p := x.plan(1)
	require.NoError(t, quiet.Step(context.Background()).Err())
	require.Equal(t, []string{p.Run.String() + ".dispatch_sync_run.1"}, idsOf(x.broker.take()))
	x.unchanged(func() { quiet.Step(context.Background()) })
	x.step()
	require.Len(t, x.broker.take(), 1)
}

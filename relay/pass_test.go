package relay_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/internal/enginetest"
	"github.com/towline-dev/towline/projections"
	"github.com/towline-dev/towline/transport"
)

// REC-1, REC-18, I-28, SC-233, HC-56, HC-18: a pass over a state with nothing due appends nothing and opens no write
// transaction, however often it runs and however much there is.
func TestAnIdlePassWritesNothing(t *testing.T) {
	x := newOffice(t)
	for _, days := range []int{1, 3, 12} {
		p := x.plan(days)
		x.step()
		x.dispatch(p.Run)
	}
	x.step()
	x.claim(x.units(x.openRuns()[0].Run)[0].Unit)
	x.pass()
	before := x.store.writes.Load()
	x.unchanged(func() {
		for range 10 {
			x.clock.Step(3 * time.Second)
			r := x.pass()
			require.Zero(t, r.Changed())
			x.step()
		}
	})
	require.Equal(t, before, x.store.writes.Load())
}

func (x *office) openRuns() (runs []projections.SyncRun) {
	x.t.Helper()
	x.view(func(v projections.View) {
		var err error
		runs, err = v.OpenRuns(events.RunID{}, 1000)
		require.NoError(x.t, err)
	})
	return runs
}

// REC-3, SC-239, HC-13: a step that fails is reported, and the next ones run all the same.
func TestAFailingStepDoesNotKeepTheNext(t *testing.T) {
	x := newOffice(t)
	lost := x.plan(1)
	x.step()
	x.dispatch(lost.Run)
	x.step()
	x.claim(x.units(lost.Run)[0].Unit)
	owed := x.plan(1)
	x.step() // its message is lost
	x.clock.Step(time.Minute)
	due := x.plan(1)
	x.broker.take()
	x.store.failing = func(query string, _ []any) bool { return strings.HasPrefix(query, "UPDATE units SET status = $2") }
	r := x.relay.Pass(context.Background())
	require.ErrorIs(t, r.Err(), errPlanted)
	require.ErrorContains(t, r.Err(), "expire leases")
	require.Equal(t, 1, r.Materialized[events.KindDispatch])
	require.Equal(t, []string{due.Run.String() + ".dispatch_sync_run.1", owed.Run.String() + ".dispatch_sync_run.2"},
		sorted(idsOf(x.broker.take()), due, owed))
	x.store.failing = nil
	for range 2 { // the scan wraps
		x.pass()
	}
	require.Equal(t, events.WorkerLost, x.units(lost.Run)[0].ErrorCategory)
}

// sorted puts the message of the first run before that of the second.
func sorted(ids []string, first, second towline.Planned) (out []string) {
	for _, p := range []towline.Planned{first, second} {
		for _, id := range ids {
			if strings.HasPrefix(id, p.Run.String()) {
				out = append(out, id)
			}
		}
	}
	return out
}

// REC-7, C-5, C-6, SC-076, SC-149, SC-243, SC-244, SC-245: a dispatch message that nobody handled is armed again a
// minute after its close, not earlier, under a new number and id; so a run never hangs on a broker.
func TestALostDispatchMessageIsArmedAgain(t *testing.T) {
	x := newOffice(t)
	p := x.plan(1)
	x.step()
	for n := 2; n <= 4; n++ {
		x.broker.take()
		x.clock.Step(time.Minute - time.Microsecond)
		x.unchanged(func() { x.pass() })
		x.clock.Step(time.Microsecond)
		before := x.head()
		r := x.pass()
		require.Equal(t, map[events.Kind]int{events.KindDispatch: 1}, nonzero(r.Materialized))
		armed := enginetest.Only[events.OutboxArmed](x.since(before))[0]
		require.Equal(t, events.OutboxArmed{N: n, AvailableAt: events.MicrosOf(x.clock.Now()),
			Cause: events.ArmMaterialized}, armed)
		require.Equal(t, []string{decider.MessageID(p.Run, events.KindDispatch, n)}, idsOf(x.broker.take()))
	}
}

func nonzero(m map[events.Kind]int) map[events.Kind]int {
	out := map[events.Kind]int{}
	for k, n := range m {
		if n > 0 {
			out[k] = n
		}
	}
	return out
}

// REC-9, C-16, C-19, SC-162, SC-226, SC-228: so is a finalize message; and what was armed by the settle is simply
// relayed.
func TestALostFinalizeMessageIsArmedAgain(t *testing.T) {
	x := newOffice(t)
	p := x.plan(1)
	x.step()
	x.dispatch(p.Run)
	x.step()
	x.complete(x.claim(x.units(p.Run)[0].Unit))
	x.pass()
	x.broker.take()
	x.clock.Step(time.Minute)
	r := x.pass()
	require.Equal(t, 1, r.Materialized[events.KindFinalize])
	require.Equal(t, []string{decider.MessageID(p.Run, events.KindFinalize, 2)}, idsOf(x.broker.take()))
	x.finalize(p.Run)
	require.Equal(t, events.RunSucceeded, x.run(p.Run).Status)
}

// REC-10, SC-062: a register of post_sync that exists, in whatever state, is never armed by a scan; the rule asks the
// stream, so a view that has lost the arm arms nothing either.
func TestAPostSyncIsArmedOnce(t *testing.T) {
	x := openOffice(t, options{unverified: true})
	x.ended()
	x.sql(`DELETE FROM outbox WHERE kind = 'post_sync'`, `UPDATE runs SET post_sync_armed = 0`)
	x.unchanged(func() { require.Empty(t, nonzero(x.pass().Materialized)) })
}

// REC-12, REC-4: a wakeup that is due, claimed, held by a release, or due within the countdown is left alone, and
// serves its obligation.
func TestAServedObligationIsLeftAlone(t *testing.T) {
	x := openOffice(t, options{knobs: towline.Knobs{CapBucket: 1}})
	p := x.plan(3)
	x.step()
	x.dispatch(p.Run) // capped: armed at now + countdown
	x.step()
	x.clock.Step(30 * time.Second)
	x.unchanged(func() { x.pass() })
	refused := x.planOf("retried", 1)
	x.broker.script = always(transport.Refused(errBroker))
	x.step()
	x.broker.script = nil
	x.unchanged(func() { x.pass() })
	x.requireStatus(decider.RegisterPending, refused.Run, events.KindDispatch)
}

// REC-4, SC-236: a hundred older runs with open wakeups do not hide a younger one that is owed; the repair budget is
// for decisions, not for looks.
func TestOldRunsDoNotHideAYoungOne(t *testing.T) {
	x := openOffice(t, options{knobs: towline.Knobs{RepairLimit: 1, Page: 10, CapEngine: 1}})
	first := x.plan(1)
	x.step()
	x.dispatch(first.Run) // takes the only slot
	x.step()
	for range 100 {
		p := x.plan(1)
		x.step()
		x.dispatch(p.Run) // capped: a wakeup within the countdown
	}
	young := x.plan(1)
	x.step() // its message is lost
	x.clock.Step(time.Minute)
	x.broker.take()
	for range 3 {
		x.relay.Pass(context.Background())
	}
	require.Contains(t, idsOf(x.broker.take()), decider.MessageID(young.Run, events.KindDispatch, 2))
}

// REC-4, SC-237, SC-238, C-29, SC-246: a scan that ends on a budget continues from its cursor in the next pass, and
// wraps; each owed run is found.
func TestAScanContinuesFromItsCursor(t *testing.T) {
	for name, k := range map[string]towline.Knobs{
		"repairs": {RepairLimit: 2}, "rows": {ScanLimit: 4, Page: 3}, "pages": {Page: 1, ScanLimit: 6},
	} {
		t.Run(name, func(t *testing.T) {
			x := openOffice(t, options{knobs: k})
			owed := map[events.RunID]bool{}
			for range 9 {
				owed[x.plan(1).Run] = true
			}
			x.step()
			x.broker.take()
			x.clock.Step(time.Minute)
			passes := 0
			for len(owed) > 0 {
				passes++
				r := x.pass()
				require.LessOrEqual(t, r.Materialized[events.KindDispatch], 3)
				require.True(t, r.ScanTruncated || r.Materialized[events.KindDispatch] == len(owed))
				for _, m := range x.broker.take() {
					require.True(t, owed[m.notice.Run], "armed twice")
					delete(owed, m.notice.Run)
				}
				require.LessOrEqual(t, passes, 12)
			}
			require.GreaterOrEqual(t, passes, 3)
			x.clock.Step(time.Minute)
			again := 0
			for range 12 { // and from the beginning
				again += x.pass().Materialized[events.KindDispatch]
			}
			require.Equal(t, 9, again)
		})
	}
}

// REC-4, REC-6, O-19: one run that cannot be armed keeps none of the others, nor the scans of the other kinds; it is
// named, and tried again.
func TestOneRunThatCannotBeArmedKeepsNoOther(t *testing.T) {
	x := newOffice(t)
	done := x.plan(1)
	x.step()
	x.dispatch(done.Run)
	x.step()
	x.complete(x.claim(x.units(done.Run)[0].Unit))
	var runs []towline.Planned
	for range 5 {
		runs = append(runs, x.plan(1))
	}
	x.step() // all messages are lost
	x.clock.Step(time.Minute)
	x.broker.take()
	bad := runs[1].Run
	x.store.failing = func(query string, args []any) bool {
		return strings.HasPrefix(query, "UPDATE outbox SET status = $3") && string(args[0].([]byte)) == string(bad[:])
	}
	r := x.relay.Pass(context.Background())
	require.ErrorContains(t, r.Err(), bad.String())
	require.Equal(t, 4, r.Materialized[events.KindDispatch])
	require.Equal(t, 1, r.Materialized[events.KindFinalize])
	x.store.failing = nil
	require.Equal(t, 1, x.pass().Materialized[events.KindDispatch])
}

// REC-5, REC-6, HC-13: when the store is away in the middle of a recovery, none of the units found is passed over: all
// are decided as soon as it is back.
func TestAStoreThatIsAwayPassesNobodyOver(t *testing.T) {
	x := openOffice(t, options{knobs: towline.Knobs{CapBucket: 50, CapRun: 50, RepairLimit: 50}})
	p := x.plan(50)
	x.step()
	x.dispatch(p.Run)
	x.step()
	for _, u := range x.units(p.Run) {
		x.claim(u.Unit)
	}
	x.clock.Step(time.Minute)
	x.store.away(errAway)
	for range 3 {
		require.ErrorIs(t, x.relay.Pass(context.Background()).Err(), towline.ErrUnavailable)
	}
	x.store.away(nil)
	require.Equal(t, 50, x.pass().ExpiredFailed, "in the first pass")
}

// REC-13, O-14, C-3, C-4, HC-01, SC-037, SC-039: a claim whose relay died is released when it has expired, with
// backoff, not while it is valid; the wakeup goes out under its id with a new token.
func TestADeadClaimIsReleasedWhenItHasExpired(t *testing.T) {
	clock := enginetest.NewClock(start)
	k := towline.Knobs{ClaimTTL: 2 * time.Second, PublishTimeout: 500 * time.Millisecond, RedriveAfter: 10 * time.Second}
	dead := openOffice(t, options{shared: true, clock: clock, knobs: k, unverified: true})
	p := dead.plan(1)
	dead.broker.script = func(sent) transport.Receipt {
		dead.store.away(errPlanted) // it dies behind the publish
		return transport.Accepted("")
	}
	dead.relay.Step(context.Background())
	x := openOffice(t, options{path: dead.o.path, shared: true, clock: clock, knobs: k, entropy: 7})
	clock.Step(time.Second)
	x.unchanged(func() { x.pass() })
	clock.Step(2 * time.Second)
	before := x.head()
	require.Equal(t, 1, x.pass().Released)
	released := enginetest.Only[events.OutboxReleased](x.since(before))[0]
	require.Equal(t, events.ReleaseClaimExpired, released.Cause)
	require.True(t, released.MaybePublished)
	wait := released.AvailableAt.Sub(events.MicrosOf(clock.Now())).Std()
	require.GreaterOrEqual(t, wait, 5*time.Second)
	require.LessOrEqual(t, wait, 5*time.Second+500*time.Millisecond)
	clock.Step(6 * time.Second)
	x.pass()
	require.Equal(t, idsOf(dead.broker.take()), idsOf(x.broker.take()))
	claims := enginetest.Only[events.OutboxClaimed](x.since(0))
	require.Len(t, claims, 2)
	require.NotEqual(t, claims[0].Token, claims[1].Token)
	require.Equal(t, 2, claims[1].Attempt)
	x.requireStatus(decider.RegisterIdle, p.Run, events.KindDispatch)
}

// O-14, SC-256, O-5: a restart loop in the middle of a publish spends the attempts, and parks in the end.
func TestARestartLoopIsNotEndless(t *testing.T) {
	x := openOffice(t, options{knobs: towline.Knobs{MaxAttempts: 3}})
	p := x.plan(1)
	for range 3 {
		x.broker.script = func(sent) transport.Receipt {
			x.store.away(errPlanted)
			return transport.Accepted("")
		}
		x.relay.Step(context.Background())
		x.crash()
	}
	x.requireStatus(decider.RegisterParked, p.Run, events.KindDispatch)
	x.unchanged(func() { x.pass() })
}

// REC-17: a pass says what it has done.
func TestAPassCounts(t *testing.T) {
	x := openOffice(t, options{knobs: towline.Knobs{MaxAttempts: 2}})
	retried, failed := x.planOf("retried", 1), x.plan(1)
	for range 2 {
		x.step()
	}
	for _, p := range []towline.Planned{retried, failed} {
		x.dispatch(p.Run)
		x.step()
		x.claim(x.units(p.Run)[0].Unit)
	}
	lost := x.plan(1)
	x.step()
	x.dispatch(lost.Run)
	x.step()
	x.complete(x.claim(x.units(lost.Run)[0].Unit))
	x.step()
	x.clock.Step(time.Minute)
	x.broker.script = func(s sent) transport.Receipt {
		if s.notice.Run == lost.Run {
			return transport.Receipt{Outcome: events.Refused, Permanent: true, Err: errBroker}
		}
		return transport.Accepted("")
	}
	r := x.pass()
	require.Equal(t, [3]int{1, 1, 0}, [3]int{r.ExpiredFailed, r.ExpiredRetried, r.ExpiredExhausted})
	require.Equal(t, map[events.Kind]int{events.KindFinalize: 1}, nonzero(r.Materialized))
	require.Equal(t, 2, r.Claimed, "the finalize of the run that failed, and the one that was lost")
	require.Equal(t, [4]int{1, 0, 1, 1}, [4]int{r.Dispatched, r.Dropped, r.Released, r.Parked})
	require.False(t, r.ScanTruncated)
	require.Empty(t, r.Errors)
	require.Equal(t, r.ExpiredFailed+r.ExpiredRetried+1+r.Claimed+r.Released, r.Changed())
	require.Equal(t, events.MicrosOf(x.clock.Now().Add(7*time.Second)), r.NextDue, "the retry")
}

// REC-8, I-10: a dispatching unit whose wakeup nobody has open is a defect; the pass reports it, and repairs nothing.
func TestAUnitThatNobodyAnnouncesIsReported(t *testing.T) {
	x := openOffice(t, options{unverified: true})
	p := x.plan(1)
	x.step()
	x.dispatch(p.Run)
	x.step()
	x.pass()
	x.sql(`UPDATE units SET wakeup = wakeup + 1`)
	x.unchanged(func() {
		r := x.relay.Pass(context.Background())
		require.ErrorContains(t, r.Err(), p.Run.String())
	})
}

package towline_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/internal/enginetest"
)

func (w *workshop) releaseUnit(unit events.UnitID) {
	w.t.Helper()
	require.NoError(w.t, w.e.ReleaseUnit(context.Background(), unit, towline.Actor{Name: "ada", Reason: "its host is gone"}))
}

// X-8, U-11, I-19, X-7, B-6, HC-11: a release ends a live lease at once, with the decision of an expired one in the same
// transaction, who and why on record, and the slot handed on.
func TestAReleasedUnitIsTriedAgain(t *testing.T) {
	w, p, running := inEveryState(t)
	before := w.head()
	w.releaseUnit(running.Unit.Unit)
	log := w.since(before)
	oneTx(t, log)
	require.Equal(t, "UnitLeaseExpired", log[0].Event.EventType().String())
	require.Equal(t, events.UnitLeaseExpired{
		Attempt: 1, LeaseExpiresAt: events.MicrosOf(start.Add(time.Minute)), Cause: events.LeaseReleased, LeaseNode: w.e.Node(),
		Reason: "its host is gone",
	}, log[0].Event)
	require.Equal(t, "ada", log[0].Actor)
	require.Equal(t, []events.UnitRetryScheduled{{
		Attempt: 1, Cause: events.ExpiredLease, AvailableAt: events.MicrosOf(start.Add(time.Minute)), ExpiredLeaseRetries: 1,
	}}, enginetest.Only[events.UnitRetryScheduled](log))
	require.Equal(t, events.UnitIsDispatching, w.unit(p.Run, 6).Status, "its slot went to the next")

	late := w.head()
	for range 2 {
		err := w.e.Complete(context.Background(), running, events.Result{})
		require.ErrorIs(t, err, towline.ErrLeaseLost)
		require.NotErrorIs(t, err, towline.ErrCancelled)
	}
	require.Equal(t, []string{"UnitLateResult"}, enginetest.Types(w.since(late)))
	w.advance(time.Minute)
	w.deliver(w.complete)
	require.Equal(t, events.RunSucceeded, w.run(p.Run).Status)
	require.Equal(t, 2, w.unit(p.Run, 3).Attempt)
}

// X-8, U-12, U-21, RW-1: without a policy a released unit has failed, by the operator's word; the last one wakes the
// finalizer, and a reference unit takes what waits for it.
func TestAReleasedUnitFailsWithoutAPolicy(t *testing.T) {
	w := newWorkshop(t, tiered())
	p := w.started(towline.RunSpec{Sync: "tracker", Sources: []string{"a"}})
	reference := w.claim(w.unit(p.Run, 1).Unit)
	before := w.head()
	w.releaseUnit(reference.Unit.Unit)
	log := w.since(before)
	oneTx(t, log)
	require.Equal(t, []string{"UnitLeaseExpired", "UnitFailed", "UnitFailed", "UnitFailed", "OutboxArmed"}, enginetest.Types(log))
	failed := enginetest.Only[events.UnitFailed](log)
	require.Equal(t, events.WorkerLost, failed[0].Category)
	require.Equal(t, events.ByOperator, failed[0].By)
	require.Equal(t, events.ReferenceFailed, failed[1].Category)
	w.deliver(nil)
	require.Equal(t, events.RunFailed, w.run(p.Run).Status)
}

// only a running unit is released; nothing else is written for it.
func TestOnlyARunningUnitIsReleased(t *testing.T) {
	w, p, running := inEveryState(t)
	release := func(unit events.UnitID) func() error {
		return func() error { return w.e.ReleaseUnit(context.Background(), unit, ada) }
	}
	for _, ordinal := range []int{1, 2, 4, 6} {
		w.requireConflict("unit", release(w.unit(p.Run, ordinal).Unit))
	}
	w.requireRefused("unit", towline.ErrNotFound, release(events.UnitID{1}))
	w.releaseUnit(running.Unit.Unit)
	w.requireConflict("unit", release(running.Unit.Unit))
}

// X-8, U-6, U-7: of a release and a renewal or a settle the first wins, in both orders.
func TestOfAReleaseAndAWorkerTheFirstWins(t *testing.T) {
	w, _, running := inEveryState(t)
	w.advance(30 * time.Second)
	renewed, err := w.e.Renew(context.Background(), running)
	require.NoError(t, err)
	w.releaseUnit(running.Unit.Unit)
	_, err = w.e.Renew(context.Background(), renewed)
	require.ErrorIs(t, err, towline.ErrLeaseLost)

	w, _, running = inEveryState(t)
	w.complete(running)
	w.requireConflict("unit", func() error { return w.e.ReleaseUnit(context.Background(), running.Unit.Unit, ada) })
}

// X-8, REC-6: a release does not wait for the reconciler, and leaves nothing for it.
func TestAReleaseLeavesNothingForTheReconciler(t *testing.T) {
	w, p, running := inEveryState(t)
	w.advance(time.Minute)
	w.releaseUnit(running.Unit.Unit)
	report := w.pass()
	require.Zero(t, report.ExpiredRetried+report.ExpiredFailed)
	require.Equal(t, 1, w.unit(p.Run, 3).ExpiredLeaseRetries)
}

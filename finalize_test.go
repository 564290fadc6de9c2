package towline_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/internal/enginetest"
	"github.com/towline-dev/towline/projections"
)

// HF-3, I-8, J-1, SC-220: the end of a run, the close of its job and the wakeup of its post_sync are one
// transaction.
func TestARunEndsInOneTransaction(t *testing.T) {
	w := newWorkshop(t)
	p := w.started(towline.RunSpec{Sync: "reports"})
	for _, u := range w.units(p.Run) {
		w.complete(w.claim(u.Unit))
	}
	w.step()
	w.advance(time.Second)
	before := w.head()
	require.True(t, w.finalize(p.Run))
	log := w.since(before)
	oneTx(t, log)
	require.Equal(t, []string{"RunFinalized", "JobClosed", "OutboxArmed"}, enginetest.Types(log))
	require.Equal(t, events.RunFinalized{Status: events.RunSucceeded, Counts: events.Counts{Total: 2, Succeeded: 2},
		PostSyncOwed: true}, log[0].Event)
	w.pending(p.Run, events.KindPostSync)
	run := w.run(p.Run)
	require.Equal(t, start.Add(time.Second), run.CompletedAt)
	w.view(func(v projections.View) {
		job, _, err := v.Job(p.Job)
		require.NoError(t, err)
		require.Equal(t, events.RunSucceeded, job.Status)
		require.Equal(t, events.Counts{Total: 2, Succeeded: 2}, job.Result.Counts)
	})
}

// SC-063, SC-221, SC-222: the status is that of the units; a run without a success owes no post_sync.
func TestTheStatusOfARunIsThatOfItsUnits(t *testing.T) {
	for _, c := range []struct {
		fails int
		want  events.RunStatus
		owed  bool
	}{{0, events.RunSucceeded, true}, {1, events.RunPartialFailed, true}, {2, events.RunFailed, false}} {
		w := newWorkshop(t)
		p := w.plan(towline.RunSpec{Sync: "reports"})
		n := 0
		w.deliver(func(l towline.Lease) {
			if n++; n <= c.fails {
				w.fail(l, events.Auth)
				return
			}
			w.complete(l)
		})
		run := w.run(p.Run)
		require.Equal(t, c.want, run.Status)
		require.Equal(t, c.owed, run.PostSync.Owed)
		require.Equal(t, [3]int{2, 2 - c.fails, c.fails}, [3]int{run.Total, run.Succeeded, run.Failed})
		_, armed := w.register(p.Run, events.KindPostSync)
		require.Equal(t, c.owed, armed)
	}
}

// HF-1, R-7, I-7, HC-04, SC-223, SC-229: a second finalize message finds the run ended; status and counts never change
// again.
func TestARunEndsOnce(t *testing.T) {
	w := newWorkshop(t)
	p := w.plan(towline.RunSpec{Sync: "reports"})
	w.deliver(w.complete)
	run := w.run(p.Run)
	w.unchanged(func() {
		for range 5 {
			require.False(t, w.finalize(p.Run))
		}
		require.False(t, w.finalize(events.RunID{1}), "HF-1: an unknown run")
	})
	require.Equal(t, run, w.run(p.Run))
}

// HF-2, SC-225: while a unit is open, also one that waits for its retry, a finalize message writes nothing; the settle
// of the last unit arms a new wakeup.
func TestAnOpenUnitKeepsTheRunOpen(t *testing.T) {
	s := reports()
	s.Datasets[0].Retry = towline.Retry{Max: 1, Backoff: time.Second, On: []events.Category{events.Network}}
	w := newWorkshop(t, s)
	p := w.started(towline.RunSpec{Sync: "reports"})
	w.complete(w.claim(w.unit(p.Run, 1).Unit))
	w.fail(w.claim(w.unit(p.Run, 2).Unit), events.Network)
	w.unchanged(func() { require.False(t, w.finalize(p.Run)) })
	w.advance(time.Second)
	w.deliver(w.complete)
	require.Equal(t, events.RunSucceeded, w.run(p.Run).Status)
}

// O-8, SC-045: a finalize wakeup that comes while a unit is open is dropped, and the last settle arms the next number.
func TestAnEarlyFinalizeWakeupIsDropped(t *testing.T) {
	w := newWorkshop(t)
	p := w.started(towline.RunSpec{Sync: "reports"})
	w.complete(w.claim(w.unit(p.Run, 1).Unit))
	w.o.unverified = true // no rule arms it so early
	require.NoError(t, w.transact(func(tx *towline.Tx) error {
		_, err := tx.Execute(decider.ArmWakeup{Owner: p.Run, Kind: events.KindFinalize, At: tx.Now(),
			Cause: events.ArmSettled})
		return err
	}))
	require.Equal(t, 1, w.step().Dropped)
	w.deliver(w.complete)
	require.Equal(t, events.RunSucceeded, w.run(p.Run).Status)
	r, _ := w.register(p.Run, events.KindFinalize)
	require.Equal(t, 2, r.Closed)
}

// U-21, I-9, L-9, HC-04, SC-224: of two last settles that share a commit only the second arms finalize, and the run
// ends once.
func TestTwoLastSettlesArmFinalizeOnce(t *testing.T) {
	w := openWorkshop(t, options{grouped: true})
	for range 20 {
		p := w.started(towline.RunSpec{Sync: "reports", Mode: towline.FullResync})
		a, b := w.claim(w.unit(p.Run, 1).Unit), w.claim(w.unit(p.Run, 2).Unit)
		done := make(chan error, 2)
		for _, l := range []towline.Lease{a, b} {
			go func() { done <- w.e.Complete(context.Background(), l, events.Result{}) }()
		}
		require.NoError(t, <-done)
		require.NoError(t, <-done)
		require.Equal(t, 1, w.pending(p.Run, events.KindFinalize).Current)
		w.deliver(nil)
		require.Equal(t, events.RunSucceeded, w.run(p.Run).Status)
	}
}

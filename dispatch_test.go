package towline_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/internal/enginetest"
)

// capped is a workshop with one sync per name, each of one bucket of its own, and backfills of one unit per day.
func capped(t *testing.T, k towline.Knobs, names ...string) *workshop {
	t.Helper()
	var syncs []towline.Sync
	for _, name := range names {
		s := single(name)
		s.Provider = name
		syncs = append(syncs, s)
	}
	return openWorkshop(t, options{config: towline.Config{Syncs: syncs, Knobs: daily(k)}})
}

// HD-5, I-10, R-2, SC-117: what fits is dispatched in one transaction, with the wakeup that announces it.
func TestWhatFitsIsDispatched(t *testing.T) {
	w := newWorkshop(t)
	p := w.plan(towline.RunSpec{Sync: "reports"})
	w.step()
	before := w.head()
	require.Equal(t, decider.DispatchDispatched, w.dispatch(p.Run))
	log := w.since(before)
	oneTx(t, log)
	require.Equal(t, []string{"UnitDispatched", "UnitDispatched", "RunDispatchStarted", "OutboxArmed"}, enginetest.Types(log))
	armed := w.pending(p.Run, events.KindUnit)
	for _, d := range enginetest.Only[events.UnitDispatched](log) {
		require.Equal(t, events.UnitDispatched{Dispatch: 1, Wakeup: armed.Current, Attempt: 1,
			Cause: events.DispatchPlanned, Bucket: "press/medium"}, d)
	}
	run := w.run(p.Run)
	require.Equal(t, events.RunIsDispatching, run.Status)
	require.Equal(t, start, run.StartedAt)
}

// HD-6, B-2, B-4, B-5, SC-118: what does not fit stays planned, and the register is armed at now + countdown in the
// same transaction.
func TestOverflowStaysPlannedWithItsSafetyNet(t *testing.T) {
	w := capped(t, towline.Knobs{}, "north")
	p := w.plan(days("north", 10))
	w.step()
	before := w.head()
	require.Equal(t, decider.DispatchDispatched, w.dispatch(p.Run))
	log := w.since(before)
	oneTx(t, log)
	require.Equal(t, map[events.UnitStatus]int{events.UnitIsDispatching: 8, events.UnitIsPlanned: 2}, w.statuses(p.Run))
	armed := w.pending(p.Run, events.KindDispatch)
	require.Equal(t, start.Add(time.Minute), armed.AvailableAt)
	last := log[len(log)-1]
	require.Equal(t, events.OutboxArmed{N: armed.Current, AvailableAt: events.MicrosOf(start.Add(time.Minute)),
		Cause: events.ArmCapped}, last.Event)
	w.unchanged(func() { require.Equal(t, decider.DispatchCapped, w.dispatch(p.Run)) })
}

// HD-1, SC-145, SC-146: an unknown run and one that has ended are left alone.
func TestDispatchOfNothing(t *testing.T) {
	w := newWorkshop(t)
	p := w.plan(towline.RunSpec{Sync: "reports"})
	w.deliver(w.complete)
	w.unchanged(func() {
		require.Equal(t, decider.DispatchMissing, w.dispatch(events.RunID{1}))
		require.Equal(t, decider.DispatchTerminal, w.dispatch(p.Run))
	})
}

// HD-8, B-1, U-18, SC-126, SC-128, SC-129, SC-144: a second message finds the units in flight, and appends nothing;
// units that run are never dispatched again.
func TestADuplicateDispatchFindsUnitsInFlight(t *testing.T) {
	w := newWorkshop(t)
	p := w.started(towline.RunSpec{Sync: "reports"})
	w.claim(w.unit(p.Run, 1).Unit)
	for range 3 {
		w.unchanged(func() { require.Equal(t, decider.DispatchWaiting, w.dispatch(p.Run)) })
		w.advance(10 * time.Second)
	}
}

// HD-7, SC-152: when every unit has ended and the run is open, a dispatch wakes the finalizer.
func TestDispatchOfAFinishedRunWakesTheFinalizer(t *testing.T) {
	w := newWorkshop(t)
	p := w.started(towline.RunSpec{Sync: "reports"})
	for _, u := range w.units(p.Run) {
		w.complete(w.claim(u.Unit))
	}
	w.step() // the wakeup of the settle is published, and its message lost
	before := w.head()
	require.Equal(t, decider.DispatchFinalizing, w.dispatch(p.Run))
	require.Equal(t, []string{"OutboxArmed"}, enginetest.Types(w.since(before)))
	require.Equal(t, 2, w.pending(p.Run, events.KindFinalize).Current)
}

// B-6, SC-120: a settle gives its slot to the next unit in its own transaction, and the wakeup of the countdown is not
// armed again.
func TestASettleRefillsItsSlot(t *testing.T) {
	w := capped(t, towline.Knobs{CapBucket: 2}, "north")
	p := w.started(days("north", 4))
	l := w.claim(w.unit(p.Run, 1).Unit)
	before := w.head()
	w.complete(l)
	log := w.since(before)
	oneTx(t, log)
	require.Equal(t, []string{"UnitSucceeded", "UnitDispatched", "OutboxArmed"}, enginetest.Types(log))
	require.Equal(t, w.unit(p.Run, 3).Unit, mustUnit(t, log[1]))
	k := w.pending(p.Run, events.KindUnit)
	require.Equal(t, k.Current, log[1].Event.(events.UnitDispatched).Wakeup)
}

func mustUnit(t *testing.T, e events.Envelope) events.UnitID {
	t.Helper()
	id, ok := e.Stream.Unit()
	require.True(t, ok)
	return id
}

// B-6, SC-121: when the run of the freed slot has none left, a unit of the oldest other run gets it, in the same
// transaction.
func TestASettleRefillsItsSlotFromAnotherRun(t *testing.T) {
	w := capped(t, towline.Knobs{CapEngine: 1}, "north", "south")
	first := w.started(days("north", 1))
	second, third := w.started(days("south", 1)), w.started(days("south", 2))
	require.Equal(t, 1, w.statuses(second.Run)[events.UnitIsPlanned])
	l := w.claim(w.unit(first.Run, 1).Unit)
	before := w.head()
	w.complete(l)
	oneTx(t, w.since(before))
	require.Equal(t, events.UnitIsDispatching, w.unit(second.Run, 1).Status)
	require.Equal(t, 2, w.statuses(third.Run)[events.UnitIsPlanned])
}

// B-6: a full bucket is no reason to leave the freed slot of the engine to nobody: the oldest run that it lets in gets
// it.
func TestAFreedSlotGoesToWhomItLetsIn(t *testing.T) {
	w := capped(t, towline.Knobs{CapEngine: 3, CapBucket: 2}, "north", "south")
	first := w.started(days("north", 2))
	blocked := w.started(days("north", 1)) // its bucket is full
	behind := w.started(days("south", 2))  // gets the third slot of the engine, and waits with its second unit
	require.Equal(t, 1, w.statuses(behind.Run)[events.UnitIsDispatching])
	w.complete(w.claim(w.unit(behind.Run, 1).Unit))
	require.Equal(t, 1, w.statuses(blocked.Run)[events.UnitIsPlanned], "its bucket is still full")
	require.Equal(t, events.UnitIsDispatching, w.unit(behind.Run, 2).Status)
	w.complete(w.claim(w.unit(first.Run, 1).Unit))
	require.Equal(t, 1, w.statuses(blocked.Run)[events.UnitIsDispatching])
}

// B-6, P-9, I-21, SC-154, SC-158, SC-367: the last reference success of a source dispatches as many of its work items
// as it freed slots, and wakes dispatch now for the others, which do not wait for the countdown. The other source keeps
// waiting.
func TestAReferenceSuccessOpensItsSource(t *testing.T) {
	s := tiered()
	s.Datasets[1].Window, s.Datasets[2].Window = towline.Day, towline.Day
	s.Datasets[1].Depth, s.Datasets[2].Depth = 9*24*time.Hour, 9*24*time.Hour
	w := newWorkshop(t, s)
	p := w.started(towline.RunSpec{Sync: "tracker"})
	require.Equal(t, []string{"a/people", "b/people"}, flying(w, p.Run))
	l := w.claim(w.unit(p.Run, 1).Unit)
	before := w.head()
	w.complete(l)
	log := w.since(before)
	oneTx(t, log)
	require.Equal(t, []string{"UnitSucceeded", "UnitDispatched", "OutboxArmed", "OutboxArmed", "OutboxArmed"}, enginetest.Types(log))
	require.Equal(t, start, w.pending(p.Run, events.KindDispatch).AvailableAt)
	w.step()
	require.Equal(t, decider.DispatchDispatched, w.dispatch(p.Run))
	require.Len(t, flying(w, p.Run), 8, "the bucket is full")
	require.NotContains(t, flying(w, p.Run), "b/work")
	w.deliver(w.complete)
	require.Equal(t, events.RunSucceeded, w.run(p.Run).Status)
}

// P-8, P-9, SC-153, SC-159, SC-160: reference units go first; a source without any is open at once; a dispatch message
// meanwhile changes nothing.
func TestReferenceUnitsGoFirst(t *testing.T) {
	w := newWorkshop(t, tiered())
	p := w.started(towline.RunSpec{Sync: "tracker"})
	require.Equal(t, []string{"a/people", "b/people"}, flying(w, p.Run))
	w.unchanged(func() { require.Equal(t, decider.DispatchWaiting, w.dispatch(p.Run)) })

	plain := w.started(towline.RunSpec{Sync: "tracker", Datasets: []string{"work"}})
	require.Equal(t, []string{"a/work", "b/work"}, flying(w, plain.Run))
}

func tiered() towline.Sync {
	return towline.Sync{
		Name: "tracker", Provider: "p", Sources: []string{"a", "b"},
		Datasets: []towline.Dataset{{Name: "people", Tier: towline.Reference}, {Name: "work"}, {Name: "words"}},
	}
}

// flying are the units of a run that are dispatching, by ordinal.
func flying(w *workshop, run events.RunID) (names []string) {
	for _, u := range w.units(run) {
		if u.Status == events.UnitIsDispatching {
			names = append(names, u.Source+"/"+u.Dataset)
		}
	}
	return names
}

// U-13, P-9, U-21, SC-155: a failed reference unit fails the waiting units of its source in the same transaction; the
// other source goes on, and the last unit to end wakes the finalizer, once.
func TestAFailedReferenceUnitFailsItsSource(t *testing.T) {
	w := newWorkshop(t, tiered())
	p := w.started(towline.RunSpec{Sync: "tracker"})
	a, b := w.claim(w.unit(p.Run, 1).Unit), w.claim(w.unit(p.Run, 4).Unit)
	before := w.head()
	w.fail(a, events.Auth)
	log := w.since(before)
	oneTx(t, log)
	require.Equal(t, []string{"UnitFailed", "UnitFailed", "UnitFailed"}, enginetest.Types(log))
	for _, e := range log[1:] {
		require.Equal(t, events.ReferenceFailed, e.Event.(events.UnitFailed).Category)
		require.Equal(t, events.ByReference, e.Event.(events.UnitFailed).By)
		require.Equal(t, log[0].Position, e.Cause)
	}
	w.complete(b)
	require.Equal(t, []string{"b/words"}, flying(w, p.Run), "as many as the transaction freed slots")
	w.deliver(w.complete)
	run := w.run(p.Run)
	require.Equal(t, events.RunPartialFailed, run.Status)
	require.Equal(t, 3, run.Failed)
	require.Equal(t, 3, run.Succeeded)
	require.Len(t, enginetest.Only[events.RunFinalized](w.since(0)), 1)
}

// U-13, U-21: when the cascade ends the last open units of a run, finalize is armed once, in that transaction.
func TestACascadeThatEndsTheRunArmsFinalizeOnce(t *testing.T) {
	s := tiered()
	s.Sources = []string{"a"}
	w := newWorkshop(t, s)
	p := w.started(towline.RunSpec{Sync: "tracker"})
	l := w.claim(w.unit(p.Run, 1).Unit)
	before := w.head()
	w.fail(l, events.Auth)
	require.Equal(t, []string{"UnitFailed", "UnitFailed", "UnitFailed", "OutboxArmed"}, enginetest.Types(w.since(before)))
	oneTx(t, w.since(before))
	require.Equal(t, 1, w.pending(p.Run, events.KindFinalize).Current)
}

// U-12, U-13, SC-156: a reference unit whose worker is lost has the same cascade.
func TestALostReferenceUnitFailsItsSource(t *testing.T) {
	w := newWorkshop(t, tiered())
	p := w.started(towline.RunSpec{Sync: "tracker"})
	w.claim(w.unit(p.Run, 1).Unit)
	w.advance(time.Minute)
	before := w.head()
	w.pass()
	log := w.since(before)
	require.Equal(t, []string{"UnitLeaseExpired", "UnitFailed", "UnitFailed", "UnitFailed"}, enginetest.Types(log)[:4])
	require.Equal(t, events.WorkerLost, log[1].Event.(events.UnitFailed).Category)
}

// B-1, B-3, U-17, SC-125: a running unit whose lease has ended takes no slot, even before the reconciler acts.
func TestAnExpiredLeaseTakesNoSlot(t *testing.T) {
	w := capped(t, towline.Knobs{CapBucket: 1}, "north")
	p := w.started(days("north", 2))
	w.claim(w.unit(p.Run, 1).Unit)
	w.advance(time.Minute - time.Microsecond)
	require.Equal(t, decider.DispatchCapped, w.dispatch(p.Run))
	w.advance(time.Microsecond)
	require.Equal(t, decider.DispatchDispatched, w.dispatch(p.Run))
	require.Equal(t, events.UnitIsDispatching, w.unit(p.Run, 2).Status)
}

// B-2, SC-130: of two dispatches for one free slot, one gets it.
func TestOneFreeSlotGoesToOneUnit(t *testing.T) {
	w := capped(t, towline.Knobs{CapEngine: 1}, "north", "south")
	a, b := w.plan(days("north", 1)), w.plan(days("south", 1))
	w.step()
	require.Equal(t, decider.DispatchDispatched, w.dispatch(a.Run))
	require.Equal(t, decider.DispatchCapped, w.dispatch(b.Run))
	require.Equal(t, start.Add(time.Minute), w.pending(b.Run, events.KindDispatch).AvailableAt)
}

// B-2, HD-4, SC-124, SC-151: a full bucket skips its units and does not stop the walk; run and engine caps hold as
// well.
func TestAllThreeCapsHold(t *testing.T) {
	s := towline.Sync{
		Name: "mixed", Provider: "p", Sources: []string{"north"},
		Datasets: []towline.Dataset{{Name: "a", Cost: towline.Heavy}, {Name: "b", Cost: towline.Light}},
	}
	w := openWorkshop(t, options{config: towline.Config{Syncs: []towline.Sync{s}, Knobs: daily(towline.Knobs{
		CapBuckets: map[events.Bucket]int{"p/heavy": 2}, CapBucket: 8, CapRun: 5, CapEngine: 7,
	})}})
	first := w.started(days("mixed", 10))
	count := func(run events.RunID) map[events.Cost]int {
		out := map[events.Cost]int{}
		for _, u := range w.units(run) {
			if u.Status == events.UnitIsDispatching {
				out[u.Cost]++
			}
		}
		return out
	}
	require.Equal(t, map[events.Cost]int{towline.Heavy: 2, towline.Light: 3}, count(first.Run))
	second := w.started(days("mixed", 10))
	require.Equal(t, map[events.Cost]int{towline.Light: 2}, count(second.Run))
	w.deliver(w.complete) // I-17 is proven of the whole log at the end
	require.Equal(t, events.RunSucceeded, w.run(first.Run).Status)
	require.Equal(t, events.RunSucceeded, w.run(second.Run).Status)
}

// B-4, SC-123: a backfill far over the cap ends, and none of its units is failed for lack of room.
func TestABackfillFarOverTheCapEnds(t *testing.T) {
	w := capped(t, towline.Knobs{CapBucket: 3}, "north")
	p := w.plan(days("north", 100))
	w.deliver(w.complete)
	run := w.run(p.Run)
	require.Equal(t, events.RunSucceeded, run.Status)
	require.Equal(t, 100, run.Succeeded)
}

// B-7, SC-150: a lowered cap stops new dispatch until enough has ended; what runs goes on.
func TestALoweredCapStopsNewDispatchOnly(t *testing.T) {
	w := capped(t, towline.Knobs{CapBucket: 4}, "north")
	p := w.started(days("north", 8))
	var leases []towline.Lease
	for i := 1; i <= 4; i++ {
		l, err := w.e.Claim(context.Background(), w.unit(p.Run, i).Unit, towline.Worker{Name: "worker", Remote: true})
		require.NoError(t, err)
		leases = append(leases, l)
	}
	w.o.config.Knobs.CapBucket = 2
	w.crash()
	require.Equal(t, decider.DispatchCapped, w.dispatch(p.Run))
	w.complete(leases[0])
	w.complete(leases[1])
	require.Equal(t, 4, w.statuses(p.Run)[events.UnitIsPlanned])
	w.complete(leases[2])
	require.Equal(t, 3, w.statuses(p.Run)[events.UnitIsPlanned])
	w.complete(leases[3])
}

// U-4, CLK-1, SC-131, SC-143: a dispatched unit that nobody claims is dispatched again at 15 minutes, not a microsecond
// earlier; its message is a new one, and the age of its attempt does not start anew.
func TestAStaleUnitIsDispatchedAgain(t *testing.T) {
	w := newWorkshop(t, single("north"))
	p := w.started(towline.RunSpec{Sync: "north"})
	first := w.broker.take()
	w.advance(15*time.Minute - time.Microsecond)
	w.unchanged(func() {
		require.Equal(t, decider.DispatchWaiting, w.dispatch(p.Run))
		w.pass()
	})
	w.advance(time.Microsecond)
	w.pass() // REC-7 finds it, and arms dispatch
	w.dispatch(p.Run)
	w.step()
	u := w.unit(p.Run, 1)
	require.Equal(t, 2, u.Dispatch)
	require.Equal(t, start, u.FirstDispatchedAt)
	require.Equal(t, start.Add(15*time.Minute), u.LastDispatchedAt)
	again := w.broker.take()
	require.Equal(t, events.KindDispatch, first[0].notice.Kind)
	require.Equal(t, u.Unit, again[len(again)-1].notice.Unit)
	require.NotEqual(t, first[len(first)-1].id, again[len(again)-1].id, "K-3: a new wakeup has a new id")
}

// HD-3, SC-132, SC-133: what was lost goes before new work, and never above the cap.
func TestAStaleUnitGoesBeforeNewWork(t *testing.T) {
	w := capped(t, towline.Knobs{CapBucket: 1}, "north")
	p := w.started(days("north", 3))
	w.complete(w.claim(w.unit(p.Run, 1).Unit))
	require.Equal(t, events.UnitIsDispatching, w.unit(p.Run, 2).Status)
	w.advance(15 * time.Minute)
	require.Equal(t, decider.DispatchDispatched, w.dispatch(p.Run))
	require.Equal(t, 2, w.unit(p.Run, 2).Dispatch)
	require.Equal(t, events.UnitIsPlanned, w.unit(p.Run, 3).Status)
}

// HD-3: a unit that nobody ever claims, reclaimed three times, goes behind the rest and cannot hold them back.
func TestAUnitThatNobodyClaimsCannotHoldBackTheRest(t *testing.T) {
	w := capped(t, towline.Knobs{CapBucket: 1}, "north")
	p := w.started(days("north", 3))
	for range 3 {
		w.advance(15 * time.Minute)
		w.dispatch(p.Run)
	}
	require.Equal(t, 4, w.unit(p.Run, 1).Dispatch)
	w.advance(15 * time.Minute)
	w.dispatch(p.Run)
	require.Equal(t, 4, w.unit(p.Run, 1).Dispatch)
	require.Equal(t, events.UnitIsDispatching, w.unit(p.Run, 2).Status)
	w.complete(w.claim(w.unit(p.Run, 2).Unit))
	require.Equal(t, events.UnitIsDispatching, w.unit(p.Run, 3).Status)
	w.complete(w.claim(w.unit(p.Run, 3).Unit))
	require.Equal(t, 5, w.unit(p.Run, 1).Dispatch, "and when the rest is done it is tried again")
}

// U-14, HD-2, C-41, SC-136, SC-137: a unit that nobody claims for 24 hours fails with never_started, in the transaction
// of a dispatch, and the run ends; its age was not reset by the reclaims.
func TestAUnitThatNobodyClaimsForADayFails(t *testing.T) {
	w := newWorkshop(t, tiered())
	p := w.started(towline.RunSpec{Sync: "tracker", Sources: []string{"a"}})
	for w.now.Now().Before(start.Add(24 * time.Hour)) {
		require.Equal(t, events.UnitIsDispatching, w.unit(p.Run, 1).Status, "at %s", w.now.Now())
		w.advance(15 * time.Minute)
		w.pass()
		w.dispatch(p.Run)
		w.step()
	}
	u := w.unit(p.Run, 1)
	require.Equal(t, events.NeverStarted, u.ErrorCategory)
	require.Equal(t, 96, u.Dispatch)
	require.Equal(t, map[events.UnitStatus]int{events.UnitHasFailed: 3}, w.statuses(p.Run),
		"U-13: with the cascade of a reference unit")
	w.finalize(p.Run)
	require.Equal(t, events.RunFailed, w.run(p.Run).Status)
}

// U-14, B-4: no unit is given up while there is no room for it, and never where the configuration says never.
func TestAUnitIsNotGivenUpForLackOfRoom(t *testing.T) {
	for name, k := range map[string]towline.Knobs{"no room": {CapEngine: 1}, "never": {NeverStartedAfter: -1}} {
		t.Run(name, func(t *testing.T) {
			w := capped(t, k, "north", "south")
			p := w.started(days("north", 1))
			for range 3 {
				w.advance(15 * time.Minute)
				w.dispatch(p.Run)
			}
			w.advance(24 * time.Hour)
			if name == "no room" {
				other := w.started(days("south", 1))
				require.Equal(t, events.UnitIsDispatching, w.unit(other.Run, 1).Status)
			}
			w.dispatch(p.Run)
			require.Equal(t, events.UnitIsDispatching, w.unit(p.Run, 1).Status)
		})
	}
}

// U-3, HD-6, RW-7, SC-147, SC-148: a retry is taken at its time, by the normal register, which is armed for that time
// and not earlier.
func TestARetryIsDispatchedAtItsTime(t *testing.T) {
	s := single("north")
	s.Datasets[0].Retry = towline.Retry{Max: 1, Backoff: 7 * time.Second, On: []events.Category{events.Network}}
	w := newWorkshop(t, s)
	p := w.started(towline.RunSpec{Sync: "north"})
	w.fail(w.claim(w.unit(p.Run, 1).Unit), events.Network)
	require.Equal(t, start.Add(7*time.Second), w.pending(p.Run, events.KindDispatch).AvailableAt)
	w.advance(7*time.Second - time.Microsecond)
	require.Equal(t, decider.DispatchDeferred, w.dispatch(p.Run))
	w.unchanged(func() { w.pass() })
	w.advance(time.Microsecond)
	w.broker.take()
	w.pass()
	require.Equal(t, events.KindDispatch, w.broker.take()[0].notice.Kind)
	require.Equal(t, decider.DispatchDispatched, w.dispatch(p.Run))
	u := w.unit(p.Run, 1)
	require.Equal(t, events.UnitIsDispatching, u.Status)
	require.Zero(t, u.AvailableAt)
	require.Equal(t, w.now.Now(), u.FirstDispatchedAt, "the attempt has an age of its own")
	require.Equal(t, 2, w.claim(u.Unit).Unit.Attempt)
}

// O-8, HD-6, SC-043: a wakeup that comes before the retry for which it stands is dropped, and the time of the retry is
// kept in the same transaction.
func TestTheTimeOfARetryIsNotLost(t *testing.T) {
	s := towline.Sync{Name: "north", Provider: "p", Sources: []string{"north"}, Datasets: []towline.Dataset{
		{Name: "slow", Retry: towline.Retry{Max: 1, Backoff: 50 * time.Second, On: []events.Category{events.Network}}},
		{Name: "fast", Retry: towline.Retry{Max: 1, Backoff: 10 * time.Second, On: []events.Category{events.Network}}},
	}}
	w := newWorkshop(t, s)
	p := w.started(towline.RunSpec{Sync: "north"})
	w.fail(w.claim(w.unit(p.Run, 1).Unit), events.Network)
	w.fail(w.claim(w.unit(p.Run, 2).Unit), events.Network)
	require.Equal(t, start.Add(10*time.Second), w.pending(p.Run, events.KindDispatch).AvailableAt)
	w.advance(10 * time.Second)
	require.Equal(t, decider.DispatchDispatched, w.dispatch(p.Run)) // somebody was faster than the wakeup
	before := w.head()
	w.pass()
	log := w.since(before)
	require.Len(t, enginetest.Only[events.OutboxDropped](log), 1)
	require.Equal(t, start.Add(50*time.Second), w.pending(p.Run, events.KindDispatch).AvailableAt)
}

// HD-6, O-4, SC-368: a capped run of which units settle all the time arms its countdown once a minute at most, not once
// per unit.
func TestTheCountdownIsArmedOncePerMinute(t *testing.T) {
	w := capped(t, towline.Knobs{CapBucket: 2}, "north")
	p := w.started(days("north", 100))
	before := w.head()
	for range 98 {
		w.advance(2 * time.Second)
		for _, u := range w.units(p.Run) {
			if u.Status == events.UnitIsDispatching {
				w.complete(w.claim(u.Unit))
				break
			}
		}
		w.step()
		for _, m := range w.broker.take() {
			if m.notice.Kind == events.KindDispatch {
				w.dispatch(p.Run)
			}
		}
	}
	armed := 0
	for _, e := range w.since(before) {
		a, ok := e.Event.(events.OutboxArmed)
		if _, kind, _ := e.Stream.Register(); ok && kind == events.KindDispatch {
			require.Equal(t, events.ArmCapped, a.Cause)
			armed++
		}
	}
	require.LessOrEqual(t, armed, int(98*2*time.Second/time.Minute)+1)
	require.GreaterOrEqual(t, armed, 3)
}

// B-6: as long as units wait, no slot stays free after any settle, expiry or hand-back.
func TestNoSlotIdlesWhileUnitsWait(t *testing.T) {
	s := single("north")
	s.Datasets[0].Retry = towline.Retry{Max: 1, Backoff: time.Hour}
	w := openWorkshop(t, options{config: towline.Config{Syncs: []towline.Sync{s},
		Knobs: daily(towline.Knobs{CapBucket: 3})}})
	p := w.started(days("north", 30))
	inFlight := func() int {
		n := w.statuses(p.Run)
		return n[events.UnitIsDispatching] + n[events.UnitIsRunning]
	}
	ends := []func(towline.Lease){
		w.complete,
		func(l towline.Lease) { w.fail(l, events.Auth) },
		func(l towline.Lease) { require.NoError(t, w.e.Release(context.Background(), l, "x")) },
		func(towline.Lease) { w.advance(time.Minute); w.pass() },
	}
	for i := 0; w.statuses(p.Run)[events.UnitIsPlanned] > 0; i++ {
		require.Equal(t, 3, inFlight(), fmt.Sprintf("before end %d", i))
		for _, u := range w.units(p.Run) {
			if u.Status == events.UnitIsDispatching {
				ends[i%len(ends)](w.claim(u.Unit))
				break
			}
		}
	}
}

// B-3, U-19, HC-19, HC-11: the slot of a worker that lost its lease is given away; when it comes back its settle frees
// nothing, and the next claim still respects the cap.
func TestALateWorkerFreesNoSlot(t *testing.T) {
	w := capped(t, towline.Knobs{CapBucket: 1}, "north")
	p := w.started(days("north", 5))
	late := w.claim(w.unit(p.Run, 1).Unit)
	w.advance(time.Minute)
	w.pass()
	second := w.claim(w.unit(p.Run, 2).Unit)
	require.ErrorIs(t, w.e.Complete(context.Background(), late, events.Result{}), towline.ErrLeaseLost)
	require.Equal(t, decider.DispatchCapped, w.dispatch(p.Run))
	require.Equal(t, 3, w.statuses(p.Run)[events.UnitIsPlanned])
	w.complete(second)
	require.Equal(t, 2, w.statuses(p.Run)[events.UnitIsPlanned])
}

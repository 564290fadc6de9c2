package towline_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/internal/enginetest"
	"github.com/towline-dev/towline/projections"
)

// ada acts in these tests, and says why.
var ada = towline.Actor{Name: "ada", Reason: "wrong range"}

// mixed is a sync whose failures of the network are tried again, and that has a post_sync.
func mixed() towline.Sync {
	s := single("north")
	s.Datasets[0].Retry = towline.Retry{Max: 1, Backoff: time.Minute, On: []events.Category{events.Network}}
	s.PostSync.Targets = []towline.Target{{Name: "index", SQL: "SELECT 1"}}
	return s
}

// inEveryState is a run of six units: succeeded, retrying, running, dispatching, dispatching and planned. running is the
// lease of the third.
func inEveryState(t *testing.T) (w *workshop, p towline.Planned, running towline.Lease) {
	t.Helper()
	w = openWorkshop(t, options{config: towline.Config{
		Syncs: []towline.Sync{mixed(), single("south")}, Knobs: daily(towline.Knobs{CapBucket: 3}),
	}})
	p = w.started(days("north", 6))
	w.complete(w.claim(w.unit(p.Run, 1).Unit))
	w.fail(w.claim(w.unit(p.Run, 2).Unit), events.Network)
	running = w.claim(w.unit(p.Run, 3).Unit)
	require.Equal(t, map[events.UnitStatus]int{
		events.UnitHasSucceeded: 1, events.UnitIsRetrying: 1, events.UnitIsRunning: 1, events.UnitIsDispatching: 2,
		events.UnitIsPlanned: 1,
	}, w.statuses(p.Run))
	return w, p, running
}

func (w *workshop) cancelRun(run events.RunID) {
	w.t.Helper()
	require.NoError(w.t, w.e.CancelRun(context.Background(), run, ada))
}

func (w *workshop) cancelUnit(unit events.UnitID) {
	w.t.Helper()
	require.NoError(w.t, w.e.CancelUnit(context.Background(), unit, ada))
}

// requireConflict fails unless a request was refused for the state of what it names, and wrote nothing.
func (w *workshop) requireConflict(field string, request func() error) {
	w.t.Helper()
	w.requireRefused(field, towline.ErrConflict, request)
}

func (w *workshop) requireRefused(field string, kind error, request func() error) {
	w.t.Helper()
	w.unchanged(func() {
		err := request()
		require.ErrorIs(w.t, err, kind)
		var refused *towline.RequestError
		require.ErrorAs(w.t, err, &refused)
		require.Equal(w.t, field, refused.Field)
		require.NotEmpty(w.t, refused.Problem)
	})
}

// J-1, I-7, I-8, X-7, HC-17, SC-275, SC-277, SC-286: whatever its units are at, a cancel ends all that are
// open, then the run, then its job, and arms the post_sync that a success owes, in one transaction that names who and why.
func TestACancelEndsARunInOneTransaction(t *testing.T) {
	w, p, _ := inEveryState(t)
	before := w.head()
	w.cancelRun(p.Run)
	log := w.since(before)
	oneTx(t, log)
	require.Equal(t, []string{
		"UnitCancelled", "UnitCancelled", "UnitCancelled", "UnitCancelled", "UnitCancelled", "RunCancelled", "JobClosed", "OutboxArmed",
	}, enginetest.Types(log))
	for i, env := range log[:5] {
		require.Equal(t, events.UnitCancelled{Reason: events.CancelledWithRun}, env.Event)
		require.Equal(t, w.unit(p.Run, i+2).Unit, mustUnit(t, env), "by ordinal")
	}
	counts := events.Counts{Total: 6, Succeeded: 1, Cancelled: 5}
	require.Equal(t, events.RunCancelled{Actor: "ada", Reason: "wrong range", Counts: counts, PostSyncOwed: true}, log[5].Event)
	require.Equal(t, events.JobClosed{Status: events.RunIsCancelled, Counts: counts}, log[6].Event)
	for _, env := range log {
		require.Equal(t, "ada", env.Actor)
	}

	run := w.run(p.Run)
	require.Equal(t, events.RunIsCancelled, run.Status)
	require.Equal(t, "wrong range", run.Reason)
	require.Equal(t, [4]int{6, 1, 0, 5}, [4]int{run.Total, run.Succeeded, run.Failed, run.Cancelled})
	require.Equal(t, events.CancelledWithRun, w.unit(p.Run, 6).Reason)
	w.view(func(v projections.View) {
		job, _, err := v.Job(p.Job)
		require.NoError(t, err)
		require.Equal(t, events.RunIsCancelled, job.Status)
	})
	w.pending(p.Run, events.KindPostSync)
	_, armed := w.register(p.Run, events.KindFinalize)
	require.False(t, armed, "U-15: there is nothing to finalize")
}

// O-8, HC-17, SC-277: no wakeup of a cancelled run is published any more, but for its post_sync, once; retries that come
// due and messages that arrive late find it ended.
func TestNothingOfACancelledRunGoesOn(t *testing.T) {
	w, p, _ := inEveryState(t)
	messages := w.broker.take() // invitations of units that are dispatching
	w.step()
	messages = append(messages, w.broker.take()...)
	require.NotEmpty(t, messages)
	w.cancelRun(p.Run)
	before := w.head()
	w.advance(time.Hour)
	for range 3 {
		w.pass()
	}
	for _, m := range messages {
		w.handle(m, nil)
	}
	w.deliver(nil)
	require.Len(t, w.posts, 1)
	require.Empty(t, enginetest.Only[events.UnitDispatched](w.since(before)))
	require.Empty(t, enginetest.Only[events.UnitClaimed](w.since(before)))
	for _, d := range enginetest.Only[events.OutboxDropped](w.since(before)) {
		require.Equal(t, events.DropRunTerminal, d.Reason)
	}
	for _, k := range []events.Kind{events.KindDispatch, events.KindUnit} {
		r, _ := w.register(p.Run, k)
		require.Equal(t, decider.RegisterIdle, r.Status, k)
	}
}

// X-1, U-19, C-32, HU-8, SC-276, SC-279: the worker of a cancelled unit learns it at its next renewal and why; what it
// offers is refused, and on record once; no watermark moves.
func TestTheWorkerOfACancelledUnitLosesItsLease(t *testing.T) {
	w, p, running := inEveryState(t)
	w.cancelRun(p.Run)
	w.unchanged(func() {
		_, err := w.e.Renew(context.Background(), running)
		require.ErrorIs(t, err, towline.ErrLeaseLost)
		require.ErrorIs(t, err, towline.ErrCancelled)
		require.ErrorContains(t, err, "run_terminal")
	})
	before := w.head()
	for range 3 {
		err := w.e.Complete(context.Background(), running, events.Result{Rows: 3})
		require.ErrorIs(t, err, towline.ErrLeaseLost)
		require.ErrorIs(t, err, towline.ErrCancelled)
	}
	require.Equal(t, []events.UnitLateResult{{
		Attempt: 1, Outcome: "succeeded", Reason: events.LateRunTerminal, Text: events.LateResultText,
	}}, enginetest.Only[events.UnitLateResult](w.since(before)))
	require.Len(t, w.since(before), 1)
	require.Equal(t, events.UnitIsCancelled, w.unit(p.Run, 3).Status)
	require.Zero(t, watermark(w, "north", "north-articles"))
}

// B-6, U-15, HC-11, HC-17, SC-281: the slots of a cancelled run go to another one in the transaction of the cancel, also
// that of a worker that died.
func TestTheSlotsOfACancelledRunGoToAnother(t *testing.T) {
	w, p, _ := inEveryState(t)
	other := w.plan(days("south", 8))
	w.step()
	w.dispatch(other.Run)
	require.Equal(t, 8, w.statuses(other.Run)[events.UnitIsPlanned], "the bucket is full")
	w.advance(2 * time.Minute) // the worker of the third unit is dead, and nobody has looked
	before := w.head()
	w.cancelRun(p.Run)
	log := w.since(before)
	oneTx(t, log)
	require.Len(t, enginetest.Only[events.UnitDispatched](log), 3)
	require.Equal(t, 3, w.statuses(other.Run)[events.UnitIsDispatching])
	w.deliver(w.complete)
	require.Equal(t, events.RunSucceeded, w.run(other.Run).Status)
}

// B-6: where the caps let more runs profit than one, the next is woken at once.
func TestACancelWakesTheNextRunInLine(t *testing.T) {
	w := openWorkshop(t, options{config: towline.Config{
		Syncs: []towline.Sync{single("a"), single("b"), single("c")}, Knobs: daily(towline.Knobs{CapBucket: 4}),
	}})
	first := w.started(days("a", 4))
	second, third := w.started(days("b", 1)), w.started(days("c", 1))
	w.step()
	w.cancelRun(first.Run)
	require.Equal(t, 1, w.statuses(second.Run)[events.UnitIsDispatching])
	require.Equal(t, w.now.Now(), w.pending(third.Run, events.KindDispatch).AvailableAt)
}

// HC-17, SC-278: a cancelled run stays as it is; one that ended otherwise is a conflict; an unknown one is not
// found. None of it writes.
func TestACancelOfARunThatHasEnded(t *testing.T) {
	w, p, _ := inEveryState(t)
	w.cancelRun(p.Run)
	w.unchanged(func() { w.cancelRun(p.Run) })
	done := w.plan(days("south", 1))
	w.deliver(w.complete)
	w.requireConflict("run", func() error { return w.e.CancelRun(context.Background(), done.Run, ada) })
	require.Equal(t, events.RunSucceeded, w.run(done.Run).Status)
	w.requireRefused("run", towline.ErrNotFound, func() error {
		return w.e.CancelRun(context.Background(), events.RunID{1}, ada)
	})
}

// a cancel of a run whose units have all ended, and whose finalize has not come, is still a cancel.
func TestACancelBeforeFinalizeWins(t *testing.T) {
	w := newWorkshop(t)
	p := w.started(towline.RunSpec{Sync: "reports"})
	for _, u := range w.units(p.Run) {
		w.complete(w.claim(u.Unit))
	}
	before := w.head()
	w.cancelRun(p.Run)
	require.Equal(t, []string{"RunCancelled", "JobClosed", "OutboxArmed"}, enginetest.Types(w.since(before)))
	w.unchanged(func() { require.False(t, w.finalize(p.Run)) })
	w.deliver(nil)
	require.Equal(t, events.RunIsCancelled, w.run(p.Run).Status)
	require.Len(t, w.posts, 1, "the finalize wakeup was dropped, the post_sync went out")
}

// L-2, P-4: a run of a thousand units is cancelled in one transaction, also by a process that has just started.
func TestAThousandUnitsAreCancelledInOneTransaction(t *testing.T) {
	units := enginetest.Fewer(1000)
	w := openWorkshop(t, options{config: towline.Config{Syncs: []towline.Sync{single("north")}, Knobs: daily(towline.Knobs{})}})
	p := w.started(days("north", units))
	w.crash()
	before := w.head()
	w.cancelRun(p.Run)
	log := w.since(before)
	oneTx(t, log)
	require.Len(t, enginetest.Only[events.UnitCancelled](log), units)
	require.Equal(t, units, w.run(p.Run).Cancelled)
}

// L-2, R-4: a cancel that is not committed has cancelled nothing, and memory agrees.
func TestACancelThatFailsChangesNothing(t *testing.T) {
	w, p, running := inEveryState(t)
	w.sql(`CREATE TRIGGER planted BEFORE UPDATE ON jobs BEGIN SELECT RAISE(ABORT, 'planted'); END`)
	w.unchanged(func() {
		require.ErrorContains(t, w.e.CancelRun(context.Background(), p.Run, ada), "planted")
	})
	differences, err := w.e.CompareMemory(context.Background())
	require.NoError(t, err)
	require.Empty(t, differences)
	w.sql(`DROP TRIGGER planted`)
	w.complete(running)
	w.cancelRun(p.Run)
	require.Equal(t, 2, w.run(p.Run).Succeeded)
}

// X-2, U-15, U-21, B-6, SC-280, SC-281: one unit is cancelled in any open state, the others go on, and its slot goes to the
// next.
func TestOneUnitIsCancelledAndTheOthersGoOn(t *testing.T) {
	for name, c := range map[string]struct {
		ordinal int
		refills int
	}{"retrying": {2, 0}, "running": {3, 1}, "dispatching": {4, 1}, "planned": {6, 0}} {
		t.Run(name, func(t *testing.T) {
			w, p, running := inEveryState(t)
			unit := w.unit(p.Run, c.ordinal)
			before := w.head()
			w.cancelUnit(unit.Unit)
			log := w.since(before)
			oneTx(t, log)
			require.Equal(t, events.UnitCancelled{Reason: events.CancelledAlone, Text: "wrong range"}, log[0].Event)
			require.Equal(t, "ada", log[0].Actor)
			require.Len(t, enginetest.Only[events.UnitDispatched](log), c.refills)
			require.Equal(t, events.CancelledAlone, w.unit(p.Run, c.ordinal).Reason)
			w.unchanged(func() { w.cancelUnit(unit.Unit) })

			if unit.Unit != running.Unit.Unit {
				w.complete(running)
			}
			w.advance(time.Minute) // the retry is due
			w.deliver(w.complete)
			run := w.run(p.Run)
			require.Equal(t, events.RunPartialFailed, run.Status)
			require.Equal(t, [3]int{5, 0, 1}, [3]int{run.Succeeded, run.Failed, run.Cancelled})
			w.requireConflict("unit", func() error { return w.e.CancelUnit(context.Background(), w.unit(p.Run, 1).Unit, ada) })
		})
	}
}

// U-21, R-6, SC-230, SC-280: the last open unit that is cancelled wakes the finalizer; a run all of whose units were
// cancelled one by one has failed, and says why.
func TestTheLastCancelledUnitEndsItsRun(t *testing.T) {
	w := newWorkshop(t)
	p := w.started(towline.RunSpec{Sync: "reports"})
	l := w.claim(w.unit(p.Run, 2).Unit)
	w.cancelUnit(w.unit(p.Run, 1).Unit)
	before := w.head()
	w.cancelUnit(l.Unit.Unit)
	require.Equal(t, []string{"UnitCancelled", "OutboxArmed"}, enginetest.Types(w.since(before)))
	w.pending(p.Run, events.KindFinalize)
	w.deliver(nil)
	run := w.run(p.Run)
	require.Equal(t, events.RunFailed, run.Status)
	require.Equal(t, events.ReasonAllUnitsCancelled, run.Reason)
	require.False(t, run.PostSync.Owed)
	_, err := w.e.Renew(context.Background(), l)
	require.ErrorIs(t, err, towline.ErrCancelled)
	w.requireRefused("unit", towline.ErrNotFound, func() error {
		return w.e.CancelUnit(context.Background(), events.UnitID{1}, ada)
	})
}

// U-15, P-9, SC-157: a cancelled reference unit cancels what waits for it, of its source only, in the same transaction.
func TestACancelledReferenceUnitCancelsItsSource(t *testing.T) {
	w := newWorkshop(t, tiered())
	p := w.started(towline.RunSpec{Sync: "tracker"})
	units := w.units(p.Run)
	i := slices.IndexFunc(units, func(u projections.SyncRunUnit) bool { return u.Tier == towline.Reference })
	reference := units[i]
	w.claim(reference.Unit)
	before := w.head()
	w.cancelUnit(reference.Unit)
	log := w.since(before)
	oneTx(t, log)
	waiting := 0
	for _, u := range w.units(p.Run) {
		if u.Source != reference.Source || u.Unit == reference.Unit {
			require.NotEqual(t, events.CancelledWithReference, u.Reason)
			continue
		}
		waiting++
		require.Equal(t, events.UnitIsCancelled, u.Status)
		require.Equal(t, events.CancelledWithReference, u.Reason)
	}
	require.Positive(t, waiting)
	require.Len(t, enginetest.Only[events.UnitCancelled](log), waiting+1)
	w.deliver(w.complete)
	require.Equal(t, events.RunPartialFailed, w.run(p.Run).Status)
}

// HC-17, U-5, SC-276: a cancel that commits before the claim leaves nothing to claim.
func TestACancelledUnitIsNotClaimed(t *testing.T) {
	w := newWorkshop(t)
	p := w.started(towline.RunSpec{Sync: "reports"})
	w.cancelUnit(w.unit(p.Run, 1).Unit)
	w.cancelRun(p.Run)
	for _, u := range w.units(p.Run) {
		w.unchanged(func() {
			_, err := w.e.Claim(context.Background(), u.Unit, towline.Worker{Name: "late"})
			require.ErrorIs(t, err, towline.ErrNotClaimable)
		})
	}
}

// X-1, U-12, HC-17: of a cancel and the expiry of a lease the first decides, in both orders.
func TestOfACancelAndAnExpiryTheFirstDecides(t *testing.T) {
	w, p, _ := inEveryState(t)
	w.advance(time.Minute)
	w.cancelRun(p.Run)
	report := w.pass()
	require.Zero(t, report.ExpiredFailed+report.ExpiredRetried)
	require.Equal(t, events.UnitIsCancelled, w.unit(p.Run, 3).Status)

	w, p, running := inEveryState(t)
	w.advance(time.Minute)
	require.Equal(t, 1, w.pass().ExpiredRetried)
	require.Equal(t, events.UnitIsRetrying, w.unit(p.Run, 3).Status)
	w.cancelRun(p.Run)
	require.Equal(t, events.UnitIsCancelled, w.unit(p.Run, 3).Status)
	require.ErrorIs(t, w.e.Complete(context.Background(), running, events.Result{}), towline.ErrCancelled)
}

// X-1, SC-276: of a cancel and the last settle the first wins; whichever it is, run, units, job and log agree.
func TestOfACancelAndTheLastSettleTheFirstWins(t *testing.T) {
	w, p, running := inEveryState(t)
	w.complete(running)
	w.cancelRun(p.Run)
	require.Equal(t, events.UnitHasSucceeded, w.unit(p.Run, 3).Status, "what has ended keeps its end")
	require.Equal(t, 2, w.run(p.Run).Succeeded)

	w = newWorkshop(t)
	p = w.plan(towline.RunSpec{Sync: "reports"})
	w.deliver(w.complete)
	w.requireConflict("run", func() error { return w.e.CancelRun(context.Background(), p.Run, ada) })
}

// L-9, X-1, SC-276, HC-17: cancels, claims, settles and finalizes at the same time: each is decided by the log, one cancel
// is on record, and the proof at the end finds no contradiction.
func TestCancelsCrossWithEverything(t *testing.T) {
	w := openWorkshop(t, options{grouped: true, config: towline.Config{
		Syncs: []towline.Sync{mixed(), single("south")}, Knobs: daily(towline.Knobs{CapBucket: 4}),
	}})
	ctx := context.Background()
	for range enginetest.Fewer(20) {
		p, other := w.started(days("north", 6)), w.started(days("south", 4))
		var leases []towline.Lease
		for _, u := range w.units(p.Run) {
			if u.Status == events.UnitIsDispatching {
				leases = append(leases, w.claim(u.Unit))
			}
		}
		last := w.unit(p.Run, 6)
		actions := []func() error{
			func() error { return w.e.CancelRun(ctx, p.Run, ada) },
			func() error { return w.e.CancelRun(ctx, p.Run, ada) },
			func() error { return w.e.CancelUnit(ctx, last.Unit, ada) },
			func() error { return w.e.ReleaseUnit(ctx, leases[0].Unit.Unit, ada) },
			func() error { _, err := w.e.Claim(ctx, last.Unit, towline.Worker{Name: "late"}); return err },
			func() error { _, err := w.e.RenewAll(ctx, slices.Clone(leases)); return err },
			func() error {
				return w.e.Transact(ctx, "", func(tx *towline.Tx) error { _, err := tx.Finalize(p.Run); return err })
			},
		}
		for _, l := range leases {
			actions = append(actions, func() error { return w.e.Complete(ctx, l, events.Result{}) })
		}
		done := make(chan error, len(actions))
		for _, act := range actions {
			go func() { done <- act() }()
		}
		for range actions {
			err := <-done
			for _, lawful := range []error{towline.ErrLeaseLost, towline.ErrNotClaimable, towline.ErrConflict} {
				if errors.Is(err, lawful) {
					err = nil
				}
			}
			require.NoError(t, err)
		}
		require.Equal(t, events.RunIsCancelled, w.run(p.Run).Status)
		w.deliver(w.complete)
		require.Equal(t, events.RunSucceeded, w.run(other.Run).Status)
	}
	require.Len(t, enginetest.Only[events.RunCancelled](w.since(0)), enginetest.Fewer(20))
}

// X-7, SC-286: an action without a name, or without the reason that it must give, is refused by field, and writes nothing.
func TestAnOperatorSaysWhoAndWhy(t *testing.T) {
	w, p, running := inEveryState(t)
	ctx := context.Background()
	key := towline.RegisterKey{Owner: p.Run, Kind: events.KindDispatch}
	for name, act := range map[string]func(towline.Actor) error{
		"cancel run":    func(by towline.Actor) error { return w.e.CancelRun(ctx, p.Run, by) },
		"cancel unit":   func(by towline.Actor) error { return w.e.CancelUnit(ctx, running.Unit.Unit, by) },
		"release":       func(by towline.Actor) error { return w.e.ReleaseUnit(ctx, running.Unit.Unit, by) },
		"park":          func(by towline.Actor) error { return w.e.Park(ctx, key, by) },
		"resolve":       func(by towline.Actor) error { return w.e.Resolve(ctx, key, "index", events.ResolvedLost, by) },
		"pause":         func(by towline.Actor) error { return w.e.PauseEngine(ctx, by) },
		"resume":        func(by towline.Actor) error { return w.e.ResumeEngine(ctx, by) },
		"pause source":  func(by towline.Actor) error { return w.e.PauseSource(ctx, "north", by) },
		"resume source": func(by towline.Actor) error { return w.e.ResumeSource(ctx, "north", by) },
		"confirm clock": func(by towline.Actor) error {
			_, err := w.e.ConfirmClock(ctx, by)
			return err
		},
		"redrive": func(by towline.Actor) error { return w.e.Redrive(ctx, key, by) },
		"retry": func(by towline.Actor) error {
			_, err := w.e.RetryFailed(ctx, towline.RetrySpec{Run: p.Run, By: by})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, bad := range []string{"", " ", "\xff", strings.Repeat("a", 201)} {
				w.requireRefused("by.name", towline.ErrInvalid, func() error { return act(towline.Actor{Name: bad, Reason: "x"}) })
			}
			if name != "redrive" && name != "retry" {
				w.requireRefused("by.reason", towline.ErrInvalid, func() error { return act(towline.Actor{Name: "ada", Reason: " \n"}) })
			}
		})
	}
}

// X-7, E-3: an operator's reason is made fit to be stored, as every text is.
func TestAReasonIsRedactedAndBounded(t *testing.T) {
	w, p, _ := inEveryState(t)
	require.NoError(t, w.e.CancelRun(context.Background(), p.Run, towline.Actor{
		Name: "ada", Reason: "password=hunter2 \xff" + strings.Repeat("x", 5000),
	}))
	reason := w.run(p.Run).Reason
	require.NotContains(t, reason, "hunter2")
	require.LessOrEqual(t, len(reason), 2000)
}

// X-7, E-3: so is that of a pause, which every refused plan repeats, of the confirmation of a clock, and of a trigger.
func TestNoReasonHoldsASecret(t *testing.T) {
	w := newWorkshop(t)
	ctx, by := context.Background(), towline.Actor{Name: "ada", Reason: "password=hunter2 \xff" + strings.Repeat("x", 5000)}
	require.NoError(t, w.e.PauseSource(ctx, "north", by))
	require.NoError(t, w.e.ResumeSource(ctx, "north", by))
	require.NoError(t, w.e.PauseEngine(ctx, by))
	require.NoError(t, w.e.ResumeEngine(ctx, by))
	w.jump(-time.Hour)
	confirmed, err := w.e.ConfirmClock(ctx, by)
	require.NoError(t, err)
	require.True(t, confirmed)
	w.plan(towline.RunSpec{Sync: "reports", By: by})
	reasons := 0
	for _, env := range w.since(0) {
		text := events.Describe(env.Event)
		require.NotContains(t, text, "hunter2")
		if strings.Contains(text, "reason: \"password=***") {
			reasons++
			require.Less(t, len(text), 3000)
		}
	}
	require.Equal(t, 6, reasons)
}

// L-9, X-1: a caller that waits for a run is told of its cancel.
func TestAWaitEndsWithACancel(t *testing.T) {
	w, p, _ := inEveryState(t)
	done := waiting(t.Context(), w, p.Run)
	w.cancelRun(p.Run)
	got := <-done
	require.NoError(t, got.err)
	require.Equal(t, events.RunIsCancelled, got.run.Status)
}

package towline_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/internal/enginetest"
	"github.com/towline-dev/towline/projections"
)

// RW-1, U-12, U-21, I-19, C-14, SC-197, SC-199: a lease that has ended is on record with the decision that follows; by
// default the unit fails, and the last open one of a run arms finalize in the same transaction.
func TestALostWorkerFailsItsUnit(t *testing.T) {
	w := newWorkshop(t, single("north"))
	p := w.started(towline.RunSpec{Sync: "north"})
	w.claim(w.unit(p.Run, 1).Unit)
	w.advance(time.Minute)
	before := w.head()
	report := w.pass()
	require.Equal(t, 1, report.ExpiredFailed)
	log := w.since(before)
	require.Equal(t, []string{"UnitLeaseExpired", "UnitFailed", "OutboxArmed"}, enginetest.Types(log)[:3])
	oneTx(t, log[:3])
	require.Equal(t, events.UnitLeaseExpired{
		Attempt: 1, LeaseExpiresAt: events.MicrosOf(start.Add(time.Minute)), Cause: events.LeaseExpired,
		LeaseNode: w.e.Node(),
	}, log[0].Event)
	u := w.unit(p.Run, 1)
	require.Equal(t, events.WorkerLost, u.ErrorCategory)
	require.Equal(t, "expire_lease", log[0].Command)
	w.deliver(nil)
	require.Equal(t, events.RunFailed, w.run(p.Run).Status)
}

// U-12, B-6, HC-11, SC-198: the slot of a lost worker goes to a sibling in the transaction that expires it.
func TestALostWorkerGivesItsSlotBack(t *testing.T) {
	w := capped(t, towline.Knobs{CapBucket: 1}, "north")
	p := w.started(days("north", 2))
	w.claim(w.unit(p.Run, 1).Unit)
	w.advance(time.Minute)
	w.pass()
	require.Equal(t, events.UnitIsDispatching, w.unit(p.Run, 2).Status)
	w.deliver(w.complete)
	require.Equal(t, events.RunPartialFailed, w.run(p.Run).Status)
}

// REC-5, CLK-1, U-17, SC-200, SC-201: a live lease is left alone; at its end, not a microsecond earlier, it has
// expired.
func TestALeaseExpiresAtItsEnd(t *testing.T) {
	w := newWorkshop(t)
	p := w.started(towline.RunSpec{Sync: "reports"})
	l := w.claim(w.unit(p.Run, 1).Unit)
	w.advance(time.Minute - time.Microsecond)
	w.unchanged(func() { w.pass() })
	w.complete(l) // a settle at the last microsecond counts
	late := w.claim(w.unit(p.Run, 2).Unit)
	w.advance(time.Minute)
	require.ErrorIs(t, w.e.Complete(context.Background(), late, events.Result{}), towline.ErrLeaseLost)
}

// linear is the sync of the shipped policy: a backfill of the work-item family.
func linear(change func(*towline.Sync)) towline.Sync {
	family := []string{"work-items", "work-item-labels", "work-item-projects", "work-item-history", "work-item-comments"}
	s := towline.Sync{
		Name: "linear", Provider: "linear", Sources: []string{"team"},
		Datasets: []towline.Dataset{{Name: "work_item", Members: family, Surfaces: family}},
	}
	if change != nil {
		change(&s)
	}
	return s
}

// RW-5, U-11, C-13, SC-202, SC-203, RW-7: an eligible unit is tried again: count 1, a minute later, no lease, and
// dispatch armed for that time.
func TestAnEligibleUnitIsTriedAgain(t *testing.T) {
	w := newWorkshop(t, linear(nil))
	p := w.started(days("linear", 10))
	l := w.claim(w.unit(p.Run, 1).Unit)
	w.advance(time.Minute)
	before := w.head()
	require.Equal(t, 1, w.pass().ExpiredRetried)
	log := w.since(before)
	oneTx(t, log)
	require.Equal(t, []string{"UnitLeaseExpired", "UnitRetryScheduled", "OutboxArmed"}, enginetest.Types(log))
	due := w.now.Now().Add(time.Minute)
	require.Equal(t, events.UnitRetryScheduled{Attempt: 1, Cause: events.ExpiredLease,
		AvailableAt: events.MicrosOf(due), ExpiredLeaseRetries: 1}, log[1].Event)
	u := w.unit(p.Run, 1)
	require.Equal(t, events.UnitIsRetrying, u.Status)
	require.Zero(t, u.LeaseExpiresAt)
	require.Equal(t, due, w.pending(p.Run, events.KindDispatch).AvailableAt)
	require.ErrorIs(t, w.e.Complete(context.Background(), l, events.Result{}), towline.ErrLeaseLost)

	w.advance(time.Minute)
	w.broker.take()
	w.deliver(func(l towline.Lease) {
		require.Equal(t, 2, l.Unit.Attempt)
		w.complete(l)
	})
	require.Equal(t, events.RunSucceeded, w.run(p.Run).Status)
}

// RW-3, RW-4, SC-204, SC-205, SC-206, SC-207, SC-208: each condition alone makes a unit ineligible; the count alone
// says exhausted.
func TestEachConditionOfTheLinearPolicy(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*towline.Sync)
		knobs  towline.Knobs
		spec   towline.RunSpec
		want   events.Category
	}{
		"eligible":       {want: ""},
		"other provider": {change: func(s *towline.Sync) { s.Provider = "jira" }, want: events.WorkerLost},
		"other mode":     {spec: towline.RunSpec{Sync: "linear"}, want: events.WorkerLost},
		"full resync":    {spec: towline.RunSpec{Sync: "linear", Mode: towline.FullResync}, want: events.WorkerLost},
		"other family": {change: func(s *towline.Sync) {
			s.Datasets[0].Members = []string{"work-items",
				"cycles"}
		}, want: events.WorkerLost},
		"other dataset": {change: func(s *towline.Sync) { s.Datasets[0].Members = nil }, want: events.WorkerLost},
		"no surface": {change: func(s *towline.Sync) { s.Datasets[0].Surfaces = []string{} },
			want: events.WorkerLost},
		"an unsafe surface": {change: func(s *towline.Sync) {
			s.Datasets[0].Surfaces = []string{"work-items",
				"users"}
		}, want: events.WorkerLost},
		"maximum of none": {knobs: towline.Knobs{ExpiredLeaseMaxRetries: -1}, want: events.WorkerLostExhausted},
	} {
		t.Run(name, func(t *testing.T) {
			w := openWorkshop(t, options{config: towline.Config{Syncs: []towline.Sync{linear(c.change)}, Knobs: c.knobs}})
			spec := c.spec
			if spec.Sync == "" {
				spec = days("linear", 10)
			}
			p := w.started(spec)
			w.claim(w.unit(p.Run, 1).Unit)
			w.advance(time.Minute)
			w.pass()
			u := w.unit(p.Run, 1)
			if c.want == "" {
				require.Equal(t, events.UnitIsRetrying, u.Status)
				return
			}
			require.Equal(t, events.UnitHasFailed, u.Status)
			require.Equal(t, c.want, u.ErrorCategory)
		})
	}
}

// RW-4, SC-205, SC-216, HC-02: a unit that loses its worker each time is exhausted after its maximum; run and job end,
// and more passes change nothing.
func TestAUnitThatLosesItsWorkerEachTimeIsExhausted(t *testing.T) {
	w := openWorkshop(t, options{config: towline.Config{Syncs: []towline.Sync{linear(nil)},
		Knobs: towline.Knobs{ExpiredLeaseMaxRetries: 2, ExpiredLeaseRetryBackoff: 10 * time.Second}}})
	p := w.started(days("linear", 10))
	claims := 0
	for w.unit(p.Run, 1).Status != events.UnitHasFailed {
		w.claim(w.unit(p.Run, 1).Unit)
		claims++
		w.advance(time.Minute)
		w.pass()
		w.advance(10 * time.Second)
		w.pass()
		w.dispatch(p.Run)
	}
	require.Equal(t, 3, claims)
	require.Equal(t, events.WorkerLostExhausted, w.unit(p.Run, 1).ErrorCategory)
	w.deliver(nil)
	require.Equal(t, events.RunFailed, w.run(p.Run).Status)
	w.view(func(v projections.View) {
		job, _, err := v.Job(p.Job)
		require.NoError(t, err)
		require.Equal(t, events.RunFailed, job.Status)
		require.False(t, job.ClosedAt.IsZero())
	})
	w.unchanged(func() { w.pass(); w.pass() })
}

// REC-6, SC-210, SC-211: a unit that was settled or renewed between the scan and the decision is left alone.
func TestWhatWasSettledSinceTheScanIsLeftAlone(t *testing.T) {
	w := newWorkshop(t)
	p := w.started(towline.RunSpec{Sync: "reports"})
	settled, renewed := w.claim(w.unit(p.Run, 1).Unit), w.claim(w.unit(p.Run, 2).Unit)
	var found []projections.LeaseCursor
	w.view(func(v projections.View) {
		var err error
		found, err = v.ExpiredLeases(events.MicrosOf(start.Add(time.Minute)), projections.LeaseCursor{}, 10)
		require.NoError(t, err)
	})
	require.Len(t, found, 2)
	w.advance(30 * time.Second)
	w.complete(settled)
	_, err := w.e.Renew(context.Background(), renewed)
	require.NoError(t, err)
	w.advance(30 * time.Second)
	w.unchanged(func() {
		x, err := w.e.ExpireLeases(context.Background(), found)
		require.NoError(t, err)
		require.Zero(t, x)
	})
}

// REC-6, SC-215: one unit that cannot be decided does not keep the others of its batch.
func TestOneBadUnitDoesNotKeepTheOthers(t *testing.T) {
	w := openWorkshop(t, options{unverified: true, config: towline.Config{Syncs: []towline.Sync{single("north")},
		Knobs: daily(towline.Knobs{})}})
	p := w.started(days("north", 5))
	for _, u := range w.units(p.Run) {
		w.claim(u.Unit)
	}
	w.advance(time.Minute)
	bad := w.unit(p.Run, 3).Unit
	w.sql(`CREATE TRIGGER planted BEFORE UPDATE ON units WHEN NEW.ordinal = 3 BEGIN SELECT RAISE(ABORT, 'planted'); END`)
	report := w.relay.Pass(context.Background())
	require.ErrorContains(t, report.Err(), bad.String())
	require.Equal(t, 4, report.ExpiredFailed)
	require.Equal(t, map[events.UnitStatus]int{events.UnitHasFailed: 4, events.UnitIsRunning: 1}, w.statuses(p.Run))
	w.sql(`DROP TRIGGER planted`)
	w.pass()
	w.pass() // the scan wraps
	require.Equal(t, map[events.UnitStatus]int{events.UnitHasFailed: 5}, w.statuses(p.Run))
	w.verify()
}

// REC-5, R-8, SC-209: a run that is over has no unit to expire.
func TestAnEndedRunHasNothingToExpire(t *testing.T) {
	w := newWorkshop(t)
	w.plan(towline.RunSpec{Sync: "reports"})
	w.deliver(w.complete)
	w.advance(24 * time.Hour)
	w.unchanged(func() { w.pass() })
}

// REC-6, U-13, C-37: leases of reference units that end together take thousands of work items with them, in transactions
// that make room for others; a boot and a pass can do it.
func TestManyLeasesThatTakeTheirSourcesWithThem(t *testing.T) {
	const runs, items = 3, 700
	sync := towline.Sync{
		Name: "tracker", Provider: "p", Sources: []string{"a"},
		Datasets: []towline.Dataset{{Name: "people", Tier: towline.Reference, Snapshot: true}, {Name: "work"}},
	}
	for name, ends := range map[string]func(*workshop){
		"in a pass": func(w *workshop) {
			w.advance(2 * time.Hour)
			require.Equal(t, runs, w.pass().ExpiredFailed)
		},
		"at the boot": func(w *workshop) { w.crash() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := openWorkshop(t, options{config: towline.Config{Syncs: []towline.Sync{sync}, Knobs: daily(towline.Knobs{})}})
			for range runs {
				w.claim(w.unit(w.started(days("tracker", items)).Run, 1).Unit)
			}
			before := w.head()
			ends(w)
			failed := map[events.Position]int{} // by transaction
			for _, env := range w.since(before) {
				if _, ok := env.Event.(events.UnitFailed); ok {
					failed[env.Tx]++
				}
			}
			total := 0
			for _, n := range failed {
				total += n
				require.LessOrEqual(t, n, 3*(items+1))
			}
			require.Equal(t, runs*(items+1), total)
			require.Greater(t, len(failed), 1)
		})
	}
}

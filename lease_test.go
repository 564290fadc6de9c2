package towline_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/internal/enginetest"
)

// U-5, HU-2, SC-015: a claim is a transaction of its own, with the next attempt, a secret, and the times of the run's
// policy; the fence is the epoch and its position.
func TestAClaimOpensOneAttempt(t *testing.T) {
	w := newWorkshop(t)
	p := w.started(towline.RunSpec{Sync: "reports"})
	unit := w.unit(p.Run, 1).Unit
	before := w.head()

	l := w.claim(unit)

	log := w.since(before)
	require.Equal(t, []string{"UnitClaimed"}, enginetest.Types(log))
	require.Equal(t, events.UnitClaimed{
		Attempt: 1, Token: l.Token, LeaseExpiresAt: events.MicrosOf(start.Add(time.Minute)),
		LeaseEndsAt: events.MicrosOf(start.Add(time.Hour)),
		Worker:      "worker",
	}, log[0].Event)
	require.Equal(t, events.NewFence(1, log[0].Position), l.Fence)
	require.Equal(t, time.Minute, l.ExpiresIn)
	require.Equal(t, 20*time.Second, l.RenewEvery)
	require.Equal(t, time.Hour, l.Lifetime)
	require.Equal(t, "reports", l.Sync)
	require.Equal(t, w.unit(p.Run, 1), l.Unit, "the lease carries the row after the claim")
}

// HU-1, U-5, SC-166, SC-167, SC-168: every duplicate ends at the claim, and writes nothing.
func TestADuplicateIsNotClaimable(t *testing.T) {
	w := newWorkshop(t)
	p := w.started(towline.RunSpec{Sync: "reports"})
	running, done := w.unit(p.Run, 1).Unit, w.unit(p.Run, 2).Unit
	w.claim(running)
	w.complete(w.claim(done))
	waiting := w.unit(w.plan(towline.RunSpec{Sync: "reports"}).Run, 1).Unit
	for name, unit := range map[string]events.UnitID{"running": running, "ended": done, "planned": waiting,
		"unknown": {1}} {
		w.unchanged(func() {
			_, err := w.e.Claim(context.Background(), unit, towline.Worker{})
			require.ErrorIs(t, err, towline.ErrNotClaimable, name)
		})
	}
}

// HU-9: a unit that waits for its next attempt says so.
func TestARetryingUnitIsTooEarly(t *testing.T) {
	s := reports()
	s.Datasets[0].Retry = towline.Retry{Max: 1, On: []events.Category{events.Network}}
	w := newWorkshop(t, s)
	p := w.started(towline.RunSpec{Sync: "reports"})
	l := w.claim(w.unit(p.Run, 1).Unit)
	w.fail(l, events.Network)
	w.unchanged(func() {
		_, err := w.e.Claim(context.Background(), l.Unit.Unit, towline.Worker{})
		require.ErrorIs(t, err, towline.ErrTooEarly)
	})
}

// HU-1: a unit whose sync, source or dataset is not configured here is left for a process that knows it; a worker over
// the API may have it.
func TestAUnitThatIsNotConfiguredHereIsNotClaimed(t *testing.T) {
	for name, change := range map[string]func(*towline.Sync){
		"sync":    func(s *towline.Sync) { s.Name = "other" },
		"source":  func(s *towline.Sync) { s.Sources = []string{"south"} },
		"dataset": func(s *towline.Sync) { s.Datasets = []towline.Dataset{{Name: "authors"}} },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorkshop(t)
			p := w.started(towline.RunSpec{Sync: "reports"})
			s := reports()
			change(&s)
			w.o.config.Syncs = []towline.Sync{s}
			w.crash()
			unit := w.unit(p.Run, 1).Unit
			w.unchanged(func() {
				_, err := w.e.Claim(context.Background(), unit, towline.Worker{})
				require.ErrorIs(t, err, towline.ErrNotClaimable)
			})
			_, err := w.e.Claim(context.Background(), unit, towline.Worker{Remote: true})
			require.NoError(t, err)
		})
	}
}

// U-5, U-4, I-17, SC-134: the late message of a stale unit, whose slot was given away, claims nothing; the unit is
// dispatched again.
func TestAStaleUnitNeedsAFreeSlot(t *testing.T) {
	w := openWorkshop(t, options{config: towline.Config{Knobs: towline.Knobs{CapEngine: 1}}})
	p := w.started(towline.RunSpec{Sync: "reports"})
	stale, next := w.unit(p.Run, 1).Unit, w.unit(p.Run, 2).Unit
	require.Equal(t, events.UnitIsDispatching, w.unit(p.Run, 1).Status)
	w.advance(15 * time.Minute)
	other := w.started(towline.RunSpec{Sync: "reports", Sources: []string{"north"}})
	holder := w.claim(w.unit(other.Run, 1).Unit)

	w.unchanged(func() {
		_, err := w.e.Claim(context.Background(), stale, towline.Worker{})
		require.ErrorIs(t, err, towline.ErrNotClaimable)
	})
	w.complete(holder) // B-6: the slot goes back to the oldest run, and there to the stale unit first
	require.Equal(t, 2, w.unit(p.Run, 1).Dispatch)
	l := w.claim(stale)
	w.complete(l)
	w.complete(w.claim(next))
}

// U-6, HU-3, SC-172: a renewal extends the lease to now + lease, and is written at most once per third of it.
func TestRenewalsAreBounded(t *testing.T) {
	w := newWorkshop(t)
	p := w.started(towline.RunSpec{Sync: "reports"})
	l := w.claim(w.unit(p.Run, 1).Unit)
	before := w.head()
	for range 120 { // two minutes, a renewal each second
		w.advance(time.Second)
		renewed, err := w.e.Renew(context.Background(), l)
		require.NoError(t, err)
		require.Positive(t, renewed.ExpiresIn)
		require.Equal(t, w.unit(p.Run, 1).LeaseExpiresAt.Sub(w.now.Now()), renewed.ExpiresIn,
			"what the worker is told is what is in force")
		l = renewed
	}
	log := w.since(before)
	require.Len(t, log, 6)
	for i, e := range log {
		require.Equal(t, events.UnitLeaseRenewed{
			Attempt: 1, Token: l.Token,
			LeaseExpiresAt: events.MicrosOf(start.Add(time.Duration(i+1)*20*time.Second + time.Minute)),
		}, e.Event)
	}
}

// U-6, C-18, I-6, SC-173: no renewal goes beyond the lifetime of the attempt; then it is refused, and the unit is
// recovered.
func TestRenewalsEndWithTheLifetime(t *testing.T) {
	w := openWorkshop(t, options{config: towline.Config{Knobs: towline.Knobs{Lease: 10 * time.Second,
		MaxLifetime: 25 * time.Second}}})
	p := w.started(towline.RunSpec{Sync: "reports"})
	l := w.claim(w.unit(p.Run, 1).Unit)
	for range 24 {
		w.advance(time.Second)
		var err error
		l, err = w.e.Renew(context.Background(), l)
		require.NoError(t, err)
		require.False(t, w.unit(p.Run, 1).LeaseExpiresAt.After(start.Add(25*time.Second)))
		require.Equal(t, start.Add(25*time.Second).Sub(w.now.Now()), l.Lifetime)
	}
	w.advance(time.Second)
	w.unchanged(func() {
		_, err := w.e.Renew(context.Background(), l)
		require.ErrorIs(t, err, towline.ErrLeaseLost)
	})
	w.pass()
	require.Equal(t, events.WorkerLost, w.unit(p.Run, 1).ErrorCategory)
}

// U-6, SC-174: a renewal of what has ended, with another's token or of an old attempt is refused and writes nothing.
func TestARenewalNeedsTheLease(t *testing.T) {
	w := newWorkshop(t)
	p := w.started(towline.RunSpec{Sync: "reports"})
	l, done := w.claim(w.unit(p.Run, 1).Unit), w.claim(w.unit(p.Run, 2).Unit)
	w.complete(done)
	stranger, old := l, l
	stranger.Token = "guessed"
	old.Unit.Attempt = 0
	w.advance(30 * time.Second)
	w.unchanged(func() {
		lost, err := w.e.RenewAll(context.Background(), []towline.Lease{done, stranger, old})
		require.NoError(t, err)
		for _, e := range lost {
			require.ErrorIs(t, e, towline.ErrLeaseLost)
		}
	})
}

// HU-3, SC-175: the renewals of a node that fall due together share one transaction, and one lost lease does not take
// the others with it.
func TestRenewalsOfANodeShareATransaction(t *testing.T) {
	w := openWorkshop(t, options{config: towline.Config{Syncs: []towline.Sync{single("north")},
		Knobs: daily(towline.Knobs{CapBucket: 20, CapRun: 20})}})
	p := w.started(days("north", 20))
	var leases []towline.Lease
	for _, u := range w.units(p.Run) {
		leases = append(leases, w.claim(u.Unit))
	}
	w.complete(leases[7])
	w.advance(20 * time.Second)
	before := w.head()
	lost, err := w.e.RenewAll(context.Background(), leases)
	require.NoError(t, err)
	for i, e := range lost {
		if i == 7 {
			require.ErrorIs(t, e, towline.ErrLeaseLost)
			continue
		}
		require.NoError(t, e)
	}
	log := w.since(before)
	oneTx(t, log)
	require.Len(t, enginetest.Only[events.UnitLeaseRenewed](log), 19)
}

// U-5, L-5, SC-366: a worker ends a unit and claims its next in one transaction; the two are decided apart.
func TestSettleAndClaimAreOneTransactionOfTwoDecisions(t *testing.T) {
	ctx := context.Background()
	t.Run("both", func(t *testing.T) {
		w := newWorkshop(t)
		p := w.started(towline.RunSpec{Sync: "reports"})
		l := w.claim(w.unit(p.Run, 1).Unit)
		before, commits := w.head(), w.store.commits
		next, settled, claimed := w.e.SettleAndClaim(ctx, l, towline.Completed{}, w.unit(p.Run, 2).Unit,
			towline.Worker{Name: "worker"})
		require.NoError(t, settled)
		require.NoError(t, claimed)
		require.Equal(t, 1, w.store.commits-commits)
		oneTx(t, w.since(before))
		require.Equal(t, []string{"UnitSucceeded", "UnitClaimed"}, enginetest.Types(w.since(before)))
		w.complete(next)
	})
	t.Run("the settle is late", func(t *testing.T) {
		w := newWorkshop(t)
		p := w.started(towline.RunSpec{Sync: "reports"})
		l := w.claim(w.unit(p.Run, 1).Unit)
		w.advance(time.Minute)
		before := w.head()
		next, settled, claimed := w.e.SettleAndClaim(ctx, l, towline.Completed{}, w.unit(p.Run, 2).Unit,
			towline.Worker{Name: "worker"})
		require.ErrorIs(t, settled, towline.ErrLeaseLost)
		require.NoError(t, claimed)
		oneTx(t, w.since(before))
		require.Equal(t, []string{"UnitLateResult", "UnitClaimed"}, enginetest.Types(w.since(before)))
		w.complete(next)
	})
	t.Run("the next is a duplicate", func(t *testing.T) {
		w := newWorkshop(t)
		p := w.started(towline.RunSpec{Sync: "reports"})
		l := w.claim(w.unit(p.Run, 1).Unit)
		_, settled, claimed := w.e.SettleAndClaim(ctx, l, towline.Completed{}, l.Unit.Unit, towline.Worker{Name: "worker"})
		require.NoError(t, settled)
		require.ErrorIs(t, claimed, towline.ErrNotClaimable)
		require.Equal(t, events.UnitHasSucceeded, w.unit(p.Run, 1).Status)
	})
	t.Run("the result cannot be stored", func(t *testing.T) {
		w := newWorkshop(t)
		p := w.started(towline.RunSpec{Sync: "reports"})
		l := w.claim(w.unit(p.Run, 1).Unit)
		bad := towline.Completed{Result: events.Result{State: json.RawMessage("{")}}
		next, settled, claimed := w.e.SettleAndClaim(ctx, l, bad, w.unit(p.Run, 2).Unit, towline.Worker{Name: "worker"})
		require.ErrorIs(t, settled, towline.ErrInvalid)
		require.NoError(t, claimed, "the neighbour is innocent")
		w.complete(next)
		w.fail(l, events.ProviderError)
	})
	t.Run("the store is away", func(t *testing.T) {
		w := newWorkshop(t)
		p := w.started(towline.RunSpec{Sync: "reports"})
		l := w.claim(w.unit(p.Run, 1).Unit)
		w.store.lose = errPlanted
		_, settled, claimed := w.e.SettleAndClaim(ctx, l, towline.Completed{}, w.unit(p.Run, 2).Unit,
			towline.Worker{Name: "worker"})
		require.ErrorIs(t, settled, errPlanted)
		require.ErrorIs(t, claimed, errPlanted)
		w.complete(l)
		w.complete(w.claim(w.unit(p.Run, 2).Unit))
	})
}

// E-4: a lease does not show its secret when it is printed.
func TestALeasePrintsNoSecret(t *testing.T) {
	w := newWorkshop(t)
	p := w.started(towline.RunSpec{Sync: "reports"})
	l := w.claim(w.unit(p.Run, 1).Unit)
	for _, verb := range []string{"%v", "%+v", "%#v", "%s"} {
		require.NotContains(t, fmt.Sprintf(verb, l), string(l.Token))
	}
}

// N-5, SC-258: a lease over the API belongs to no incarnation: it outlives a restart, and ends by expiry.
func TestALeaseOverTheAPIOutlivesARestart(t *testing.T) {
	w := newWorkshop(t)
	p := w.started(towline.RunSpec{Sync: "reports"})
	remote, err := w.e.Claim(context.Background(), w.unit(p.Run, 1).Unit, towline.Worker{Name: "far away", Remote: true})
	require.NoError(t, err)
	lost, err := w.e.Claim(context.Background(), w.unit(p.Run, 2).Unit, towline.Worker{Name: "far away", Remote: true})
	require.NoError(t, err)
	w.crash()
	w.advance(30 * time.Second)
	w.pass()
	require.NoError(t, w.e.Complete(context.Background(), remote, events.Result{}))
	w.advance(30 * time.Second)
	w.pass()
	require.ErrorIs(t, w.e.Complete(context.Background(), lost, events.Result{}), towline.ErrLeaseLost)
	require.Equal(t, events.WorkerLost, w.unit(p.Run, 2).ErrorCategory)
}

// L-3, L-11: what was decided in a commit that failed did not come to be: the caller gets the fault alone, with no
// refusal, lease or new time beside it.
func TestAVoidCommitSaysNothingElse(t *testing.T) {
	ctx := context.Background()
	w := newWorkshop(t)
	p := w.started(towline.RunSpec{Sync: "reports"})
	id := w.unit(p.Run, 1).Unit

	w.store.lose = errPlanted
	lease, err := w.e.Claim(ctx, id, towline.Worker{})
	require.ErrorIs(t, err, errPlanted)
	require.Zero(t, lease)

	lease = w.claim(id)
	w.advance(40 * time.Second)
	leases := []towline.Lease{lease}
	w.store.lose = errPlanted
	lost, err := w.e.RenewAll(ctx, leases)
	require.ErrorIs(t, err, errPlanted)
	require.Nil(t, lost)
	require.Equal(t, lease.ExpiresIn, leases[0].ExpiresIn)
	w.complete(lease)
}

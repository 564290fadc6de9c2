package handlers_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/internal/enginetest"
	"github.com/towline-dev/towline/provider"
	"github.com/towline-dev/towline/sink"
)

// U-6, HU-3, HC-03: a slow and healthy worker keeps its lease, its provider is called once, and its renewals are three
// per lease.
func TestASlowWorkerKeepsItsLease(t *testing.T) {
	run(t, options{}, func(t *testing.T, s *shop) {
		s.provider.does = func(context.Context, provider.Unit, sink.Sink) (provider.Result, error) {
			<-time.After(30 * time.Minute)
			return provider.Result{}, nil
		}
		id, messages := s.dispatched(1)
		done := s.begin(messages[0])
		for range 29 {
			wait(time.Minute)
			require.Empty(t, s.expired())
		}
		wait(time.Minute)
		require.NoError(t, <-done)
		require.Equal(t, events.UnitHasSucceeded, s.unit(id).Status)
		require.Len(t, s.provider.called(), 1)
		renewals := len(enginetest.Only[events.UnitLeaseRenewed](s.events(0)))
		require.LessOrEqual(t, renewals, 90)
		require.GreaterOrEqual(t, renewals, 80)
	})
}

// HU-3, SC-175: renewals that fall due together share a transaction, though the units began at different moments.
func TestRenewalsShareATransaction(t *testing.T) {
	run(t, options{workers: 20, knobs: towline.Knobs{CapBucket: 20, CapRun: 20}}, func(t *testing.T, s *shop) {
		s.provider.does = func(context.Context, provider.Unit, sink.Sink) (provider.Result, error) {
			<-time.After(10 * time.Minute)
			return provider.Result{}, nil
		}
		_, messages := s.dispatched(20)
		var done []<-chan error
		for _, m := range messages {
			done = append(done, s.begin(m))
			wait(50 * time.Millisecond)
		}
		before := s.store.writes.Load()
		head := s.head()
		wait(5 * time.Minute)
		renewed := len(enginetest.Only[events.UnitLeaseRenewed](s.events(head)))
		require.GreaterOrEqual(t, renewed, 20*14)
		require.LessOrEqual(t, s.store.writes.Load()-before, int64(3*15), "transactions, for %d renewals", renewed)
		wait(6 * time.Minute)
		for _, d := range done {
			require.NoError(t, <-d)
		}
	})
}

// HU-4, C-17, SC-183: a lease that cannot be renewed ends here when it ends in the log, by the local clock; the
// provider is told so.
func TestALeaseThatCannotBeRenewedEndsHere(t *testing.T) {
	run(t, options{}, func(t *testing.T, s *shop) {
		told := make(chan error, 1)
		s.provider.does = func(ctx context.Context, _ provider.Unit, _ sink.Sink) (provider.Result, error) {
			<-ctx.Done()
			told <- context.Cause(ctx)
			return provider.Result{}, ctx.Err()
		}
		id, messages := s.dispatched(1)
		begun := time.Now()
		done := s.begin(messages[0])
		wait(30 * time.Second) // one renewal
		ends := s.unit(id).LeaseExpiresAt
		require.Equal(t, begun.Add(80*time.Second).UTC(), ends)
		s.store.gone.Store(true)
		wait(45 * time.Second)
		require.Empty(t, told)
		wait(5 * time.Second)
		require.ErrorContains(t, <-told, "was not renewed")
		s.store.gone.Store(false)
		require.NoError(t, <-done)
		require.Equal(t, 1, s.unit(id).LateResults)
	})
}

// HU-4, RW-3: a process that is frozen in its claim, for longer than the lease, stops the provider; the log still has the
// lease. That is no failure of the unit: it is left to the expiry, and tried again as its policy says of a lost worker.
func TestAClaimThatTookLongerThanItsLeaseIsNoFailure(t *testing.T) {
	for _, frozen := range []time.Duration{2 * time.Minute, 3 * time.Hour} { // longer than a lease; than a lifetime
		retries := func(syncs []towline.Sync) { syncs[0].Datasets[0].Retry = towline.Retry{Max: 1, Backoff: time.Second} }
		run(t, options{syncs: retries}, func(t *testing.T, s *shop) {
			id, messages := s.dispatched(1)
			s.store.freeze.Store(int64(frozen))
			done := s.begin(messages[0])
			wait(frozen)
			require.NoError(t, <-done)
			require.Equal(t, events.UnitIsRunning, s.unit(id).Status)
			require.Empty(t, s.provider.called())
			wait(time.Minute)
			_, err := s.e.ExpireLeases(t.Context(), s.expired())
			require.NoError(t, err)
			require.Equal(t, events.UnitIsRetrying, s.unit(id).Status)
		})
	}
}

// CFG-2, HU-4: the lease of a run is that of its plan, also for the local clock, whatever the configuration says now.
func TestTheLocalEndOfALeaseIsThatOfItsRun(t *testing.T) {
	run(t, options{knobs: towline.Knobs{Lease: 9 * time.Second}}, func(t *testing.T, s *shop) {
		var ended time.Time
		s.provider.does = func(ctx context.Context, _ provider.Unit, _ sink.Sink) (provider.Result, error) {
			<-ctx.Done()
			ended = time.Now()
			return provider.Result{}, ctx.Err()
		}
		id, _ := s.dispatched(1)
		s.o.knobs.Lease = time.Minute
		s.restart()
		begun := time.Now()
		done := s.begin(s.messages(id)[0])
		wait(4 * time.Second) // one renewal
		require.Equal(t, begun.Add(12*time.Second).UTC(), s.unit(id).LeaseExpiresAt)
		s.store.gone.Store(true)
		wait(9 * time.Second)
		require.Equal(t, begun.Add(12*time.Second), ended)
		s.store.gone.Store(false)
		require.NoError(t, <-done)
	})
}

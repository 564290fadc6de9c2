package handlers_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/internal/enginetest"
	"github.com/towline-dev/towline/provider"
	"github.com/towline-dev/towline/sink"
	"github.com/towline-dev/towline/transport"
)

var ada = towline.Actor{Name: "ada", Reason: "wrong range"}

// obedient is a provider that puts a row and then works until its context ends.
type obedient struct {
	cause error
	at    time.Time
}

func (o *obedient) sync(ctx context.Context, _ provider.Unit, w sink.Sink) (provider.Result, error) {
	if err := w.Put(ctx, "rows", "half", nil); err != nil {
		return provider.Result{}, err
	}
	<-ctx.Done()
	o.cause, o.at = context.Cause(ctx), time.Now()
	return provider.Result{}, o.cause
}

// C-32, HU-8, SC-279, HC-11, HC-17: a provider of this process hears of a cancel at once and why; nothing of its
// attempt is committed, nothing is offered, and its worker is free.
func TestACancelledProviderStopsAtOnce(t *testing.T) {
	for name, cancel := range map[string]func(*shop, events.RunID) error{
		"its run": func(s *shop, run events.RunID) error { return s.e.CancelRun(context.Background(), run, ada) },
		"its unit": func(s *shop, run events.RunID) error {
			return s.e.CancelUnit(context.Background(), s.unit(run).Unit, ada)
		},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, options{workers: 1}, func(t *testing.T, s *shop) {
				var o obedient
				s.provider.does = o.sync
				id, messages := s.dispatched(1)
				first := s.begin(messages[0])
				began := time.Now()
				require.NoError(t, cancel(s, id))
				require.NoError(t, <-first)
				require.ErrorIs(t, o.cause, provider.ErrCancelled)
				require.ErrorIs(t, o.cause, towline.ErrLeaseLost)
				require.Equal(t, began, o.at, "it did not wait for a renewal")
				require.Empty(t, s.sink.rows())
				require.Equal(t, 1, s.sink.aborted())
				u := s.unit(id)
				require.Equal(t, events.UnitIsCancelled, u.Status)
				require.Zero(t, u.LateResults, "it learned in time, and offered nothing")
				require.Contains(t, s.log.String(), "unit cancelled, its worker has stopped")

				s.provider.obey(nil)
				second, messages := s.dispatched(1)
				require.NoError(t, s.h.Handle(t.Context(), messages[0]), "the only worker is free again")
				require.Equal(t, events.UnitHasSucceeded, s.unit(second).Status)
			})
		})
	}
}

// X-1, C-32, HU-3: a cancel by another process of the store reaches the worker with its next renewal, within a third of
// the lease.
func TestACancelByAnotherProcessComesWithTheRenewal(t *testing.T) {
	run(t, options{shared: true}, func(t *testing.T, s *shop) {
		var o obedient
		s.provider.does = o.sync
		id, messages := s.dispatched(1)
		other := s.colleague()
		first := s.begin(messages[0])
		began := time.Now()
		require.NoError(t, other.CancelRun(t.Context(), id, ada))
		require.NoError(t, <-first)
		require.ErrorIs(t, o.cause, provider.ErrCancelled)
		require.Positive(t, o.at.Sub(began))
		const thirdOfLease, tick = 20 * time.Second, 2 * time.Second
		require.LessOrEqual(t, o.at.Sub(began), thirdOfLease+tick)
		require.Empty(t, s.sink.rows())
	})
}

// X-8, U-19: the worker of a released unit is told at once as well; it is no cancel, and the next attempt goes on.
func TestAReleasedProviderStopsAtOnce(t *testing.T) {
	run(t, options{syncs: func(syncs []towline.Sync) {
		syncs[0].Datasets[0].Retry = towline.Retry{Max: 1, Backoff: time.Second}
	}}, func(t *testing.T, s *shop) {
		var o obedient
		s.provider.does = o.sync
		id, messages := s.dispatched(1)
		first := s.begin(messages[0])
		began := time.Now()
		require.NoError(t, s.e.ReleaseUnit(t.Context(), s.unit(id).Unit, ada))
		require.NoError(t, <-first)
		require.ErrorIs(t, o.cause, towline.ErrLeaseLost)
		require.NotErrorIs(t, o.cause, provider.ErrCancelled)
		require.Equal(t, began, o.at)
		require.Empty(t, s.sink.rows())
		require.Equal(t, events.UnitIsRetrying, s.unit(id).Status)
	})
}

// HU-3, U-6: the others of the process, who are asked with it, lose nothing: their leases go on, and no renewal is put off
// or written early.
func TestACancelDisturbsNobodyElse(t *testing.T) {
	run(t, options{workers: 2}, func(t *testing.T, s *shop) {
		free := make(chan struct{})
		s.provider.does = func(ctx context.Context, u provider.Unit, w sink.Sink) (provider.Result, error) {
			select {
			case <-free:
			case <-ctx.Done():
				return provider.Result{}, context.Cause(ctx)
			}
			return provider.Result{}, w.Put(ctx, "rows", "1", nil)
		}
		long, messages := s.dispatched(1)
		first := s.begin(messages[0])
		for range 15 { // more often than leases are renewed, for longer than one lasts
			wait(7 * time.Second)
			id, messages := s.dispatched(1)
			done := s.begin(messages[0])
			before := s.head()
			require.NoError(t, s.e.CancelRun(t.Context(), id, ada))
			require.NoError(t, <-done)
			synctest.Wait()
			require.Empty(t, enginetest.Only[events.UnitLeaseRenewed](s.events(before)))
		}
		close(free)
		require.NoError(t, <-first)
		require.Equal(t, events.UnitHasSucceeded, s.unit(long).Status)
		require.Len(t, enginetest.Only[events.UnitLeaseRenewed](s.events(0)), 5, "every third of its lease")
	})
}

// X-1, U-19, C-32, W6: a cancel that comes behind the sink's commit takes nothing back: the rows stay, the result is
// refused and on record as late, and a later run writes the same window again.
func TestACancelBehindTheCommitTakesNothingBack(t *testing.T) {
	run(t, options{}, func(t *testing.T, s *shop) {
		s.provider.does = func(ctx context.Context, _ provider.Unit, w sink.Sink) (provider.Result, error) {
			return provider.Result{}, w.Put(ctx, "rows", "1", nil)
		}
		id, messages := s.dispatched(1)
		s.sink.breakAt("committed", func(context.Context) error { // behind the commit, before the settle
			return s.e.CancelRun(context.Background(), id, ada)
		})
		require.NoError(t, s.h.Handle(t.Context(), messages[0]))
		require.Equal(t, []string{"rows/1"}, s.sink.rows())
		u := s.unit(id)
		require.Equal(t, events.UnitIsCancelled, u.Status)
		require.Equal(t, 1, u.LateResults)
		require.Equal(t, events.Result{}, u.Result)

		s.sink.breakAt("committed", nil)
		p, err := s.e.RetryFailed(t.Context(), towline.RetrySpec{Run: id, Cancelled: true, By: ada})
		require.NoError(t, err)
		require.NoError(t, s.deliver(transport.Notice{Kind: events.KindDispatch, Run: p.Run, Wakeup: 1}))
		require.NoError(t, s.h.Handle(t.Context(), s.messages(p.Run)[0]))
		require.Equal(t, events.UnitHasSucceeded, s.unit(p.Run).Status, "its fence is higher")
	})
}

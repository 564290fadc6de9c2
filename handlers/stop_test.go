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

// N-6, SC-188: behind the end of the intake nothing more is claimed, also by a worker that is free or becomes so; what
// runs may finish, and its result counts.
func TestBehindTheIntakeNothingIsClaimed(t *testing.T) {
	run(t, options{workers: 2}, func(t *testing.T, s *shop) {
		s.provider.does = func(context.Context, provider.Unit, sink.Sink) (provider.Result, error) {
			<-time.After(10 * time.Second)
			return provider.Result{}, nil
		}
		id, messages := s.dispatched(5)
		one, two := s.begin(messages[0]), s.begin(messages[1])
		waiting := s.begin(messages[2])
		s.h.Drain()
		require.Error(t, <-waiting, "it is given back")
		require.Error(t, <-s.begin(messages[3]))
		wait(10 * time.Second)
		require.NoError(t, <-one)
		require.NoError(t, <-two)
		require.Error(t, <-s.begin(messages[4]), "though a worker is free")
		require.Len(t, s.provider.called(), 2)
		require.Equal(t, events.UnitHasSucceeded, s.units(id)[0].Status)
		require.Equal(t, events.UnitIsDispatching, s.units(id)[2].Status)
	})
}

// U-16, N-6, SC-186, SC-360, HC-52: what our own stop ends is handed back if its sink is fenced and has taken nothing;
// else it is left to recovery, which knows whether it may be tried again. A provider that says that it stopped cleanly
// is believed.
func TestWhatAStopEnds(t *testing.T) {
	obeys := func(ctx context.Context, _ provider.Unit, w sink.Sink) (provider.Result, error) {
		_ = w.Put(ctx, "rows", "k", nil)
		<-ctx.Done()
		return provider.Result{}, ctx.Err()
	}
	ends := func(how func() error) provider.Func {
		return func(ctx context.Context, _ provider.Unit, _ sink.Sink) (provider.Result, error) {
			<-ctx.Done()
			return provider.Result{}, how()
		}
	}
	for name, c := range map[string]struct {
		unfenced bool
		does     func(context.Context, provider.Unit, sink.Sink) (provider.Result, error)
		handed   bool
	}{
		"behind a fenced sink":      {does: obeys, handed: true},
		"behind another sink":       {does: obeys, unfenced: true},
		"with a typed error":        {does: ends(func() error { return provider.Fail(events.Network, errPlanted) }), handed: true},
		"cleanly, another sink":     {does: ends(func() error { return provider.ErrStopped }), unfenced: true, handed: true},
		"it says that it is done":   {does: ends(func() error { return nil }), handed: true},
		"a panic, another sink":     {does: ends(func() error { panic("x") }), unfenced: true},
		"done, behind another sink": {does: ends(func() error { return nil }), unfenced: true},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, options{unfenced: c.unfenced, syncs: func(syncs []towline.Sync) {
				syncs[0].Datasets[0].Retry = towline.Retry{Max: 1, Backoff: time.Second}
			}}, func(t *testing.T, s *shop) {
				s.provider.does = c.does
				id, messages := s.dispatched(1)
				done := s.begin(messages[0])
				before := s.head()
				s.h.Stop()
				require.NoError(t, <-done)
				require.Empty(t, s.sink.rows())
				if c.handed {
					scheduled := enginetest.Only[events.UnitRetryScheduled](s.events(before))
					require.Len(t, scheduled, 1)
					require.Equal(t, events.HandedBack, scheduled[0].Cause)
					require.Zero(t, scheduled[0].ExpiredLeaseRetries)
				} else {
					require.Empty(t, s.events(before))
					require.Contains(t, s.log.String(), "left to recovery")
				}
				s.provider.does = nil
				s.restart()
				if !c.handed {
					require.Equal(t, events.UnitIsRetrying, s.unit(id).Status, "its policy allows it")
					require.Equal(t, 1, s.unit(id).ExpiredLeaseRetries)
				}
			})
		})
	}
}

// U-16: a result that the sink has taken while the process stops is stored.
func TestACommitThatAStopMeetsCounts(t *testing.T) {
	run(t, options{}, func(t *testing.T, s *shop) {
		id, messages := s.dispatched(1)
		s.sink.breakAt("commit", func(context.Context) error {
			s.h.Stop() // in the middle of the commit
			return nil
		})
		require.NoError(t, s.h.Handle(t.Context(), messages[0]))
		require.Equal(t, events.UnitHasSucceeded, s.unit(id).Status)
	})
}

// U-16: what the sink has taken is not handed back, for another attempt would write it twice: whether our stop ended the
// attempt, or the provider says that it stopped cleanly.
func TestWhatTheSinkHasTakenIsNotHandedBack(t *testing.T) {
	for name, says := range map[string]error{"our stop": context.Canceled, "a clean stop": provider.ErrStopped} {
		t.Run(name, func(t *testing.T) {
			run(t, options{}, func(t *testing.T, s *shop) {
				id, messages := s.dispatched(1)
				s.sink.breakAt("committed", func(context.Context) error {
					s.h.Stop()
					return says
				})
				require.NoError(t, s.h.Handle(t.Context(), messages[0]))
				require.Equal(t, events.UnitIsRunning, s.unit(id).Status, "recovery decides")
				require.Contains(t, s.log.String(), "left to recovery")
			})
		})
	}
}

// L-11, N-6: a result that is there when the process stops is stored, though the context of its message has ended.
func TestAResultOutlivesTheContextOfItsMessage(t *testing.T) {
	run(t, options{}, func(t *testing.T, s *shop) {
		ctx, cancel := context.WithCancel(t.Context())
		s.provider.does = func(context.Context, provider.Unit, sink.Sink) (provider.Result, error) {
			cancel()
			return provider.Result{}, nil
		}
		id, messages := s.dispatched(1)
		require.NoError(t, s.h.Handle(ctx, messages[0]))
		require.Equal(t, events.UnitHasSucceeded, s.unit(id).Status)
	})
}

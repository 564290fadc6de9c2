package handlers_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/internal/enginetest"
	"github.com/towline-dev/towline/provider"
	"github.com/towline-dev/towline/sink"
)

// CLK-4, HU-3, HU-4, HU-6, HC-23: a provider that works on while the wall clock is set forward and back keeps its lease,
// is not told to stop, and its result counts; the log knows one attempt.
func TestAWorkerOutlivesTheStepsOfAClock(t *testing.T) {
	for _, far := range []time.Duration{time.Hour, 14 * 24 * time.Hour, -14 * 24 * time.Hour} {
		run(t, options{}, func(t *testing.T, s *shop) {
			s.provider.does = func(ctx context.Context, _ provider.Unit, _ sink.Sink) (provider.Result, error) {
				select {
				case <-time.After(50 * time.Minute):
				case <-ctx.Done():
				}
				return provider.Result{}, context.Cause(ctx)
			}
			id, messages := s.dispatched(1)
			done := s.begin(messages[0])
			wait(7 * time.Minute)
			s.ahead.Add(int64(far))
			wait(time.Minute)
			s.ahead.Add(int64(-20 * time.Hour))
			require.NoError(t, <-done)
			require.Equal(t, events.UnitHasSucceeded, s.unit(id).Status)
			require.Equal(t, 1, s.unit(id).Attempt)
			require.Len(t, enginetest.Only[events.ClockStepped](enginetest.Since(t, s.e, 0)), 2)
		})
	}
}

// CLK-4, C-18, HU-4: a step does not make an attempt live longer than its lifetime of real time.
func TestAStepDoesNotLengthenALifetime(t *testing.T) {
	run(t, options{}, func(t *testing.T, s *shop) {
		s.provider.does = func(ctx context.Context, _ provider.Unit, _ sink.Sink) (provider.Result, error) {
			<-ctx.Done()
			return provider.Result{}, ctx.Err()
		}
		id, messages := s.dispatched(1)
		begun := time.Now()
		done := s.begin(messages[0])
		wait(7 * time.Minute)
		s.ahead.Add(int64(14 * 24 * time.Hour))
		require.NoError(t, <-done)
		require.Equal(t, time.Hour-20*time.Second, time.Since(begun))
		require.Equal(t, events.Timeout, s.unit(id).ErrorCategory)
	})
}

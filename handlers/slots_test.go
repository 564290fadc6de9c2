package handlers_test

import (
	"context"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/provider"
	"github.com/towline-dev/towline/sink"
)

// U-5: a worker that ends a unit takes the first in line with it: the settle of the one and the claim of the next are
// one transaction.
func TestASlotIsHandedOver(t *testing.T) {
	run(t, options{workers: 1, knobs: towline.Knobs{CapBucket: 10}}, func(t *testing.T, s *shop) {
		s.provider.does = func(context.Context, provider.Unit, sink.Sink) (provider.Result, error) {
			<-time.After(time.Second)
			return provider.Result{}, nil
		}
		id, messages := s.dispatched(10)
		before := s.store.writes.Load()
		var done []<-chan error
		for _, m := range messages {
			done = append(done, s.begin(m))
		}
		require.Len(t, s.provider.called(), 1)
		wait(11 * time.Second)
		for _, d := range done {
			require.NoError(t, <-d)
		}
		require.EqualValues(t, 11, s.store.writes.Load()-before,
			"one claim, nine that share their settle, and the last settle")
		for i, u := range s.units(id) {
			require.Equal(t, events.UnitHasSucceeded, u.Status)
			require.Equal(t, u.Unit, s.provider.called()[i].ID, "in the order in which they came")
		}
	})
}

// U-5, HU-1: a slot that is handed over to a duplicate goes on to the next in line.
func TestAHandedSlotOfADuplicateGoesOn(t *testing.T) {
	run(t, options{workers: 1}, func(t *testing.T, s *shop) {
		s.provider.does = func(context.Context, provider.Unit, sink.Sink) (provider.Result, error) {
			<-time.After(time.Second)
			return provider.Result{}, nil
		}
		id, messages := s.dispatched(2)
		var done []<-chan error
		for _, m := range []*message.Message{messages[0], messages[0], messages[0], messages[1]} {
			done = append(done, s.begin(m))
		}
		wait(3 * time.Second)
		for _, d := range done {
			require.NoError(t, <-d)
		}
		require.Len(t, s.provider.called(), 2)
		require.Equal(t, events.UnitHasSucceeded, s.units(id)[1].Status)
	})
}

// HU-7: when the store is away at a hand-over, the message of the next in line is refused as well, and no slot is lost.
func TestAHandOverWithoutAStoreLosesNoSlot(t *testing.T) {
	run(t, options{workers: 1}, func(t *testing.T, s *shop) {
		s.provider.does = func(context.Context, provider.Unit, sink.Sink) (provider.Result, error) {
			<-time.After(time.Second)
			return provider.Result{}, nil
		}
		id, messages := s.dispatched(2)
		first, second := s.begin(messages[0]), s.begin(messages[1])
		s.store.gone.Store(true)
		wait(time.Second)
		require.ErrorIs(t, <-second, towline.ErrUnavailable)
		s.store.gone.Store(false)
		wait(time.Second)
		require.NoError(t, <-first)
		require.NoError(t, s.h.Handle(t.Context(), messages[1]))
		require.Equal(t, events.UnitHasSucceeded, s.units(id)[1].Status)
	})
}

package handlers_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/provider"
	"github.com/towline-dev/towline/sink"
	"github.com/towline-dev/towline/transport/local"
)

// routed puts the handlers of a shop onto a router over a bus, as package node does.
func routed(t *testing.T, s *shop, o local.Options) *local.Bus {
	t.Helper()
	o.Logger = s.e.Logger()
	bus := local.New(o)
	router, err := message.NewRouter(message.RouterConfig{CloseTimeout: time.Minute}, watermill.NopLogger{})
	require.NoError(t, err)
	s.h.Register(router, func(events.Kind) message.Subscriber { return bus.Subscriber(4) })
	ended := make(chan error, 1)
	go func() { ended <- router.Run(context.Background()) }()
	<-router.Running()
	s.t.Cleanup(func() { require.NoError(t, bus.Close()) })
	s.ending = append(s.ending, func() {
		s.h.Drain()
		require.NoError(t, errors.Join(router.Close(), <-ended))
	})
	return bus
}

// C-44, L-11: a store that is away for an hour uses up no delivery of a message: the units that were on their way when
// it went go on when it is back. It is said once a minute.
func TestAStoreThatIsAwayUsesUpNoDelivery(t *testing.T) {
	run(t, options{}, func(t *testing.T, s *shop) {
		bus := routed(t, s, local.Options{MaxDeliveries: 3})
		id, messages := s.dispatched(4)
		s.store.gone.Store(true)
		for _, m := range messages {
			require.Equal(t, events.Accepted, bus.Send(t.Context(), string(events.KindUnit), m).Outcome)
		}
		wait(time.Hour)
		require.InDelta(t, 60, strings.Count(s.log.String(), "the store cannot answer"), 2)
		require.NotContains(t, s.log.String(), "dropped")
		s.store.gone.Store(false)
		wait(2 * time.Second)
		for _, u := range s.units(id) {
			require.Equal(t, events.UnitHasSucceeded, u.Status)
		}
	})
}

// HU-6, E-1: a unit that fails is said in the log, once, with its category; a panic with where it was.
func TestAFailureIsSaid(t *testing.T) {
	run(t, options{}, func(t *testing.T, s *shop) {
		s.provider.does = func(context.Context, provider.Unit, sink.Sink) (provider.Result, error) {
			return provider.Result{}, provider.Fail(provider.Auth, errPlanted)
		}
		_, messages := s.dispatched(2)
		require.NoError(t, s.h.Handle(t.Context(), messages[0]))
		require.Equal(t, 1, strings.Count(s.log.String(), "level=WARN"), s.log)
		require.Contains(t, s.log.String(), `msg="unit failed"`)
		require.Contains(t, s.log.String(), "category=auth")
		s.provider.does = func(context.Context, provider.Unit, sink.Sink) (provider.Result, error) { panic("out of paper") }
		require.NoError(t, s.h.Handle(t.Context(), messages[1]))
		require.Contains(t, s.log.String(), "router_test.go")
	})
}

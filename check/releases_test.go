package check

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/events"
)

// O-S7, O-10, O-16, K-2: of a fan-out one message may be refused for ever while another met something else. It is parked
// for the first, and its release says the second. A wakeup of one message has one outcome.
func TestAFanOutMayBeParkedWithAnotherOutcome(t *testing.T) {
	parked := func(k events.Kind, messages int, planned func(*script)) []Violation {
		s := newScript(t)
		s.start(1)
		planned(s)
		token := s.take(1, k, 1, 1, messages)
		s.tx(func() {
			s.add(reg(1, k), events.OutboxReleased{
				N: 1, Token: token, Cause: events.ReleasePublishUnknown, AvailableAt: s.now.Add(5 * second), Counted: true, MaybePublished: true,
			})
			s.add(reg(1, k), events.OutboxParked{N: 1, Cause: events.ParkPermanent, Attempts: 1})
		})
		return checkLog(s.render(), Options{}).Violations()
	}
	plan := func(s *script) { s.plan(1, policy(), s.work("a", "x"), s.work("b", "x")) }
	require.Empty(t, parked(events.KindUnit, 2, func(s *script) {
		plan(s)
		s.relay(1, events.KindDispatch, 1, 1)
		s.dispatchUnits(1, 1, true, to(1, 1, 1, events.DispatchPlanned), to(2, 1, 1, events.DispatchPlanned))
	}))
	require.Empty(t, parked(events.KindPostSync, 2, func(s *script) { s.succeeded(1, events.ExactlyOnce, "report", "page") }))
	require.Len(t, parked(events.KindPostSync, 1, func(s *script) { s.succeeded(1, events.ExactlyOnce, "report") }), 1)
	require.Len(t, parked(events.KindDispatch, 1, plan), 1)
}

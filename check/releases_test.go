package check

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/events"
)

// O-S7, O-10, O-16, K-2: of a fan-out one message may be refused for ever while another met something else. It is parked
// for the first, and its release says the second. A wakeup of one message has one outcome.
func TestAFanOutMayBeParkedWithAnotherOutcome(t *testing.T) {
	parked := func(k events.Kind, messages int, cause events.ReleaseCause, planned func(*script)) []Violation {
		s := newScript(t)
		s.start(1)
		planned(s)
		token := s.take(1, k, 1, 1, messages)
		released, attempts := events.OutboxReleased{N: 1, Token: token, Cause: cause, AvailableAt: s.now.Add(5 * second)}, 0
		s.tx(func() {
			if cause == events.ReleasePublishUnknown {
				released.Counted, released.MaybePublished, attempts = true, true, 1
			} else {
				s.add(events.NodeStream(s.node), events.BreakerOpened{Transport: "nats", Until: s.now.Add(10 * second), Kinds: events.Kinds[:]})
			}
			s.add(reg(1, k), released)
			s.add(reg(1, k), events.OutboxParked{N: 1, Cause: events.ParkPermanent, Attempts: attempts})
		})
		return checkLog(s.render(), Options{}).Violations()
	}
	plan := func(s *script) { s.plan(1, policy(), s.work("a", "x"), s.work("b", "x")) }
	fanOut := func(s *script) {
		plan(s)
		s.relay(1, events.KindDispatch, 1, 1)
		s.dispatchUnits(1, 1, true, to(1, 1, 1, events.DispatchPlanned), to(2, 1, 1, events.DispatchPlanned))
	}
	two := func(s *script) { s.succeeded(1, events.ExactlyOnce, "report", "page") }
	one := func(s *script) { s.succeeded(1, events.ExactlyOnce, "report") }
	for _, cause := range []events.ReleaseCause{events.ReleasePublishUnknown, events.ReleaseBreakerOpen} {
		require.Empty(t, parked(events.KindUnit, 2, cause, fanOut), cause)
		require.Empty(t, parked(events.KindPostSync, 2, cause, two), cause)
		require.Len(t, parked(events.KindPostSync, 1, cause, one), 1, cause)
		require.Len(t, parked(events.KindDispatch, 1, cause, plan), 1, cause)
	}
	require.Len(t, parked(events.KindUnit, 2, events.ReleaseShed, fanOut), 1, "no publish had begun, so nothing was refused")
}

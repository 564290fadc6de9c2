package projections_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/projections"
)

// REC-12, O-15, O-18: what is parked waits for a person as long as something is owed to it: until it is redriven, its run
// ends, its message is settled, or its post_sync is done.
func TestWhatIsParkedIsHeldWhileItIsOwed(t *testing.T) {
	a := newAftermath(t)
	held := func(want ...events.Kind) {
		t.Helper()
		a.view(func(v projections.View) {
			n, err := v.Held()
			require.NoError(t, err)
			require.Equal(t, len(want), n)
			list, err := v.HeldRegisters(10)
			require.NoError(t, err)
			var got []events.Kind
			for _, r := range list {
				got = append(got, r.Kind)
			}
			require.ElementsMatch(t, want, got)
		})
	}
	park := func(owner events.RunID, k events.Kind) {
		a.appends(events.RegisterStream(owner, k), events.OutboxArmed{N: 1, AvailableAt: 1}, events.OutboxParked{N: 1, Cause: events.ParkOperator})
	}
	ended := a.ended(1, events.Policy{PostSync: events.ExactlyOnce, MaxDeliveries: 2})
	open, message, redriven := events.RunID{15: 2}, events.MessageID{15: 3}, events.MessageID{15: 4}
	a.appends(events.RunStream(open), events.RunPlanned{Job: events.JobID{15: 2}, Sync: "s", TotalUnits: 1})
	a.appends(events.AppStream("t"), events.MessageSubmitted{Message: message, Payload: []byte(`1`)}, events.MessageSubmitted{Message: redriven, Payload: []byte(`1`)})
	park(open, events.KindDispatch)
	park(open, events.KindFinalize)
	park(ended, events.KindPostSync)
	park(events.RunID(message), events.KindMessage)
	park(events.RunID(redriven), events.KindMessage)
	held(events.KindDispatch, events.KindFinalize, events.KindPostSync, events.KindMessage, events.KindMessage)

	a.appends(events.MessageStream(redriven), events.OutboxArmed{N: 2, AvailableAt: 1, Cause: events.ArmRedriven})
	held(events.KindDispatch, events.KindFinalize, events.KindPostSync, events.KindMessage)
	a.appends(events.RunStream(open), events.RunCancelled{Actor: "ada", Counts: events.Counts{Total: 1, Cancelled: 1}})
	held(events.KindPostSync, events.KindMessage)
	a.appends(events.AppStream("t"), events.MessageHandled{Message: message})
	held(events.KindPostSync)
	a.appends(events.RunStream(ended), events.PostSyncCompleted{Target: "t"})
	held()
}

package decider

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/events"
)

// Section 7: the delivery table of this release. Only post_sync is marked first, and only it is never armed again.
func TestTheDeliveryTable(t *testing.T) {
	for _, d := range Deliveries {
		postSync := d.Kind == events.KindPostSync
		require.Equal(t, postSync, d.Order == events.MarkFirst, d.Kind)
		require.Equal(t, postSync, !d.Rearm, d.Kind)
		require.Equal(t, string(d.Kind), d.Topic)
		require.NotEmpty(t, d.ArmedBy)
		require.NotEmpty(t, d.Harmless)
		require.Equal(t, d, DeliveryOf(d.Kind, events.AtMostOnce))
	}
	for _, k := range []events.Kind{events.KindDispatch, events.KindUnit, events.KindFinalize} {
		require.Equal(t, k, DeliveryOf(k, "").Kind, "mode matters for post_sync only")
	}
}

// K-7: what this release cannot deliver is a programmer's error, not a default.
func TestADeliveryThatIsNotThereIsAPanic(t *testing.T) {
	require.PanicsWithValue(t, "decider: no delivery for post_sync exactly_once", func() { DeliveryOf(events.KindPostSync, events.ExactlyOnce) })
	require.PanicsWithValue(t, "decider: no delivery for message ", func() { DeliveryOf(events.KindMessage, "") })
	require.Panics(t, func() { DeliveryOf(events.KindPostSync, "") })
}

// K-3, K-4, K-8: ids are stable per wakeup, unit and attempt, and per target; the generation is that of the run.
func TestMessageIds(t *testing.T) {
	run, unit := theRun.String(), theUnit.String()
	require.Equal(t, run+".finalize_sync_run.3", MessageID(theRun, events.KindFinalize, 3))
	require.Equal(t, run+".run_sync_unit.2."+unit+".4", UnitMessageID(theRun, 2, theUnit, 4))
	require.Equal(t, run+".post_sync.1.activity", TargetMessageID(theRun, 1, "activity"))
	require.Equal(t, run+".1", Generation(theRun))
}

package decider

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/events"
)

// K-3, section 7: the delivery table of this release. Only an at_most_once post_sync is marked first, and only it is
// never armed again. An application's message goes to a topic of its own.
func TestTheDeliveryTable(t *testing.T) {
	type row struct {
		kind      events.Kind
		mode      events.DeliveryMode
		guarantee string
		order     events.Order
		rearm     bool
	}
	var got []row
	for _, d := range Deliveries {
		got = append(got, row{d.Kind, d.Mode, d.Guarantee, d.Order, d.Rearm})
		if d.Kind != events.KindMessage {
			require.Equal(t, string(d.Kind), d.Topic)
		}
		require.Equal(t, d.Kind == events.KindMessage, d.ByRedrive)
		require.NotEmpty(t, d.ArmedBy)
		require.NotEmpty(t, d.Harmless)
		mode := d.Mode
		if mode == "" {
			mode = events.AtMostOnce
		}
		require.Equal(t, d, DeliveryOf(d.Kind, mode))
	}
	require.Equal(t, []row{
		{events.KindDispatch, "", "at least once", "publish_first", true},
		{events.KindUnit, "", "at least once", "publish_first", true},
		{events.KindFinalize, "", "at least once", "publish_first", true},
		{events.KindPostSync, "at_most_once", "at most once", "mark_first", false},
		{events.KindPostSync, "exactly_once", "at least once, effect once", "publish_first", true},
		{events.KindMessage, "", "at least once", "publish_first", true},
	}, got)
	for _, k := range kinds[:3] {
		require.Equal(t, k, DeliveryOf(k, "").Kind, "mode matters for post_sync only")
	}
}

// K-7: what this release cannot deliver is a programmer's error, not a default.
func TestADeliveryThatIsNotThereIsAPanic(t *testing.T) {
	require.PanicsWithValue(t, "decider: no delivery for post_sync sometimes", func() { DeliveryOf(events.KindPostSync, "sometimes") })
	require.PanicsWithValue(t, "decider: no delivery for news ", func() { DeliveryOf("news", "") })
	require.Panics(t, func() { DeliveryOf(events.KindPostSync, "") })
}

// K-3, K-4, K-8: ids are stable per wakeup, unit and attempt, and per target; the generation is that of the run.
func TestMessageIds(t *testing.T) {
	run, unit := theRun.String(), theUnit.String()
	require.Equal(t, run+".finalize_sync_run.3", MessageID(theRun, events.KindFinalize, 3))
	require.Equal(t, run+".run_sync_unit.2."+unit+".4", UnitMessageID(theRun, 2, theUnit, 4))
	require.Equal(t, run+".post_sync.1.activity", TargetMessageID(theRun, 1, "activity"))
	require.Equal(t, run+".1", Generation(theRun))
	require.Equal(t, theMessage.String()+".message.2", MessageID(events.RunID(theMessage), events.KindMessage, 2))
}

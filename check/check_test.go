package check

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/events"
)

// Section 23: a log that keeps the specification has no violation, whatever the checker remembers.
func TestCorrectLogsAreClean(t *testing.T) {
	for _, sc := range scenarios {
		t.Run(sc.name, func(t *testing.T) {
			s := newScript(t)
			sc.play(s)
			log := s.render()
			require.Empty(t, checkLog(log, Options{}).Violations())
			require.Empty(t, checkLog(log, Options{Keep: true, Broker: true}).Violations())

			c := New(Options{})
			for _, e := range log {
				c.Apply(e)
			}
			c.EndTx()
			c.EndTx() // ending a transaction twice is ending it once
			require.Empty(t, c.Finish())
			require.Empty(t, c.Finish())
		})
	}
}

// L-7: the scenarios hold every event of the catalogue but for those that a test of its own holds.
func TestScenariosHoldEveryEvent(t *testing.T) {
	elsewhere := map[events.Type]bool{events.TypeSegmentPurged: true}
	for _, sc := range scenarios {
		s := newScript(t)
		sc.play(s)
		for _, e := range s.entries {
			elsewhere[e.event.EventType()] = true
		}
	}
	for _, typ := range events.Types() {
		require.True(t, elsewhere[typ], "no scenario holds %s", typ)
	}
}

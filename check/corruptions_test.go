package check

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/events"
)

// corruption is one fault planted into a correct log, and the rule that must name it. plant returns the entry at whose
// position the violation must stand.
type corruption struct {
	rule  string
	name  string
	play  func(*script)
	plant func(*script) *entry
}

// corruptions are those that the log alone shows. The first words of a name are the rule behind the invariant.
var corruptions = slices.Concat(
	planCorruptions, runCorruptions, operatorCorruptions, dispatchCorruptions, leaseCorruptions, settleCorruptions,
	wakeupCorruptions, nodeCorruptions, effectCorruptions, holdCorruptions, breakerCorruptions, messageCorruptions, scheduleCorruptions,
)

// inject plays the scenario, plants the fault, and returns the log and the position at which it shows.
func (c corruption) inject(t testing.TB) ([]events.Envelope, events.Position) {
	t.Helper()
	s := newScript(t)
	c.play(s)
	at := c.plant(s)
	log := s.render()
	require.NotZero(t, at.position, "the fault is not in the log")
	return log, at.position
}

// Section 23: every planted fault is found and named, at its position, and the checker says the same whether it keeps
// ended runs or not.
func TestPlantedCorruptionsAreNamed(t *testing.T) {
	for _, c := range corruptions {
		t.Run(c.rule+" "+c.name, func(t *testing.T) {
			log, at := c.inject(t)
			got := checkLog(log, Options{}).Violations()
			requireNamed(t, fault{c.rule, c.name, ByLog, at, got})
			require.Equal(t, got, checkLog(log, Options{Keep: true, Broker: true}).Violations())
			for _, v := range got {
				require.NotEqual(t, "I-1", v.Rule, "the planted log has its places in order: %s", v)
				require.Equal(t, log[v.Position-1].Stream, v.Stream, "a violation names the stream of its event: %s", v)
			}
		})
	}
}

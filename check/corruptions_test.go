package check

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
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
	wakeupCorruptions, nodeCorruptions,
)

// Section 23: every planted fault is found and named, at its position, and the checker says the same whether it keeps
// ended runs or not.
func TestPlantedCorruptionsAreNamed(t *testing.T) {
	for _, c := range slices.Concat(corruptions, effectCorruptions, holdCorruptions, breakerCorruptions, messageCorruptions) {
		t.Run(c.rule+" "+c.name, func(t *testing.T) {
			s := newScript(t)
			c.play(s)
			want := c.plant(s)
			log := s.render()
			if want.position == 0 {
				t.Fatal("the fault is not in the log")
			}
			got := checkLog(log, Options{}).Violations()
			require.True(t, slices.ContainsFunc(got, func(v Violation) bool {
				return v.Rule == c.rule && v.Position == want.position && v.Text != ""
			}), "want %s at %d (%s), got:\n%s", c.rule, want.position, want.event.EventType(), lines(got))
			require.Equal(t, got, checkLog(log, Options{Keep: true, Broker: true}).Violations())
			for _, v := range got {
				require.NotEqual(t, "I-1", v.Rule, "the planted log has its places in order: %s", v)
				require.Equal(t, log[v.Position-1].Stream, v.Stream, "a violation names the stream of its event: %s", v)
			}
		})
	}
}

func lines(vs []Violation) (s string) {
	for _, v := range vs {
		s += fmt.Sprintln(" ", v)
	}
	return s
}

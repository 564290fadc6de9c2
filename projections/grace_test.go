package projections_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/projections"
)

// statements is a Writer that keeps what it is told.
type statements []recorded

func (s *statements) Exec(query string, args ...any) error {
	*s = append(*s, recorded{query, args})
	return nil
}

// CLK-4, REC-4: a step writes in one statement, which looks at running units only, whatever has happened before; a step
// that grants nothing writes nothing to them.
func TestAGraceLooksAtRunningUnitsOnly(t *testing.T) {
	h := told(t, 16, 200)
	var node events.NodeID
	apply := func(e events.ClockStepped) (out statements) {
		for _, p := range projections.All() {
			if p.Name() == "units" {
				require.NoError(t, p.Apply(&out, events.Envelope{Stream: events.NodeStream(node), Event: e}, decider.Node{}, decider.Node{}))
			}
		}
		return out
	}
	require.Empty(t, apply(events.ClockStepped{Before: 1, After: 5}))
	out := apply(events.ClockStepped{Before: 1, After: 5, GraceUntil: 9})
	require.Len(t, out, 1)
	require.Equal(t, []any{int64(9), int64(4), int64(1)}, out[0].args)
	plan := h.plan(out[0])
	require.Contains(t, plan, "USING INDEX units_lease")
	golden(t, filepath.Join("..", "testfixtures", "plans", "grace_leases.txt"), tidy(out[0].query)+"\n----\n"+plan+"\n")
}

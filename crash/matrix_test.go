package crash

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/events"
)

// G-1, G-4, spec 12: every durable boundary of a run is listed, its crash recovers, and where something is lost this is by
// contract and shown.
func TestEveryBoundaryOfARun(t *testing.T) {
	path := newspaper{kills: []int{40}}.print(t)
	m, err := MakeMatrix(context.Background(), Options{Store: path, Seed: 1})
	require.NoError(t, err)
	var text strings.Builder
	require.NoError(t, m.Text(&text))
	requireGolden(t, "matrix.txt", text.String())

	require.True(t, m.Good(), text.String())
	require.Empty(t, m.Log)
	require.Zero(t, m.Violations())
	require.Positive(t, m.Count(Absorbed))
	require.Positive(t, m.Count(Lost))
	var at []events.Position
	for _, r := range m.Rows {
		if r.Called == "" {
			at = append(at, r.Position)
		}
	}
	log, err := readLog(context.Background(), path, t.TempDir())
	require.NoError(t, err)
	var ends []events.Position
	for _, b := range boundariesOf(log) {
		ends = append(ends, b.position())
	}
	require.Equal(t, ends, at, "each durable boundary is listed, once")
}

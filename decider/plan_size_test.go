package decider

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/towline-dev/towline/events"
)

// P-4: what is counted by arithmetic is what is built.
func TestTheCountIsTheNumberOfUnits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		moment := rapid.Map(rapid.Int64Range(-50*365*24*3600, 300*365*24*3600), func(s int64) time.Time { return time.Unix(s, 0) })
		anyOf := rapid.SampledFrom([]time.Duration{0, 1, time.Hour, day - 1, day, day + 1, 36 * time.Hour, 7 * day, 400 * day})
		in := input(Dataset{
			Name: "d", Members: rapid.SampledFrom([][]string{nil, {"a", "b"}}).Draw(t, "members"),
			Calendar: rapid.SampledFrom([]events.Calendar{"", events.Day, events.Week, events.Month, events.Year}).Draw(t, "calendar"),
			Depth:    time.Duration(rapid.Int64Range(1, int64(5000*day)).Draw(t, "depth")),
		})
		in.Datasets[0].Snapshot = in.Datasets[0].Calendar == "" && rapid.Bool().Draw(t, "snapshot")
		in.Sources = []string{"a", "b", "c"}
		in.Mode = rapid.SampledFrom([]events.Mode{events.Backfill, events.FullResync}).Draw(t, "mode")
		in.Knobs.Chunk, in.Knobs.ChunkWorkItem = anyOf.Draw(t, "chunk"), anyOf.Draw(t, "chunk of a family")
		in.Now, in.MaxUnits = moment.Draw(t, "now").Add(anyOf.Draw(t, "more")), math.MaxInt
		in.Since = moment.Draw(t, "since").Add(anyOf.Draw(t, "more"))
		in.Before = in.Since.Add(time.Duration(rapid.Int64Range(-int64(10*day), int64(5000*day)).Draw(t, "length")))
		if in.Mode == events.FullResync && rapid.Bool().Draw(t, "to its end") {
			in.Before = time.Time{}
		}
		require.Len(t, decomposeAny(t, in), in.atLeast())
	})
}

func decomposeAny(t *rapid.T, in PlanInput) []events.UnitPlanned {
	units, err := Decompose(in)
	require.NoError(t, err)
	return units
}

// P-4: the count is over all sources and datasets; a request without end is refused by arithmetic, whose numbers fit.
func TestAHopelessRequestIsRefusedWithoutBeingBuilt(t *testing.T) {
	in := input()
	for i := range 20 {
		in.Datasets = append(in.Datasets, Dataset{Name: fmt.Sprint(i), Calendar: events.Day})
		in.Sources = append(in.Sources, fmt.Sprint(i))
	}
	in.Mode, in.Since, in.Before = events.Backfill, date(2025, 1, 1), date(2026, 1, 1)
	refuse := func(want int) {
		var tooLarge *PlanTooLargeError
		_, err := Decompose(in)
		require.ErrorAs(t, err, &tooLarge)
		require.Equal(t, PlanTooLargeError{Units: want, Limit: 1000}, *tooLarge)
	}
	refuse(21 * 20 * 365)
	in.Since, in.Before = date(1, 1, 2), date(9999, 12, 31)
	held := testing.AllocsPerRun(1, func() {
		const of9998Years = 3_652_057
		refuse(of9998Years * 274) // enough
	})
	require.Less(t, held, 100.0)
	require.LessOrEqual(t, 3_652_057*274, math.MaxInt32)
}

// P-4: what only reading can tell is read until it is too much, and not to its end: the writer waits.
func TestAPlanThatIsTooLargeIsNotReadToItsEnd(t *testing.T) {
	in := monthly(events.Incremental, nil, nil)
	in.Knobs.Depth = 3650 * day // 120 months and the open one
	read := 0
	in.Covered = func(string, string) []Period { read++; return nil }
	in.Sources = nil
	for i := range 500 {
		in.Sources = append(in.Sources, fmt.Sprint(i))
	}
	_, err := Decompose(in)
	var tooLarge *PlanTooLargeError
	require.ErrorAs(t, err, &tooLarge)
	require.Equal(t, PlanTooLargeError{Units: 9 * 121, Limit: 1000}, *tooLarge)
	require.Equal(t, 9, read)
}

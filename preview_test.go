package towline_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/projections"
)

// P-13: a preview is the plan that would be made, and nothing of it is written: the same units in the same order, and the next
// request finds the log as it was.
func TestAPreviewIsThePlanAndWritesNothing(t *testing.T) {
	s := reports()
	s.Sources = []string{"north", "south"}
	s.Datasets = []towline.Dataset{{Name: "articles"}, {Name: "authors", Tier: events.TierReference}}
	for name, spec := range map[string]towline.RunSpec{
		"incremental":   {Sync: "reports"},
		"backfill":      {Sync: "reports", Mode: towline.Backfill, Since: start.AddDate(0, 0, -20), Before: start},
		"one source":    {Sync: "reports", Sources: []string{"south"}},
		"without units": {Sync: "reports", Sources: []string{}},
		"with a key":    {Sync: "reports", Key: "k"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorkshop(t, s)
			before := w.head()
			spec.By = towline.Actor{Name: "ada"}
			seen, err := w.e.Preview(t.Context(), spec)
			require.NoError(t, err)
			require.False(t, seen.Known.Replayed)
			require.Equal(t, before, w.head())

			p := w.plan(spec)
			require.Equal(t, p.Units, len(seen.Units))
			w.view(func(v projections.View) {
				units, err := v.Units(p.Run, 0, 1000)
				require.NoError(t, err)
				require.Len(t, units, len(seen.Units))
				for i, u := range units {
					like := seen.Units[i]
					require.Equal(t, []any{u.Ordinal, u.Source, u.Dataset, u.Tier, u.Window}, []any{i + 1, like.Source, like.Dataset, like.Tier, like.Window})
				}
			})
			if spec.Key == "" {
				return
			}
			again, err := w.e.Preview(t.Context(), spec)
			require.NoError(t, err)
			require.True(t, again.Known.Replayed)
			require.Equal(t, p.Run, again.Known.Run)
			require.Empty(t, again.Units)
		})
	}
}

// P-13: what a plan refuses, a preview refuses with the same error, and a key is not used up.
func TestAPreviewRefusesWhatAPlanRefuses(t *testing.T) {
	s := reports()
	s.OneActiveRun = true
	w := newWorkshop(t, s)
	hour := time.Hour
	for _, spec := range []towline.RunSpec{
		{Sync: "no such"},
		{Sync: "reports", Mode: "sideways"},
		{Sync: "reports", Sources: []string{"nowhere"}},
		{Sync: "reports", Mode: towline.Backfill, Since: start, Before: start.Add(-hour)},
		{Sync: "reports", Mode: towline.Backfill, Since: start.AddDate(-40, 0, 0), Before: start}, // P-4
	} {
		before := w.head()
		_, refused := w.e.Plan(t.Context(), spec)
		require.Error(t, refused)
		_, err := w.e.Preview(t.Context(), spec)
		require.Equal(t, refused, err)
		require.Equal(t, before, w.head())
	}
	open := w.plan(towline.RunSpec{Sync: "reports"})
	_, err := w.e.Preview(t.Context(), towline.RunSpec{Sync: "reports"})
	var exists *towline.RunExistsError
	require.ErrorAs(t, err, &exists) // P-10
	require.Equal(t, open.Run, exists.Run)
}

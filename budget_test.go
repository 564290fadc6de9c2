package towline_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/store"
)

// DUR-6, T-2, P-11, S-8: at its size budget a store accepts no new run, by whatever trigger, and writes nothing for it; a
// repeated key still gets its first answer, a due time stays undecided, health says so, and every run that was accepted ends in
// the reserve. With a larger budget all goes on.
func TestAStoreAtItsSizeBudget(t *testing.T) {
	c := towline.Config{Schedules: []towline.Schedule{hourly()}, MaxBytes: 1 << 20}
	w := openWorkshop(t, options{config: c})
	plan := func(n int) (towline.Planned, error) {
		return w.e.Plan(context.Background(), towline.RunSpec{Sync: "reports", Key: strconv.Itoa(n)})
	}
	first, err := plan(0)
	require.NoError(t, err)
	accepted := []towline.Planned{first}
	for n := 1; err == nil; n++ {
		require.Less(t, n, 1000)
		var p towline.Planned
		if p, err = plan(n); err == nil {
			accepted = append(accepted, p)
		}
	}
	var full *towline.DiskBudgetError
	require.ErrorAs(t, err, &full)
	require.EqualValues(t, 1<<20, full.Max)
	require.EqualValues(t, 7<<17, full.Full)
	require.Greater(t, full.Used+full.Owed, full.Full)
	require.Less(t, full.Used, full.Max)
	require.Equal(t, []string{towline.DiskBudget}, w.conditions())
	require.Len(t, w.e.Full(), 1, "whoever archives is told")

	head := w.head()
	again, err := plan(0)
	require.NoError(t, err)
	require.True(t, again.Replayed)
	require.Equal(t, first.Run, again.Run)
	_, err = w.e.RunSchedule(context.Background(), "hourly", "", ada)
	require.ErrorAs(t, err, &full)
	w.advance(time.Hour)
	_, err = w.e.Tick(context.Background(), "hourly")
	require.ErrorAs(t, err, &full)
	require.Equal(t, head, w.head(), "nothing was written")

	for range 2 {
		_, err = w.e.Tick(context.Background(), "hourly")
		require.ErrorAs(t, err, &full)
		waits := w.e.ScheduleWaits()
		require.Len(t, waits, 1, "who is tried for ever is named")
		require.Equal(t, towline.ScheduleWait{Schedule: "hourly", Since: waits[0].Since, Text: err.Error(), Budget: true}, waits[0])
		state, err := w.e.Schedule(context.Background(), "hourly", 1)
		require.NoError(t, err)
		require.Equal(t, &waits[0], state.Wait)
		require.Equal(t, []string{towline.DiskBudget, towline.ScheduleWaits}, w.conditions())
		w.advance(time.Second)
	}

	w.deliver(w.complete)
	for _, p := range accepted {
		require.True(t, w.run(p.Run).Status.Terminal())
	}
	require.LessOrEqual(t, w.used(), full.Max, "what was accepted has ended within the budget")
	w.o.config.MaxBytes = 1 << 30
	w.restart()
	require.Empty(t, w.conditions())
	require.Len(t, w.tick("hourly").Planned, 1)
	require.Empty(t, w.e.ScheduleWaits())
}

// S-8: a schedule whose look has failed is named until a look succeeds; a store that cannot be written names itself.
func TestAScheduleThatWaitsIsNamedUntilALookSucceeds(t *testing.T) {
	many := reports()
	for i := range 400 {
		many.Sources = append(many.Sources, "more-"+strconv.Itoa(i))
	}
	w := openWorkshop(t, options{config: towline.Config{Syncs: []towline.Sync{many}, Schedules: []towline.Schedule{hourly()}, MaxBytes: 1 << 20}})
	w.advance(time.Hour)
	_, err := w.e.Tick(context.Background(), "hourly")
	require.ErrorAs(t, err, new(*towline.DiskBudgetError))
	require.Equal(t, []string{towline.ScheduleWaits}, w.conditions(), "smaller runs are accepted")
	require.NoError(t, w.e.PauseSchedule(context.Background(), "hourly", ada))
	w.tick("hourly")
	require.Empty(t, w.e.ScheduleWaits(), "a pause holds it, and says so itself")
}

// used counts what the store holds.
func (w *workshop) used() (bytes int64) {
	w.t.Helper()
	require.NoError(w.t, w.store.Read(context.Background(), func(r store.Reader) error {
		return r.Query(func(row store.Row) error { return row.Scan(&bytes) },
			`SELECT (page_count - freelist_count) * page_size FROM pragma_page_count, pragma_freelist_count, pragma_page_size`)
	}))
	return bytes
}

// DUR-6: one run that would need more than the budget until its end is refused before any of it is written, however empty the
// store is; a smaller one is accepted, and ends within the budget.
func TestARunThatIsLargerThanTheSizeBudget(t *testing.T) {
	many := reports()
	for i := range 400 {
		many.Sources = append(many.Sources, "more-"+strconv.Itoa(i))
	}
	w := openWorkshop(t, options{config: towline.Config{Syncs: []towline.Sync{many}, MaxBytes: 1 << 20}})
	head := w.head()
	_, err := w.e.Plan(context.Background(), towline.RunSpec{Sync: "reports"})
	var full *towline.DiskBudgetError
	require.ErrorAs(t, err, &full)
	require.Less(t, full.Used, full.Full)
	require.Equal(t, head, w.head())
	require.Empty(t, w.conditions(), "others are accepted")
	p, err := w.e.Plan(context.Background(), towline.RunSpec{Sync: "reports", Sources: many.Sources[:200]})
	require.NoError(t, err)
	w.deliver(w.complete)
	require.True(t, w.run(p.Run).Status.Terminal())
	require.LessOrEqual(t, w.used(), full.Max)
}

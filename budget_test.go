package towline_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline"
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
	require.GreaterOrEqual(t, full.Used, full.Full)
	require.Less(t, full.Used, full.Max)
	require.Equal(t, []string{towline.DiskBudget}, w.conditions())

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

	w.deliver(w.complete)
	for _, p := range accepted {
		require.True(t, w.run(p.Run).Status.Terminal())
	}
	w.o.config.MaxBytes = 1 << 30
	w.restart()
	require.Empty(t, w.conditions())
	require.Len(t, w.tick("hourly").Planned, 1)
}

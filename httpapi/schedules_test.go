package httpapi_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/httpapi"
)

// scheduled has schedules on the eve of the day on which the clocks of Berlin go back.
func scheduled(c *setup) {
	eve := time.Date(2026, 10, 24, 12, 0, 0, 0, time.UTC)
	c.node.Now, c.node.Monotonic = func() time.Time { return eve }, func() time.Duration { return 0 }
	c.node.Schedules = []towline.Schedule{
		{Name: "nightly", Sync: "days", Cron: "30 2 * * *", TimeZone: "Europe/Berlin", Datasets: []string{"a"}},
		{Name: "each/hour", Sync: "days", Cron: "0 * * * *", CatchUp: towline.CatchUpAll, Max: 3, Overlap: towline.OverlapQueue, Mode: towline.FullResync},
	}
	c.idle = true
}

// S-3, S-9: a schedule says what it asks for and when it is due next: on the wall, in UTC, and what the change of a clock does to
// it.
func TestSchedulesSayWhenTheyAreDue(t *testing.T) {
	w := start(t, scheduled)
	var list httpapi.List[httpapi.Schedule]
	answer := w.send("GET", "/v1/schedules?next=2", nil).is(http.StatusOK, &list)
	require.Empty(t, answer.header.Get("ETag"), "it goes on with the clock")
	require.Len(t, list.Items, 2)
	hourly, nightly := list.Items[0], list.Items[1]
	require.Equal(t, "each/hour", hourly.Name)
	require.Equal(t, "full_resync", string(hourly.Mode))
	require.Equal(t, 3, hourly.Max)
	require.Equal(t, []string{"a"}, nightly.Selection.Datasets)
	require.Equal(t, []httpapi.Fire{
		{
			At: time.Date(2026, 10, 25, 0, 30, 0, 0, time.UTC), Local: "2026-10-25 02:30:00 CEST", Civil: nightly.Next[0].Civil,
			Remark: "the clock goes back and shows 02:30 twice: it is due at the first",
		},
		{
			At: time.Date(2026, 10, 26, 1, 30, 0, 0, time.UTC), Local: "2026-10-26 02:30:00 CET", Civil: nightly.Next[1].Civil,
			Remark: "the clock has gone back since the time before",
		},
	}, nightly.Next)

	var one httpapi.Schedule
	w.send("GET", hourly.Links["self"]+"?next=0", nil).is(http.StatusOK, &one)
	require.Equal(t, "each/hour", one.Name)
	require.Empty(t, one.Next)
	w.send("GET", "/v1/schedules/nightly?next=101", nil).problem("invalid_request")
	require.Equal(t, "id", w.send("GET", "/v1/schedules/weekly", nil).problem("not_found").Field)
}

// S-7, S-10: a schedule is paused and resumed by somebody who says why, and run now also while it is paused; what was is asked for
// by its position.
func TestSchedulesArePausedResumedAndRunNow(t *testing.T) {
	w := start(t, scheduled)
	before := w.send("GET", "/v1/schedules", nil).header.Get("Towline-Seq")
	why := map[string]any{"reason": "holidays"}
	var one httpapi.Schedule
	w.send("POST", "/v1/schedules/nightly/pause", why, "Towline-Actor", "ann").is(http.StatusOK, &one)
	require.True(t, one.Paused)
	require.Equal(t, "ann", one.By)
	require.Equal(t, "holidays", one.Reason)
	w.send("POST", "/v1/schedules/nightly/pause", map[string]any{"reason": "again"}).is(http.StatusOK, &one)
	require.Equal(t, "holidays", one.Reason, "the first one stays")
	require.Equal(t, "reason", w.send("POST", "/v1/schedules/nightly/pause", map[string]any{}).problem("invalid_request").Field)

	var run, again httpapi.Run
	accepted := w.send("POST", "/v1/schedules/nightly/run-now", map[string]any{}, "Idempotency-Key", "k").is(http.StatusAccepted, &run)
	require.Equal(t, run.Links.Self, accepted.header.Get("Location"))
	require.Equal(t, "manual", string(run.Trigger))
	require.Equal(t, []string{"a"}, run.Selection.Datasets)
	replayed := w.send("POST", "/v1/schedules/nightly/run-now", map[string]any{}, "Idempotency-Key", "k").is(http.StatusAccepted, &again)
	require.Equal(t, "true", replayed.header.Get("Idempotency-Replayed"))
	require.Equal(t, run.ID, again.ID)

	var resumed, was httpapi.Schedule
	w.send("POST", "/v1/schedules/nightly/resume", why).is(http.StatusOK, &resumed)
	require.False(t, resumed.Paused)
	require.Len(t, resumed.Next, 5)
	then := w.send("GET", "/v1/schedules/nightly?at_seq="+before, nil).is(http.StatusOK, &was)
	require.False(t, was.Paused)
	require.Empty(t, was.By)
	require.Empty(t, was.Next, "what was due next then, nobody asks")
	require.Equal(t, `"`+before+`"`, then.header.Get("ETag"))
	for _, action := range []string{"pause", "resume", "run-now"} {
		require.Equal(t, "id", w.send("POST", "/v1/schedules/weekly/"+action, why).problem("not_found").Field, action)
	}
}

// S-5: what became of due times is listed with its schedule.
func TestAScheduleShowsItsHistory(t *testing.T) {
	w := start(t, func(c *setup) {
		c.node.Schedules = []towline.Schedule{{Name: "often", Sync: "days", Cron: "@every 1s", Overlap: towline.OverlapSkip}}
	})
	var one httpapi.Schedule
	w.eventually(func() bool {
		w.send("GET", "/v1/schedules/often", nil).is(http.StatusOK, &one)
		return len(one.History) > 0
	})
	o := one.History[len(one.History)-1]
	require.Equal(t, "triggered", o.State)
	require.NotZero(t, o.Run)
	require.NotZero(t, o.At)
	require.Len(t, one.Next, 5)
}

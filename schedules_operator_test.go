package towline_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/internal/enginetest"
	"github.com/towline-dev/towline/projections"
)

func (w *workshop) pauseSchedule(name string) {
	w.t.Helper()
	w.must(w.e.PauseSchedule(context.Background(), name, ada))
}

func (w *workshop) resumeSchedule(name string) {
	w.t.Helper()
	w.must(w.e.ResumeSchedule(context.Background(), name, ada))
}

// queueing is a schedule in which one waits behind an open run.
func queueing(t *testing.T, change func(*towline.Schedule)) (w *workshop, run events.RunID) {
	t.Helper()
	s := hourly()
	s.Overlap = towline.OverlapQueue
	if change != nil {
		change(&s)
	}
	w = scheduled(t, s)
	w.advance(time.Hour)
	run = w.triggered("hourly")
	w.advance(time.Hour)
	require.Equal(t, 1, w.tick("hourly").Queued)
	return w, run
}

// SC-299, SC-285, S-7, X-5, X-7, HC-35: a pause skips what waits, and lets the accepted run go on; behind a week nothing is
// caught up, what was due is one event, and the next regular time fires.
func TestAPausedSchedule(t *testing.T) {
	w, run := queueing(t, nil)
	before := w.head()
	w.pauseSchedule("hourly")
	log := w.since(before)
	oneTx(t, log)
	require.Equal(t, []string{"SchedulePaused", "OccurrenceSkipped"}, enginetest.Types(log))
	require.Equal(t, events.SchedulePaused{Actor: ada.Name, Reason: ada.Reason}, log[0].Event)
	require.Equal(t, ada.Name, log[1].Actor)
	w.pauseSchedule("hourly")
	require.Len(t, w.since(before), 2, "it is paused once")
	w.deliver(w.complete)
	require.Equal(t, events.RunSucceeded, w.run(run).Status)
	require.Equal(t, []string{"10:00 triggered", "11:00 skipped paused"}, w.ledger("hourly"))

	for range 7 {
		w.advance(24 * time.Hour)
		require.Equal(t, towline.Ticked{}, w.tick("hourly"))
	}
	w.advance(10 * time.Minute)
	w.crash()
	before = w.head()
	w.resumeSchedule("hourly")
	log = w.since(before)
	oneTx(t, log)
	require.Equal(t, []string{"OccurrencesMissed", "ScheduleResumed"}, enginetest.Types(log))
	missed := w.missed("hourly")[0]
	require.Equal(t, 7*24, missed.Count)
	require.Equal(t, events.MissedPaused, missed.Reason)
	require.Equal(t, [2]string{"2026-03-14T12:00+00:00", "2026-03-21T11:00+00:00"}, [2]string{missed.FromCivil, missed.ToCivil})
	w.resumeSchedule("hourly")
	require.Len(t, w.since(before), 2, "it is resumed once")
	require.Empty(t, w.tick("hourly").Planned)
	w.advance(50 * time.Minute)
	w.triggered("hourly")
}

// SC-300, S-7, HC-58: a changed definition fires no past times, and what is queued under the old one is skipped with that
// reason; the run that is open ends as ever.
func TestAChangedSchedule(t *testing.T) {
	w, run := queueing(t, nil)
	changed := hourly()
	changed.Cron = "30 * * * *"
	w.o.config.Schedules = []towline.Schedule{changed}
	w.advance(40 * time.Minute) // 11:40: 11:30 has passed
	before := w.head()
	w.crash()
	require.Equal(t, []string{"ScheduleDefined", "OccurrenceSkipped"}, enginetest.Types(w.since(before))[2:4])
	require.Empty(t, w.tick("hourly").Planned)
	require.Equal(t, []string{"10:00 triggered", "11:00 skipped schedule_changed"}, w.ledger("hourly"))
	w.deliver(w.complete)
	require.Equal(t, events.RunSucceeded, w.run(run).Status)
	w.advance(50 * time.Minute)
	w.triggered("hourly")
	require.Equal(t, "12:30 triggered", w.ledger("hourly")[2])
	w.crash()
	require.Len(t, enginetest.Only[events.ScheduleDefined](w.since(0)), 2, "the same definition is written once")
}

// SC-301, S-7, HC-58: a schedule that is configured no more is removed, with what waits in it; when it comes back it counts
// from there. A process that has nothing to do with schedules leaves them alone.
func TestARemovedSchedule(t *testing.T) {
	w, _ := queueing(t, nil)
	configured := w.o.config.Schedules
	w.o.config.Schedules, w.o.config.NoSchedules = nil, true
	w.crash()
	require.Equal(t, []string{"10:00 triggered", "11:00 queued"}, w.ledger("hourly"))
	w.o.config.NoSchedules = false
	before := w.head()
	w.crash()
	log := w.since(before)
	require.Equal(t, []string{"ScheduleRemoved", "OccurrenceSkipped"}, enginetest.Types(log)[2:4])
	require.Equal(t, events.ScheduleRemoved{Actor: "configuration", Reason: "it is configured no more"}, log[2].Event)
	w.deliver(w.complete)
	_, err := w.e.Tick(context.Background(), "hourly")
	require.ErrorIs(t, err, towline.ErrNotFound)
	states, err := w.e.Schedules(context.Background(), 1)
	require.NoError(t, err)
	require.Empty(t, states)
	w.requireRefused("schedule", towline.ErrNotFound, func() error { return w.e.PauseSchedule(context.Background(), "hourly", ada) })
	require.Equal(t, []string{"10:00 triggered", "11:00 skipped schedule_removed"}, w.ledger("hourly"))

	w.advance(5*time.Hour + time.Minute)
	w.o.config.Schedules = configured
	w.crash()
	require.Empty(t, w.tick("hourly").Planned)
	w.advance(time.Hour)
	w.triggered("hourly")
}

// S-9: the n-th straight failure pauses the schedule, in the transaction that ends the run; what waits is skipped. A run that
// has gone well in between counts anew.
func TestStraightFailuresPauseASchedule(t *testing.T) {
	w, _ := queueing(t, func(s *towline.Schedule) { s.AutoPause = 2 })
	work := []func(towline.Lease){w.failUnit, w.complete, w.failUnit}
	for _, does := range work {
		w.deliver(does)
		w.tick("hourly")
		w.advance(time.Hour)
		w.tick("hourly")
	}
	require.Equal(t, "14:00 queued", w.ledger("hourly")[4])
	before := w.head()
	w.deliver(w.failUnit)
	var end []events.Envelope
	for _, e := range w.since(before) {
		if _, ok := e.Event.(events.SchedulePaused); ok {
			for _, other := range w.since(before) {
				if other.Tx == e.Tx {
					end = append(end, other)
				}
			}
		}
	}
	require.Equal(t, []string{"RunFinalized", "JobClosed", "SchedulePaused", "OccurrenceSkipped"}, enginetest.Types(end))
	require.Equal(t, events.SchedulePaused{Actor: "engine", Reason: "its last 2 runs have all failed"}, end[2].Event)
	state, err := w.e.Schedule(context.Background(), "hourly", 1)
	require.NoError(t, err)
	require.True(t, state.Paused)
	require.Equal(t, 2, state.Failures)
	w.advance(5 * time.Hour)
	require.Equal(t, towline.Ticked{}, w.tick("hourly"))
	w.resumeSchedule("hourly")
	w.advance(time.Hour)
	w.triggered("hourly")
	w.deliver(w.complete)
	state, err = w.e.Schedule(context.Background(), "hourly", 1)
	require.NoError(t, err)
	require.False(t, state.Paused)
	require.Zero(t, state.Failures)
}

// S-10: a run by hand is a manual trigger with the template. It mints no occurrence, moves no due time, is no overlap, and
// goes where the schedule is paused, too.
func TestARunByHand(t *testing.T) {
	s := hourly()
	s.Sources, s.Mode = []string{"south"}, towline.FullResync
	w := scheduled(t, s)
	w.pauseSchedule("hourly")
	p, err := w.e.RunSchedule(context.Background(), "hourly", "k", ada)
	require.NoError(t, err)
	require.Equal(t, 1, p.Units)
	again, err := w.e.RunSchedule(context.Background(), "hourly", "k", ada)
	require.NoError(t, err)
	require.True(t, again.Replayed)
	run := w.run(p.Run)
	require.Equal(t, events.TriggerManual, run.TriggeredBy)
	require.Equal(t, events.FullResync, run.Mode)
	require.Equal(t, []string{"south"}, run.Selection.Sources)
	require.Empty(t, w.ledger("hourly"))
	w.resumeSchedule("hourly")
	w.advance(time.Hour)
	w.triggered("hourly")
	_, err = w.e.RunSchedule(context.Background(), "none", "", ada)
	require.ErrorIs(t, err, towline.ErrNotFound)
}

// X-7, S-7: an action on a schedule needs somebody, and a reason.
func TestActionsOnSchedulesNeedSomebody(t *testing.T) {
	w := scheduled(t, hourly())
	ctx := context.Background()
	for _, do := range []func(towline.Actor) error{
		func(by towline.Actor) error { return w.e.PauseSchedule(ctx, "hourly", by) },
		func(by towline.Actor) error { return w.e.ResumeSchedule(ctx, "hourly", by) },
	} {
		require.ErrorIs(t, do(towline.Actor{Reason: "so"}), towline.ErrInvalid)
		require.ErrorIs(t, do(towline.Actor{Name: "ada"}), towline.ErrInvalid)
	}
	_, err := w.e.Schedule(ctx, "none", 1)
	require.ErrorIs(t, err, towline.ErrNotFound)
}

// SC-295, S-3: a time of day in an hour that comes twice fires once, at the first, also with a restart between.
func TestARestartInARepeatedHour(t *testing.T) {
	s := towline.Schedule{Name: "early", Sync: "reports", Cron: "30 2 * * *", TimeZone: "Europe/Berlin"}
	clock := enginetest.NewClock(time.Date(2026, 10, 25, 0, 0, 0, 0, time.UTC))
	w := openWorkshop(t, options{clock: clock, config: towline.Config{Schedules: []towline.Schedule{s}}})
	w.advance(30 * time.Minute)
	w.triggered("early")
	w.deliver(w.complete)
	for range 8 {
		w.advance(15 * time.Minute)
		w.crash()
		require.Empty(t, w.tick("early").Planned)
	}
	require.Equal(t, []string{"00:30 triggered"}, w.ledger("early"))
	w.view(func(v projections.View) {
		rows, err := v.Occurrences("early", projections.OccurrenceCursor{}, 10)
		require.NoError(t, err)
		require.Equal(t, "2026-10-25T02:30+02:00", rows[0].Civil)
	})
	require.Empty(t, w.missed("early"))
}

// L-8, I-31: with all views dropped, a start decides the same of schedules.
func TestScheduleViewsAreFoldsOfTheLog(t *testing.T) {
	w, _ := queueing(t, func(s *towline.Schedule) { s.AutoPause = 3 })
	w.deliver(w.failUnit)
	ledger := w.ledger("hourly")
	require.NoError(t, w.e.Rebuild(context.Background()))
	require.Equal(t, ledger, w.ledger("hourly"))
	state, err := w.e.Schedule(context.Background(), "hourly", 1)
	require.NoError(t, err)
	require.Equal(t, 1, state.Failures)
	w.triggered("hourly")
	require.Equal(t, []string{"10:00 triggered", "11:00 triggered"}, w.ledger("hourly"))
}

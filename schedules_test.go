package towline_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/internal/enginetest"
	"github.com/towline-dev/towline/projections"
)

// hourly is a schedule of the sync reports, at each full hour. The world begins at one: it is due first an hour later.
func hourly() towline.Schedule {
	return towline.Schedule{Name: "hourly", Sync: "reports", Cron: "0 * * * *"}
}

func scheduled(t *testing.T, schedules ...towline.Schedule) *workshop {
	t.Helper()
	return openWorkshop(t, options{config: towline.Config{Schedules: schedules}})
}

func (w *workshop) tick(name string) towline.Ticked {
	w.t.Helper()
	ticked, err := w.e.Tick(context.Background(), name)
	require.NoError(w.t, err)
	return ticked
}

// triggered lets the one run begin that a tick has planned.
func (w *workshop) triggered(name string) events.RunID {
	w.t.Helper()
	ticked := w.tick(name)
	require.Len(w.t, ticked.Planned, 1)
	return ticked.Planned[0].Run
}

// ledger is what became of the due times of a schedule, oldest first: the time of day, the state and the reason.
func (w *workshop) ledger(name string) (out []string) {
	w.t.Helper()
	w.view(func(v projections.View) {
		rows, err := v.Occurrences(name, projections.OccurrenceCursor{}, 1000)
		require.NoError(w.t, err)
		for _, o := range rows {
			line := o.Instant.Format("15:04") + " " + string(o.Status)
			if o.Reason != "" {
				line += " " + o.Reason
			}
			out = append([]string{line}, out...)
		}
	})
	return out
}

func (w *workshop) missed(name string) (out []projections.Missed) {
	w.t.Helper()
	w.view(func(v projections.View) {
		var err error
		out, err = v.Missed(name, 0, 100)
		require.NoError(w.t, err)
	})
	return out
}

func (w *workshop) failUnit(l towline.Lease) { w.fail(l, events.Auth) }

// SC-290, S-1, S-2, I-22, T-1, J-2: a due time makes one occurrence and one run, in one transaction, however often it is
// looked at; the run says for which.
func TestADueTimeMakesOneRun(t *testing.T) {
	w := scheduled(t, hourly())
	require.Zero(t, w.tick("hourly").Planned)
	w.advance(time.Hour)
	before := w.head()
	run := w.triggered("hourly")
	log := w.since(before)
	oneTx(t, log)
	require.Equal(t, []string{
		"OccurrenceTriggered", "JobOpened", "RunPlanned", "UnitPlanned", "UnitPlanned", "OutboxArmed", "JobLinked",
	}, enginetest.Types(log))
	require.Equal(t, events.OccurrenceTriggered{
		Instant: events.MicrosOf(start.Add(time.Hour)), Job: w.run(run).Job, Run: run,
	}, log[0].Event)
	require.Equal(t, events.OccurrenceStream("hourly", "2026-03-14T10:00+00:00"), log[0].Stream)
	planned := enginetest.Only[events.RunPlanned](log)[0]
	require.Equal(t, "hourly/2026-03-14T10:00+00:00", planned.Occurrence)
	require.Equal(t, events.TriggerSchedule, planned.TriggeredBy)
	require.Equal(t, events.TriggerSchedule, enginetest.Only[events.JobOpened](log)[0].Trigger)
	for range 2 {
		require.Empty(t, w.tick("hourly").Planned)
		w.crash()
	}
	require.Equal(t, []string{"10:00 triggered"}, w.ledger("hourly"))
	w.deliver(w.complete)
	require.Equal(t, events.RunSucceeded, w.run(run).Status)
}

// SC-290, HC-26, I-22: two processes look at the same time, with clocks that differ, and one of them plans the run.
func TestTwoProcessesMakeOneRun(t *testing.T) {
	clock := enginetest.NewClock(start)
	config := towline.Config{Schedules: []towline.Schedule{hourly()}}
	a := openWorkshop(t, options{shared: true, clock: clock, config: config})
	config.Entropy = seeded(2)
	b := openWorkshop(t, options{path: a.o.path, shared: true, clock: clock, config: config, unverified: true})
	require.Len(t, a.since(0), len(b.since(0)))
	a.advance(time.Hour)
	a.store.afterRead = func() { require.Len(t, b.tick("hourly").Planned, 1) } // between what a has seen and its transaction
	require.Empty(t, a.tick("hourly").Planned)
	require.Equal(t, []string{"10:00 triggered"}, a.ledger("hourly"))
	a.advance(time.Hour)
	require.Empty(t, b.tick("hourly").Planned, "the last run is open: the time is skipped")
	require.Equal(t, []string{"10:00 triggered", "11:00 skipped overlap"}, a.ledger("hourly"))
	require.Len(t, enginetest.Only[events.ScheduleDefined](a.since(0)), 1, "the second process finds it defined")
}

// SC-291, S-2, C-30, C-31, S-8, SC-304, HC-26: a process that dies before the commit of a tick, or a store that cannot write,
// leaves no occurrence, and the next look decides; one that dies behind it leaves both, and nobody plans a second.
func TestATickIsAllOrNothing(t *testing.T) {
	w := scheduled(t, hourly())
	w.advance(time.Hour)
	before := w.head()
	w.store.lose = errPlanted
	_, err := w.e.Tick(context.Background(), "hourly")
	require.Error(t, err)
	require.Empty(t, w.since(before))
	w.store.refuse = towline.ErrUnavailable
	_, err = w.e.Tick(context.Background(), "hourly")
	require.ErrorIs(t, err, towline.ErrUnavailable)
	w.store.refuse = nil
	w.crash()
	require.Empty(t, w.ledger("hourly"))
	run := w.triggered("hourly") // by catch-up: it was due before this process began
	w.crash()
	require.Empty(t, w.tick("hourly").Planned)
	require.Equal(t, []string{"10:00 triggered"}, w.ledger("hourly"))
	w.deliver(w.complete)
	require.Equal(t, events.RunSucceeded, w.run(run).Status)
}

// SC-296, S-5, HC-35: down for a day. skip catches nothing up, once the newest, all(3) the newest three, one behind the other,
// also where overlaps are skipped; what is left out is one event, and the present goes on.
func TestADayDownFollowsCatchUp(t *testing.T) {
	for name, tt := range map[string]struct {
		policy events.CatchUp
		max    int
		ledger []string
		missed int
	}{
		"skip": {policy: towline.CatchUpSkip, missed: 24},
		"once": {policy: towline.CatchUpOnce, ledger: []string{"09:00 triggered"}, missed: 23},
		"all":  {policy: towline.CatchUpAll, max: 3, ledger: []string{"07:00 triggered", "08:00 triggered", "09:00 triggered"}, missed: 21},
	} {
		t.Run(name, func(t *testing.T) {
			s := hourly()
			s.CatchUp, s.Max = tt.policy, tt.max
			w := scheduled(t, s)
			w.advance(24*time.Hour + 10*time.Minute)
			w.crash()
			open := 0
			for range 10 {
				if len(w.tick("hourly").Planned) > 0 {
					open++
					require.Empty(t, w.tick("hourly").Planned, "one behind the other")
				}
				w.deliver(w.complete)
				w.advance(time.Minute) // else the next run has nothing to read
			}
			require.Equal(t, len(tt.ledger), open)
			require.Equal(t, tt.ledger, w.ledger("hourly"))
			missed := w.missed("hourly")
			require.Len(t, missed, 1)
			require.Equal(t, tt.missed, missed[0].Count)
			require.Equal(t, "2026-03-14T10:00+00:00", missed[0].FromCivil)
			require.Equal(t, events.MissedCatchUp, missed[0].Reason)
			require.Equal(t, events.MicrosOf(start.Add(25*time.Hour)), w.tick("hourly").Next)
			w.advance(40 * time.Minute)
			w.triggered("hourly")
		})
	}
}

// HC-35, S-4: weekly, with a restart every hour for eight days, is due once, at its time.
func TestRestartsMoveNoDueTime(t *testing.T) {
	w := scheduled(t, towline.Schedule{Sync: "reports", Cron: "30 9 * * 3"})
	for range 8 * 24 {
		w.tick("reports")
		w.advance(30 * time.Minute)
		w.tick("reports")
		w.advance(30 * time.Minute)
		w.crash()
	}
	log := enginetest.Only[events.OccurrenceTriggered](w.since(0))
	require.Len(t, log, 1)
	require.Equal(t, "2026-03-18T09:30:00.000000Z", log[0].Instant.String())
}

// SC-297, SC-298, S-6, SC-306, S-4, HC-26: beside an open run a due time is skipped, or one waits; due times do not drift.
func TestDueTimesBesideAnOpenRun(t *testing.T) {
	for name, tt := range map[string]struct {
		overlap events.Overlap
		want    []string
	}{
		"skip": {towline.OverlapSkip, []string{
			"10:00 triggered", "11:00 skipped overlap", "12:00 skipped overlap", "13:00 triggered", "14:00 skipped overlap", "15:00 skipped overlap", "16:00 triggered",
		}},
		"queue": {towline.OverlapQueue, []string{
			"10:00 triggered", "11:00 triggered", "12:00 skipped queue_full", "13:00 triggered", "14:00 skipped queue_full", "15:00 skipped queue_full", "16:00 queued",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s := hourly()
			s.Overlap = tt.overlap
			w := scheduled(t, s)
			began, open := 0, false
			for minute := range 7*60 + 1 { // a run takes two and a half hours
				ticked := w.tick("hourly")
				if len(ticked.Planned) > 0 {
					began, open = minute, true
				}
				if open && minute == began+150 {
					w.deliver(w.complete)
					open = false
					if len(w.tick("hourly").Planned) > 0 {
						began, open = minute, true
					}
				}
				w.advance(time.Minute)
			}
			require.Equal(t, tt.want, w.ledger("hourly"))
		})
	}
}

// SC-292, S-4: runs that always fail hold nothing up.
func TestFailingRunsHoldNothingUp(t *testing.T) {
	w := scheduled(t, hourly())
	for range 5 {
		w.advance(time.Hour)
		w.triggered("hourly")
		w.deliver(w.failUnit)
	}
	require.Len(t, w.ledger("hourly"), 5)
}

// SC-302, S-8: one that cannot be read is reported, and the others go on; those of a configuration are refused at the start.
func TestOneBadScheduleStopsNoOther(t *testing.T) {
	w := scheduled(t, hourly(), towline.Schedule{Name: "bad", Sync: "reports", Sources: []string{"north"}, Cron: "0 * * * *"})
	require.NoError(t, w.transact(func(tx *towline.Tx) error {
		_, err := tx.Execute(decider.DefineSchedule{Schedule: "bad", Defined: events.ScheduleDefined{Cron: "0 * * * *", TimeZone: "Europe/Atlantis", Template: []byte(`{}`)}})
		return err
	}))
	w.advance(time.Hour)
	_, err := w.e.Tick(context.Background(), "bad")
	require.ErrorContains(t, err, `"Europe/Atlantis" is not known`)
	w.triggered("hourly")
	states, err := w.e.Schedules(context.Background(), 2)
	require.NoError(t, err)
	require.Contains(t, states[0].Error, "Europe/Atlantis")
	require.Len(t, states[1].Next, 2)
	require.Equal(t, "2026-03-14 11:00:00 UTC", states[1].Next[0].Local)
}

// SC-303, S-8: what the planner refuses is rejected, with its category, and is not tried again; the next time is.
func TestAPlanThatIsRefusedIsRejected(t *testing.T) {
	w := scheduled(t, hourly())
	w.pauseSource("north")
	w.pauseSource("south")
	w.advance(time.Hour)
	require.Equal(t, 1, w.tick("hourly").Rejected)
	w.resumeSource("north")
	before := w.head()
	require.Zero(t, w.tick("hourly").Rejected)
	require.Empty(t, w.since(before))
	require.Equal(t, []string{"10:00 rejected source_paused"}, w.ledger("hourly"))
	w.advance(time.Hour)
	run := w.triggered("hourly")
	require.Equal(t, []events.LeftOut{{Source: "south", Reason: towline.SourcePaused}}, w.run(run).LeftOut)

	large := openWorkshop(t, options{config: towline.Config{Schedules: []towline.Schedule{hourly()}, Knobs: towline.Knobs{MaxUnits: 1}}})
	large.advance(time.Hour)
	require.Equal(t, 1, large.tick("hourly").Rejected)
	require.Equal(t, []string{"10:00 rejected plan_too_large"}, large.ledger("hourly"))

	single := reports()
	single.OneActiveRun = true
	w = openWorkshop(t, options{config: towline.Config{Syncs: []towline.Sync{single}, Schedules: []towline.Schedule{hourly()}}})
	w.plan(towline.RunSpec{Sync: "reports"})
	w.advance(time.Hour)
	w.tick("hourly")
	require.Equal(t, []string{"10:00 rejected run_exists"}, w.ledger("hourly"))
}

// SC-307, SC-293, CLK-6, S-1: a clock that is set back over what was decided decides nothing a second time, one that ran ahead
// holds nothing back.
func TestAClockThatIsSetBack(t *testing.T) {
	w := scheduled(t, hourly())
	for range 2 {
		w.advance(time.Hour)
		w.triggered("hourly")
		w.deliver(w.complete)
	}
	w.jump(-90 * time.Minute)
	before := w.head()
	for range 3 {
		w.advance(30 * time.Minute)
		require.Empty(t, w.tick("hourly").Planned)
	}
	require.Empty(t, enginetest.Only[events.OccurrenceTriggered](w.since(before)))
	w.advance(time.Hour)
	w.triggered("hourly")
	w.deliver(w.complete)

	w.jump(1000 * time.Hour) // it runs ahead: one of those that it skips is caught up
	require.Equal(t, 999, w.tick("hourly").Missed)
	w.deliver(w.complete)
	w.jump(-1000 * time.Hour)
	ahead := len(w.ledger("hourly"))
	for range 3 { // within what was missed: it stays decided
		w.advance(time.Hour)
		require.Empty(t, w.tick("hourly").Planned)
	}
	require.Len(t, w.ledger("hourly"), ahead)
}

// SC-293, S-4: an occurrence of the future holds back nothing.
func TestAFutureOccurrenceHoldsNothingBack(t *testing.T) {
	w := scheduled(t, hourly())
	require.NoError(t, w.transact(func(tx *towline.Tx) error {
		_, err := tx.Execute(decider.SkipOccurrence{
			Schedule: "hourly", Civil: "2030-01-01T00:00+00:00", Instant: events.MicrosOf(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)), Reason: events.SkippedOverlap,
		})
		return err
	}))
	w.o.unverified = true // the checker knows that nobody decides ahead of time
	w.advance(time.Hour)
	w.triggered("hourly")
}

// CLK-7: while the start doubts the clock no schedule mints, and triggers go on; the confirmation ends it.
func TestADoubtedClockMintsNothing(t *testing.T) {
	w := scheduled(t, hourly())
	w.advance(time.Hour)
	w.triggered("hourly")
	w.deliver(w.complete)
	w.jump(-10 * time.Hour)
	w.crash()
	w.advance(2 * time.Hour)
	before := w.head()
	require.Empty(t, w.tick("hourly").Planned)
	require.Empty(t, w.since(before))
	w.plan(towline.RunSpec{Sync: "reports"})
	w.deliver(w.complete)
	_, err := w.e.ConfirmClock(context.Background(), ada)
	require.NoError(t, err)
	w.advance(time.Hour)
	ticked := w.tick("hourly") // its definition lies in the future, so it counts from the start of this process
	require.Equal(t, [2]int{1, 2}, [2]int{len(ticked.Planned), ticked.Missed})
	require.Equal(t, []string{"03:00 triggered", "10:00 triggered"}, w.ledger("hourly"))
}

// S-1, S-7: what is wrong with a schedule refuses the start, and the error names it.
func TestABadConfigurationIsRefused(t *testing.T) {
	for says, change := range map[string]func(*towline.Schedule){
		`schedule "hourly": there is no sync "none"`:                    func(s *towline.Schedule) { s.Sync = "none" },
		`schedule "hourly": cron "0 0 30 2 *" is never due`:             func(s *towline.Schedule) { s.Cron = "0 0 30 2 *" },
		`schedule "hourly": time zone "Mars" is not known`:              func(s *towline.Schedule) { s.TimeZone = "Mars" },
		`sync "reports" has no source "east"`:                           func(s *towline.Schedule) { s.Sources = []string{"east"} },
		`sync "reports" has no dataset "books"`:                         func(s *towline.Schedule) { s.Datasets = []string{"books"} },
		`max 0: catch-up all needs how many, from 1 to 1000`:            func(s *towline.Schedule) { s.CatchUp = towline.CatchUpAll },
		`max 3: only catch-up all has one`:                              func(s *towline.Schedule) { s.Max = 3 },
		`mode "backfill": want incremental or full_resync`:              func(s *towline.Schedule) { s.Mode = towline.Backfill },
		`overlap "both": want skip or queue`:                            func(s *towline.Schedule) { s.Overlap = "both" },
		`catch-up "some": want skip, once or all`:                       func(s *towline.Schedule) { s.CatchUp = "some" },
		`auto-pause after -1 runs: want 0 or more`:                      func(s *towline.Schedule) { s.AutoPause = -1 },
		`schedule "hourly": source "north" stands twice`:                func(s *towline.Schedule) { s.Sources = []string{"north", "north"} },
		`schedule "bad\x00": name "bad\x00": holds a control character`: func(s *towline.Schedule) { s.Name = "bad\x00" },
	} {
		s := hourly()
		change(&s)
		file, err := openFile(t.TempDir() + "/towline.db")
		require.NoError(t, err)
		_, err = towline.Open(context.Background(), file, towline.Config{Syncs: []towline.Sync{reports()}, Schedules: []towline.Schedule{s}})
		require.ErrorContains(t, err, says)
		require.NoError(t, file.Close())
	}
	file, err := openFile(t.TempDir() + "/towline.db")
	require.NoError(t, err)
	for _, c := range []towline.Config{
		{Syncs: []towline.Sync{reports()}, Schedules: []towline.Schedule{hourly(), hourly()}},
		{Syncs: []towline.Sync{reports()}, Schedules: []towline.Schedule{hourly()}, NoSchedules: true},
	} {
		_, err = towline.Open(context.Background(), file, c)
		require.Error(t, err)
	}
	require.NoError(t, file.Close())
	_, err = newWorkshop(t).e.Tick(context.Background(), "none")
	require.True(t, errors.Is(err, towline.ErrNotFound))
}

// S-5, L-9: a schedule of every second at which nobody has looked for months: what it has missed is counted up to a bound.
func TestManyMissedTimesAreBounded(t *testing.T) {
	s := hourly()
	s.Cron, s.CatchUp, s.Max = "* * * * * *", towline.CatchUpAll, 100
	w := scheduled(t, s)
	w.advance(200 * 24 * time.Hour)
	ticked := w.tick("hourly")
	require.Equal(t, [3]int{1, 99, 99_900}, [3]int{len(ticked.Planned), ticked.Queued, ticked.Missed})
	missed := w.missed("hourly")[0]
	require.Equal(t, start.Add(200*24*time.Hour-100*time.Second), missed.To)
	require.Zero(t, w.tick("hourly").Missed)
}

// S-1, S-5, P-12: a provider takes longer to list its periods than lies between two due times. Each look plans a run all the
// same, for the newest of them, and says that the next one is due at once.
func TestASlowListingHoldsNoScheduleUp(t *testing.T) {
	s := reports()
	s.Datasets[0].Window, s.Sources = towline.Day, []string{"north"}
	l := &listed{periods: map[string][]decider.Period{"north": {{Window: decider.PeriodAt(events.Day, start), Fingerprint: "x"}}}}
	w := openWorkshop(t, options{config: towline.Config{Syncs: []towline.Sync{s}, Lister: l, Schedules: []towline.Schedule{
		{Name: "minutely", Sync: "reports", Cron: "* * * * *"},
	}}})
	l.during = func() { w.advance(70 * time.Second) }
	w.advance(time.Minute)
	ticked := w.tick("minutely") // at 09:01:00, until 09:02:10
	require.Len(t, ticked.Planned, 1)
	require.Equal(t, 1, ticked.Missed)
	require.Equal(t, []string{"09:02 triggered"}, w.ledger("minutely"))
	require.Equal(t, 1, l.calls)
	require.Equal(t, events.MicrosOf(start.Add(3*time.Minute)), ticked.Next)
	require.Equal(t, 50*time.Second, ticked.Wait)
}

// S-4, CLK-6: a definition of a clock that ran ahead does not hold the present back, of @every either: its times are those
// before the definition that lie a whole number of steps from it.
func TestAFutureDefinitionHoldsEveryBackNot(t *testing.T) {
	s := hourly()
	s.Cron = "@every 1h"
	w := scheduled(t, s) // defined at 09:00
	w.jump(-10 * time.Hour)
	w.crash()
	_, err := w.e.ConfirmClock(context.Background(), ada)
	require.NoError(t, err)
	w.advance(30 * time.Minute)
	require.Empty(t, w.tick("hourly").Planned)
	w.advance(30*time.Minute + time.Second)
	require.Len(t, w.tick("hourly").Planned, 1)
	require.Equal(t, []string{"00:00 triggered"}, w.ledger("hourly"))
}

package check

import (
	"github.com/towline-dev/towline/events"
)

var hourly = events.ScheduleStream("hourly")

func due(civil string) events.StreamID { return events.OccurrenceStream("hourly", civil) }

func hourlyDefined(cron string) events.ScheduleDefined {
	return events.ScheduleDefined{
		Cron: cron, TimeZone: "UTC", CatchUp: events.CatchUpAll, Max: 2, Overlap: events.OverlapQueue, AutoPause: 2, Template: []byte(`{"sync":"code"}`),
	}
}

// trigger plans run n of an occurrence: it has one unit, or none and has failed.
func (s *script) trigger(n int, civil string, units int) {
	s.add(due(civil), events.OccurrenceTriggered{Instant: s.now, Job: jobID(n), Run: runID(n)})
	var us []events.UnitPlanned
	if units > 0 {
		u := s.work("a", "commits")
		u.Watermark = false
		us = append(us, u)
	}
	s.planFor(n, policy(), "", "hourly/"+civil, us...)
}

// scheduled: one waits for the run before it; two straight failures pause the schedule, and what waits is skipped; behind the
// pause what was due is missed; then catch-up; then another definition, and in the end none.
func scheduled(s *script) {
	s.start(1)
	s.add(hourly, hourlyDefined("0 * * * *"))
	s.after(hour)
	s.tx(func() { s.trigger(1, "1", 1) })
	s.after(hour)
	s.add(due("2"), events.OccurrenceQueued{Instant: s.now})
	s.after(minute)
	s.tx(func() {
		s.add(unitStream(1, 1), events.UnitCancelled{Actor: "me", Reason: events.CancelledWithRun})
		s.act(events.RunStream(runID(1)), events.RunCancelled{Actor: "me", Reason: "stop", Counts: events.Counts{Total: 1, Cancelled: 1}})
		s.add(events.JobStream(jobID(1)), events.JobClosed{Status: events.RunIsCancelled, Counts: events.Counts{Total: 1, Cancelled: 1}})
	})
	s.tx(func() {
		t := s.take(1, events.KindDispatch, 1, 1, 0)
		s.add(reg(1, events.KindDispatch), events.OutboxDropped{N: 1, Token: t, Reason: events.DropRunTerminal})
	})
	s.tx(func() { s.trigger(2, "2", 0) })
	s.after(hour)
	s.tx(func() {
		s.trigger(3, "3", 0)
		s.add(hourly, events.SchedulePaused{Actor: "engine", Reason: "its last 2 runs have all failed"})
	})
	s.after(3 * hour)
	s.tx(func() {
		s.add(hourly, events.OccurrencesMissed{
			FromCivil: "4", ToCivil: "6", Count: 3, FromInstant: s.now.Add(-2 * hour), ToInstant: s.now, Reason: events.MissedPaused,
		})
		s.add(hourly, events.ScheduleResumed{Actor: "me", Reason: "mended"})
	})
	s.after(4 * hour)
	s.tx(func() {
		s.add(hourly, events.OccurrencesMissed{
			FromCivil: "7", ToCivil: "8", Count: 2, FromInstant: s.now.Add(-3 * hour), ToInstant: s.now.Add(-2 * hour), Reason: events.MissedCatchUp,
		})
		s.add(due("92"), events.OccurrenceQueued{Instant: s.now})
		s.trigger(4, "91", 1)
		change(find[events.OccurrenceTriggered](s, 3), func(o *events.OccurrenceTriggered) { o.Instant = s.now.Add(-hour) })
	})
	s.after(minute)
	s.tx(func() {
		s.add(hourly, hourlyDefined("30 * * * *"))
		s.add(due("92"), events.OccurrenceSkipped{Instant: s.now.Add(-minute), Reason: events.SkippedChanged})
	})
	s.after(hour)
	s.add(due("93"), events.OccurrenceSkipped{Instant: s.now, Reason: events.SkippedOverlap})
	s.add(hourly, events.SchedulePaused{Actor: "me", Reason: "holidays"})
	s.add(hourly, events.ScheduleRemoved{Actor: "configuration"})
	s.after(hour)
	s.add(hourly, hourlyDefined("30 * * * *"))
	s.add(hourly, events.ScheduleResumed{Actor: "me", Reason: "back"})
	s.after(hour)
	s.add(due("94"), events.OccurrenceRejected{Instant: s.now, Category: "run_exists"})
}

var scheduleCorruptions = []corruption{
	{"I-2", "S-7: a schedule is defined as it is already", scheduled, func(s *script) *entry {
		e := find[events.ScheduleDefined](s, 0)
		return s.alone(s.behind(e, e.stream, e.event))
	}},
	{"I-2", "S-7: a schedule is paused twice", scheduled, func(s *script) *entry {
		e := find[events.SchedulePaused](s, 1)
		return s.alone(s.behind(e, e.stream, e.event))
	}},
	{"I-2", "S-7: a schedule is resumed that is not paused", scheduled, func(s *script) *entry {
		e := find[events.ScheduleResumed](s, 0)
		return s.alone(s.behind(s.lastOfTx(e), e.stream, e.event))
	}},
	{"I-2", "S-7: a schedule is removed twice", scheduled, func(s *script) *entry {
		e := find[events.ScheduleRemoved](s, 0)
		return s.alone(s.behind(e, e.stream, e.event))
	}},
	{"I-2", "S-7: a schedule that was never defined is paused", scheduled, func(s *script) *entry {
		e := find[events.ScheduleDefined](s, 0)
		return s.alone(s.before(e, e.stream, events.SchedulePaused{Actor: "me"}))
	}},
	{"I-2", "X-7: nobody has paused a schedule", scheduled, func(s *script) *entry {
		return change(find[events.SchedulePaused](s, 1), func(p *events.SchedulePaused) { p.Actor = "" })
	}},
	{"I-2", "S-7: a changed schedule leaves one waiting", scheduled, func(s *script) *entry {
		s.drop(findIn[events.OccurrenceSkipped](s, due("92"), 0))
		return find[events.ScheduleDefined](s, 1)
	}},
	{"I-2", "S-7: a paused schedule leaves one waiting", scheduled, func(s *script) *entry {
		e := find[events.SchedulePaused](s, 1)
		s.alone(s.before(e, due("95"), events.OccurrenceQueued{Instant: e.at}))
		return e
	}},
	{"I-2", "S-7: a paused schedule mints", scheduled, func(s *script) *entry {
		e := find[events.SchedulePaused](s, 1)
		return s.alone(s.behind(e, due("95"), events.OccurrenceRejected{Instant: e.at}))
	}},
	{"I-2", "S-7: a removed schedule mints", scheduled, func(s *script) *entry {
		e := find[events.ScheduleRemoved](s, 0)
		return s.alone(s.behind(e, due("95"), events.OccurrenceRejected{Instant: e.at}))
	}},
	{"I-2", "S-1: an occurrence ahead of its time", scheduled, func(s *script) *entry {
		return change(find[events.OccurrenceQueued](s, 0), func(o *events.OccurrenceQueued) { o.Instant++ })
	}},
	{"I-2", "S-1: a time that was missed is decided again", scheduled, func(s *script) *entry {
		e := find[events.ScheduleResumed](s, 0)
		return s.alone(s.behind(s.lastOfTx(e), due("5"), events.OccurrenceQueued{Instant: e.at.Add(-hour)}))
	}},
	{"I-2", "S-5: nothing was missed", scheduled, func(s *script) *entry {
		return change(find[events.OccurrencesMissed](s, 0), func(m *events.OccurrencesMissed) { m.Count = 0 })
	}},
	{"I-2", "S-5: what was missed lies ahead", scheduled, func(s *script) *entry {
		return change(find[events.OccurrencesMissed](s, 0), func(m *events.OccurrencesMissed) { m.ToInstant++ })
	}},
	{"I-2", "S-7: catch-up of a paused schedule", scheduled, func(s *script) *entry {
		return change(find[events.OccurrencesMissed](s, 0), func(m *events.OccurrencesMissed) { m.Reason = events.MissedCatchUp })
	}},
	{"I-2", "S-5: a younger one goes before one that waits", scheduled, func(s *script) *entry {
		change(find[events.OccurrenceQueued](s, 1), func(o *events.OccurrenceQueued) { o.Instant = o.Instant.Add(-90 * minute) })
		return find[events.OccurrenceTriggered](s, 3)
	}},
	{"I-2", "S-6: a run beside the last one", scheduled, func(s *script) *entry {
		return s.alone(s.behind(find[events.OccurrenceQueued](s, 0), due("2"), events.OccurrenceTriggered{Instant: find[events.OccurrenceQueued](s, 0).at, Job: jobID(9), Run: runID(9)}))
	}},
	{"I-2", "S-6: more wait than may", scheduled, func(s *script) *entry {
		e := find[events.OccurrenceQueued](s, 0)
		third := s.alone(s.behind(e, due("96"), events.OccurrenceQueued{Instant: e.at}))
		s.alone(s.behind(e, due("95"), events.OccurrenceQueued{Instant: e.at}))
		return third
	}},
	{"I-2", "T-1: a scheduled run without an occurrence", scheduled, func(s *script) *entry {
		return change(findIn[events.RunPlanned](s, events.RunStream(runID(1)), 0), func(r *events.RunPlanned) { r.Occurrence = "" })
	}},
	{"I-2", "S-9: the second failure in a row does not pause", scheduled, func(s *script) *entry {
		s.drop(find[events.SchedulePaused](s, 0))
		return findIn[events.RunFinalized](s, events.RunStream(runID(3)), 0)
	}},
	{"I-2", "S-9: the engine pauses for nothing", scheduled, func(s *script) *entry {
		e := find[events.OccurrenceQueued](s, 0)
		return s.alone(s.before(e, hourly, events.SchedulePaused{Actor: "engine"}))
	}},
}

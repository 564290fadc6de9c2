package decider

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/events"
)

func nightly() events.ScheduleDefined {
	return events.ScheduleDefined{
		Cron: "0 3 * * *", TimeZone: "UTC", CatchUp: events.CatchUpOnce, Overlap: events.OverlapSkip,
		Template: json.RawMessage(`{"sync":"code"}`),
	}
}

func missed(n int) events.OccurrencesMissed {
	return events.OccurrencesMissed{FromCivil: "a", ToCivil: "b", Count: n, FromInstant: t0, ToInstant: t0.Add(hour), Reason: events.MissedPaused}
}

func defined(hs ...happening) []happening { return and([]happening{at(0, nightly())}, hs...) }

func queuedOccurrence() []happening { return []happening{at(0, events.OccurrenceQueued{Instant: t0})} }

func givenSchedule(hs ...happening) Schedule {
	id := events.ScheduleStream("nightly")
	return Fold(id, history(id, hs...)).(Schedule)
}

func givenOccurrence(hs ...happening) Occurrence {
	id := events.OccurrenceStream("nightly", "a")
	return Fold(id, history(id, hs...)).(Occurrence)
}

// S-7: a definition is written when it is new, another one, or comes back; else it is left alone.
func TestADefinitionIsWrittenWhenItIsAnother(t *testing.T) {
	same := DefineSchedule{Schedule: "nightly", Defined: nightly()}
	require.Len(t, decide(t, givenSchedule(), same), 1)
	requireNothing(t, givenSchedule(defined()...), same)
	later := same
	later.Defined.From = t0.Add(hour)
	requireNothing(t, givenSchedule(defined()...), later)
	for name, change := range map[string]func(*events.ScheduleDefined){
		"cron": func(d *events.ScheduleDefined) { d.Cron = "0 4 * * *" }, "zone": func(d *events.ScheduleDefined) { d.TimeZone = "Europe/Berlin" },
		"catch-up": func(d *events.ScheduleDefined) { d.CatchUp = events.CatchUpSkip }, "overlap": func(d *events.ScheduleDefined) { d.Overlap = events.OverlapQueue },
		"max": func(d *events.ScheduleDefined) { d.Max = 3 }, "auto-pause": func(d *events.ScheduleDefined) { d.AutoPause = 3 },
		"template": func(d *events.ScheduleDefined) { d.Template = json.RawMessage(`{}`) },
	} {
		other := same
		change(&other.Defined)
		require.Len(t, decide(t, givenSchedule(defined()...), other), 1, name)
	}
	require.Len(t, decide(t, givenSchedule(defined(at(minute, events.ScheduleRemoved{Actor: "configuration"}))...), same), 1)
}

// S-7, X-5, X-7: pause, resume and removal are on record once, and a pause outlives a removal.
func TestASchedulePausesOnce(t *testing.T) {
	pause := PauseSchedule{"nightly", "ada", "holidays"}
	resume := ResumeSchedule{Schedule: "nightly", Actor: "bob", Reason: "back"}
	requireNothing(t, givenSchedule(), pause)
	requireNothing(t, givenSchedule(defined()...), resume)
	paused := givenSchedule(defined(at(minute, events.SchedulePaused{Actor: "ada", Reason: "holidays"}))...)
	requireNothing(t, paused, PauseSchedule{"nightly", "bob", "me too"})
	require.Equal(t, []events.Event{events.ScheduleResumed{Actor: "bob", Reason: "back"}}, decide(t, paused, resume))
	resume.Missed = missed(3)
	require.Equal(t, []events.Event{missed(3), events.ScheduleResumed{Actor: "bob", Reason: "back"}}, decide(t, paused, resume))

	removed := givenSchedule(defined(at(minute, events.SchedulePaused{Actor: "ada"}), at(hour, events.ScheduleRemoved{Actor: "configuration"}))...)
	require.False(t, removed.Exists())
	requireNothing(t, removed, RemoveSchedule{Schedule: "nightly"})
	back := givenSchedule(defined(at(minute, events.SchedulePaused{Actor: "ada"}), at(hour, events.ScheduleRemoved{}), at(2*hour, nightly()))...)
	require.True(t, back.Exists() && back.Paused)
	require.Equal(t, t0.Add(2*hour), back.CountsFrom())
}

// S-5: what is missed is written once, and not of a schedule that mints nothing.
func TestMissedTimesAreWrittenOnce(t *testing.T) {
	miss := MissOccurrences{"nightly", missed(2)}
	require.Equal(t, []events.Event{missed(2)}, decide(t, givenSchedule(defined()...), miss))
	requireNothing(t, givenSchedule(defined(at(minute, missed(2)))...), miss)
	requireNothing(t, givenSchedule(defined(at(minute, events.SchedulePaused{Actor: "ada"}))...), miss)
	requireNothing(t, givenSchedule(), miss)
}

// S-1, J-2: a key is decided once, ever. What is queued may still be triggered, skipped or rejected.
func TestAKeyIsDecidedOnce(t *testing.T) {
	commands := []Command{
		QueueOccurrence{"nightly", "a", t0}, TriggerOccurrence{"nightly", "a", t0, theJob, theRun},
		SkipOccurrence{"nightly", "a", t0, events.SkippedOverlap}, RejectOccurrence{"nightly", "a", t0, "plan_too_large", "too many"},
	}
	for i, c := range commands {
		require.Len(t, decide(t, givenOccurrence(), c), 1)
		if i == 0 {
			requireNothing(t, givenOccurrence(queuedOccurrence()...), c)
		} else {
			require.Len(t, decide(t, givenOccurrence(queuedOccurrence()...), c), 1)
		}
		for _, end := range []events.Event{
			events.OccurrenceTriggered{Instant: t0, Job: theJob, Run: theRun}, events.OccurrenceSkipped{Instant: t0}, events.OccurrenceRejected{Instant: t0},
		} {
			requireNothing(t, givenOccurrence(at(0, end)), c)
		}
	}
}

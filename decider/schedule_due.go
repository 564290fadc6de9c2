package decider

import "github.com/towline-dev/towline/events"

// DueTime is one due time of a schedule.
type DueTime struct {
	Civil   string
	Instant events.Micros
}

// DueFacts are what must be known to decide what a look at a schedule finds due (S-4 to S-6). Wall time counts.
type DueFacts struct {
	Schedule Schedule
	Now      events.Micros // wall time
	// Watched is when the deciding process has begun to look, if it is alone: what was due before is missed. 0: others may
	// have looked.
	Watched events.Micros
	Late    events.Span // a due time that is decided later than so is missed

	Count  int       // of due times behind the newest decided one, up to now; whoever counts may stop at a bound
	First  DueTime   // of them
	Newest []DueTime // of them, oldest first: all, or more than CatchUpKeeps

	Queued  []DueTime // that wait, oldest first
	RunOpen bool      // the schedule's last run has not ended
}

// DueDecision is what becomes of them: one event for those that catch-up leaves out, one decision for each of the others.
type DueDecision struct {
	Missed  events.OccurrencesMissed // Count 0: none
	Queue   []DueTime
	Skip    []SkippedTime
	Trigger DueTime // at most one, for its run is open then; the zero value: none
}

// SkippedTime will not run.
type SkippedTime struct {
	DueTime
	Reason events.SkipReason
}

// Nothing reports that there is nothing to decide.
func (d DueDecision) Nothing() bool {
	return d.Missed.Count == 0 && len(d.Queue) == 0 && len(d.Skip) == 0 && d.Trigger == DueTime{}
}

// DecideDue is the rule of schedules (S-4 to S-7). What waits goes first. The newest due time is on time if somebody looks
// soon enough, whatever was missed before it; then the overlap policy decides. The others were missed, and catch-up decides
// which of them run: of those that it keeps, the one that is on time is one.
func DecideDue(f DueFacts) DueDecision {
	var d DueDecision
	if !f.Schedule.Exists() || f.Schedule.Paused {
		return d
	}
	l := line{waiting: len(f.Queued), busy: f.RunOpen, d: &d}
	if len(f.Queued) > 0 && !f.RunOpen {
		l.take(f.Queued[0])
		l.waiting--
	}
	current := f.onTime()
	kept := f.Newest[len(f.Newest)-min(len(f.Newest), max(CatchUpKeeps(f.Schedule.Definition), current)):]
	if missed := f.Count - len(kept); missed > 0 {
		last := f.Newest[len(f.Newest)-len(kept)-1]
		d.Missed = events.OccurrencesMissed{
			FromCivil: f.First.Civil, ToCivil: last.Civil, Count: missed, FromInstant: f.First.Instant, ToInstant: last.Instant,
			Reason: events.MissedCatchUp,
		}
	}
	chain := f.Schedule.Definition.CatchUp == events.CatchUpAll && f.Count > current
	for _, t := range kept {
		l.join(t, f.Schedule.Definition, chain)
	}
	return d
}

// CatchUpKeeps is how many of the missed times run (S-5).
func CatchUpKeeps(d events.ScheduleDefined) int {
	switch d.CatchUp {
	case events.CatchUpOnce:
		return 1
	case events.CatchUpAll:
		return d.Max
	case events.CatchUpSkip:
	}
	return 0
}

// onTime counts the newest due times that are on time: those of the newest instant, of which a gap has several (S-3).
func (f DueFacts) onTime() int {
	if f.Count == 0 {
		return 0
	}
	newest := f.Newest[len(f.Newest)-1].Instant
	if newest < f.Watched || f.Now.Sub(newest) > f.Late {
		return 0
	}
	n := 0
	for i := len(f.Newest) - 1; i >= 0 && f.Newest[i].Instant == newest; i-- {
		n++
	}
	if f.Count > len(f.Newest) {
		n = min(n, len(f.Newest)-1) // one is left to say where those that were missed end
	}
	return n
}

// line is who waits for the run of a schedule to end.
type line struct {
	waiting int
	busy    bool // a run is open, or about to be
	d       *DueDecision
}

func (l *line) take(t DueTime) { l.d.Trigger, l.busy = t, true }

// join lets a due time run, wait, or be skipped (S-5, S-6). chain: it is one of several that are caught up, which run one
// behind the other whatever the overlap policy.
func (l *line) join(t DueTime, def events.ScheduleDefined, chain bool) {
	room := 1
	if chain {
		room = def.Max
	}
	switch {
	case !l.busy && l.waiting == 0:
		l.take(t)
	case !chain && def.Overlap != events.OverlapQueue:
		l.d.Skip = append(l.d.Skip, SkippedTime{t, events.SkippedOverlap})
	case l.waiting >= room:
		l.d.Skip = append(l.d.Skip, SkippedTime{t, events.SkippedQueueFull})
	default:
		l.d.Queue = append(l.d.Queue, t)
		l.waiting++
	}
}

// AutoPauses reports that a schedule is paused because its last runs have all failed (S-9).
func AutoPauses(s Schedule, straightFailures int) bool {
	after := s.Definition.AutoPause
	return s.Exists() && !s.Paused && after > 0 && straightFailures >= after
}

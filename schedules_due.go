package towline

import (
	"slices"

	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/projections"
	"github.com/towline-dev/towline/schedule"
)

const (
	// mostCounted bounds how many due times are counted of a schedule at which nobody has looked for long.
	mostCounted = 100_000
	// leastKept is how many of the newest due times are looked at one by one; more if catch-up runs more.
	leastKept = 64
)

// due are the due times of a schedule that are not decided yet.
type due struct {
	count  int // at most mostCounted
	first  decider.DueTime
	newest []decider.DueTime // oldest first
}

func dueTime(d schedule.Due) decider.DueTime {
	return decider.DueTime{Civil: d.Key(), Instant: events.MicrosOf(d.Instant)}
}

// dueOf walks from a place up to now, and keeps the newest.
func dueOf(s schedule.Schedule, from schedule.Cursor, now events.Micros, keep int) (out due) {
	var last []schedule.Due
	for d := range s.Between(from, now.Time()) {
		if out.count++; out.count == 1 {
			out.first = dueTime(d)
		}
		if last = append(last, d); len(last) == 2*keep {
			last = append(last[:0], last[keep:]...)
		}
		if out.count == mostCounted {
			last = newestOf(s, from, now, keep)
			break
		}
	}
	for _, d := range last[max(0, len(last)-keep):] {
		out.newest = append(out.newest, dueTime(d))
	}
	return out
}

// newestOf looks for the newest due times of many, backwards in steps that double.
func newestOf(s schedule.Schedule, from schedule.Cursor, now events.Micros, keep int) []schedule.Due {
	const step = events.Span(1_000_000)
	for back := step; ; back *= 2 {
		at := schedule.Cursor{Instant: now.Add(-back).Time()}
		if !at.Instant.After(from.Instant) {
			at = from
		}
		found := slices.Collect(s.Between(at, now.Time()))
		if len(found) >= keep || at == from {
			return found
		}
	}
}

// parseSchedule reads a stored definition.
func parseSchedule(s projections.Schedule) (schedule.Schedule, error) {
	parsed, err := schedule.Parse(s.Cron, s.TimeZone)
	return parsed.Anchored(s.CountsFrom.Time()), err
}

// undecided is the place in a schedule up to where everything is decided: its newest decided due time, or its definition
// (S-4). A definition of a clock that ran ahead holds nothing back: then it is where this process began to look.
func undecided(v projections.View, s projections.Schedule, now, watched events.Micros) (schedule.Cursor, error) {
	decided, err := v.Decided(s.Name, now)
	if err != nil {
		return schedule.Cursor{}, err
	}
	from := s.CountsFrom
	if from > now {
		from = min(watched, now)
	}
	if from > decided.Instant {
		return schedule.Cursor{Instant: from.Time()}, nil
	}
	return schedule.Cursor{Instant: decided.Instant.Time(), Key: decided.Civil}, nil
}

// wallTime is what the wall clock shows, but not more than engine time: as Tx.worldTime outside of a transaction.
func (e *Engine) wallTime() events.Micros {
	r := e.clock.look()
	return min(r.wall, r.at)
}

// dueFacts are what must be known of a schedule to decide what is due in it. open tells whether a run is.
func (e *Engine) dueFacts(v projections.View, row projections.Schedule, now events.Micros, open func(events.RunID) (bool, error)) (decider.DueFacts, schedule.Schedule, error) {
	f := decider.DueFacts{
		Schedule: decider.Schedule{Name: row.Name, Definition: row.Definition(), Version: row.Version, Removed: row.Removed, Paused: row.Paused},
		Now:      now, Late: events.SpanOf(e.Knobs().ReconcileInterval),
	}
	s, err := parseSchedule(row)
	if err != nil || row.Paused {
		return f, s, err
	}
	watched := e.timers.watching.from(now)
	if e.store.Exclusive() {
		f.Watched = watched
	}
	from, err := undecided(v, row, now, watched)
	if err != nil {
		return f, s, err
	}
	found := dueOf(s, from, now, max(leastKept, decider.CatchUpKeeps(f.Schedule.Definition)+1))
	f.Count, f.First, f.Newest = found.count, found.first, found.newest
	queued, err := v.QueuedOccurrences(row.Name, maxCatchUp)
	if err != nil {
		return f, s, err
	}
	for _, o := range queued {
		f.Queued = append(f.Queued, decider.DueTime{Civil: o.Civil, Instant: events.MicrosOf(o.Instant)})
	}
	if !row.LastRun.IsZero() && f.Count+len(f.Queued) > 0 {
		f.RunOpen, err = open(row.LastRun)
	}
	return f, s, err
}

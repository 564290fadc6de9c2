package projections

import (
	"fmt"
	"time"

	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/store"
)

// Schedule is one schedule (spec 4.2).
type Schedule struct {
	Name      string          `json:"name"`
	Cron      string          `json:"cron"`
	TimeZone  string          `json:"time_zone"`
	CatchUp   events.CatchUp  `json:"catch_up"`
	Max       int             `json:"max,omitzero"` // of catch_up all
	Overlap   events.Overlap  `json:"overlap"`
	AutoPause int             `json:"auto_pause_after,omitzero"` // straight failures; 0: never
	Template  string          `json:"template"`                  // a trigger request, as JSON
	Version   events.Position `json:"version"`                   // of the definition: its place in the log
	DefinedAt time.Time       `json:"defined_at"`
	Removed   bool            `json:"removed,omitzero"`
	Paused    bool            `json:"paused"`
	By        string          `json:"by,omitzero"` // who has paused or resumed it last, and why
	Reason    string          `json:"reason,omitzero"`
	Since     time.Time       `json:"since,omitzero"`
	LastRun   events.RunID    `json:"last_run_id,omitzero"`
	Failures  int             `json:"failures,omitzero"` // runs in a row that have failed, up to the last that has ended

	CountsFrom events.Micros `json:"-"` // wall time from which due times count if none was decided (S-4)
}

// Definition is what its newest ScheduleDefined says.
func (s Schedule) Definition() events.ScheduleDefined {
	return events.ScheduleDefined{
		Cron: s.Cron, TimeZone: s.TimeZone, CatchUp: s.CatchUp, Max: s.Max, Overlap: s.Overlap, AutoPause: s.AutoPause,
		Template: []byte(s.Template),
	}
}

const scheduleColumns = `name, cron, time_zone, catch_up, max, overlap, auto_pause_after, template, version, defined_at,
	counts_from, removed, paused, actor, reason, since, run_id, failures`

// Schedules lists those that are not removed, by name.
func (v View) Schedules() ([]Schedule, error) {
	return v.schedules(`SELECT ` + scheduleColumns + ` FROM schedules WHERE removed = 0 ORDER BY name`)
}

// Schedule is one by its name, also one that was removed; false: there never was one.
func (v View) Schedule(name string) (Schedule, bool, error) {
	found, err := v.schedules(`SELECT `+scheduleColumns+` FROM schedules WHERE name = $1`, name)
	if err != nil || len(found) == 0 {
		return Schedule{}, false, err
	}
	return found[0], true, nil
}

func (v View) schedules(query string, args ...any) ([]Schedule, error) {
	var out []Schedule
	err := v.tx.Query(func(r store.Row) error {
		s, err := scanSchedule(r)
		out = append(out, s)
		return err
	}, query, args...)
	if err != nil {
		return nil, fmt.Errorf("read schedules: %w", err)
	}
	return out, nil
}

func scanSchedule(r store.Row) (Schedule, error) {
	var s Schedule
	var catchUp, overlap string
	var version, defined, from int64
	var removed, paused int
	var actor, reason *string
	var since *int64
	var run []byte
	err := r.Scan(&s.Name, &s.Cron, &s.TimeZone, &catchUp, &s.Max, &overlap, &s.AutoPause, &s.Template, &version, &defined, &from,
		&removed, &paused, &actor, &reason, &since, &run, &s.Failures)
	s.CatchUp, s.Overlap, s.Version = events.CatchUp(catchUp), events.Overlap(overlap), events.Position(version)
	s.DefinedAt, s.CountsFrom, s.Since = events.Micros(defined).Time(), events.Micros(from), optionalTime(since)
	s.Removed, s.Paused, s.By, s.Reason = removed == 1, paused == 1, deref(actor), deref(reason)
	copy(s.LastRun[:], run)
	return s, err
}

// Occurrence is one due time of a schedule and what became of it, or a range of them that were missed.
type Occurrence struct {
	Schedule string                   `json:"schedule"`
	Civil    string                   `json:"civil"`
	Instant  time.Time                `json:"instant"`
	Status   decider.OccurrenceStatus `json:"state"`
	Job      events.JobID             `json:"job_id,omitzero"`
	Run      events.RunID             `json:"run_id,omitzero"`
	Reason   string                   `json:"reason,omitzero"` // why it was skipped, or the category of its rejection
	Text     string                   `json:"error_text,omitzero"`
	Decided  time.Time                `json:"decided_at"` // last
}

const occurrenceColumns = `schedule, civil, instant, status, job_id, run_id, reason, error_text, decided_at`

// OccurrenceCursor is a place in the due times of a schedule. The zero value lies behind all of them.
type OccurrenceCursor struct {
	Instant events.Micros
	Civil   string
}

// Occurrences lists the due times of a schedule about which something was decided, newest first, at most limit of them
// before a place. Those that were missed are in Missed.
func (v View) Occurrences(schedule string, before OccurrenceCursor, limit int) ([]Occurrence, error) {
	if before.Instant == 0 {
		const forEver = events.Micros(1<<63 - 1)
		before.Instant = forEver
	}
	return v.occurrences(`SELECT `+occurrenceColumns+` FROM occurrences WHERE schedule = $1 AND (instant, civil) < ($2, $3)
		ORDER BY instant DESC, civil DESC LIMIT $4`, schedule, int64(before.Instant), before.Civil, limit)
}

// Occurrence is one due time by its key; false: nothing was decided of it.
func (v View) Occurrence(schedule, civil string) (Occurrence, bool, error) {
	found, err := v.occurrences(`SELECT `+occurrenceColumns+` FROM occurrences WHERE schedule = $1 AND civil = $2`, schedule, civil)
	if err != nil || len(found) == 0 {
		return Occurrence{}, false, err
	}
	return found[0], true, nil
}

// QueuedOccurrences are those that wait for a run to end, oldest first, at most limit of them.
func (v View) QueuedOccurrences(schedule string, limit int) ([]Occurrence, error) {
	return v.occurrences(`SELECT `+occurrenceColumns+` FROM occurrences WHERE schedule = $1 AND status = 'queued'
		ORDER BY instant, civil LIMIT $2`, schedule, limit)
}

func (v View) occurrences(query string, args ...any) ([]Occurrence, error) {
	var out []Occurrence
	err := v.tx.Query(func(r store.Row) error {
		var o Occurrence
		var status string
		var instant, decided int64
		var job, run []byte
		var reason, text *string
		err := r.Scan(&o.Schedule, &o.Civil, &instant, &status, &job, &run, &reason, &text, &decided)
		o.Status, o.Reason, o.Text = decider.OccurrenceStatus(status), deref(reason), deref(text)
		o.Instant, o.Decided = events.Micros(instant).Time(), events.Micros(decided).Time()
		copy(o.Job[:], job)
		copy(o.Run[:], run)
		out = append(out, o)
		return err
	}, query, args...)
	if err != nil {
		return nil, fmt.Errorf("read occurrences: %w", err)
	}
	return out, nil
}

// Decided is up to where the due times of a schedule are decided, of those that are not later than now: the newest
// occurrence, or the end of what was missed (S-4). A later one, of a clock that ran ahead, holds nothing back; but what a
// range of missed times covers stays decided when the clock is set back into it (CLK-6). The zero value: nothing is.
func (v View) Decided(schedule string, now events.Micros) (c OccurrenceCursor, err error) {
	later := func(instant int64, civil string) {
		at := events.Micros(instant)
		if at > c.Instant || at == c.Instant && civil > c.Civil {
			c = OccurrenceCursor{at, civil}
		}
	}
	each := func(query string) error {
		return v.tx.Query(func(r store.Row) error {
			var instant int64
			var civil string
			err := r.Scan(&instant, &civil)
			later(instant, civil)
			return err
		}, query, schedule, int64(now))
	}
	err = each(`SELECT instant, civil FROM occurrences WHERE schedule = $1 AND instant <= $2 ORDER BY instant DESC, civil DESC LIMIT 1`)
	if err == nil {
		err = each(`SELECT min(to_instant, $2), CASE WHEN to_instant <= $2 THEN to_civil ELSE '' END FROM missed_occurrences
			WHERE schedule = $1 AND from_instant <= $2 ORDER BY from_instant DESC LIMIT 1`)
	}
	if err != nil {
		return c, fmt.Errorf("read what is decided of schedule %s: %w", schedule, err)
	}
	return c, nil
}

// Missed is a range of due times that have no occurrence: catch-up has left them out, or the schedule was paused.
type Missed struct {
	Position  events.Position     `json:"position"`
	FromCivil string              `json:"from_civil"`
	ToCivil   string              `json:"to_civil"`
	From      time.Time           `json:"from"`
	To        time.Time           `json:"to"` // included
	Count     int                 `json:"count"`
	Reason    events.MissedReason `json:"reason,omitzero"`
	Decided   time.Time           `json:"decided_at"`
}

// Missed lists them, newest first, at most limit of them before a position; 0: from the newest.
func (v View) Missed(schedule string, before events.Position, limit int) ([]Missed, error) {
	if before == 0 {
		before = 1<<63 - 1
	}
	var out []Missed
	err := v.tx.Query(func(r store.Row) error {
		var m Missed
		var position, from, to, decided int64
		var reason *string
		err := r.Scan(&position, &m.FromCivil, &m.ToCivil, &from, &to, &m.Count, &reason, &decided)
		m.Position, m.Reason = events.Position(position), events.MissedReason(deref(reason))
		m.From, m.To, m.Decided = events.Micros(from).Time(), events.Micros(to).Time(), events.Micros(decided).Time()
		out = append(out, m)
		return err
	}, `SELECT position, from_civil, to_civil, from_instant, to_instant, count, reason, decided_at FROM missed_occurrences
		WHERE schedule = $1 AND position < $2 ORDER BY position DESC LIMIT $3`, schedule, int64(before), limit)
	if err != nil {
		return nil, fmt.Errorf("read what schedule %s has missed: %w", schedule, err)
	}
	return out, nil
}

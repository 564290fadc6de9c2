package decider

import (
	"bytes"

	"github.com/towline-dev/towline/events"
)

// Schedule is the fold of a schedule stream (S-1, S-7). When it is due is not its business: that is walked by package
// schedule, and its due times are streams of their own (Occurrence).
//
//	∅ ──ScheduleDefined──► open ──SchedulePaused──► paused ──ScheduleResumed──► open
//	                         └──ScheduleRemoved──► removed ──ScheduleDefined──► open
//
// A pause outlives a removal: whoever has paused it ends that.
type Schedule struct {
	Name       string
	Definition events.ScheduleDefined
	DefinedAt  events.Micros
	Version    events.Position // of the newest ScheduleDefined; 0: there was none
	Removed    bool

	Missed events.OccurrencesMissed // the newest

	Paused bool
	By     string // who has paused or resumed it last, and why
	Reason string
	Since  events.Micros
}

// Exists reports a schedule that is defined and not removed.
func (s Schedule) Exists() bool { return s.Version != 0 && !s.Removed }

// CountsFrom is the wall time from which due times count if none was decided (S-4).
func (s Schedule) CountsFrom() events.Micros {
	if s.Definition.From != 0 {
		return s.Definition.From
	}
	return s.DefinedAt
}

func (s Schedule) evolve(env events.Envelope) Schedule {
	s.Name, _ = env.Stream.Schedule()
	switch e := env.Event.(type) {
	case events.ScheduleDefined:
		s.Definition, s.DefinedAt, s.Version, s.Removed = e, env.At, env.Position, false
	case events.ScheduleRemoved:
		s.Removed = true
	case events.OccurrencesMissed:
		s.Missed = e
	case events.SchedulePaused:
		s.Paused, s.By, s.Reason, s.Since = true, e.Actor, e.Reason, env.At
	case events.ScheduleResumed:
		s.Paused, s.By, s.Reason, s.Since = false, e.Actor, e.Reason, env.At
	}
	return s
}

// DefineSchedule records a definition that is new, or another one than the last, or that comes back (S-7).
type DefineSchedule struct {
	Schedule string
	Defined  events.ScheduleDefined // From counts only if it is written
}

func (DefineSchedule) Name() string              { return "define_schedule" }
func (c DefineSchedule) Stream() events.StreamID { return events.ScheduleStream(c.Schedule) }
func (DefineSchedule) Fresh() bool               { return false }

func (c DefineSchedule) decide(s State) ([]events.Event, *Rejection) {
	was := s.(Schedule)
	if was.Exists() && sameDefinition(was.Definition, c.Defined) {
		return nil, nil
	}
	return []events.Event{c.Defined}, nil
}

func sameDefinition(a, b events.ScheduleDefined) bool {
	return a.Cron == b.Cron && a.TimeZone == b.TimeZone && a.CatchUp == b.CatchUp && a.Max == b.Max && a.Overlap == b.Overlap &&
		a.AutoPause == b.AutoPause && bytes.Equal(a.Template, b.Template)
}

// PauseSchedule stops a schedule (S-7). What is paused stays paused, and the first reason stays on record. Who executes it
// skips what is queued.
type PauseSchedule struct{ Schedule, Actor, Reason string }

func (PauseSchedule) Name() string              { return "pause_schedule" }
func (c PauseSchedule) Stream() events.StreamID { return events.ScheduleStream(c.Schedule) }
func (PauseSchedule) Fresh() bool               { return false }

func (c PauseSchedule) decide(s State) ([]events.Event, *Rejection) {
	if was := s.(Schedule); !was.Exists() || was.Paused {
		return nil, nil
	}
	return []events.Event{events.SchedulePaused{Actor: c.Actor, Reason: c.Reason}}, nil
}

// ResumeSchedule ends a pause. Times that were due during it are missed, and not caught up (S-7).
type ResumeSchedule struct {
	Schedule, Actor, Reason string
	Missed                  events.OccurrencesMissed // Count 0: none were due
}

func (ResumeSchedule) Name() string              { return "resume_schedule" }
func (c ResumeSchedule) Stream() events.StreamID { return events.ScheduleStream(c.Schedule) }
func (ResumeSchedule) Fresh() bool               { return false }

func (c ResumeSchedule) decide(s State) ([]events.Event, *Rejection) {
	if was := s.(Schedule); !was.Exists() || !was.Paused {
		return nil, nil
	}
	resumed := events.ScheduleResumed{Actor: c.Actor, Reason: c.Reason}
	if c.Missed.Count == 0 {
		return []events.Event{resumed}, nil
	}
	return []events.Event{c.Missed, resumed}, nil
}

// RemoveSchedule ends a schedule that is configured no more. Who executes it skips what is queued.
type RemoveSchedule struct{ Schedule, Actor, Reason string }

func (RemoveSchedule) Name() string              { return "remove_schedule" }
func (c RemoveSchedule) Stream() events.StreamID { return events.ScheduleStream(c.Schedule) }
func (RemoveSchedule) Fresh() bool               { return false }

func (c RemoveSchedule) decide(s State) ([]events.Event, *Rejection) {
	if !s.(Schedule).Exists() {
		return nil, nil
	}
	return []events.Event{events.ScheduleRemoved{Actor: c.Actor, Reason: c.Reason}}, nil
}

// MissOccurrences records the due times that catch-up leaves out (S-5).
type MissOccurrences struct {
	Schedule string
	Missed   events.OccurrencesMissed
}

func (MissOccurrences) Name() string              { return "miss_occurrences" }
func (c MissOccurrences) Stream() events.StreamID { return events.ScheduleStream(c.Schedule) }
func (MissOccurrences) Fresh() bool               { return false }

func (c MissOccurrences) decide(s State) ([]events.Event, *Rejection) {
	if was := s.(Schedule); !was.Exists() || was.Paused || c.Missed.Count == 0 || c.Missed == was.Missed {
		return nil, nil
	}
	return []events.Event{c.Missed}, nil
}

package events

import "encoding/json"

// Numbers of the schedule family. A number is never reused.
const (
	TypeScheduleDefined Type = iota + 70
	TypeSchedulePaused
	TypeScheduleResumed
	TypeScheduleRemoved
	TypeOccurrencesMissed
	TypeOccurrenceQueued
	TypeOccurrenceTriggered
	TypeOccurrenceSkipped
	TypeOccurrenceRejected
)

type (
	// ScheduleDefined is a new or changed definition (S-1).
	ScheduleDefined struct {
		Cron      string          `json:"cron"`
		TimeZone  string          `json:"time_zone"`
		CatchUp   CatchUp         `json:"catch_up"`
		Max       int             `json:"max,omitzero"` // of catch_up all
		Overlap   Overlap         `json:"overlap"`
		AutoPause int             `json:"auto_pause_after,omitzero"` // straight failures, then it is paused (S-9); 0: never
		Template  json.RawMessage `json:"template"`
		// From is the wall time from which due times count. It lies before the time of the event where engine time ran ahead
		// (CLK-6, CLK-10); 0: they are the same.
		From Micros `json:"from,omitzero"`
	}

	// SchedulePaused, ScheduleResumed and ScheduleRemoved say who and why (S-7).
	SchedulePaused struct {
		Actor  string `json:"actor"`
		Reason string `json:"reason,omitzero"`
	}
	ScheduleResumed struct {
		Actor  string `json:"actor"`
		Reason string `json:"reason,omitzero"`
	}
	ScheduleRemoved struct {
		Actor  string `json:"actor"`
		Reason string `json:"reason,omitzero"`
	}

	// OccurrencesMissed sums up the times that catch-up leaves out (S-5), or that were due during a pause (S-7): all from the
	// first to the last.
	OccurrencesMissed struct {
		FromCivil   string       `json:"from_civil"`
		ToCivil     string       `json:"to_civil"`
		Count       int          `json:"count"` // bounded: see Engine.Tick
		FromInstant Micros       `json:"from_instant,omitzero"`
		ToInstant   Micros       `json:"to_instant,omitzero"`
		Reason      MissedReason `json:"reason,omitzero"`
	}

	// OccurrenceQueued waits for the run before it (S-6).
	OccurrenceQueued struct {
		Instant Micros `json:"instant"`
	}

	// OccurrenceTriggered is written with the plan of its run (S-2).
	OccurrenceTriggered struct {
		Instant Micros `json:"instant"`
		Job     JobID  `json:"job_id"`
		Run     RunID  `json:"run_id"`
	}

	// OccurrenceSkipped will not run.
	OccurrenceSkipped struct {
		Instant Micros     `json:"instant"`
		Reason  SkipReason `json:"reason"`
	}

	// OccurrenceRejected was refused by the planner (S-8).
	OccurrenceRejected struct {
		Instant  Micros   `json:"instant"`
		Category Category `json:"category"`
		Text     string   `json:"text,omitzero"`
	}
)

func (ScheduleDefined) EventType() Type     { return TypeScheduleDefined }
func (SchedulePaused) EventType() Type      { return TypeSchedulePaused }
func (ScheduleResumed) EventType() Type     { return TypeScheduleResumed }
func (ScheduleRemoved) EventType() Type     { return TypeScheduleRemoved }
func (OccurrencesMissed) EventType() Type   { return TypeOccurrencesMissed }
func (OccurrenceQueued) EventType() Type    { return TypeOccurrenceQueued }
func (OccurrenceTriggered) EventType() Type { return TypeOccurrenceTriggered }
func (OccurrenceSkipped) EventType() Type   { return TypeOccurrenceSkipped }
func (OccurrenceRejected) EventType() Type  { return TypeOccurrenceRejected }

func (ScheduleDefined) event()     {}
func (SchedulePaused) event()      {}
func (ScheduleResumed) event()     {}
func (ScheduleRemoved) event()     {}
func (OccurrencesMissed) event()   {}
func (OccurrenceQueued) event()    {}
func (OccurrenceTriggered) event() {}
func (OccurrenceSkipped) event()   {}
func (OccurrenceRejected) event()  {}

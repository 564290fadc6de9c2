package wire

import (
	"time"

	"github.com/towline-dev/towline/events"
)

// Schedule says when a sync starts by itself, and when it is due next.
type Schedule struct {
	Name      string            `json:"name"`
	Sync      string            `json:"sync"`
	Mode      events.Mode       `json:"mode" enum:"incremental,full_resync"`
	Selection Selection         `json:"selection"`
	Cron      string            `json:"cron"`
	TimeZone  string            `json:"time_zone"`
	CatchUp   events.CatchUp    `json:"catch_up" enum:"skip,once,all" doc:"what becomes of times that were missed"`
	Max       int               `json:"max,omitzero" doc:"of catch_up all: how many"`
	Overlap   events.Overlap    `json:"overlap" enum:"skip,queue" doc:"what becomes of a time while the last run is open"`
	AutoPause int               `json:"auto_pause_after,omitzero" doc:"runs in a row that fail; not given: never"`
	DefinedAt time.Time         `json:"defined_at"`
	Paused    bool              `json:"paused"`
	By        string            `json:"by,omitzero" doc:"who has paused or resumed it last"`
	Reason    string            `json:"reason,omitzero"`
	Since     time.Time         `json:"since,omitzero"`
	LastRun   events.RunID      `json:"last_run,omitzero"`
	Failures  int               `json:"failures,omitzero" doc:"runs in a row that have failed"`
	Next      []Fire            `json:"next,omitempty" nullable:"false" doc:"its next due times, also while it is paused; not with at_seq"`
	Error     string            `json:"error,omitzero" doc:"why there are none: this release cannot read its expression or its zone"`
	Waits     *ScheduleWait     `json:"waits,omitempty" doc:"what is due cannot be decided, and is tried for ever; missing: it can, or with at_seq"`
	History   []Occurrence      `json:"history,omitempty" nullable:"false" doc:"of one schedule: the due times that were decided last, newest first"`
	Missed    []MissedTimes     `json:"missed,omitempty" nullable:"false" doc:"of one schedule: ranges of due times that nobody decided, newest first"`
	Links     map[string]string `json:"links"`
}

// ScheduleWait is why each look at a schedule fails.
type ScheduleWait struct {
	Since time.Time `json:"since" doc:"of the first look that failed, of this start of the process"`
	Code  string    `json:"code,omitzero" enum:"disk_budget" doc:"the store has no room for its run"`
	Text  string    `json:"text"`
}

// Fire is a due time to come.
type Fire struct {
	At     time.Time `json:"at" doc:"UTC"`
	Local  string    `json:"local" doc:"what the clock on the wall shows then, with the short name of its zone"`
	Civil  string    `json:"civil" doc:"the key of the occurrence"`
	Remark string    `json:"remark,omitzero" doc:"what a change of the clock does to it"`
}

// Occurrence is a due time that was decided.
type Occurrence struct {
	Civil   string       `json:"civil"`
	At      time.Time    `json:"at" doc:"UTC"`
	State   string       `json:"state" enum:"queued,triggered,skipped,rejected"`
	Job     events.JobID `json:"job,omitzero"`
	Run     events.RunID `json:"run,omitzero"`
	Reason  string       `json:"reason,omitzero" doc:"why it was skipped, or the category of its rejection"`
	Text    string       `json:"text,omitzero"`
	Decided time.Time    `json:"decided_at"`
}

// MissedTimes are due times in a row that have no occurrence: catch_up has left them out, or the schedule was paused.
type MissedTimes struct {
	FromCivil string              `json:"from_civil"`
	ToCivil   string              `json:"to_civil"`
	From      time.Time           `json:"from"`
	To        time.Time           `json:"to" doc:"inclusive"`
	Count     int                 `json:"count"`
	Reason    events.MissedReason `json:"reason,omitzero"`
	Decided   time.Time           `json:"decided_at"`
}

// RunNow is the body of POST /v1/schedules/{id}/run-now.
type RunNow struct {
	Reason string `json:"reason,omitzero" doc:"for the record"`
}

package wire

import "time"

// Readiness says whether the node does its work, and what a person should know.
type Readiness struct {
	Status  string   `json:"status" enum:"ok,degraded,unavailable" doc:"degraded: it works, and something needs a look"`
	Reasons []Reason `json:"reasons" nullable:"false"`
	Loops   []Loop   `json:"loops" nullable:"false" doc:"of the engine, with the age of their last success"`
}

// Reason is one thing that is not as it should be.
type Reason struct {
	What  string    `json:"what" enum:"store_unavailable,loop_stalled,not_running,clock,breaker_open,overdue,unresolved,parked,held,restored_hold,views_incomplete,disk_budget,schedule_waits,backup"`
	ID    string    `json:"id,omitzero" doc:"of what it is about"`
	Since time.Time `json:"since,omitzero"`
	Text  string    `json:"text,omitzero"`
	Fix   string    `json:"fix,omitzero"`
}

// Loop is one of the loops of the engine.
type Loop struct {
	Name        string `json:"name"`
	LastSuccess int64  `json:"last_success_age_ms" doc:"-1: there was none yet"`
	FailingMS   int64  `json:"failing_ms,omitzero" doc:"for how long each round has failed"`
	Error       string `json:"error,omitzero"`
}

package wire

import (
	"encoding/json"
	"time"

	"github.com/towline-dev/towline/events"
)

// Unit is one unit.
type Unit struct {
	ID          events.UnitID       `json:"id"`
	Alias       string              `json:"alias" doc:"RUN:source/dataset/window"`
	Run         events.RunID        `json:"run"`
	Ordinal     int                 `json:"ordinal" doc:"its place in the plan, from 1"`
	Source      string              `json:"source"`
	Provider    string              `json:"provider"`
	Dataset     string              `json:"dataset"`
	Members     []string            `json:"members" nullable:"false" doc:"of a family, else the dataset itself"`
	Tier        events.Tier         `json:"tier" enum:"reference,work_item"`
	Cost        events.Cost         `json:"cost_class" enum:"light,medium,heavy"`
	Mode        events.Mode         `json:"mode" enum:"incremental,backfill,full_resync"`
	Window      Window              `json:"window"`
	Surfaces    []string            `json:"surfaces" nullable:"false"`
	Fingerprint string              `json:"fingerprint,omitzero"`
	State       events.UnitStatus   `json:"state" enum:"planned,dispatching,running,retrying,succeeded,failed,cancelled"`
	Reason      events.CancelReason `json:"reason,omitzero" doc:"why it was cancelled"`
	Attempt     int                 `json:"attempt" doc:"how often it was claimed"`
	Dispatches  int                 `json:"dispatches"`
	ClaimedSeq  events.Position     `json:"claimed_seq,omitzero" doc:"of its newest claim: the fence is the epoch and this"`
	AvailableAt time.Time           `json:"available_at,omitzero" doc:"while retrying: when the next attempt is due"`
	Lease       *UnitLease          `json:"lease,omitempty" doc:"while running"`
	Retries     int                 `json:"retries,omitzero" doc:"after lost workers"`
	Suspect     bool                `json:"suspect,omitzero" doc:"its process died under it, and its retries are spent"`
	Deferrals   int                 `json:"rate_limit_deferrals,omitzero"`
	HandBacks   int                 `json:"hand_backs,omitzero"`
	Error       *UnitError          `json:"error,omitempty" doc:"of its newest failure"`
	LateResults int                 `json:"late_results,omitzero" doc:"results that came too late, and changed nothing"`
	Result      *Result             `json:"result,omitempty"`
	DurationMS  int64               `json:"duration_ms,omitzero"`
	PlannedAt   time.Time           `json:"planned_at"`
	Dispatched  time.Time           `json:"dispatched_at,omitzero" doc:"the last time"`
	ClaimedAt   time.Time           `json:"claimed_at,omitzero"`
	SettledAt   time.Time           `json:"settled_at,omitzero"`
}

// Window is half open: [from, to). One without from reads all there is up to its end.
type Window struct {
	Name string    `json:"name" doc:"as in an alias"`
	From time.Time `json:"from,omitzero"`
	To   time.Time `json:"to"`
}

// UnitLease says who holds a unit. Its secret is the worker's alone.
type UnitLease struct {
	Worker     string        `json:"worker,omitzero"`
	Node       events.NodeID `json:"node,omitzero" doc:"incarnation; not given for a worker of the API"`
	ExpiresAt  time.Time     `json:"expires_at"`
	GraceUntil time.Time     `json:"grace_until,omitzero" doc:"of a step of the clock"`
}

// UnitError is the newest failure of a unit.
type UnitError struct {
	Category events.Category `json:"category"`
	Text     string          `json:"text,omitzero"`
}

// Result is what a worker reports of a unit that succeeded.
type Result struct {
	Rows        int             `json:"rows,omitzero" minimum:"0" doc:"written by this attempt"`
	Fingerprint string          `json:"fingerprint,omitzero" doc:"of what was read"`
	State       json.RawMessage `json:"state,omitempty" doc:"for the next unit of the same source and dataset"`
	Detail      json.RawMessage `json:"detail,omitempty" doc:"for people"`
}

package wire

import (
	"time"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/projections"
)

// Job is the activity of one trigger. Its link reads result.sync_run_id, as the original's administrators know it.
type Job struct {
	ID       events.JobID          `json:"id"`
	Sync     string                `json:"sync"`
	Trigger  events.Trigger        `json:"trigger" enum:"manual,schedule,backfill,retry"`
	Actor    string                `json:"actor,omitzero"`
	Reason   string                `json:"reason,omitzero"`
	Key      string                `json:"idempotency_key,omitzero"`
	State    events.RunStatus      `json:"state" enum:"planned,dispatching,running,succeeded,partial_failed,failed,cancelled" doc:"that of its run"`
	Result   projections.JobResult `json:"result"`
	OpenedAt time.Time             `json:"opened_at"`
	ClosedAt time.Time             `json:"closed_at,omitzero"`
	Links    JobLinks              `json:"links"`
}

// JobLinks of a job.
type JobLinks struct {
	Self string `json:"self"`
	Run  string `json:"run"`
}

package wire

import (
	"time"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/projections"
)

// Run is one run. While it is open, state and counts are those of the moment.
type Run struct {
	ID          events.RunID             `json:"id"`
	Alias       string                   `json:"alias" doc:"the last six characters of id"`
	Job         events.JobID             `json:"job"`
	Sync        string                   `json:"sync"`
	State       events.RunStatus         `json:"state" enum:"planned,dispatching,running,succeeded,partial_failed,failed,cancelled"`
	Reason      string                   `json:"reason,omitzero" doc:"why it ended so"`
	Trigger     events.Trigger           `json:"trigger" enum:"manual,schedule,backfill,retry"`
	Mode        events.Mode              `json:"mode" enum:"incremental,backfill,full_resync"`
	Selection   Selection                `json:"selection"`
	RetryOf     events.RunID             `json:"retry_of,omitzero"`
	Retries     []events.RunID           `json:"retries,omitempty" nullable:"false" doc:"runs that retry this one, of one run only"`
	LeftOut     []LeftOut                `json:"left_out,omitempty" nullable:"false" doc:"sources that the plan has left out"`
	Units       int                      `json:"units" doc:"how many it has in all"`
	Succeeded   int                      `json:"succeeded"`
	Failed      int                      `json:"failed"`
	Cancelled   int                      `json:"cancelled"`
	PlannedAt   time.Time                `json:"planned_at"`
	StartedAt   time.Time                `json:"started_at,omitzero"`
	CompletedAt time.Time                `json:"completed_at,omitzero"`
	PostSync    []projections.PostTarget `json:"post_sync,omitempty" nullable:"false" doc:"what became of each target; none: no post_sync is owed"`
	Dispatch    *Dispatch                `json:"dispatch,omitempty" doc:"of one run that is open: the wakeup that starts its units"`
	Links       Links                    `json:"links"`
}

// Selection is what a request has named; a list that is missing means all.
type Selection struct {
	Sources  []string  `json:"sources,omitempty" nullable:"false"`
	Datasets []string  `json:"datasets,omitempty" nullable:"false"`
	Since    time.Time `json:"since,omitzero"`
	Before   time.Time `json:"before,omitzero"`
}

// LeftOut is a source that a plan has left out.
type LeftOut struct {
	Source string `json:"source"`
	Reason string `json:"reason"`
}

// Dispatch is how far the wakeup of a run's dispatch is. A transport that is away burns no attempts of it.
type Dispatch struct {
	Entry     string    `json:"entry" doc:"the alias of the outbox entry"`
	State     string    `json:"state" enum:"idle,pending,claimed,marked,parked,unresolved"`
	Transport string    `json:"transport,omitzero"`
	Attempts  int       `json:"attempts"`
	Breaker   string    `json:"breaker,omitzero" enum:"open" doc:"the transport fails, and what waits for it waits"`
	Since     time.Time `json:"since,omitzero" doc:"of an open breaker"`
	NextTryMS int64     `json:"next_try_in_ms,omitzero"`
	Error     string    `json:"error,omitzero" doc:"what the transport said last"`
}

// Links of a run.
type Links struct {
	Self  string `json:"self"`
	Units string `json:"units"`
}

// StartRun is the body of POST /v1/runs.
type StartRun struct {
	Sync     string      `json:"sync" minLength:"1"`
	Mode     events.Mode `json:"mode,omitzero" enum:"incremental,backfill,full_resync" doc:"not given: incremental"`
	Sources  *[]string   `json:"sources,omitempty" doc:"not given: all that are enabled; empty: none"`
	Datasets *[]string   `json:"datasets,omitempty" doc:"the same"`
	Since    time.Time   `json:"since,omitzero" doc:"of a backfill, inclusive"`
	Before   time.Time   `json:"before,omitzero" doc:"of a backfill, exclusive"`
	Reason   string      `json:"reason,omitzero" doc:"for the record"`
}

// DryRun is what a request would plan.
type DryRun struct {
	Sync    string        `json:"sync"`
	Mode    events.Mode   `json:"mode" enum:"incremental,backfill,full_resync"`
	Units   int           `json:"units"`
	Planned []PlannedUnit `json:"planned" nullable:"false" doc:"in the order of the plan"`
	LeftOut []LeftOut     `json:"left_out,omitempty" nullable:"false" doc:"sources that the plan would leave out"`
	Known   events.RunID  `json:"known,omitzero" doc:"the run that the idempotency key has already: nothing would be planned"`
}

// PlannedUnit is a unit that a plan would have.
type PlannedUnit struct {
	Source  string      `json:"source"`
	Dataset string      `json:"dataset"`
	Members []string    `json:"members" nullable:"false" doc:"of a family, else the dataset itself"`
	Tier    events.Tier `json:"tier" enum:"reference,work_item"`
	Cost    events.Cost `json:"cost_class" enum:"light,medium,heavy"`
	Window  Window      `json:"window"`
}

// RetryRun is the body of POST /v1/runs/{id}/retry.
type RetryRun struct {
	Cancelled bool   `json:"cancelled,omitzero" doc:"those that were cancelled, too"`
	Reason    string `json:"reason,omitzero" doc:"for the record"`
}

// Why is the body of an operator's action.
type Why struct {
	Reason string `json:"reason" minLength:"1" doc:"for the record"`
}

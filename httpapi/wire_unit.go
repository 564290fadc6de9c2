package httpapi

import (
	"time"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/projections"
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

func windowOf(w events.Window) Window { return Window{Name: w.Name(), From: w.From, To: w.To} }

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

func unitOf(u projections.SyncRunUnit) Unit {
	out := Unit{
		ID: u.Unit, Alias: u.Alias, Run: u.Run, Ordinal: u.Ordinal, Source: u.Source, Provider: u.Provider, Dataset: u.Dataset,
		Members: notNil(u.Members), Tier: u.Tier, Cost: u.Cost, Mode: u.Mode, Window: windowOf(u.Window), Surfaces: notNil(u.Surfaces),
		Fingerprint: u.Fingerprint, State: u.Status, Reason: u.Reason, Attempt: u.Attempt, Dispatches: u.Dispatch, ClaimedSeq: u.Claimed,
		AvailableAt: u.AvailableAt, Retries: u.ExpiredLeaseRetries, Suspect: u.Suspect, Deferrals: u.RateLimitDeferrals,
		HandBacks: u.HandBacks, LateResults: u.LateResults, DurationMS: u.Duration.Milliseconds(), PlannedAt: u.PlannedAt,
		Dispatched: u.LastDispatchedAt, ClaimedAt: u.ClaimedAt, SettledAt: u.SettledAt,
	}
	if u.Status == events.UnitIsRunning {
		out.Lease = &UnitLease{Worker: u.Worker, Node: u.LeaseNode, ExpiresAt: u.LeaseExpiresAt, GraceUntil: u.GraceUntil}
	}
	if u.ErrorCategory != "" {
		out.Error = &UnitError{u.ErrorCategory, u.ErrorText}
	}
	if r := u.Result; r.Rows != 0 || r.Fingerprint != "" || len(r.State) > 0 || len(r.Detail) > 0 {
		out.Result = &Result{Rows: r.Rows, Fingerprint: r.Fingerprint, State: r.State, Detail: r.Detail}
	}
	return out
}

func notNil(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}

package httpapi

import (
	"net/url"
	"time"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/ident"
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

func runPath(id events.RunID) string { return "/v1/runs/" + id.String() }

func runOf(r projections.SyncRun) Run {
	out := Run{
		ID: r.Run, Alias: r.Run.Short(), Job: r.Job, Sync: r.Sync, State: r.Status, Reason: r.Reason, Trigger: r.TriggeredBy, Mode: r.Mode,
		Selection: Selection{Sources: r.Selection.Sources, Datasets: r.Selection.Datasets, Since: r.Selection.Since.Time(), Before: r.Selection.Before.Time()},
		RetryOf:   r.RetryOf, Units: r.Total, Succeeded: r.Succeeded, Failed: r.Failed, Cancelled: r.Cancelled,
		PlannedAt: r.PlannedAt, StartedAt: r.StartedAt, CompletedAt: r.CompletedAt, PostSync: r.PostSync.Targets,
		Links: Links{Self: runPath(r.Run), Units: runPath(r.Run) + "/units"},
	}
	for _, l := range r.LeftOut {
		out.LeftOut = append(out.LeftOut, LeftOut{l.Source, l.Reason})
	}
	return out
}

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

// Entry is one outbox register with its present wakeup.
type Entry struct {
	ID             string        `json:"id" doc:"OWNER.KIND.N, as message ids begin"`
	Alias          string        `json:"alias" doc:"RUN/KIND#N"`
	Owner          events.RunID  `json:"owner" doc:"a run, or of kind message the message"`
	Kind           events.Kind   `json:"kind" enum:"dispatch_sync_run,run_sync_unit,finalize_sync_run,post_sync,message"`
	Guarantee      string        `json:"guarantee,omitzero" enum:"at_least_once,at_most_once,exactly_once" doc:"of post_sync it is that of the run, and given for one entry only"`
	State          string        `json:"state" enum:"idle,pending,claimed,marked,parked,unresolved"`
	Outcome        string        `json:"outcome,omitzero" enum:"accepted,refused,unknown" doc:"of the last publish"`
	N              int           `json:"n" doc:"number of the present wakeup"`
	Closed         int           `json:"closed" doc:"highest number that is closed"`
	Attempts       int           `json:"attempts" doc:"of the present wakeup"`
	AvailableAt    time.Time     `json:"available_at,omitzero" doc:"while pending: when it may be published"`
	Next           int           `json:"next,omitzero" doc:"the number that waits behind it"`
	NextAt         time.Time     `json:"next_at,omitzero"`
	ClaimExpiresAt time.Time     `json:"claim_expires_at,omitzero"`
	ClaimNode      events.NodeID `json:"claim_node,omitzero"`
	MaybePublished bool          `json:"maybe_published,omitzero"`
	Targets        []Target      `json:"targets,omitempty" nullable:"false" doc:"of post_sync: what is known of each publish"`
	LastCause      string        `json:"last_cause,omitzero"`
	LastText       string        `json:"last_text,omitzero"`
	LastDispatched time.Time     `json:"last_dispatched_at,omitzero"`
	LastClosed     time.Time     `json:"last_closed_at,omitzero"`
	Transport      string        `json:"transport,omitzero"`
	Lost           int           `json:"lost,omitzero" doc:"of a message: how many processes in a row have died with it"`
}

// Target is what is known of the publish to one target of a post_sync.
type Target struct {
	Target   string `json:"target"`
	Outcome  string `json:"outcome,omitzero" enum:"accepted,refused,unknown"`
	Cause    string `json:"cause,omitzero"`
	Resolved string `json:"resolved,omitzero" enum:"delivered,lost"`
	By       string `json:"by,omitzero" doc:"who has resolved it"`
	Why      string `json:"reason,omitzero"`
}

func entryOf(r projections.Register) Entry {
	out := Entry{
		ID: ident.EntryID(r.Key(), r.Current), Alias: ident.EntryAlias(r.Key(), r.Current), Owner: r.Owner, Kind: r.Kind,
		State: string(r.Status), Outcome: string(r.LastOutcome()), N: r.Current, Closed: r.Closed, Attempts: r.Attempts,
		AvailableAt: r.AvailableAt, Next: r.Next, NextAt: r.NextAt, ClaimExpiresAt: r.ClaimExpiresAt, ClaimNode: r.ClaimNode,
		MaybePublished: r.MaybePublished, LastCause: r.LastCause, LastText: r.LastText, LastDispatched: r.LastDispatched,
		LastClosed: r.LastClosed, Transport: r.Transport, Lost: r.Lost,
	}
	if r.Kind != events.KindPostSync {
		out.Guarantee = "at_least_once"
	}
	for _, o := range r.Outcomes {
		t := Target{Target: o.Target, Outcome: string(o.Outcome), Cause: o.Cause}
		for _, x := range r.Resolved {
			if x.Target == o.Target {
				t.Resolved, t.By, t.Why = string(x.Outcome), x.Actor, x.Reason
			}
		}
		out.Targets = append(out.Targets, t)
	}
	return out
}

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

func jobOf(j projections.JobRun) Job {
	return Job{
		ID: j.Job, Sync: j.Sync, Trigger: j.Trigger, Actor: j.Actor, Reason: j.Reason, Key: j.Key, State: j.Status, Result: j.Result,
		OpenedAt: j.OpenedAt, ClosedAt: j.ClosedAt, Links: JobLinks{Self: "/v1/jobs/" + url.PathEscape(j.Job.String()), Run: runPath(j.Result.Run)},
	}
}

// List is one page.
type List[T any] struct {
	Items []T    `json:"items" nullable:"false"`
	Next  string `json:"next,omitzero" doc:"after of the next page; not given: there is none. A page that is empty may have one"`
}

func listOf[R, T any](rows []R, of func(R) T, more bool, next string) List[T] {
	out := List[T]{Items: make([]T, len(rows))}
	for i, r := range rows {
		out.Items[i] = of(r)
	}
	if more {
		out.Next = next
	}
	return out
}

package httpapi

import (
	"net/url"
	"time"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/ident"
	"github.com/towline-dev/towline/projections"
)

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

package httpapi

import (
	"net/url"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/ident"
	"github.com/towline-dev/towline/projections"
)

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

func jobOf(j projections.JobRun) Job {
	return Job{
		ID: j.Job, Sync: j.Sync, Trigger: j.Trigger, Actor: j.Actor, Reason: j.Reason, Key: j.Key, State: j.Status, Result: j.Result,
		OpenedAt: j.OpenedAt, ClosedAt: j.ClosedAt, Links: JobLinks{Self: "/v1/jobs/" + url.PathEscape(j.Job.String()), Run: runPath(j.Result.Run)},
	}
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

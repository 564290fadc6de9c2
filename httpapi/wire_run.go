package httpapi

import (
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/projections"
)

func runPath(id events.RunID) string { return "/v1/runs/" + id.String() }

func linksOf(id events.RunID) Links { return Links{Self: runPath(id), Units: runPath(id) + "/units"} }

func runOf(r projections.SyncRun) Run {
	out := Run{
		ID: r.Run, Alias: r.Run.Short(), Job: r.Job, Sync: r.Sync, State: r.Status, Reason: r.Reason, Trigger: r.TriggeredBy, Mode: r.Mode,
		Selection: Selection{Sources: r.Selection.Sources, Datasets: r.Selection.Datasets, Since: r.Selection.Since.Time(), Before: r.Selection.Before.Time()},
		RetryOf:   r.RetryOf, Units: r.Total, Succeeded: r.Succeeded, Failed: r.Failed, Cancelled: r.Cancelled,
		PlannedAt: r.PlannedAt, StartedAt: r.StartedAt, CompletedAt: r.CompletedAt, PostSync: r.PostSync.Targets,
		Links: linksOf(r.Run),
	}
	for _, l := range r.LeftOut {
		out.LeftOut = append(out.LeftOut, LeftOut{Source: l.Source, Reason: l.Reason})
	}
	return out
}

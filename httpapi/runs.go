package httpapi

import (
	"cmp"
	"context"
	"net/http"
	"slices"

	"github.com/danielgtaylor/huma/v2"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/projections"
	"github.com/towline-dev/towline/query"
)

type startRunInput struct {
	Key    string `header:"Idempotency-Key" doc:"the same key with the same body gives the first run, for 7 days"`
	Prefer string `header:"Prefer" doc:"wait=SECONDS waits so long for the end of the run, 60 at most"`
	Body   StartRun
}

// Accepted is the answer to a request that has made a run.
type Accepted struct {
	Status   int
	Seq      string `header:"Towline-Seq"`
	Location string `header:"Location" doc:"of the run"`
	Replayed string `header:"Idempotency-Replayed" doc:"true: the key was known, and this is its run"`
	Applied  string `header:"Preference-Applied"`
	Body     Run
}

type runInput struct {
	ID string `path:"id" doc:"ULID, run/ULID, or at least six characters of its end"`
	AtSeq
}

type runActionInput struct {
	ID   string `path:"id" doc:"ULID, run/ULID, or at least six characters of its end"`
	Body Why
}

type retryRunInput struct {
	ID   string `path:"id" doc:"ULID, run/ULID, or at least six characters of its end"`
	Key  string `header:"Idempotency-Key"`
	Body RetryRun
}

type runsInput struct {
	Page
	AtSeq
}

func (s *Server) runOperations() {
	Register(s, huma.Operation{
		Method: http.MethodPost, Path: "/v1/runs", DefaultStatus: http.StatusAccepted, Summary: "Start a run",
		Description: "202 once it is committed, also while the transport is down: its units start when it is back, and no attempt is used up meanwhile.",
	}, []string{CodeNotFound, CodeRunExists, CodeSourcePaused, CodePayloadTooLarge, CodePlanTooLarge, CodeKeyReused, CodeDiskBudget}, s.startRun)
	responses := s.document.Paths["/v1/runs"].Post.Responses
	responses["200"] = &huma.Response{Description: "It was waited for, and has ended", Headers: responses["202"].Headers, Content: responses["202"].Content}
	Register(s, huma.Operation{
		Method: http.MethodPost, Path: "/v1/runs/dry-run", Summary: "What a run would plan",
		Description: "The body is that of POST /v1/runs, and so are the refusals. Nothing is written, and a key is not used up.",
	}, []string{CodeNotFound, CodeRunExists, CodeSourcePaused, CodePayloadTooLarge, CodePlanTooLarge, CodeKeyReused, CodeDiskBudget}, s.dryRun)
	Register(s, huma.Operation{Method: http.MethodGet, Path: "/v1/runs", Summary: "List runs, newest first"}, nil, s.listRuns)
	Register(s, huma.Operation{Method: http.MethodGet, Path: "/v1/runs/{id}", Summary: "One run"}, []string{CodeNotFound, CodeCompacted}, s.getRun)
	Register(s, huma.Operation{
		Method: http.MethodPost, Path: "/v1/runs/{id}/cancel", Summary: "Cancel a run, at once",
		Description: "Repeating it changes nothing.",
	}, []string{CodeNotFound, CodeAlreadyEnded}, s.cancelRun)
	Register(s, huma.Operation{
		Method: http.MethodPost, Path: "/v1/runs/{id}/retry", DefaultStatus: http.StatusAccepted, Summary: "Run again what failed of a run, as a new run",
	}, []string{CodeNotFound, CodeConflict, CodeSourcePaused, CodeRunExists, CodePlanTooLarge, CodeKeyReused, CodeDiskBudget}, s.retryRun)
	Register(s, huma.Operation{Method: http.MethodGet, Path: "/v1/runs/{id}/why", Summary: "Why a run is no further"}, []string{CodeNotFound}, s.whyRun)
}

func (s *Server) startRun(ctx context.Context, in *startRunInput) (*Accepted, error) {
	wait, applied, err := preferredWait(in.Prefer)
	if err != nil {
		return nil, err
	}
	b, spec := in.Body, specOf(ctx, in.Body, in.Key)
	writing, done := detached(ctx, planTime)
	defer done()
	planned, err := s.engine().Plan(writing, spec)
	if err != nil {
		return nil, err
	}
	if wait > 0 {
		s.waitForEnd(ctx, planned.Run, wait)
	}
	known := Run{
		Sync: b.Sync, Mode: cmp.Or(b.Mode, events.Incremental), Trigger: events.TriggerManual, PlannedAt: s.engine().Now().Time(),
		Selection: Selection{Sources: spec.Sources, Datasets: spec.Datasets, Since: b.Since, Before: b.Before},
	}
	if known.Mode == events.Backfill {
		known.Trigger = events.TriggerBackfill
	}
	out := s.accepted(ctx, planned, known)
	if wait > 0 {
		out.Applied = applied
		if out.Body.State.Terminal() {
			out.Status = http.StatusOK
		}
	}
	return out, nil
}

func specOf(ctx context.Context, b StartRun, key string) towline.RunSpec {
	spec := towline.RunSpec{
		Sync: b.Sync, Mode: b.Mode, Since: b.Since, Before: b.Before, Key: key, By: towline.Actor{Name: callerOf(ctx).actor, Reason: b.Reason},
	}
	if b.Sources != nil {
		spec.Sources = *b.Sources
	}
	if b.Datasets != nil {
		spec.Datasets = *b.Datasets
	}
	return spec
}

type dryRunInput struct {
	Key  string `header:"Idempotency-Key"`
	Body StartRun
}

type dryRunOutput struct{ Body DryRun }

func (s *Server) dryRun(ctx context.Context, in *dryRunInput) (*dryRunOutput, error) {
	asking, done := detached(ctx, planTime)
	defer done()
	seen, err := s.engine().Preview(asking, specOf(ctx, in.Body, in.Key))
	if err != nil {
		return nil, err
	}
	out := DryRun{
		Sync: in.Body.Sync, Mode: cmp.Or(in.Body.Mode, events.Incremental), Units: len(seen.Units), Planned: []PlannedUnit{}, Known: seen.Known.Run,
	}
	for _, u := range seen.Units {
		out.Planned = append(out.Planned, PlannedUnit{
			Source: u.Source, Dataset: u.Dataset, Members: u.Datasets(), Tier: u.Tier, Cost: u.Cost, Window: windowOf(u.Window),
		})
	}
	for _, l := range seen.LeftOut {
		out.LeftOut = append(out.LeftOut, LeftOut{Source: l.Source, Reason: l.Reason})
	}
	return &dryRunOutput{out}, nil
}

func (s *Server) getRun(ctx context.Context, in *runInput) (*Answer[Run], error) {
	id, err := s.findRun(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	return s.showRun(ctx, id, in.AtSeq)
}

func (s *Server) listRuns(ctx context.Context, in *runsInput) (*Answer[List[Run]], error) {
	var before events.RunID
	if in.After != "" {
		var err error
		if before, err = events.ParseRunID(in.After); err != nil {
			return nil, badCursor()
		}
	}
	return list(ctx, s, query.Runs, in.Page, in.AtSeq, func(v projections.View, terms []projections.Term) (List[Run], error) {
		found, err := v.FindRuns(terms, before, in.Limit)
		return listOf(found.Rows, runOf, found.More, found.Next.String()), err
	})
}

func badCursor() error {
	return newProblem(CodeBadRequest, "after is no cursor of this list").withField("after").withFix("send next of the page before, or leave it out")
}

// list answers with a page of what the query of a list chooses.
func list[T any](ctx context.Context, s *Server, of query.Subject, p Page, at AtSeq, read func(projections.View, []projections.Term) (List[T], error)) (*Answer[List[T]], error) {
	var terms []projections.Term
	out, err := view(ctx, s, at, func(v projections.View) (_ List[T], err error) {
		if terms, err = s.search(v, of, p, at); err != nil {
			return List[T]{}, err
		}
		return read(v, terms)
	})
	if at.AtSeq == 0 && goesByTheClock(terms) {
		out.ETag = ""
	}
	return out, err
}

// goesByTheClock: by an age more, or less, is chosen a minute later, though nothing has happened.
func goesByTheClock(terms []projections.Term) bool {
	return slices.ContainsFunc(terms, func(t projections.Term) bool { return t.Field == "since" })
}

// search reads the query of a list; ages are counted back from the event of a past, and from now in the present.
func (s *Server) search(v projections.View, subject query.Subject, p Page, at AtSeq) ([]projections.Term, error) {
	now := s.engine().Now()
	if at.AtSeq != 0 {
		_, then, err := v.Head()
		if err != nil {
			return nil, err
		}
		now = then
	}
	f, err := query.Parse(subject, p.Where, now.Time())
	return f.Terms(), err
}

func (s *Server) cancelRun(ctx context.Context, in *runActionInput) (*Answer[Run], error) {
	id, err := s.findRun(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	writing, done := detached(ctx, writeTime)
	defer done()
	if err := s.engine().CancelRun(writing, id, s.by(ctx, in.Body.Reason)); err != nil {
		return nil, s.ended(ctx, err, func(v projections.View) (string, error) {
			row, _, err := v.Run(id)
			return string(row.Status), err
		})
	}
	return s.showRun(writing, id, AtSeq{})
}

// by is who acts, for the record.
func (s *Server) by(ctx context.Context, reason string) towline.Actor {
	return towline.Actor{Name: callerOf(ctx).actor, Reason: reason}
}

// ended turns the conflict of a cancel into already_ended, with the state in which the thing is.
func (s *Server) ended(ctx context.Context, err error, state func(projections.View) (string, error)) error {
	p := problemOf(err)
	if p.Code != CodeConflict {
		return err
	}
	was := p
	p = newProblem(CodeAlreadyEnded, was.Detail)
	viewErr := s.engine().View(context.WithoutCancel(ctx), func(v projections.View) (err error) {
		p.State, err = state(v)
		return err
	})
	if viewErr != nil {
		return viewErr
	}
	return p
}

func (s *Server) retryRun(ctx context.Context, in *retryRunInput) (*Accepted, error) {
	id, err := s.findRun(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	known, err := s.retried(ctx, id)
	if err != nil {
		return nil, err
	}
	writing, done := detached(ctx, writeTime)
	defer done()
	planned, err := s.engine().RetryFailed(writing, towline.RetrySpec{
		Run: id, Cancelled: in.Body.Cancelled, Key: in.Key, By: s.by(ctx, in.Body.Reason),
	})
	if err != nil {
		return nil, err
	}
	return s.accepted(ctx, planned, known), nil
}

// retried is what is known of the run that will retry another, before it is planned.
func (s *Server) retried(ctx context.Context, of events.RunID) (Run, error) {
	was, err := s.showRun(ctx, of, AtSeq{})
	if err != nil {
		return Run{}, err
	}
	b := was.Body
	return Run{Sync: b.Sync, Mode: b.Mode, Trigger: events.TriggerRetry, RetryOf: of, PlannedAt: s.engine().Now().Time()}, nil
}

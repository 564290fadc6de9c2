package httpapi

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/ident"
	"github.com/towline-dev/towline/projections"
	"github.com/towline-dev/towline/query"
)

type jobInput struct {
	ID string `path:"id" doc:"ULID, job/ULID, or at least six characters of its end"`
	AtSeq
}

type jobsInput struct {
	Page
	AtSeq
}

func (s *Server) jobOperations() {
	Register(s, huma.Operation{Method: http.MethodGet, Path: "/v1/jobs", Summary: "List jobs, newest first"}, nil, s.listJobs)
	Register(s, huma.Operation{Method: http.MethodGet, Path: "/v1/jobs/{id}", Summary: "One job: the activity of one trigger"}, []string{CodeNotFound}, s.getJob)
}

func (s *Server) listJobs(ctx context.Context, in *jobsInput) (*Answer[List[Job]], error) {
	var before events.JobID
	if in.After != "" {
		var err error
		if before, err = events.ParseJobID(in.After); err != nil {
			return nil, badCursor()
		}
	}
	return list(ctx, s, query.Jobs, in.Page, in.AtSeq, func(v projections.View, terms []projections.Term) (List[Job], error) {
		found, err := v.FindJobs(terms, before, in.Limit)
		return listOf(found.Rows, jobOf, found.More, found.Next.String()), err
	})
}

func (s *Server) getJob(ctx context.Context, in *jobInput) (*Answer[Job], error) {
	var id events.JobID
	err := s.engine().View(ctx, func(v projections.View) (err error) {
		id, err = ident.Job(v, in.ID)
		return err
	})
	if err != nil {
		return nil, err
	}
	return view(ctx, s, in.AtSeq, func(v projections.View) (Job, error) {
		row, ok, err := v.Job(id)
		if err == nil && !ok {
			err = noSuch(ident.NounJob, id.String())
		}
		return jobOf(row), err
	})
}

package httpapi

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/towline-dev/towline/ident"
	"github.com/towline-dev/towline/projections"
)

type whyAnyInput struct {
	ID string `path:"id" doc:"of a run, unit, job, message or outbox entry, in any form"`
	AtSeq
}

func (s *Server) whyAnyOperations() {
	Register(s, huma.Operation{
		Method: http.MethodGet, Path: "/v1/why/{id}", Summary: "Why a thing is no further, whatever it is",
		Description: "An id that could be of several things is refused, and they are listed.",
	}, []string{CodeNotFound}, s.whyAny)
}

func (s *Server) whyAny(ctx context.Context, in *whyAnyInput) (*Answer[Explanation], error) {
	var thing ident.Thing
	err := s.engine().View(ctx, func(v projections.View) (err error) {
		thing, err = ident.Any(v, in.ID)
		return err
	})
	if err != nil {
		return nil, err
	}
	return s.why(ctx, in.AtSeq, thing)
}

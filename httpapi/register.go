package httpapi

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/projections"
)

// Register adds an operation whose errors become problems. codes are those that it may answer with, beside those that every
// operation may.
func Register[I, O any](s *Server, op huma.Operation, codes []string, handle func(context.Context, *I) (*O, error)) {
	op.OperationID = op.Method + " " + op.Path
	if op.DefaultStatus == 0 {
		op.DefaultStatus = http.StatusOK
	}
	op.SkipValidateParams = false
	op.MaxBodyBytes = s.maxBody()
	op.BodyReadTimeout = -1 // the guard has read it: a deadline would end the request, and the next one of the connection
	schema := s.api.OpenAPI().Components.Schemas.Schema(problemStruct, true, "Problem")
	every := []string{CodeBadRequest, CodeUnauthenticated, CodeForbidden, CodeInvalidRequest, CodeStoreUnavailable, CodeInternal}
	op.Responses = map[string]*huma.Response{"default": {
		Description: "A problem, with one of the codes " + strings.Join(slices.Concat(codes, every), ", "),
		Content:     map[string]*huma.MediaType{problemType: {Schema: schema}},
	}}
	huma.Register(s.api, op, func(ctx context.Context, in *I) (*O, error) {
		out, err := handle(ctx, in)
		if err != nil {
			return nil, s.fault(ctx, err)
		}
		return out, nil
	})
	delete(s.api.OpenAPI().Components.Schemas.Map(), "ErrorModel") // huma's own, which asProblem replaces
	delete(s.api.OpenAPI().Components.Schemas.Map(), "ErrorDetail")
}

// Answer is the frame of every answer about a view: the body, and as of when it is.
type Answer[T any] struct {
	Seq  string `header:"Towline-Seq" doc:"position of the newest event that the answer knows"`
	ETag string `header:"ETag" doc:"the same, for If-None-Match"`
	Body T
}

// AtSeq is the parameter of every read of a view.
type AtSeq struct {
	AtSeq int64 `query:"at_seq" minimum:"1" doc:"as it was behind this event; not given: now"`
}

// Page is the parameter of every list.
type Page struct {
	Where string `query:"where" doc:"a query, such as state:failed -sync:code age>10m"`
	Limit int    `query:"limit" minimum:"1" maximum:"500" default:"50" doc:"how many at most"`
	After string `query:"after" doc:"next of the page before"`
}

// view answers from one state of the log: the present one, or that behind an event.
func view[T any](ctx context.Context, s *Server, at AtSeq, read func(projections.View) (T, error)) (*Answer[T], error) {
	out := &Answer[T]{}
	look := func(v projections.View) error {
		seq, _, err := v.Head()
		if err != nil {
			return err
		}
		out.Seq, out.ETag = seq.String(), etagOf(seq)
		out.Body, err = read(v)
		return err
	}
	if at.AtSeq == 0 {
		return out, s.engine().View(ctx, look)
	}
	return out, s.pasts.view(ctx, events.Position(at.AtSeq), look)
}

package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/wire"
)

type positionInput struct {
	AtTime time.Time `query:"at_time" required:"true" doc:"a moment"`
}

func (s *Server) positionOperations() {
	Register(s, huma.Operation{
		Method: http.MethodGet, Path: "/v1/position", Summary: "Which event was the newest at a time",
		Description: "Its seq is at_seq of every read. It is the end of a transaction: at no time was half of one to be seen. A time ahead gives the newest of all.",
	}, []string{CodeNotFound}, s.getPosition)
}

func (s *Server) getPosition(ctx context.Context, in *positionInput) (*Answer[wire.Position], error) {
	p, err := s.positionAt(ctx, in.AtTime)
	if err != nil {
		return nil, err
	}
	return &Answer[wire.Position]{Seq: p.String(), Body: wire.Position{Seq: p}}, nil
}

// positionAt is the newest event at a time.
func (s *Server) positionAt(ctx context.Context, t time.Time) (events.Position, error) {
	p, err := s.engine().PositionAt(ctx, t)
	if err == nil && p == 0 {
		err = newProblem(CodeNotFound, "nothing had happened at that time").withField("at_time").withFix("give a later time; `towline events list --limit 1` shows the first event")
	}
	return p, err
}

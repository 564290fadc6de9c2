package httpapi

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/towline-dev/towline/projections"
)

type pauseInput struct{ Body PauseRequest }

type resumeInput struct{ Body ResumeRequest }

func (s *Server) controlOperations() {
	Register(s, huma.Operation{
		Method: http.MethodPost, Path: "/v1/pause", Summary: "Pause the engine or a source",
		Description: "Nothing is dispatched; triggers are accepted, and what runs goes on. A pause of what is paused changes nothing, and the first reason stays.",
	}, []string{CodeNotFound}, s.pause)
	Register(s, huma.Operation{
		Method: http.MethodPost, Path: "/v1/resume", Summary: "End a pause of the engine or a source, or the hold of a restored store, or confirm the clock",
		Description: "With after_restore, what a restored store holds back is sent from now on: look at what waits first. What is not held or paused stays as it is.",
	}, []string{CodeNotFound}, s.resume)
}

func (s *Server) pause(ctx context.Context, in *pauseInput) (*Answer[Paused], error) {
	writing, done := detached(ctx, writeTime)
	defer done()
	by := s.by(ctx, in.Body.Reason)
	if in.Body.Source != "" {
		return s.paused(writing, s.engine().PauseSource(writing, in.Body.Source, by))
	}
	return s.paused(writing, s.engine().PauseEngine(writing, by))
}

func (s *Server) resume(ctx context.Context, in *resumeInput) (*Answer[Paused], error) {
	writing, done := detached(ctx, writeTime)
	defer done()
	by := s.by(ctx, in.Body.Reason)
	in.Body.Reason = "" // it is in by; what is left says what is to end
	var err error
	var ended *bool
	switch in.Body {
	case ResumeRequest{}:
		err = s.engine().ResumeEngine(writing, by)
	case ResumeRequest{Source: in.Body.Source}:
		err = s.engine().ResumeSource(writing, in.Body.Source, by)
	case ResumeRequest{ClockOK: true}:
		ended = new(bool)
		*ended, err = s.engine().ConfirmClock(writing, by) // a clock that needs no word is fine, too
	case ResumeRequest{AfterRestore: true}:
		ended = new(bool)
		*ended, err = s.engine().ReleaseHold(writing, by)
	default:
		return nil, newProblem(CodeInvalidRequest, "source, clock_ok and after_restore are a request each").withField("source").withFix("send one of them")
	}
	out, err := s.paused(writing, err)
	if err == nil {
		out.Body.Ended = ended
	}
	return out, err
}

// paused shows what is paused behind an action.
func (s *Server) paused(ctx context.Context, err error) (*Answer[Paused], error) {
	if err != nil {
		return nil, err
	}
	return view(ctx, s, AtSeq{}, func(v projections.View) (Paused, error) {
		list, err := v.Paused()
		return Paused{Items: orEmpty(list)}, err
	})
}

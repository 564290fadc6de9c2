package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/projections"
)

type stateInput struct {
	AtSeq
	AtTime time.Time `query:"at_time" doc:"the same, as of the last transaction at or before a time"`
}

type coverageInput struct {
	Source  string `query:"source" required:"true"`
	Dataset string `query:"dataset" required:"true"`
	AtSeq
}

func (s *Server) stateOperations() {
	Register(s, huma.Operation{Method: http.MethodGet, Path: "/v1/state", Summary: "The engine in short, also as it was"}, []string{CodeNotFound, CodeCompacted}, s.getState)
	Register(s, huma.Operation{Method: http.MethodGet, Path: "/v1/coverage", Summary: "Which periods have succeeded"}, nil, s.getCoverage)
}

func (s *Server) getState(ctx context.Context, in *stateInput) (*Answer[State], error) {
	at := in.AtSeq
	if !in.AtTime.IsZero() {
		if at.AtSeq != 0 {
			return nil, newProblem(CodeInvalidRequest, "at_seq and at_time both say when").withField("at_time").withFix("give one of them")
		}
		p, err := s.positionAt(ctx, in.AtTime)
		if err != nil {
			return nil, err
		}
		at.AtSeq = int64(p)
	}
	return view(ctx, s, at, s.state)
}

func (s *Server) state(v projections.View) (out State, err error) {
	const most = 100
	seq, then, err := v.Head()
	if err != nil {
		return out, err
	}
	out = State{Seq: seq, At: then.Time()}
	runs, err := v.OpenRuns(events.RunID{}, most)
	if err != nil {
		return out, err
	}
	out.Runs = listOf(runs, runOf, false, "").Items
	entries, err := v.OpenRegisters(most)
	if err != nil {
		return out, err
	}
	out.Entries = listOf(entries, entryOf, false, "").Items
	held, err := v.HeldRegisters(most)
	if err != nil {
		return out, err
	}
	out.Held = listOf(held, entryOf, false, "").Items
	return out, s.rest(v, then, &out)
}

func (s *Server) rest(v projections.View, now events.Micros, out *State) (err error) {
	if out.NeedPerson, err = v.Held(); err != nil {
		return err
	}
	life, err := v.Restored()
	if err != nil {
		return err
	}
	if life.Held {
		out.Hold = &life
	}
	if out.Paused, err = v.Paused(); err != nil {
		return err
	}
	if out.Cooldowns, err = v.Cooldowns(now); err != nil {
		return err
	}
	if out.Breakers, err = v.OpenBreakers(); err != nil {
		return err
	}
	if out.Nodes, err = v.AliveNodes(); err != nil {
		return err
	}
	out.Watermarks, err = v.Watermarks()
	out.Paused, out.Cooldowns, out.Breakers = orEmpty(out.Paused), orEmpty(out.Cooldowns), orEmpty(out.Breakers)
	out.Nodes, out.Watermarks = orEmpty(out.Nodes), orEmpty(out.Watermarks)
	return err
}

func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

func (s *Server) getCoverage(ctx context.Context, in *coverageInput) (*Answer[Coverage], error) {
	return view(ctx, s, in.AtSeq, func(v projections.View) (Coverage, error) {
		out := Coverage{Source: in.Source, Dataset: in.Dataset, Done: []Covered{}}
		periods, err := v.Covered(in.Source, in.Dataset)
		for _, p := range periods {
			out.Done = append(out.Done, Covered{Window: windowOf(p.Window), Fingerprint: p.Fingerprint})
		}
		if err == nil && len(periods) == 0 && !s.knows(in.Source, in.Dataset) {
			return out, newProblem(CodeInvalidRequest, fmt.Sprintf("no sync has a source %q with a dataset %q", in.Source, in.Dataset)).withField("dataset")
		}
		return out, err
	})
}

// knows reports a source and dataset of the configuration.
func (s *Server) knows(source, dataset string) bool {
	return slices.ContainsFunc(s.engine().Syncs(), func(x towline.Sync) bool {
		return slices.Contains(x.Sources, source) && slices.ContainsFunc(x.Datasets, func(d towline.Dataset) bool { return d.Name == dataset })
	})
}

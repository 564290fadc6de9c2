package httpapi

import (
	"context"
	"net/http"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/ident"
	"github.com/towline-dev/towline/projections"
	"github.com/towline-dev/towline/query"
)

type unitInput struct {
	ID string `path:"id" doc:"ULID, unit/ULID, alias, or at least six characters of the end of the ULID"`
	AtSeq
}

type unitActionInput struct {
	ID   string `path:"id" doc:"ULID, unit/ULID, alias, or at least six characters of the end of the ULID"`
	Body Why
}

type retryUnitInput struct {
	ID   string `path:"id" doc:"ULID, unit/ULID, alias, or at least six characters of the end of the ULID"`
	Key  string `header:"Idempotency-Key"`
	Body RetryRun
}

type unitsInput struct {
	Page
	AtSeq
}

type unitsOfRunInput struct {
	ID string `path:"id" doc:"ULID, run/ULID, or at least six characters of its end"`
	Page
	AtSeq
}

func (s *Server) unitOperations() {
	Register(s, huma.Operation{Method: http.MethodGet, Path: "/v1/runs/{id}/units", Summary: "The units of a run, by ordinal"}, []string{CodeNotFound}, s.listUnitsOfRun)
	Register(s, huma.Operation{Method: http.MethodGet, Path: "/v1/units", Summary: "List units, newest first"}, nil, s.listUnits)
	Register(s, huma.Operation{Method: http.MethodGet, Path: "/v1/units/{id}", Summary: "One unit"}, []string{CodeNotFound}, s.getUnit)
	Register(s, huma.Operation{Method: http.MethodGet, Path: "/v1/units/{id}/why", Summary: "Why a unit is no further"}, []string{CodeNotFound}, s.whyUnit)
	Register(s, huma.Operation{
		Method: http.MethodPost, Path: "/v1/units/{id}/cancel", Summary: "Cancel a unit, at once", Description: "Repeating it changes nothing.",
	}, []string{CodeNotFound, CodeAlreadyEnded}, s.cancelUnit)
	Register(s, huma.Operation{
		Method: http.MethodPost, Path: "/v1/units/{id}/release", Summary: "State that the worker of a running unit is gone",
	}, []string{CodeNotFound, CodeConflict}, s.releaseUnit)
	Register(s, huma.Operation{
		Method: http.MethodPost, Path: "/v1/units/{id}/retry", DefaultStatus: http.StatusAccepted, Summary: "Run one unit of an ended run again, as a new run",
	}, []string{CodeNotFound, CodeConflict, CodeSourcePaused, CodeRunExists, CodeKeyReused, CodeDiskBudget}, s.retryUnit)
}

func (s *Server) findUnit(ctx context.Context, name string) (id events.UnitID, err error) {
	err = s.engine().View(ctx, func(v projections.View) error {
		id, err = ident.Unit(v, name)
		return err
	})
	return id, err
}

func (s *Server) getUnit(ctx context.Context, in *unitInput) (*Answer[Unit], error) {
	id, err := s.findUnit(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	return s.showUnit(ctx, id, in.AtSeq)
}

func (s *Server) showUnit(ctx context.Context, id events.UnitID, at AtSeq) (*Answer[Unit], error) {
	return view(ctx, s, at, func(v projections.View) (Unit, error) {
		row, ok, err := v.Unit(id)
		if err == nil && !ok {
			err = noSuch(ident.NounUnit, id.String())
		}
		return unitOf(row), err
	})
}

func (s *Server) whyUnit(ctx context.Context, in *unitInput) (*Answer[Explanation], error) {
	id, err := s.findUnit(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	return s.why(ctx, in.AtSeq, ident.Thing{Noun: ident.NounUnit, Unit: id})
}

func (s *Server) listUnits(ctx context.Context, in *unitsInput) (*Answer[List[Unit]], error) {
	var before events.UnitID
	if in.After != "" {
		var err error
		if before, err = events.ParseUnitID(in.After); err != nil {
			return nil, badCursor()
		}
	}
	return list(ctx, s, query.Units, in.Page, in.AtSeq, func(v projections.View, terms []projections.Term) (List[Unit], error) {
		found, err := v.FindUnits(terms, before, in.Limit)
		return listOf(found.Rows, unitOf, found.More, found.Next.String()), err
	})
}

func (s *Server) listUnitsOfRun(ctx context.Context, in *unitsOfRunInput) (*Answer[List[Unit]], error) {
	run, err := s.findRun(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	after := 0
	if in.After != "" {
		const bits = 31 // of an ordinal: a larger cursor is of no page, and what is added to it must not run over
		n, err := strconv.ParseUint(in.After, 10, bits)
		if err != nil {
			return nil, badCursor()
		}
		after = int(n)
	}
	return list(ctx, s, query.Units, in.Page, in.AtSeq, func(v projections.View, terms []projections.Term) (List[Unit], error) {
		if _, ok, err := v.Run(run); err != nil || !ok {
			if err == nil {
				err = noSuch(ident.NounRun, run.String())
			}
			return List[Unit]{}, err
		}
		found, err := v.FindUnitsOf(run, terms, after, in.Limit)
		return listOf(found.Rows, unitOf, found.More, strconv.Itoa(found.Next)), err
	})
}

func (s *Server) cancelUnit(ctx context.Context, in *unitActionInput) (*Answer[Unit], error) {
	id, err := s.findUnit(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	writing, done := detached(ctx, writeTime)
	defer done()
	if err := s.engine().CancelUnit(writing, id, s.by(ctx, in.Body.Reason)); err != nil {
		return nil, s.ended(ctx, err, func(v projections.View) (string, error) {
			row, _, err := v.Unit(id)
			return string(row.Status), err
		})
	}
	return s.showUnit(writing, id, AtSeq{})
}

func (s *Server) releaseUnit(ctx context.Context, in *unitActionInput) (*Answer[Unit], error) {
	id, err := s.findUnit(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	writing, done := detached(ctx, writeTime)
	defer done()
	if err := s.engine().ReleaseUnit(writing, id, s.by(ctx, in.Body.Reason)); err != nil {
		return nil, err
	}
	return s.showUnit(writing, id, AtSeq{})
}

func (s *Server) retryUnit(ctx context.Context, in *retryUnitInput) (*Accepted, error) {
	id, err := s.findUnit(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	unit, err := s.showUnit(ctx, id, AtSeq{})
	if err != nil {
		return nil, err
	}
	known, err := s.retried(ctx, unit.Body.Run)
	if err != nil {
		return nil, err
	}
	writing, done := detached(ctx, writeTime)
	defer done()
	planned, err := s.engine().RetryFailed(writing, towline.RetrySpec{
		Unit: id, Cancelled: in.Body.Cancelled, Key: in.Key, By: s.by(ctx, in.Body.Reason),
	})
	if err != nil {
		return nil, err
	}
	return s.accepted(ctx, planned, known), nil
}

package httpapi

import (
	"context"
	"fmt"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/projections"
)

// usualNext is how many due times are shown where nobody says.
const usualNext = 5

// Upcoming is the parameter of every answer about schedules.
type Upcoming struct {
	Next int `query:"next" minimum:"0" maximum:"100" default:"5" doc:"how many due times to come"`
}

type schedulesInput struct {
	Upcoming
	AtSeq
}

type scheduleInput struct {
	ID string `path:"id" doc:"its name"`
	Upcoming
	AtSeq
}

type scheduleActionInput struct {
	ID   string `path:"id" doc:"its name"`
	Body Why
}

type runNowInput struct {
	ID   string `path:"id" doc:"its name"`
	Key  string `header:"Idempotency-Key"`
	Body RunNow
}

func (s *Server) scheduleOperations() {
	Register(s, huma.Operation{Method: http.MethodGet, Path: "/v1/schedules", Summary: "List schedules by name, with their next due times"}, []string{CodeCompacted}, s.listSchedules)
	Register(s, huma.Operation{
		Method: http.MethodGet, Path: "/v1/schedules/{id}", Summary: "One schedule, with what became of its due times",
	}, []string{CodeNotFound, CodeCompacted}, s.getSchedule)
	Register(s, huma.Operation{
		Method: http.MethodPost, Path: "/v1/schedules/{id}/pause", Summary: "Pause a schedule",
		Description: "What waits in it is skipped, runs that were accepted go on. A pause of what is paused changes nothing, and the first reason stays.",
	}, []string{CodeNotFound}, s.pauseSchedule)
	Register(s, huma.Operation{
		Method: http.MethodPost, Path: "/v1/schedules/{id}/resume", Summary: "End a pause of a schedule",
		Description: "What was due during it is listed as missed, and not caught up.",
	}, []string{CodeNotFound}, s.resumeSchedule)
	Register(s, huma.Operation{
		Method: http.MethodPost, Path: "/v1/schedules/{id}/run-now", DefaultStatus: http.StatusAccepted, Summary: "Start a run with what a schedule asks for",
		Description: "Also of one that is paused. It is a manual trigger: it moves no due time.",
	}, []string{CodeNotFound, CodeRunExists, CodeSourcePaused, CodePlanTooLarge, CodeKeyReused, CodeDiskBudget}, s.runScheduleNow)
}

func (s *Server) listSchedules(ctx context.Context, in *schedulesInput) (*Answer[List[Schedule]], error) {
	now := map[string]towline.ScheduleState{}
	if in.AtSeq.AtSeq == 0 {
		states, err := s.engine().Schedules(ctx, in.Next)
		if err != nil {
			return nil, err
		}
		for _, state := range states {
			now[state.Name] = state
		}
	}
	out, err := view(ctx, s, in.AtSeq, func(v projections.View) (List[Schedule], error) {
		rows, err := v.Schedules()
		list := List[Schedule]{Items: []Schedule{}}
		for _, row := range rows {
			item, err := scheduleOf(row)
			if err != nil {
				return list, err
			}
			addDue(&item, now[row.Name])
			list.Items = append(list.Items, item)
		}
		return list, err
	})
	return goesOn(out, in.AtSeq), err
}

func (s *Server) getSchedule(ctx context.Context, in *scheduleInput) (*Answer[Schedule], error) {
	var now towline.ScheduleState
	if in.AtSeq.AtSeq == 0 {
		var err error
		if now, err = s.engine().Schedule(ctx, in.ID, in.Next); err != nil {
			return nil, err
		}
	}
	out, err := view(ctx, s, in.AtSeq, func(v projections.View) (Schedule, error) {
		row, found, err := v.Schedule(in.ID)
		if err == nil && (!found || row.Removed) {
			err = newProblem(CodeNotFound, fmt.Sprintf("there is no schedule %q", in.ID)).withField("id").withFix(listsOf["schedule"])
		}
		if err != nil {
			return Schedule{}, err
		}
		item, err := scheduleOf(row)
		if err != nil {
			return item, err
		}
		addDue(&item, now)
		return item, addHistory(v, &item)
	})
	return goesOn(out, in.AtSeq), err
}

// addHistory adds what became of the newest due times.
func addHistory(v projections.View, item *Schedule) error {
	const most = 20
	decided, err := v.Occurrences(item.Name, projections.OccurrenceCursor{}, most)
	if err != nil {
		return err
	}
	for _, o := range decided {
		item.History = append(item.History, occurrenceOf(o))
	}
	missed, err := v.Missed(item.Name, 0, most)
	for _, m := range missed {
		item.Missed = append(item.Missed, missedOf(m))
	}
	return err
}

// goesOn: the next due times go on with the clock, though nothing happens, so the answer is none to keep.
func goesOn[T any](out *Answer[T], at AtSeq) *Answer[T] {
	if at.AtSeq == 0 {
		out.ETag = ""
	}
	return out
}

func (s *Server) pauseSchedule(ctx context.Context, in *scheduleActionInput) (*Answer[Schedule], error) {
	writing, done := detached(ctx, writeTime)
	defer done()
	if err := s.engine().PauseSchedule(writing, in.ID, s.by(ctx, in.Body.Reason)); err != nil {
		return nil, err
	}
	return s.getSchedule(writing, &scheduleInput{ID: in.ID, Upcoming: Upcoming{usualNext}})
}

func (s *Server) resumeSchedule(ctx context.Context, in *scheduleActionInput) (*Answer[Schedule], error) {
	writing, done := detached(ctx, writeTime)
	defer done()
	if err := s.engine().ResumeSchedule(writing, in.ID, s.by(ctx, in.Body.Reason)); err != nil {
		return nil, err
	}
	return s.getSchedule(writing, &scheduleInput{ID: in.ID, Upcoming: Upcoming{usualNext}})
}

func (s *Server) runScheduleNow(ctx context.Context, in *runNowInput) (*Accepted, error) {
	writing, done := detached(ctx, planTime)
	defer done()
	asked, err := s.getSchedule(ctx, &scheduleInput{ID: in.ID})
	if err != nil {
		return nil, err
	}
	planned, err := s.engine().RunSchedule(writing, in.ID, in.Key, s.by(ctx, in.Body.Reason))
	if err != nil {
		return nil, err
	}
	of := asked.Body
	known := Run{Sync: of.Sync, Mode: of.Mode, Selection: of.Selection, Trigger: events.TriggerManual, PlannedAt: s.engine().Now().Time()}
	return s.accepted(ctx, planned, known), nil
}

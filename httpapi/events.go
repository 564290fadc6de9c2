package httpapi

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/feed"
	"github.com/towline-dev/towline/projections"
	"github.com/towline-dev/towline/query"
)

// eventOf is an event as it leaves the process, in the form of package feed.
func eventOf(e events.Envelope) (Event, error) {
	m, err := feed.Message("", "", e)
	if err != nil {
		return Event{}, err
	}
	schema, err := strconv.Atoi(m.Metadata.Get(feed.Schema))
	return Event{
		Seq: e.Position, Tx: e.Tx, Stream: e.Stream.String(), Version: e.Version, At: e.At.Time(), Type: e.Event.EventType().String(),
		Schema: schema, Actor: e.Actor, Command: e.Command, Cause: e.Cause, Node: e.Node, Data: json.RawMessage(m.Payload),
		Text: events.Describe(e.Event),
	}, err
}

type eventsInput struct {
	Where    string `query:"where" doc:"a query, such as run:7Q4ZKD type:UnitFailed"`
	AfterSeq int64  `query:"after_seq" minimum:"0" doc:"behind this event; not given: from the first"`
	Limit    int    `query:"limit" minimum:"1" maximum:"1000" default:"200" doc:"how many at most"`
	AtSeq
}

func (s *Server) eventOperations() {
	Register(s, huma.Operation{Method: http.MethodGet, Path: "/v1/events", Summary: "The log, page by page"}, []string{CodeNotFound, CodeCompacted}, s.listEvents)
	s.streamOperation()
}

// lookAt bounds how many events a page looks at that its query does not choose.
const lookAt = 5000

func (s *Server) listEvents(ctx context.Context, in *eventsInput) (*Answer[Events], error) {
	var f query.Filter
	answer, err := view(ctx, s, in.AtSeq, func(v projections.View) (_ Events, err error) {
		if f, err = s.eventFilter(v, in.Where); err != nil {
			return Events{}, err
		}
		out := Events{Items: []Event{}, NextAfterSeq: events.Position(in.AfterSeq)}
		head, _, err := v.Head()
		for looked := 0; err == nil && looked < lookAt && len(out.Items) < in.Limit; {
			var page []events.Envelope
			if page, err = v.After(out.NextAfterSeq, min(in.Limit, pageOfStream)); err != nil || len(page) == 0 {
				break
			}
			looked += len(page)
			if err = take(&out, page, f, in.Limit); err != nil {
				break
			}
		}
		out.More = out.NextAfterSeq < head
		return out, err
	})
	if goesByTheClock(f.Terms()) { // also of a past: it is counted back from now
		answer.ETag = ""
	}
	return answer, err
}

// take adds what a query chooses of a page, up to a limit.
func take(e *Events, page []events.Envelope, f query.Filter, limit int) error {
	for _, env := range page {
		if len(e.Items) == limit {
			return nil
		}
		e.NextAfterSeq = env.Position
		if !f.Match(env) {
			continue
		}
		item, err := eventOf(env)
		if err != nil {
			return err
		}
		e.Items = append(e.Items, item)
	}
	return nil
}

func (s *Server) eventFilter(v projections.View, where string) (query.Filter, error) {
	f, err := query.Parse(query.Events, where, s.engine().Now().Time())
	if err != nil {
		return f, err
	}
	return f.Bind(v)
}

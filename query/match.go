package query

import (
	"slices"
	"strings"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/ident"
	"github.com/towline-dev/towline/projections"
)

// Bind looks the runs up that a query of events names, so that Match knows what belongs to them. It is asked once, of any
// view that has them: nothing is added to a run behind its plan. A query that names none, or of another subject, is as it
// was. Errors: *ident.Error for a run that does not exist, or of which there are two; a fault of the view.
func (f Filter) Bind(v projections.View) (Filter, error) {
	f.streams = map[int]map[events.StreamID]bool{}
	for i, t := range f.terms {
		if f.subject != Events || t.Field != "run" {
			continue
		}
		f.streams[i] = map[events.StreamID]bool{}
		for _, value := range t.Values {
			run, err := ident.Run(v, value.(string))
			if err != nil {
				return f, err
			}
			streams, err := v.StreamsOf(run)
			if err != nil {
				return f, err
			}
			if len(streams) == 0 {
				return f, &ident.Error{Noun: ident.NounRun, Text: run.String(), Problem: "there is none of that name", Kind: ident.ErrUnknown}
			}
			for _, s := range streams {
				f.streams[i][s] = true
			}
		}
	}
	return f, nil
}

// Match reports an event that a query of Events chooses. One that names runs was bound before.
func (f Filter) Match(e events.Envelope) bool {
	for i, t := range f.terms {
		is := t.Field == "run" && f.streams[i][e.Stream] || slices.ContainsFunc(t.Values, func(value any) bool { return is(t, value, e) })
		if is == t.Not {
			return false
		}
	}
	return true
}

func is(t projections.Term, value any, e events.Envelope) bool {
	if t.Field == "since" {
		at := events.Micros(value.(int64))
		return t.Op == projections.Less && e.At < at || t.Op == projections.AtMost && e.At <= at ||
			t.Op == projections.More && e.At > at || t.Op == projections.AtLeast && e.At >= at
	}
	want, _ := value.(string)
	_, kind, _ := e.Stream.Register()
	switch t.Field {
	case "type":
		return e.Event.EventType().String() == want
	case "unit":
		id, ok := e.Stream.Unit()
		return ok && strings.HasSuffix(id.String(), want)
	case "job":
		id, ok := e.Stream.Job()
		return ok && strings.HasSuffix(id.String(), want)
	case "kind":
		return string(kind) == want
	case "stream":
		return e.Stream.String() == want
	case "family":
		family, _, _ := strings.Cut(e.Stream.String(), "/")
		return family == want
	case "actor":
		return e.Actor == want
	case "command":
		return e.Command == want
	}
	return false
}

package crash

import (
	"fmt"
	"slices"
	"strings"

	"github.com/towline-dev/towline/events"
)

// streamName is how a case file names a stream: as everybody does, but for an occurrence, which elsewhere reads like a
// schedule.
func streamName(id events.StreamID) string {
	if schedule, civil, ok := id.Occurrence(); ok {
		return "occurrence/" + schedule + "/" + civil
	}
	return id.String()
}

// parseStream reads what streamName wrote.
func parseStream(s string) (id events.StreamID, err error) {
	family, rest, _ := strings.Cut(s, "/")
	if rest == "" {
		return id, fmt.Errorf("stream %.64q: want family/name", s)
	}
	switch family {
	case "run":
		id, err = idStream(rest, events.ParseRunID, events.RunStream)
	case "unit":
		id, err = idStream(rest, events.ParseUnitID, events.UnitStream)
	case "job":
		id, err = idStream(rest, events.ParseJobID, events.JobStream)
	case "node":
		id, err = idStream(rest, events.ParseNodeID, events.NodeStream)
	case "outbox":
		owner, kind, _ := strings.Cut(rest, "/")
		if !slices.Contains(events.Kinds[:], events.Kind(kind)) {
			return id, fmt.Errorf("stream %.64q: %.64q is no kind", s, kind)
		}
		id, err = idStream(owner, events.ParseRunID, func(run events.RunID) events.StreamID {
			return events.RegisterStream(run, events.Kind(kind))
		})
	case "schedule":
		id = events.ScheduleStream(rest)
	case "occurrence":
		at := strings.LastIndexByte(rest, '/')
		if at < 0 {
			return id, fmt.Errorf("stream %.64q: want occurrence/schedule/time", s)
		}
		id = events.OccurrenceStream(rest[:at], rest[at+1:])
	case "control":
		source, ok := strings.CutPrefix(rest, "source/")
		switch {
		case ok && source != "":
			id = events.SourceControlStream(source)
		case rest == "engine":
			id = events.EngineControlStream()
		default:
			return id, fmt.Errorf("stream %.64q: it controls neither the engine nor a source", s)
		}
	case "app":
		id = events.AppStream(rest)
	default:
		return id, fmt.Errorf("stream %.64q: %.64q is no family of streams", s, family)
	}
	if err != nil {
		return id, fmt.Errorf("stream %.64q: %w", s, err)
	}
	return id, nil
}

func idStream[T any](text string, parse func(string) (T, error), stream func(T) events.StreamID) (events.StreamID, error) {
	id, err := parse(text)
	if err != nil {
		return events.StreamID{}, err
	}
	return stream(id), nil
}

package ident

import (
	"strings"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/projections"
)

// Thing is what a name calls: the one of its fields that Noun says.
type Thing struct {
	Noun    string
	Run     events.RunID
	Unit    events.UnitID
	Job     events.JobID
	Message events.MessageID
	Entry   projections.Key
	Wakeup  int // of an entry; 0: the register
}

// WhyID is the form in which Engine.Why takes it.
func (t Thing) WhyID() string {
	switch t.Noun {
	case NounUnit:
		return t.Unit.String()
	case NounJob:
		return t.Job.String()
	case NounMessage:
		return t.Message.String()
	case NounEntry:
		return t.Entry.String()
	}
	return t.Run.String()
}

// Any is whatever a text calls. A whole ULID is looked up here, to know what it is of. Errors: as Run.
func Any(v projections.View, text string) (Thing, error) {
	switch {
	case strings.HasPrefix(text, "run/"):
		id, err := Run(v, text)
		return Thing{Noun: NounRun, Run: id}, err
	case strings.HasPrefix(text, "unit/"), strings.Contains(text, ":"):
		id, err := Unit(v, text)
		return Thing{Noun: NounUnit, Unit: id}, err
	case strings.HasPrefix(text, "job/"):
		id, err := Job(v, text)
		return Thing{Noun: NounJob, Job: id}, err
	case strings.HasPrefix(text, "message/"):
		id, err := Message(v, text)
		return Thing{Noun: NounMessage, Message: id}, err
	case strings.ContainsAny(text, "/."):
		k, n, err := Entry(v, text)
		return Thing{Noun: NounEntry, Entry: k, Wakeup: n}, err
	}
	digits, ok := suffix(text)
	if !ok {
		return Thing{}, malformed("", text, "it is neither a ULID nor the end of one, nor an alias")
	}
	found, err := ending(v, digits)
	switch {
	case err != nil:
		return Thing{}, err
	case len(found) == 0:
		return Thing{}, unknown("", text)
	case len(found) > 1:
		names := make([]string, len(found))
		for i, t := range found {
			names[i] = t.stream()
		}
		return Thing{}, ambiguous("", text, names)
	}
	return found[0], nil
}

// stream names a thing that has a ULID so that it is no other.
func (t Thing) stream() string { return t.Noun + "/" + t.WhyID() }

func ending(v projections.View, digits string) (out []Thing, err error) {
	runs, err := v.RunsEnding(digits)
	if err != nil {
		return nil, err
	}
	for _, id := range runs {
		out = append(out, Thing{Noun: NounRun, Run: id})
	}
	units, err := v.UnitsEnding(digits)
	if err != nil {
		return nil, err
	}
	for _, id := range units {
		out = append(out, Thing{Noun: NounUnit, Unit: id})
	}
	jobs, err := v.JobsEnding(digits)
	if err != nil {
		return nil, err
	}
	for _, id := range jobs {
		out = append(out, Thing{Noun: NounJob, Job: id})
	}
	messages, err := v.MessagesEnding(digits)
	for _, id := range messages {
		out = append(out, Thing{Noun: NounMessage, Message: id})
	}
	return out, err
}

package ident

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/projections"
)

// What may be wrong with a name.
var (
	// ErrMalformed: no thing can have that name.
	ErrMalformed = errors.New("malformed id")
	// ErrUnknown: nothing has that name.
	ErrUnknown = errors.New("unknown id")
	// ErrAmbiguous: several things have it.
	ErrAmbiguous = errors.New("ambiguous id")
)

// The things that have names.
const (
	NounRun     = "run"
	NounUnit    = "unit"
	NounJob     = "job"
	NounMessage = "message"
	NounEntry   = "outbox entry"
)

// Error says what is wrong with a name.
type Error struct {
	Noun       string // what was wanted: one of the nouns, or empty for any of them
	Text       string // the name, cut to 64 bytes
	Problem    string
	Fix        string
	Candidates []string // of an ambiguous one: names that are not, at most ten
	Kind       error    // ErrMalformed, ErrUnknown or ErrAmbiguous
}

func (e *Error) Error() string {
	noun := e.Noun
	if noun != "" {
		noun += " "
	}
	s := fmt.Sprintf("%sid %q: %s", noun, e.Text, e.Problem)
	if e.Fix != "" {
		s += "; " + e.Fix
	}
	return s
}

func (e *Error) Unwrap() error { return e.Kind }

const (
	minSuffix     = 6  // of the end of a ULID
	ulidLength    = 26 // of a whole one
	maxCandidates = 10
)

// Run is the run that a text calls. A whole ULID is not looked up: whoever reads the run finds out whether there is one.
// Errors: *Error; a fault of the view.
func Run(v projections.View, text string) (events.RunID, error) {
	return byULID(text, NounRun, "run/", events.ParseRunID, v.RunsEnding)
}

// Job is the job that a text calls. The rest is as of Run.
func Job(v projections.View, text string) (events.JobID, error) {
	return byULID(text, NounJob, "job/", events.ParseJobID, v.JobsEnding)
}

// Message is the application message that a text calls. The rest is as of Run.
func Message(v projections.View, text string) (events.MessageID, error) {
	return byULID(text, NounMessage, "message/", events.ParseMessageID, v.MessagesEnding)
}

// Unit is the unit that a text calls, also by its alias. The rest is as of Run.
func Unit(v projections.View, text string) (events.UnitID, error) {
	if run, name, isAlias := strings.Cut(text, ":"); isAlias {
		return unitCalled(v, text, run, name)
	}
	return byULID(text, NounUnit, "unit/", events.ParseUnitID, v.UnitsEnding)
}

// unitCalled is the unit of an alias. Two runs may have the same end, and only one of them a unit of that name.
func unitCalled(v projections.View, text, run, name string) (events.UnitID, error) {
	runs, err := runsCalled(v, text, run, NounUnit)
	if err != nil {
		return events.UnitID{}, err
	}
	var found []events.UnitID
	for _, r := range runs {
		units, err := v.UnitsNamed(r, name)
		if err != nil {
			return events.UnitID{}, err
		}
		found = append(found, units...)
	}
	if len(runs) > 0 && len(found) == 0 {
		e := unknown(NounUnit, text)
		e.Problem = fmt.Sprintf("run %s has no unit %q", runs[0].Short(), name)
		e.Fix = "give source/dataset/window as `towline unit list` prints it"
		return events.UnitID{}, e
	}
	return one(found, NounUnit, text)
}

// runsCalled are all runs that the run part of another name may mean.
func runsCalled(v projections.View, text, run, noun string) ([]events.RunID, error) {
	run = strings.TrimPrefix(run, "run/")
	if len(run) == ulidLength {
		id, err := events.ParseRunID(run)
		if err != nil {
			return nil, malformed(noun, text, "its run is no ULID")
		}
		return []events.RunID{id}, nil
	}
	digits, ok := suffix(run)
	if !ok {
		return nil, malformed(noun, text, "its run is neither a ULID nor the end of one")
	}
	return v.RunsEnding(digits)
}

func byULID[K interface {
	comparable
	String() string
}](text, noun, stream string, parse func(string) (K, error), find func(string) ([]K, error)) (none K, err error) {
	name := strings.TrimPrefix(text, stream)
	if len(name) == ulidLength {
		id, err := parse(name)
		if err != nil {
			return none, malformed(noun, text, "it has a character that no ULID has")
		}
		return id, nil
	}
	digits, ok := suffix(name)
	if !ok || len(name) != len(text) {
		return none, malformed(noun, text, "it is neither a ULID nor the end of one")
	}
	found, err := find(digits)
	if err != nil {
		return none, err
	}
	return one(found, noun, text)
}

// suffix is the end of a ULID in upper case; false: the text is none.
func suffix(text string) (string, bool) {
	if len(text) < minSuffix || len(text) > ulidLength {
		return "", false
	}
	upper := strings.ToUpper(text)
	for _, c := range upper {
		if !strings.ContainsRune("0123456789ABCDEFGHJKMNPQRSTVWXYZ", c) {
			return "", false
		}
	}
	return upper, true
}

func one[K interface {
	comparable
	String() string
}](found []K, noun, text string) (none K, err error) {
	switch len(found) {
	case 0:
		return none, unknown(noun, text)
	case 1:
		return found[0], nil
	}
	names := make([]string, len(found))
	for i, id := range found {
		names[i] = id.String()
	}
	return none, ambiguous(noun, text, names)
}

func ambiguous(noun, text string, names []string) *Error {
	shown := names[:min(len(names), maxCandidates)]
	e := newError(noun, text, fmt.Sprintf("%d things are called so", len(names)), "use one of "+strings.Join(shown, ", "), ErrAmbiguous)
	e.Candidates = slices.Clone(shown)
	return e
}

func unknown(noun, text string) *Error {
	return newError(noun, text, "there is none of that name", "", ErrUnknown)
}

func malformed(noun, text, problem string) *Error {
	fix := "give a ULID, or its last characters, six at least"
	switch noun {
	case NounUnit:
		fix += ", or RUN:source/dataset/window"
	case NounEntry:
		fix = "give RUN/KIND or OWNER.KIND, with a kind of " + kinds()
	}
	return newError(noun, text, problem, fix, ErrMalformed)
}

func newError(noun, text, problem, fix string, kind error) *Error {
	const shown = 64
	return &Error{Noun: noun, Text: strings.ToValidUTF8(text[:min(len(text), shown)], "�"), Problem: problem, Fix: fix, Kind: kind}
}

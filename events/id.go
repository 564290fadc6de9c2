package events

import (
	"fmt"

	"github.com/oklog/ulid/v2"
)

// ID is a ULID that knows what it names, so that a run cannot be passed for a unit.
// It is parsed once, at the edge; everything inside works on the 16 bytes.
// The zero ID names nothing.
type ID[K named] [16]byte

type named interface{ noun() string }

type (
	runNoun     struct{}
	unitNoun    struct{}
	jobNoun     struct{}
	nodeNoun    struct{}
	messageNoun struct{}
)

func (runNoun) noun() string     { return "run" }
func (unitNoun) noun() string    { return "unit" }
func (jobNoun) noun() string     { return "job" }
func (nodeNoun) noun() string    { return "node" }
func (messageNoun) noun() string { return "message" }

type (
	RunID     = ID[runNoun]     // one execution of a sync request
	UnitID    = ID[unitNoun]    // one piece of a run
	JobID     = ID[jobNoun]     // the activity row of one trigger
	NodeID    = ID[nodeNoun]    // one start of one process: an incarnation (N-1)
	MessageID = ID[messageNoun] // one application message
)

// ParseRunID, ParseUnitID, ParseJobID, ParseNodeID and ParseMessageID read a ULID of 26 characters in either case.
// Anything else, also braces, dashes or white space around it, is an *IDError.
func ParseRunID(s string) (RunID, error)         { return parseID[runNoun](s) }
func ParseUnitID(s string) (UnitID, error)       { return parseID[unitNoun](s) }
func ParseJobID(s string) (JobID, error)         { return parseID[jobNoun](s) }
func ParseNodeID(s string) (NodeID, error)       { return parseID[nodeNoun](s) }
func ParseMessageID(s string) (MessageID, error) { return parseID[messageNoun](s) }

// IDError says that a text is no identifier of the kind wanted.
type IDError struct {
	Noun  string // run, unit, job, node or message
	Text  string // what was given, cut to 64 bytes
	Cause error
}

func (e *IDError) Error() string {
	return fmt.Sprintf("%s id %q: want a ULID of 26 characters: %v", e.Noun, e.Text, e.Cause)
}

func (e *IDError) Unwrap() error { return e.Cause }

func parseID[K named](s string) (ID[K], error) {
	u, err := ulid.ParseStrict(s)
	if err != nil {
		var k K
		const shown = 64
		if len(s) > shown {
			s = s[:shown]
		}
		return ID[K]{}, &IDError{Noun: k.noun(), Text: s, Cause: err}
	}
	return ID[K](u), nil
}

// String is the ULID in upper case: 26 characters.
func (id ID[K]) String() string { return ulid.ULID(id).String() }

// Short is the last six characters of the ULID: enough for people to tell recent things apart.
func (id ID[K]) Short() string { return id.String()[20:] }

// IsZero reports that the ID names nothing.
func (id ID[K]) IsZero() bool { return id == ID[K]{} }

// Compare orders IDs as their text does, which is the order in which one process made them.
func (id ID[K]) Compare(other ID[K]) int { return ulid.ULID(id).Compare(ulid.ULID(other)) }

func (id ID[K]) MarshalText() ([]byte, error) { return ulid.ULID(id).MarshalText() }

func (id *ID[K]) UnmarshalText(b []byte) error {
	p, err := parseID[K](string(b))
	if err != nil {
		return err
	}
	*id = p
	return nil
}

// Package decider holds the rules of Towline. They are pure: no clock, no randomness, no I/O.
//
// A command asks for a change of one stream. Everything that a rule needs and the stream does not hold is a field of
// the command: the time, a token, a fact from another stream that was read in the same transaction (L-4). A rule
// answers with the events to append. No events and no rejection means that there is nothing to do, which is success:
// duplicates, late arrivals and restarts are normal weather.
package decider

import (
	"errors"
	"fmt"

	"github.com/towline-dev/towline/events"
)

// State is the fold of one stream. It is a value; its zero value is the stream to which nothing has happened.
type State interface{ state() }

// Command asks for a change of one stream. It is plain data, so it can be printed, compared and sent twice.
type Command interface {
	// Name is the word by which the command is recorded in the log: claim_unit for ClaimUnit. A file format.
	Name() string
	// Stream is the one stream that the command may change.
	Stream() events.StreamID
	// Fresh reports a command that opens its stream: it is decided from the zero state without a read, and the
	// log's unique (stream, version) is the guard.
	Fresh() bool
	decide(State) ([]events.Event, *Rejection)
}

// Rejection tells a caller that it no longer holds what it thinks it holds. It may come with events: a record of the
// refusal, which commits (L-5, U-19).
type Rejection struct {
	Command string
	Reason  string
	Err     error // one of the errors below
}

func (r *Rejection) Error() string { return fmt.Sprintf("%s: %v: %s", r.Command, r.Err, r.Reason) }
func (r *Rejection) Unwrap() error { return r.Err }

// conflict says why a command does not fit the state of its stream.
func conflict(c Command, reason string) *Rejection {
	return &Rejection{Command: c.Name(), Reason: reason, Err: ErrConflict}
}

// What a rejection can be.
var (
	// ErrLeaseLost: the lease is no longer the caller's. Stop, and write nothing more.
	ErrLeaseLost = errors.New("lease lost")
	// ErrClaimLost: the claim of a wakeup is no longer the caller's. Its mark changes nothing.
	ErrClaimLost = errors.New("claim lost")
	// ErrNotClaimable: the unit is not waiting for a worker. The message was a duplicate, or came late.
	ErrNotClaimable = errors.New("not claimable")
	// ErrTooEarly: the unit waits for its next attempt.
	ErrTooEarly = errors.New("too early")
	// ErrConflict: what the request is about is not in a state for it.
	ErrConflict = errors.New("conflict")
	// ErrInvalid: the request contradicts the state of the stream, so it can never be carried out.
	ErrInvalid = errors.New("invalid")
)

// Decide applies the rule of c to s.
func Decide(s State, c Command) ([]events.Event, *Rejection) { return c.decide(s) }

// Zero is the state of a stream to which nothing has happened.
func Zero(id events.StreamID) State {
	switch id.Family() {
	case events.FamilyRun:
		return Run{}
	case events.FamilyUnit:
		return Unit{}
	case events.FamilyJob:
		return Job{}
	case events.FamilyNode:
		return Node{}
	case events.FamilyControl:
		return Control{}
	case events.FamilyApp:
		return Topic{}
	case events.FamilySchedule:
		return Schedule{}
	case events.FamilyOccurrence:
		return Occurrence{}
	}
	if _, _, ok := id.Register(); ok {
		return Register{}
	}
	return Untracked{}
}

// Evolve is the state after e. It never refuses: what is in the log has happened.
func Evolve(s State, e events.Envelope) State {
	switch s := s.(type) {
	case Run:
		return s.evolve(e)
	case Unit:
		return s.evolve(e)
	case Register:
		return s.evolve(e)
	case Job:
		return s.evolve(e)
	case Node:
		return s.evolve(e)
	case Control:
		return s.evolve(e)
	case Topic:
		return s.evolve(e)
	case Schedule:
		return s.evolve(e)
	case Occurrence:
		return s.evolve(e)
	}
	return s
}

// Fold is the state after a whole stream. A cached state must equal it (L-3).
func Fold(id events.StreamID, history []events.Envelope) State {
	s := Zero(id)
	for _, e := range history {
		s = Evolve(s, e)
	}
	return s
}

// Untracked is the state of a stream that no rule of this release reads.
type Untracked struct{}

func (Untracked) state()  {}
func (Run) state()        {}
func (Unit) state()       {}
func (Register) state()   {}
func (Job) state()        {}
func (Node) state()       {}
func (Control) state()    {}
func (Topic) state()      {}
func (Schedule) state()   {}
func (Occurrence) state() {}

// Package feed is the log as a Watermill topic: the form in which an event travels to a consumer, and what a consumer may
// choose (WMILL-2). A store makes the topic, a node hands it out: Node.Events.
//
// A topic is read by groups. A group is a durable place in the log: its consumer gets every event behind it, in position
// order, at least once, and the place moves when a message is acknowledged. Nothing is ever published to it: the log has
// one writer.
package feed

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/towline-dev/towline/events"
)

// Topic is the only topic: the whole log. Options.Types chooses from it.
const Topic = "events"

// The metadata of a message. All of it is text. The names are those of CloudEvents 1.0 where it has one (the id is the
// UUID of the message), and else fit for its extensions: lower-case letters only. A field that the event has not is
// missing.
const (
	Source   = "source"   // /towline/<store>: the first incarnation in the log, which copies of a store share; missing: there was none yet
	Type     = "type"     // name of the event: RunFinalized
	Subject  = "subject"  // stream: run/<ulid>, unit/<ulid>, outbox/<run>/<kind>, …
	Time     = "time"     // UTC, with microseconds
	Schema   = "schema"   // of the payload
	Position = "position" // in the log: from 1, dense
	Tx       = "tx"       // position of the first event of its transaction
	Version  = "version"  // in its stream: from 1, dense
	Actor    = "actor"    // who asked for it; missing: the node itself
	Command  = "command"  // that decided it
	Cause    = "cause"    // position of the event that it reacts to; missing: a caller
	Node     = "node"     // incarnation that appended it; missing: a transaction of the application
)

// Options of one consumer. The zero value gets every event, from the beginning of the log.
type Options struct {
	// Types are the events that are delivered; nil: all. The group moves over the others, too, so its types may be changed
	// later: what was passed by is not delivered again.
	Types []events.Type
	// FromEnd lets a group that is new begin behind the newest event. False: with the first event of the log. A group that
	// is known goes on where it was.
	FromEnd bool
	// AckDeadline is how long a handler may hold a message. Behind it the context of the message has ended and the message
	// is delivered again, whatever the handler still does. Zero: for ever, and a handler that neither acknowledges nor
	// refuses holds up its group until the subscription ends.
	AckDeadline time.Duration
	// Resend is the wait before a refused message is delivered again, and nothing behind it is delivered first. Zero: 1 s.
	Resend time.Duration
	// Poll is how soon an event of another process is seen, and how soon a consumer that waits for its group takes it over.
	// An event that the engine of this process appends is seen at once; one that an application's own transaction has appended
	// is, too, behind a Nudge. Zero: 1 s.
	Poll time.Duration
	// Logger hears of faults of the store, and of a group that has another consumer. nil: slog.Default().
	Logger *slog.Logger
}

// ErrGroupInUse: the group has a consumer, in this process or in another one.
var ErrGroupInUse = errors.New("the group has a consumer")

// Group is how far the consumers of one name have come.
type Group struct {
	Name     string
	Position events.Position // all events up to it are acknowledged, or were passed by
	Head     events.Position // of the log
	// WaitingSince is the time of the first event behind Position that is not archived; zero: there is none.
	WaitingSince time.Time
}

// Lag is how many events lie behind the place of the group. For a group that takes some types only it is an upper bound,
// which falls to what is new within a minute.
func (g Group) Lag() int64 { return int64(g.Head - g.Position) }

// Message is an event as it is delivered. id is the same at every delivery. Tokens are masked (E-4): the payload is the
// event's JSON, in the newest schema, with *** in their place.
func Message(id, source string, e events.Envelope) (*message.Message, error) {
	record, err := events.Encode(masked(e.Event))
	if err != nil {
		return nil, fmt.Errorf("event at position %d: %w", e.Position, err)
	}
	m := message.NewMessage(id, record.Data)
	set := func(key, value string) {
		if value != "" {
			m.Metadata.Set(key, value)
		}
	}
	set(Source, source)
	set(Type, e.Event.EventType().String())
	set(Subject, e.Stream.String())
	set(Time, e.At.String())
	set(Schema, strconv.Itoa(int(record.Schema)))
	set(Position, e.Position.String())
	set(Tx, e.Tx.String())
	set(Version, strconv.FormatInt(int64(e.Version), 10))
	set(Actor, e.Actor)
	set(Command, e.Command)
	if e.Cause != 0 {
		set(Cause, e.Cause.String())
	}
	if !e.Node.IsZero() {
		set(Node, e.Node.String())
	}
	return m, nil
}

// Event is the event in a message, with its tokens masked. Errors: one that wraps events.ErrUnknownType or
// events.ErrNewerSchema for an event of a newer release; any other for a message that is none of this topic.
func Event(m *message.Message) (events.Event, error) {
	name := m.Metadata.Get(Type)
	schema, err := strconv.ParseUint(m.Metadata.Get(Schema), 10, 16)
	if err != nil {
		return nil, fmt.Errorf("message %s: schema: %w", m.UUID, err)
	}
	i := slices.IndexFunc(events.Types(), func(t events.Type) bool { return t.String() == name })
	if i < 0 {
		return nil, fmt.Errorf("message %s: %q: %w", m.UUID, name, events.ErrUnknownType)
	}
	e, err := events.Decode(events.Record{Type: events.Types()[i], Schema: events.Schema(schema), Data: m.Payload})
	if err != nil {
		return nil, fmt.Errorf("message %s: %w", m.UUID, err)
	}
	return e, nil
}

// PositionOf is the position of the event in a message, by which a consumer knows what it has had.
func PositionOf(m *message.Message) (events.Position, error) {
	n, err := strconv.ParseInt(m.Metadata.Get(Position), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("message %s: position: %w", m.UUID, err)
	}
	return events.Position(n), nil
}

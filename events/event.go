// Package events is the vocabulary of the log: what can happen, and the form in which it is stored.
//
// An event is a past fact and a value. Its type name, its type number and its field names are a file format: a log
// written by any release is read by every later one (L-7). The package imports nothing of Towline.
package events

import (
	"fmt"
	"math"
	"time"
)

// Event is one fact. The set is closed: every implementation is in this package and in the registry of the codec.
type Event interface {
	EventType() Type
	event()
}

// Position is a place in the whole log: from 1, dense, in commit order (L-6).
type Position int64

// Version is a place in one stream: from 1, dense (L-6). As an expectation, 0 means that the stream is empty.
type Version int64

// Micros is a time in UTC microseconds since 1970 (CLK-5). Zero means "not set"; no event happened in 1970.
type Micros int64

// Span is a length of time in microseconds.
type Span int64

// MicrosOf cuts t to whole microseconds. A zero t is zero, and one that lies further away than microseconds can say is the
// end of time on its side, like a time that means "for ever".
func MicrosOf(t time.Time) Micros {
	const farthest = math.MaxInt64 / 1_000_000
	switch {
	case t.IsZero():
		return 0
	case t.Unix() >= farthest:
		return math.MaxInt64
	case t.Unix() <= -farthest:
		return math.MinInt64
	}
	return Micros(t.UnixMicro())
}

// Sayable reports a time from 1970 to the end of 9999. One behind that has no form in RFC 3339, in JSON, or in the functions of
// SQLite, and mostly was milliseconds where seconds were asked for.
func (m Micros) Sayable() bool {
	const year10000 = 253_402_300_800_000_000
	return 0 <= m && m < year10000
}

// Time is m as UTC; the zero Micros is the zero time.
func (m Micros) Time() time.Time {
	if m == 0 {
		return time.Time{}
	}
	return time.UnixMicro(int64(m)).UTC()
}

// Add stops at the ends of time: a length that means "for ever" must not wrap into the past, where everything is due.
func (m Micros) Add(s Span) Micros {
	sum := m + Micros(s)
	switch {
	case s > 0 && sum < m:
		return math.MaxInt64
	case s < 0 && sum > m:
		return math.MinInt64
	}
	return sum
}

func (m Micros) Sub(o Micros) Span { return Span(m - o) }
func (m Micros) String() string    { return m.Time().Format("2006-01-02T15:04:05.000000Z") }
func SpanOf(d time.Duration) Span  { return Span(d.Microseconds()) }
func (s Span) Std() time.Duration  { return time.Duration(s) * time.Microsecond }
func (s Span) String() string      { return s.Std().String() }
func (p Position) String() string  { return fmt.Sprintf("%d", int64(p)) }

// Earliest is the smaller of two times; zero, "not set", is later than any.
func Earliest(a, b Micros) Micros {
	switch {
	case a == 0:
		return b
	case b == 0, a < b:
		return a
	}
	return b
}

// Meta is what the writer of an event says about it.
type Meta struct {
	Actor   string   // who asked for it; empty: the node itself
	Command string   // name of the command that decided it
	Cause   Position // the event that it reacts to; 0: a caller
	Node    NodeID   // incarnation that appends it; zero: none (an application's own transaction)
}

// Envelope is an event at its place in the log (L-6).
type Envelope struct {
	Position Position
	Tx       Position // position of the first event of its transaction
	Stream   StreamID
	Version  Version
	At       Micros // never before the At of the envelope before it (CLK-2)
	Meta
	Event Event
}

// Token is the secret of a lease or of a claim. It prints as a mask; only its stored form shows it (E-4).
type Token string

func (t Token) String() string {
	if t == "" {
		return ""
	}
	return "***"
}

// GoString keeps %#v from showing the secret.
func (t Token) GoString() string { return `events.Token("` + t.String() + `")` }

// Fence orders the attempts of all units and runs: the store epoch, a dot, and the position of the UnitClaimed, in a
// fixed width, so that it also compares as text. It is the only value that a sink compares.
type Fence string

// NewFence writes 8 digits of the epoch, a dot and 16 digits of the position.
func NewFence(epoch int, claimed Position) Fence {
	return Fence(fmt.Sprintf("%08d.%016d", epoch, claimed))
}

// Package check proves the invariants of the specification from the log alone.
//
// It has its own fold, written from the specification and not from the rules, and it imports the vocabulary only: a
// fault that rules and checker shared would be invisible. It reads one event after the other, remembers what is open
// and little of what has ended, and says of every contradiction which invariant it breaks, where, and by what evidence.
//
// The checker never refuses an event. What contradicts the specification is reported and then folded as far as it can
// be, so that one fault does not make every later event look wrong; only what follows a terminal event is left out.
package check

import (
	"fmt"
	"slices"

	"github.com/towline-dev/towline/events"
)

// DefaultAtMost is how many violations are kept if Options does not say.
const DefaultAtMost = 100

// Options say what to keep, and what the log may not say.
type Options struct {
	// AtMost violations are kept; 0: DefaultAtMost. The rest is counted only.
	AtMost int
	// Keep holds on to ended runs and their units, so that they can be compared with views. Without it the units of an
	// ended run shrink to what a late result is checked against.
	Keep bool
	// Broker holds on to the message ids of every claim and mark, which the method Broker needs.
	Broker bool
	// Settings stand in for what no NodeStarted.config says. What a node says of itself wins.
	Settings Settings
}

// Violation is one contradiction between the log and the specification.
type Violation struct {
	Rule     string          // the invariant: "I-9"
	Position events.Position // the event that shows it
	Stream   events.StreamID
	Text     string // one sentence with the evidence
}

func (v Violation) String() string {
	return fmt.Sprintf("%s at %d %s: %s", v.Rule, v.Position, v.Stream, v.Text)
}

// Checker folds a log, transaction by transaction. It is used by one goroutine. It keeps nothing of the envelopes
// that it is given but the values inside.
type Checker struct {
	opt   Options
	found []Violation
	total int

	position events.Position // of the newest event
	now      events.Micros   // latest time seen
	gaps     []gap
	tx       transaction
	versions map[events.StreamID]events.Version // of named streams, and of streams that should not be
	strays   map[events.StreamID]bool           // reported once

	nodes    map[events.NodeID]*node
	alive    []*node
	hold     bool // restored hold (DUR-5)
	epoch    int
	paused   bool
	sources  map[string]bool // paused ones
	cooldown cooldowns
	stepped  events.Micros // when a clock was last set forward; 0: never (CLK-8)

	runs      map[events.RunID]*run
	runOrder  []*run
	units     map[events.UnitID]*unit
	ended     map[events.UnitID]endedUnit // of ended runs, unless Options.Keep
	registers []*register
	jobs      map[events.JobID]*job
	jobOrder  []*job
	keys      keys
	marks     map[markKey]*Watermark
	slots     slots

	messages     map[events.MessageID]*message
	messageOrder []*message
	messageKeys  map[messageKey]*message
	unarmed      []*message // submitted, and not armed yet (I-25)
	schedules    map[string]*schedule
	occurrences  map[events.StreamID]*occurrence

	scheduleOrder   []*schedule
	occurrenceOrder []*occurrence

	ledger   *ledger // nil unless Options.Broker
	finished bool
}

// New returns a checker of an empty log.
func New(o Options) *Checker {
	if o.AtMost <= 0 {
		o.AtMost = DefaultAtMost
	}
	c := &Checker{
		opt:         o,
		versions:    map[events.StreamID]events.Version{},
		strays:      map[events.StreamID]bool{},
		nodes:       map[events.NodeID]*node{},
		epoch:       1,
		sources:     map[string]bool{},
		cooldown:    newCooldowns(),
		runs:        map[events.RunID]*run{},
		units:       map[events.UnitID]*unit{},
		ended:       map[events.UnitID]endedUnit{},
		jobs:        map[events.JobID]*job{},
		keys:        newKeys(),
		marks:       map[markKey]*Watermark{},
		slots:       newSlots(o.Settings.Stale),
		messages:    map[events.MessageID]*message{},
		messageKeys: map[messageKey]*message{},
		schedules:   map[string]*schedule{},
		occurrences: map[events.StreamID]*occurrence{},
	}
	if o.Broker {
		c.ledger = newLedger()
	}
	return c
}

// Apply takes the next event. Events come in the order of their positions.
func (c *Checker) Apply(e events.Envelope) {
	c.envelope(e)
	c.incarnation(e)
	c.advance(e)
	c.fold(e)
}

// EndTx says that the transaction of the newest event is complete, so that what must hold at its end is checked now
// and not with the next event. Finish does it; a simulator calls it after every step.
func (c *Checker) EndTx() {
	if c.tx.open {
		c.endTx()
	}
}

// Finish ends the last transaction, checks what can be said only at the end of the log, and returns all violations
// that were kept, by position. No event comes after it.
func (c *Checker) Finish() []Violation {
	c.EndTx()
	c.endOfGaps()
	c.endOfRegisters()
	slices.SortStableFunc(c.found, func(a, b Violation) int { return int(a.Position - b.Position) })
	return c.Violations()
}

// Violations are those found so far, at most Options.AtMost.
func (c *Checker) Violations() []Violation { return slices.Clone(c.found) }

// Total counts the violations found so far, also those that were not kept.
func (c *Checker) Total() int { return c.total }

// Head is the position and the time of the newest event; zero for an empty log.
func (c *Checker) Head() (events.Position, events.Micros) { return c.position, c.now }

func (c *Checker) report(rule string, at events.Position, s events.StreamID, format string, args ...any) {
	c.total++
	if len(c.found) < c.opt.AtMost {
		c.found = append(c.found, Violation{Rule: rule, Position: at, Stream: s, Text: fmt.Sprintf(format, args...)})
	}
}

// collect runs a check that is handed more than the log, and returns what it found.
func (c *Checker) collect(check func()) []Violation {
	before := c.found
	c.found = nil
	check()
	news := c.found
	room := max(0, c.opt.AtMost-len(before))
	c.found = append(before, news[:min(room, len(news))]...)
	return news
}

// wrong reports a violation that e itself shows.
func (c *Checker) wrong(rule string, e events.Envelope, format string, args ...any) {
	c.report(rule, e.Position, e.Stream, format, args...)
}

// fold hands e to the family of its stream. An event in a stream of another family has no state before it that could
// allow it.
func (c *Checker) fold(e events.Envelope) {
	switch e.Event.(type) {
	case events.RunPlanned, events.RunDispatchStarted, events.RunFinalized, events.RunCancelled,
		events.PostSyncStarted, events.PostSyncCompleted, events.PostSyncFailed:
		if id, ok := e.Stream.Run(); ok {
			c.runEvent(e, id)
			return
		}
	case events.UnitPlanned, events.UnitDispatched, events.UnitClaimed, events.UnitLeaseRenewed, events.UnitSucceeded,
		events.UnitLeaseExpired, events.UnitFailed, events.UnitRetryScheduled, events.UnitCancelled, events.UnitLateResult:
		if id, ok := e.Stream.Unit(); ok {
			c.unitEvent(e, id)
			return
		}
	case events.OutboxArmed, events.OutboxClaimed, events.OutboxDispatched, events.OutboxReleased,
		events.OutboxDropped, events.OutboxParked, events.OutboxOutcome, events.OutboxResolved:
		if owner, kind, ok := e.Stream.Register(); ok {
			c.registerEvent(e, owner, kind)
			return
		}
	case events.JobOpened, events.JobLinked, events.JobClosed:
		if id, ok := e.Stream.Job(); ok {
			c.jobEvent(e, id)
			return
		}
	case events.NodeStarted, events.NodeRecovered, events.NodeConfigChanged, events.ClockStepped, events.BreakerOpened,
		events.BreakerClosed, events.RunsArchived, events.SegmentPurged, events.StoreRestored, events.NodeStopped:
		if id, ok := e.Stream.Node(); ok {
			c.nodeEvent(e, id)
			return
		}
	case events.ScheduleDefined, events.SchedulePaused, events.ScheduleResumed, events.ScheduleRemoved,
		events.OccurrencesMissed:
		if e.Stream.Family() == events.FamilySchedule {
			c.scheduleEvent(e)
			return
		}
	case events.OccurrenceQueued, events.OccurrenceTriggered, events.OccurrenceSkipped, events.OccurrenceRejected:
		if e.Stream.Family() == events.FamilyOccurrence {
			c.occurrenceEvent(e)
			return
		}
	case events.EnginePaused, events.EngineResumed, events.RestoreHoldReleased, events.SourcePaused, events.SourceResumed:
		if e.Stream.Family() == events.FamilyControl {
			c.controlEvent(e)
			return
		}
	case events.MessageSubmitted, events.MessageHandled, events.MessageRejected:
		if e.Stream.Family() == events.FamilyApp {
			c.messageEvent(e)
			return
		}
	case nil:
		c.wrong("I-2", e, "the envelope holds no event")
		return
	default:
		c.wrong("I-2", e, "%T is no event of the catalogue", e.Event)
		return
	}
	c.wrong("I-2", e, "%s does not belong into this stream", e.Event.EventType())
	c.misplaced(e)
}

// stray takes an event of something that the log never opened. It is reported once per stream.
func (c *Checker) stray(e events.Envelope, format string, args ...any) {
	if !c.strays[e.Stream] {
		c.strays[e.Stream] = true
		c.wrong("I-2", e, format, args...)
	}
	c.namedVersion(e)
}

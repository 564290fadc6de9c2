package decider

import "github.com/towline-dev/towline/events"

// Occurrence is the fold of one due time of a schedule. Its key is decided once, ever (S-1, J-2).
//
//	∅ ──OccurrenceQueued──► queued ──OccurrenceTriggered, OccurrenceSkipped, OccurrenceRejected──► ended; or at once
type Occurrence struct {
	Schedule string
	Civil    string
	Instant  events.Micros
	Status   OccurrenceStatus
	Job      events.JobID // of one that is triggered
	Run      events.RunID
}

// OccurrenceStatus is where a due time stands.
type OccurrenceStatus string

const (
	OccurrenceIsUndecided OccurrenceStatus = ""
	OccurrenceIsQueued    OccurrenceStatus = "queued"
	OccurrenceIsTriggered OccurrenceStatus = "triggered"
	OccurrenceIsSkipped   OccurrenceStatus = "skipped"
	OccurrenceIsRejected  OccurrenceStatus = "rejected"
)

// Ended reports an occurrence about which nothing is to be decided any more.
func (o Occurrence) Ended() bool {
	return o.Status != OccurrenceIsUndecided && o.Status != OccurrenceIsQueued
}

func (o Occurrence) evolve(env events.Envelope) Occurrence {
	o.Schedule, o.Civil, _ = env.Stream.Occurrence()
	switch e := env.Event.(type) {
	case events.OccurrenceQueued:
		o.Status, o.Instant = OccurrenceIsQueued, e.Instant
	case events.OccurrenceTriggered:
		o.Status, o.Instant, o.Job, o.Run = OccurrenceIsTriggered, e.Instant, e.Job, e.Run
	case events.OccurrenceSkipped:
		o.Status, o.Instant = OccurrenceIsSkipped, e.Instant
	case events.OccurrenceRejected:
		o.Status, o.Instant = OccurrenceIsRejected, e.Instant
	}
	return o
}

// The four commands below decide a due time. One that has ended stays as it is, whoever comes second: a second tick, another
// node, a clock that was set back (S-1, CLK-6).

// QueueOccurrence lets a due time wait for the run before it (S-5, S-6).
type QueueOccurrence struct {
	Schedule, Civil string
	Instant         events.Micros
}

func (QueueOccurrence) Name() string { return "queue_occurrence" }
func (c QueueOccurrence) Stream() events.StreamID {
	return events.OccurrenceStream(c.Schedule, c.Civil)
}
func (QueueOccurrence) Fresh() bool { return false }

func (c QueueOccurrence) decide(s State) ([]events.Event, *Rejection) {
	if s.(Occurrence).Status != OccurrenceIsUndecided {
		return nil, nil
	}
	return []events.Event{events.OccurrenceQueued{Instant: c.Instant}}, nil
}

// TriggerOccurrence names the job and the run of a due time. Who executes it plans them in the same transaction (S-2).
type TriggerOccurrence struct {
	Schedule, Civil string
	Instant         events.Micros
	Job             events.JobID
	Run             events.RunID
}

func (TriggerOccurrence) Name() string { return "trigger_occurrence" }
func (c TriggerOccurrence) Stream() events.StreamID {
	return events.OccurrenceStream(c.Schedule, c.Civil)
}
func (TriggerOccurrence) Fresh() bool { return false }

func (c TriggerOccurrence) decide(s State) ([]events.Event, *Rejection) {
	if s.(Occurrence).Ended() {
		return nil, nil
	}
	return []events.Event{events.OccurrenceTriggered{Instant: c.Instant, Job: c.Job, Run: c.Run}}, nil
}

// SkipOccurrence says that a due time will not run (S-6, S-7).
type SkipOccurrence struct {
	Schedule, Civil string
	Instant         events.Micros
	Reason          events.SkipReason
}

func (SkipOccurrence) Name() string { return "skip_occurrence" }
func (c SkipOccurrence) Stream() events.StreamID {
	return events.OccurrenceStream(c.Schedule, c.Civil)
}
func (SkipOccurrence) Fresh() bool { return false }

func (c SkipOccurrence) decide(s State) ([]events.Event, *Rejection) {
	if s.(Occurrence).Ended() {
		return nil, nil
	}
	return []events.Event{events.OccurrenceSkipped{Instant: c.Instant, Reason: c.Reason}}, nil
}

// RejectOccurrence says that planning has refused a due time, for good (S-8).
type RejectOccurrence struct {
	Schedule, Civil string
	Instant         events.Micros
	Category        events.Category
	Text            string // clean and bounded (E-3)
}

func (RejectOccurrence) Name() string { return "reject_occurrence" }
func (c RejectOccurrence) Stream() events.StreamID {
	return events.OccurrenceStream(c.Schedule, c.Civil)
}
func (RejectOccurrence) Fresh() bool { return false }

func (c RejectOccurrence) decide(s State) ([]events.Event, *Rejection) {
	if s.(Occurrence).Ended() {
		return nil, nil
	}
	return []events.Event{events.OccurrenceRejected{Instant: c.Instant, Category: c.Category, Text: c.Text}}, nil
}

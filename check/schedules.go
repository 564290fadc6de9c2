package check

import "github.com/towline-dev/towline/events"

// schedule is the fold of a definition. No statement of section 23 reads it yet.
type schedule struct {
	version events.Version
	paused  bool
	removed bool
}

// occurrence is one due time of a schedule (J-2).
//
//	∅ ──► queued ──► triggered, skipped, rejected; or at once
type occurrence struct {
	version events.Version
	ended   events.Type // 0: not yet
}

type triggered struct {
	position events.Position
	stream   events.StreamID
	run      events.RunID
	job      events.JobID
}

func (c *Checker) scheduleEvent(e events.Envelope) {
	name := e.Stream.String()
	s := c.schedules[name]
	if s == nil {
		s = &schedule{version: c.opened(e.Stream)}
		c.schedules[name] = s
	}
	c.version(e, &s.version)
	switch e.Event.(type) {
	case events.ScheduleDefined:
		s.removed = false
	case events.SchedulePaused:
		s.paused = true
	case events.ScheduleResumed:
		s.paused = false
	case events.ScheduleRemoved:
		s.removed = true
	}
}

// occurrenceEvent checks J-2 and I-22.
func (c *Checker) occurrenceEvent(e events.Envelope) {
	o := c.occurrences[e.Stream]
	if o == nil {
		o = &occurrence{version: c.opened(e.Stream)}
		c.occurrences[e.Stream] = o
	}
	first := o.version == 0
	c.version(e, &o.version)
	what := e.Event.EventType()
	switch {
	case o.ended == events.TypeOccurrenceTriggered && what == o.ended:
		c.wrong("I-22", e, "the occurrence is triggered a second time")
	case o.ended != 0:
		c.wrong("I-2", e, "%s of an occurrence that ended with %s (J-2)", what, o.ended)
	}
	switch ev := e.Event.(type) {
	case events.OccurrenceQueued:
		if !first {
			c.wrong("I-2", e, "an occurrence is queued that was decided about before (J-2)")
		}
		return
	case events.OccurrenceTriggered:
		c.tx.triggered = append(c.tx.triggered, triggered{e.Position, e.Stream, ev.Run, ev.Job})
		if c.hold {
			c.wrong("I-2", e, "a schedule mints in a restored hold (DUR-5)")
		}
	}
	o.ended = what
}

// endOfOccurrences is the second half of I-22: minting and planning are one transaction (S-2).
func (c *Checker) endOfOccurrences() {
	if c.tx.torn {
		return // the run may be in a purged segment, while its occurrence stays
	}
	for _, t := range c.tx.triggered {
		r := c.runs[t.run]
		if r == nil || r.plannedTx != c.tx.position || r.Job != t.job {
			c.report("I-22", t.position, t.stream, "it names run %s and job %s, and the transaction does not plan them", t.run, t.job)
		}
	}
	for _, r := range c.tx.occasioned {
		found := false
		for _, t := range c.tx.triggered {
			found = found || t.run == r.ID
		}
		if !found {
			c.report("I-22", r.plannedAt, events.RunStream(r.ID), "the run is planned for an occurrence, and the transaction triggers none with it")
		}
	}
}

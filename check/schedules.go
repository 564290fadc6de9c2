package check

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/towline-dev/towline/events"
)

// Schedule is the checker's own fold of a schedule (S-1, S-7).
type Schedule struct {
	Name     string
	Paused   bool
	Removed  bool
	LastRun  events.RunID // of its newest triggered occurrence
	Failures int          // runs in a row that have failed, up to the newest that has ended (S-9)
}

type schedule struct {
	Schedule
	version    events.Version
	defined    bool
	definition events.ScheduleDefined
	queued     []*occurrence              // oldest first
	missed     []events.OccurrencesMissed // by their ends
}

func (s *schedule) exists() bool { return s.defined && !s.Removed }

// Occurrence is the checker's own fold of one due time of a schedule (J-2).
//
//	∅ ──► queued ──► triggered, skipped, rejected; or at once
type Occurrence struct {
	Schedule, Civil string
	Status          string
	Instant         events.Micros
	Run             events.RunID
}

type occurrence struct {
	Occurrence
	version events.Version
	ended   events.Type // 0: not yet
}

type triggered struct {
	position events.Position
	stream   events.StreamID
	run      events.RunID
	job      events.JobID
}

// emptied is a schedule of which nothing may wait any more at the end of the transaction (S-7).
type emptied struct {
	position events.Position
	stream   events.StreamID
	what     events.Type
	schedule *schedule
}

// failing is a schedule that must be paused at the end of the transaction (S-9).
type failing struct {
	position events.Position
	stream   events.StreamID
	schedule *schedule
}

func (c *Checker) scheduleOf(id events.StreamID) *schedule {
	name := id.String()
	s := c.schedules[name]
	if s == nil {
		s = &schedule{version: c.opened(id)}
		s.Name, _ = id.Schedule()
		c.schedules[name] = s
		c.scheduleOrder = append(c.scheduleOrder, s)
	}
	return s
}

// scheduleEvent checks S-7, S-9 and X-7.
func (c *Checker) scheduleEvent(e events.Envelope) {
	s := c.scheduleOf(e.Stream)
	c.version(e, &s.version)
	what := e.Event.EventType()
	if _, defines := e.Event.(events.ScheduleDefined); !defines && !s.exists() {
		c.wrong("I-2", e, "%s of a schedule that is not defined (S-7)", what)
	}
	switch ev := e.Event.(type) {
	case events.ScheduleDefined:
		if s.exists() && sameDefinition(s.definition, ev) {
			c.wrong("I-2", e, "the schedule is defined as it is already (S-7)")
		}
		s.defined, s.Removed, s.definition = true, false, ev
		c.empties(e, s)
	case events.SchedulePaused:
		c.checkScheduleActor(e, ev.Actor)
		if s.Paused {
			c.wrong("I-2", e, "the schedule is paused already (S-7)")
		}
		if after := s.definition.AutoPause; ev.Actor == byEngine && (after == 0 || s.Failures < after) {
			c.wrong("I-2", e, "the engine pauses the schedule, of which %d runs in a row have failed, and it waits for %d (S-9)", s.Failures, after)
		}
		s.Paused = true
		c.empties(e, s)
	case events.ScheduleResumed:
		c.checkScheduleActor(e, ev.Actor)
		if !s.Paused {
			c.wrong("I-2", e, "the schedule is not paused (S-7)")
		}
		s.Paused = false
	case events.ScheduleRemoved:
		c.checkScheduleActor(e, ev.Actor)
		s.Removed = true
		c.empties(e, s)
	case events.OccurrencesMissed:
		if ev.Count < 1 || ev.FromInstant > ev.ToInstant || ev.ToInstant > e.At {
			c.wrong("I-2", e, "%d times were missed, from %s to %s (S-5)", ev.Count, ev.FromInstant, ev.ToInstant)
		}
		if s.Paused && ev.Reason == events.MissedCatchUp {
			c.wrong("I-2", e, "catch-up leaves times out during a pause (S-7)")
		}
		at, _ := slices.BinarySearchFunc(s.missed, ev, func(a, b events.OccurrencesMissed) int { return cmp.Compare(a.ToInstant, b.ToInstant) })
		s.missed = slices.Insert(s.missed, at, ev)
	}
}

// byEngine is the actor of a pause for failures (S-9).
const byEngine = "engine"

func (c *Checker) checkScheduleActor(e events.Envelope, actor string) {
	if actor == "" {
		c.wrong("I-2", e, "%s of a schedule, and nobody is named (X-7)", e.Event.EventType())
	}
}

func sameDefinition(a, b events.ScheduleDefined) bool {
	return a.Cron == b.Cron && a.TimeZone == b.TimeZone && a.CatchUp == b.CatchUp && a.Max == b.Max && a.Overlap == b.Overlap &&
		a.AutoPause == b.AutoPause && bytes.Equal(a.Template, b.Template)
}

func (c *Checker) empties(e events.Envelope, s *schedule) {
	if len(s.queued) > 0 {
		c.tx.emptied = append(c.tx.emptied, emptied{e.Position, e.Stream, e.Event.EventType(), s})
	}
}

// occurrenceEvent checks J-2, S-1, S-5, S-6, S-7 and I-22.
func (c *Checker) occurrenceEvent(e events.Envelope) {
	o := c.occurrences[e.Stream]
	if o == nil {
		o = &occurrence{version: c.opened(e.Stream)}
		o.Schedule, o.Civil, _ = e.Stream.Occurrence()
		c.occurrences[e.Stream] = o
		c.occurrenceOrder = append(c.occurrenceOrder, o)
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
	s := c.scheduleOf(events.ScheduleStream(o.Schedule))
	switch ev := e.Event.(type) {
	case events.OccurrenceQueued:
		if !first {
			c.wrong("I-2", e, "an occurrence is queued that was decided about before (J-2)")
			return
		}
		c.checkDue(e, s, o, ev.Instant)
		o.Status = "queued"
		c.queue(e, s, o)
		return
	case events.OccurrenceTriggered:
		c.tx.triggered = append(c.tx.triggered, triggered{e.Position, e.Stream, ev.Run, ev.Job})
		if c.hold {
			c.wrong("I-2", e, "a schedule mints in a restored hold (DUR-5)")
		}
		c.checkDue(e, s, o, ev.Instant)
		c.checkLine(e, s, o)
		o.Status, o.Run, s.LastRun = "triggered", ev.Run, ev.Run
	case events.OccurrenceSkipped:
		o.Status, o.Instant = "skipped", ev.Instant
	case events.OccurrenceRejected:
		c.checkDue(e, s, o, ev.Instant)
		o.Status = "rejected"
	}
	o.ended = what
	s.queued = slices.DeleteFunc(s.queued, func(q *occurrence) bool { return q == o })
}

// checkDue is what must hold of a schedule that mints (S-1, S-7).
func (c *Checker) checkDue(e events.Envelope, s *schedule, o *occurrence, instant events.Micros) {
	o.Instant = instant
	what := e.Event.EventType()
	switch {
	case !s.exists():
		c.wrong("I-2", e, "%s, and the schedule is not defined (S-7)", what)
	case s.Paused:
		c.wrong("I-2", e, "%s, and the schedule is paused (S-7)", what)
	case instant > e.At:
		c.wrong("I-2", e, "%s ahead of its time, %s (S-1)", what, instant)
	}
	for _, m := range slices.Backward(s.missed) { // a long history has many, and what is due lies behind nearly all of them
		if m.ToInstant < instant {
			break
		}
		if covers(m, instant, o.Civil) {
			c.wrong("I-2", e, "%s of a time that was missed: those from %s to %s are decided (S-1)", what, m.FromCivil, m.ToCivil)
		}
	}
}

// covers reports a due time in a range of missed ones. Those of one instant are in the order of their civil times.
func covers(m events.OccurrencesMissed, instant events.Micros, civil string) bool {
	from := instant > m.FromInstant || instant == m.FromInstant && civil >= m.FromCivil
	to := instant < m.ToInstant || instant == m.ToInstant && civil <= m.ToCivil
	return from && to
}

// queue lets an occurrence wait: one, or as many as are caught up (S-5, S-6).
func (c *Checker) queue(e events.Envelope, s *schedule, o *occurrence) {
	s.queued = append(s.queued, o)
	slices.SortStableFunc(s.queued, func(a, b *occurrence) int { return int(a.Instant - b.Instant) })
	if most := max(1, s.definition.Max); len(s.queued) > most {
		c.wrong("I-2", e, "%d occurrences wait, at most %d may (S-6)", len(s.queued), most)
	}
}

// checkLine: an occurrence runs when the run before it has ended, and no older one waits (S-5, S-6).
func (c *Checker) checkLine(e events.Envelope, s *schedule, o *occurrence) {
	if r := c.runs[s.LastRun]; r != nil && !r.Status.Terminal() {
		c.wrong("I-2", e, "it is triggered beside run %s, which is %s (S-6)", s.LastRun, r.Status)
	}
	if len(s.queued) > 0 && s.queued[0].Instant < o.Instant {
		c.wrong("I-2", e, "it is triggered, and an older one waits, %s (S-5)", s.queued[0].Civil)
	}
}

// scheduledPlan is T-1: a run says for which occurrence it was planned, and no other trigger does.
func (c *Checker) scheduledPlan(e events.Envelope, ev events.RunPlanned) {
	if bySchedule := ev.TriggeredBy == events.TriggerSchedule; bySchedule != (ev.Occurrence != "") {
		c.wrong("I-2", e, "it is triggered by %s, and its occurrence is %q (T-1)", ev.TriggeredBy, ev.Occurrence)
	}
}

// scheduledEnd counts straight failures (S-9).
func (c *Checker) scheduledEnd(e events.Envelope, r *run) {
	name, ok := events.ScheduleOf(r.occurrence)
	if !ok {
		return
	}
	s := c.scheduleOf(events.ScheduleStream(name))
	if r.Status != events.RunFailed {
		s.Failures = 0
		return
	}
	s.Failures++
	if after := s.definition.AutoPause; after > 0 && s.Failures >= after && s.exists() {
		c.tx.failing = append(c.tx.failing, failing{e.Position, e.Stream, s})
	}
}

// endOfOccurrences is the second half of I-22: minting and planning are one transaction (S-2). And S-7, S-9: what a schedule
// must have done at its end.
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
	for _, x := range c.tx.emptied {
		if n := len(x.schedule.queued); n > 0 {
			c.report("I-2", x.position, x.stream, "%s, and %d occurrences still wait (S-7)", x.what, n)
		}
	}
	for _, x := range c.tx.failing {
		if !x.schedule.Paused {
			c.report("I-2", x.position, x.stream, "it is failure %d in a row of schedule %s, and the transaction does not pause it (S-9)", x.schedule.Failures, x.schedule.Name)
		}
	}
}

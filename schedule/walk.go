package schedule

import (
	"iter"
	"time"
)

// Due is one due time of a schedule.
type Due struct {
	Instant time.Time // UTC, a whole second
	Change  Change    // what the change of a clock has to do with it; empty: nothing

	civil  civil
	named  int // offset of the key
	offset int // in force at Instant
}

// Key is the named civil time with its UTC offset, e.g. 2026-10-25T02:30+01:00: with the schedule's name it is the key of
// the occurrence. Of a civil time that does not exist it has the offset before the gap (S-3).
func (d Due) Key() string { return d.civil.key(d.named) }

// Change says what becomes of a due time when a clock is changed (S-3).
type Change string

const (
	Skipped  Change = "skipped"  // its civil time does not exist: it is due at the first instant behind the gap
	Repeated Change = "repeated" // its civil time exists twice: a time of day is due at the first, an interval at both
)

// Cursor is a place in the walk: behind what was due at an instant up to the key. With an empty key it is behind all that
// was due then.
type Cursor struct {
	Instant time.Time
	Key     string
}

// before reports that a due time lies behind the cursor.
func (c Cursor) before(d Due) bool {
	if !d.Instant.Equal(c.Instant) {
		return d.Instant.After(c.Instant)
	}
	at, ok := civilOfKey(c.Key)
	return ok && d.civil > at
}

// At is the cursor behind a due time.
func (d Due) At() Cursor { return Cursor{d.Instant, d.Key()} }

// searchYears is how far Next looks: the longest time between two leap years, and some more.
const searchYears = 12

// Next is the first due time behind a cursor; false: there is none within twelve years.
func (s Schedule) Next(after Cursor) (Due, bool) { return s.next(after) }

func (s Schedule) next(after Cursor) (Due, bool) {
	for d := range s.Between(after, after.Instant.AddDate(searchYears, 0, 0)) {
		return d, true
	}
	return Due{}, false
}

// Between walks the due times behind a cursor up to an instant, which is the last that counts, in the order of their
// instants; those of one instant, which only a gap has, in the order of their civil times.
func (s Schedule) Between(after Cursor, until time.Time) iter.Seq[Due] {
	return func(yield func(Due) bool) {
		if s.location == nil {
			return
		}
		from := after.Instant.Truncate(time.Second)
		for d := range s.walk(from, until) {
			if after.before(d) && !yield(d) {
				return
			}
		}
	}
}

// walk begins at an instant that is a whole second, and ends with another.
func (s Schedule) walk(from, until time.Time) iter.Seq[Due] {
	end := until.Truncate(time.Second).Add(time.Second)
	if lastInstant.Before(end) {
		end = lastInstant
	}
	if s.every > 0 {
		return s.walkEvery(from, end)
	}
	return func(yield func(Due) bool) {
		for at := from; at.Before(end); {
			p := s.periodAt(at)
			if p.begin.Equal(at) && !s.gap(p, yield) {
				return
			}
			last := p.end
			if last.IsZero() || last.After(end) {
				last = end
			}
			for c := range s.times(civilOf(at, p.offset), civilOf(last, p.offset)) {
				d, due := s.due(c, p)
				if due && !yield(d) {
					return
				}
			}
			at = last
		}
	}
}

// lastInstant is the end of the years that a key can name.
var lastInstant = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)

// period is a time in which the offset of a zone does not change.
type period struct {
	begin, end time.Time // zero: it has none
	offset     int
}

// periodAt is the period that holds t. ZoneBounds alone does not do: where a zone goes by its rule, behind the years of the
// table, it ends a period at the last day of a leap year, and again at that moment, although nothing changes there.
func (s Schedule) periodAt(t time.Time) period {
	const beyond = 48 * time.Hour // such an end, and less than any period
	t = t.In(s.location)
	begin, end := t.ZoneBounds()
	_, offset := t.Zone()
	for !end.IsZero() && s.offsetAt(end) == offset {
		_, end = end.Add(beyond).ZoneBounds()
	}
	return period{begin, end, offset}
}

func (s Schedule) offsetAt(t time.Time) int {
	_, offset := t.In(s.location).Zone()
	return offset
}

// gap gives the times of day that do not exist because the clock goes forward at the begin of a period.
func (s Schedule) gap(p period, yield func(Due) bool) bool {
	before := s.offsetAt(p.begin.Add(-time.Second))
	if p.offset <= before {
		return true
	}
	for c := range s.times(civilOf(p.begin, before), civilOf(p.begin, p.offset)) {
		if s.isInterval(c) || len(s.instants(c)) > 0 {
			continue
		}
		if !yield(Due{p.begin.UTC(), Skipped, c, before, p.offset}) {
			return false
		}
	}
	return true
}

// due makes a due time of a civil time that exists in a period; false: it is a time of day that was due before.
func (s Schedule) due(c civil, p period) (Due, bool) {
	d := Due{Instant: c.instant(p.offset), civil: c, named: p.offset, offset: p.offset}
	if p.lonely(c) {
		return d, true
	}
	instants := s.instants(c)
	if len(instants) > 1 {
		d.Change = Repeated
	}
	return d, s.isInterval(c) || instants[0].Equal(d.Instant)
}

// farthest is more than the difference of any two offsets that a zone has had.
const farthest = 26 * time.Hour

// lonely reports a civil time so far from both ends of its period that it exists in no other. Nearly all do.
func (p period) lonely(c civil) bool {
	t := c.instant(p.offset)
	return (p.begin.IsZero() || t.Sub(p.begin) > farthest) && (p.end.IsZero() || p.end.Sub(t) > farthest)
}

// instants are those at which a civil time exists, in their order.
func (s Schedule) instants(c civil) (out []time.Time) {
	last := c.instant(0).Add(farthest)
	for p := s.periodAt(c.instant(0).Add(-farthest)); ; p = s.periodAt(p.end) {
		t := c.instant(p.offset)
		if (p.begin.IsZero() || !t.Before(p.begin)) && (p.end.IsZero() || t.Before(p.end)) {
			out = append(out, t)
		}
		if p.end.IsZero() || p.end.After(last) {
			return out
		}
	}
}

// isInterval reports an hour that the expression names as a part of an interval (S-3).
func (s Schedule) isInterval(c civil) bool { return s.interval>>c.hour()&1 == 1 }

// walkEvery follows elapsed time from the anchor, and before it: of a definition of a clock that ran ahead the times count
// that lie in the present (S-4).
func (s Schedule) walkEvery(from, end time.Time) iter.Seq[Due] {
	return func(yield func(Due) bool) {
		steps := int64(from.Sub(s.anchor)/s.every) - 1 // a quotient below zero is rounded up
		for at := s.anchor.Add(time.Duration(steps) * s.every); at.Before(end); at = at.Add(s.every) {
			if at.Before(from) {
				continue
			}
			p := s.periodAt(at)
			c := civilOf(at, p.offset)
			d := Due{Instant: at, civil: c, named: p.offset, offset: p.offset}
			if !p.lonely(c) && len(s.instants(c)) > 1 {
				d.Change = Repeated
			}
			if !yield(d) {
				return
			}
		}
	}
}

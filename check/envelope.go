package check

import (
	"slices"

	"github.com/towline-dev/towline/events"
)

// gap is a range of positions that the log does not hold. A SegmentPurged that comes later may name them (L-1).
type gap struct {
	from, to events.Position
	unnamed  int
}

// envelope checks the place of e in the log (I-1), and ends the transaction before it.
func (c *Checker) envelope(e events.Envelope) {
	torn := e.Position > c.position+1
	switch {
	case torn:
		c.gaps = append(c.gaps, gap{c.position + 1, e.Position - 1, int(e.Position - c.position - 1)})
	case e.Position <= c.position:
		c.wrong("I-1", e, "position %d comes behind position %d", e.Position, c.position)
	}
	switch {
	case c.tx.open && e.Tx == c.tx.position && e.Tx != e.Position:
		if e.At != c.tx.at && e.At >= c.now && !applications(e) {
			c.wrong("I-1", e, "its time is %s, that of its transaction %s: a transaction has one now (CLK-1)", e.At, c.tx.at)
		}
	case e.Tx == e.Position, torn && e.Tx > c.position && e.Tx < e.Position:
		c.beginTx(e)
	default:
		c.wrong("I-1", e, "it names transaction %d, which is neither its own position nor the transaction before it (%d)", e.Tx, c.tx.position)
		c.beginTx(e)
	}
	c.tx.torn = c.tx.torn || torn && e.Tx != e.Position
	c.tx.note(e)
	if e.At < c.now {
		c.wrong("I-1", e, "its time %s lies before %s, the time of an event before it", e.At, c.now)
	}
	c.position = max(c.position, e.Position)
}

// applications write by SQL of their own, which asks for the time anew with each row.
func applications(e events.Envelope) bool {
	_, ok := e.Event.(events.MessageSubmitted)
	return ok
}

// version checks that e is the next of its stream.
func (c *Checker) version(e events.Envelope, last *events.Version) {
	if e.Version != *last+1 {
		c.wrong("I-1", e, "version %d of the stream comes behind version %d", e.Version, *last)
	}
	*last = e.Version
}

func (c *Checker) namedVersion(e events.Envelope) {
	v := c.versions[e.Stream]
	c.version(e, &v)
	c.versions[e.Stream] = v
}

// opened is the version from which a stream goes on that is opened now; strays may be in it already.
func (c *Checker) opened(id events.StreamID) events.Version {
	if !c.strays[id] {
		return 0
	}
	return c.versions[id]
}

// misplaced keeps the versions of a stream that holds an event of another family.
func (c *Checker) misplaced(e events.Envelope) {
	if v := c.versionAt(e.Stream); v != nil {
		c.version(e, v)
		return
	}
	if unit, ok := e.Stream.Unit(); ok {
		if old, ended := c.ended[unit]; ended {
			c.version(e, &old.version)
			c.ended[unit] = old
			return
		}
	}
	c.strays[e.Stream] = true
	c.namedVersion(e)
}

// versionAt finds the version of what a stream holds, if it was opened and is still remembered by itself.
func (c *Checker) versionAt(id events.StreamID) *events.Version {
	if run, ok := id.Run(); ok && c.runs[run] != nil {
		return &c.runs[run].Version
	}
	if unit, ok := id.Unit(); ok && c.units[unit] != nil {
		return &c.units[unit].Version
	}
	if job, ok := id.Job(); ok && c.jobs[job] != nil {
		return &c.jobs[job].Version
	}
	if node, ok := id.Node(); ok && c.nodes[node] != nil {
		return &c.nodes[node].version
	}
	if owner, kind, ok := id.Register(); ok {
		if r := *c.slotOf(owner, kind); r != nil {
			return &r.Version
		}
	}
	if id.Family() == events.FamilyOccurrence && c.occurrences[id] != nil {
		return &c.occurrences[id].version
	}
	if id.Family() == events.FamilySchedule && c.schedules[id.String()] != nil {
		return &c.schedules[id.String()].version
	}
	return nil
}

// purged takes positions off the gaps that they lie in.
func (c *Checker) purged(e events.Envelope, ps []events.Position) {
	ps = slices.Clone(ps)
	slices.Sort(ps)
	for _, p := range slices.Compact(ps) {
		i, _ := slices.BinarySearchFunc(c.gaps, p, func(g gap, p events.Position) int { return int(g.to - p) })
		if i == len(c.gaps) || p < c.gaps[i].from {
			c.wrong("I-1", e, "it names position %d as purged, which the log still holds", p)
			continue
		}
		c.gaps[i].unnamed--
	}
}

// endOfGaps reports what is missing and was not purged. Only the end of the log can say it.
func (c *Checker) endOfGaps() {
	for _, g := range c.gaps {
		if g.unnamed > 0 {
			c.report("I-1", g.from, events.StreamID{}, "positions %d to %d are missing, and no SegmentPurged names %d of them", g.from, g.to, g.unnamed)
		}
	}
	c.gaps = nil
}

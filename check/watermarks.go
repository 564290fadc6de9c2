package check

import "github.com/towline-dev/towline/events"

// Watermark is how far a source and dataset have been read, and by which unit.
type Watermark struct {
	Source  string
	Dataset string
	At      events.Micros
	Unit    events.UnitID
}

type markKey struct{ source, dataset string }

// checkWatermarks is I-18, with WM-2 to WM-5: what a success must write, and what it must not.
func (c *Checker) checkWatermarks(e events.Envelope, u *unit, ms []events.Watermark) {
	end := events.MicrosOf(u.Plan.Window.To)
	backfill := u.Plan.Mode == events.Backfill || u.run.Mode == events.Backfill
	due := min(end, e.At)

	// A dataset without watermark behaviour writes none, and each that has it writes the one that rises.
	owed := map[string]bool{}
	if u.Plan.Watermark && !backfill {
		for _, dataset := range u.Plan.Datasets() {
			if old := c.marks[markKey{u.Plan.Source, dataset}]; old == nil || old.At < due {
				owed[dataset] = true
			}
		}
	}
	for _, m := range ms {
		key := markKey{m.Source, m.Dataset}
		old := c.marks[key]
		switch {
		case backfill:
			c.wrong("I-18", e, "a backfill moves the watermark of %s/%s (WM-4)", m.Source, m.Dataset)
		case m.At > end || m.At > e.At:
			c.wrong("I-18", e, "the watermark of %s/%s moves to %s, beyond the window end %s or now", m.Source, m.Dataset, m.At, end)
		case old != nil && m.At <= old.At:
			c.wrong("I-18", e, "the watermark of %s/%s moves to %s, and it stands at %s by unit %s", m.Source, m.Dataset, m.At, old.At, old.Unit)
		case m.Source != u.Plan.Source || !owed[m.Dataset]:
			c.wrong("I-2", e, "the watermark of %s/%s moves, and the unit has none of it to move (WM-4, WM-5)", m.Source, m.Dataset)
		case m.At != due:
			c.wrong("I-2", e, "the watermark of %s/%s moves to %s instead of %s (WM-2)", m.Source, m.Dataset, m.At, due)
		}
		delete(owed, m.Dataset)
		c.marks[key] = &Watermark{Source: m.Source, Dataset: m.Dataset, At: m.At, Unit: u.ID}
	}
	for _, dataset := range u.Plan.Datasets() {
		if owed[dataset] {
			c.wrong("I-2", e, "the watermark of %s/%s does not move to %s (U-7, WM-1)", u.Plan.Source, dataset, due)
		}
	}
}

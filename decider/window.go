package decider

import (
	"time"

	"github.com/towline-dev/towline/events"
)

// WindowKnobs are the lengths by which windows are cut (spec 20, plan.…).
type WindowKnobs struct {
	Depth         time.Duration // how far back without a watermark
	Chunk         time.Duration // of a backfill
	ChunkWorkItem time.Duration // of a backfill of a family
	HeavyWindow   time.Duration // longest incremental window of a heavy dataset
	Overlap       time.Duration // read again before the watermark
}

// futureWatermarkStart is where a window begins whose watermark lies in the future (W-6): a clock was wrong.
const futureWatermarkStart = time.Hour

// incremental is W-1, W-2 and W-6. An open start is a zero From.
func incremental(d Dataset, marks []time.Time, now, before time.Time, k WindowKnobs) []events.Window {
	end := endOf(now, before)
	if d.Snapshot {
		return nonEmpty(events.NewWindow(time.Time{}, end))
	}
	start := time.Time{}
	for i, mark := range marks {
		s := now.Add(-d.depth(k))
		if !mark.IsZero() {
			s = mark.Add(-k.Overlap)
		}
		if mark.After(now) {
			s = now.Add(-futureWatermarkStart)
		}
		if i == 0 || s.Before(start) {
			start = s // the widest of the members' windows (P-3)
		}
	}
	if limit := start.Add(k.HeavyWindow); d.Cost == events.CostHeavy && end.After(limit) {
		end = limit
	}
	return nonEmpty(events.NewWindow(start, end))
}

const day = 24 * time.Hour

// backfill is W-3: contiguous pieces whose union is exactly the request, cut at midnight UTC, so none but the first and
// the last is shorter than a day. It stops behind limit pieces, which is too many already. A snapshot is one piece (W-4).
func backfill(d Dataset, since, before time.Time, k WindowKnobs, limit int) []events.Window {
	if d.Snapshot {
		return nonEmpty(events.NewWindow(time.Time{}, before))
	}
	whole, chunk := events.NewWindow(since, before), chunkOf(d, k)
	var out []events.Window
	for from := whole.From; from.Before(whole.To) && len(out) <= limit; {
		to := from.Add(chunk).Truncate(day)
		if to.After(whole.To) {
			to = whole.To
		}
		out = append(out, events.NewWindow(from, to))
		from = to
	}
	return out
}

// chunkOf is the length of a piece of a backfill, at least a day.
func chunkOf(d Dataset, k WindowKnobs) time.Duration {
	if len(d.Members) > 0 {
		return max(k.ChunkWorkItem, day)
	}
	return max(k.Chunk, day)
}

// fullResync is W-4.
func fullResync(d Dataset, now, before time.Time, k WindowKnobs) []events.Window {
	if d.Snapshot {
		return nonEmpty(events.NewWindow(time.Time{}, endOf(now, before)))
	}
	return nonEmpty(events.NewWindow(now.Add(-d.depth(k)), endOf(now, before)))
}

func endOf(now, before time.Time) time.Time {
	if !before.IsZero() && before.Before(now) {
		return before
	}
	return now
}

// nonEmpty leaves out a window that is empty or inverted (W-5).
func nonEmpty(w events.Window) []events.Window {
	if w.Empty() {
		return nil
	}
	return []events.Window{w}
}

// PeriodStart is the start of the whole UTC period that holds t (W-8).
func PeriodStart(c events.Calendar, t time.Time) time.Time {
	t = t.UTC()
	y, m, d := t.Date()
	switch c {
	case events.Year:
		return time.Date(y, 1, 1, 0, 0, 0, 0, time.UTC)
	case events.Month:
		return time.Date(y, m, 1, 0, 0, 0, 0, time.UTC)
	case events.Week:
		return time.Date(y, m, d-(int(t.Weekday())+6)%7, 0, 0, 0, 0, time.UTC)
	}
	return time.Date(y, m, d, 0, 0, 0, 0, time.UTC)
}

// PeriodAt is the whole UTC period that holds t.
func PeriodAt(c events.Calendar, t time.Time) events.Window {
	from := PeriodStart(c, t)
	switch c {
	case events.Year:
		return events.NewWindow(from, from.AddDate(1, 0, 0))
	case events.Month:
		return events.NewWindow(from, from.AddDate(0, 1, 0))
	case events.Week:
		return events.NewWindow(from, from.AddDate(0, 0, 7))
	}
	return events.NewWindow(from, from.AddDate(0, 0, 1))
}

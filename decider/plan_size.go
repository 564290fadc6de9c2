package decider

import (
	"fmt"
	"time"

	"github.com/towline-dev/towline/events"
)

// PlanTooLargeError says that a request would make more units than a run may hold (P-4). Nothing was written.
type PlanTooLargeError struct {
	Units int // at least so many; counting stops when a plan is surely too large
	Limit int
}

func (e *PlanTooLargeError) Error() string {
	return fmt.Sprintf("plan too large: at least %d units, a run may hold %d: choose fewer sources or datasets, or split the time range", e.Units, e.Limit)
}

// hopeless is a number of units at which counting stops. One dataset adds less than four million to it, one day of each
// year to 9999, so a count fits into 32 bits.
const hopeless = 1_000_000_000

// atLeast counts the units that a plan has whatever was read before: by arithmetic, without building one, for a decision
// holds up every writer. Not counted is what depends on watermarks and on what has succeeded, which is an incremental
// plan, and periods that a provider lists.
func (in PlanInput) atLeast() int {
	count := 0
	for _, d := range in.Datasets {
		n := in.surely(d)
		for _, source := range in.Sources {
			if _, listed := in.Listed(source, d.Name); listed && d.Calendar != "" {
				continue
			}
			if count += n; count > hopeless {
				return count
			}
		}
	}
	return count
}

// surely counts the units of one source and dataset that is not listed.
func (in PlanInput) surely(d Dataset) int {
	switch {
	case in.Mode != events.Backfill && in.Mode != events.FullResync:
		return 0
	case d.Calendar != "":
		from, last := in.touched(d)
		return countPeriods(d.Calendar, from, last)
	case in.Mode == events.Backfill:
		return countPieces(d, in.Since, in.Before, in.Knobs)
	}
	return len(fullResync(d, in.Now, in.Before, in.Knobs))
}

// countPeriods counts the whole UTC periods from the one that holds from to the one that holds last.
func countPeriods(c events.Calendar, from, last time.Time) int {
	a, b := PeriodStart(c, from), PeriodStart(c, last)
	if b.Before(a) {
		return 0
	}
	const secondsOfADay = 24 * 60 * 60
	days := int((b.Unix() - a.Unix()) / secondsOfADay) // not Sub: a Duration ends after 292 years
	years, months := b.Year()-a.Year(), int(b.Month()-a.Month())
	switch c {
	case events.Year:
		return years + 1
	case events.Month:
		return 12*years + months + 1
	case events.Week:
		return days/7 + 1
	}
	return days + 1
}

// countPieces counts what backfill makes: one piece up to the first cut, and whole steps from there.
func countPieces(d Dataset, since, before time.Time, k WindowKnobs) int {
	if d.Snapshot {
		return len(backfill(d, since, before, k, 1))
	}
	whole, chunk := events.NewWindow(since, before), chunkOf(d, k)
	if !whole.From.Before(whole.To) {
		return 0
	}
	cut := whole.From.Add(chunk).Truncate(day)
	if !cut.Before(whole.To) {
		return 1
	}
	step := chunk.Truncate(day).Microseconds()
	return 1 + int((whole.To.UnixMicro()-cut.UnixMicro()+step-1)/step)
}

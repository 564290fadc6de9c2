package decider

import (
	"cmp"
	"slices"
	"time"

	"github.com/towline-dev/towline/events"
)

// Dataset is what planning must know of a dataset (P-7).
type Dataset struct {
	Name     string
	Members  []string // of a family; nil: the dataset itself
	Tier     events.Tier
	Cost     events.Cost
	Calendar events.Calendar // whole periods instead of W-1 to W-4; empty: none
	Snapshot bool            // no watermark: every unit reads all there is (W-1)
	Surfaces []string
	Depth    time.Duration // zero: plan.depth (W-7)
}

func (d Dataset) depth(k WindowKnobs) time.Duration { return cmp.Or(d.Depth, k.Depth) }

func (d Dataset) members() []string {
	if len(d.Members) > 0 {
		return d.Members
	}
	return []string{d.Name}
}

// Period is a calendar period that a provider lists, with a fingerprint of what it holds (P-12). An empty period has
// an empty fingerprint, whether it is listed or not.
type Period struct {
	Window      events.Window
	Fingerprint string
}

// PlanInput is everything that the decomposition of a request depends on: the same input gives the same units in the
// same order (P-2).
type PlanInput struct {
	Now      time.Time
	Mode     events.Mode
	Since    time.Time
	Before   time.Time
	Provider string
	Sources  []string // selected and enabled
	Datasets []Dataset
	Knobs    WindowKnobs
	MaxUnits int

	// Watermark answers with the zero time where there is none.
	Watermark func(source, dataset string) time.Time
	// Listed are the periods that the provider lists; false: it does not list this dataset (W-8).
	Listed func(source, dataset string) ([]Period, bool)
	// Covered are the periods that have succeeded, with the fingerprint of the last success.
	Covered func(source, dataset string) []Period
}

// Decompose turns a request into units: source × dataset × window, in the order of P-2. A plan that is too large is
// refused as soon as that shows: by arithmetic before anything is read, or else at the first window too many.
func Decompose(in PlanInput) ([]events.UnitPlanned, error) {
	if n := in.atLeast(); n > in.MaxUnits {
		return nil, &PlanTooLargeError{Units: n, Limit: in.MaxUnits}
	}
	sources := slices.Sorted(slices.Values(in.Sources))
	datasets := slices.SortedFunc(slices.Values(in.Datasets), func(a, b Dataset) int { return cmp.Compare(a.Name, b.Name) })
	var units []events.UnitPlanned
	for _, source := range sources {
		for _, d := range datasets {
			periods := in.periods(source, d)
			if n := len(units) + len(periods); n > in.MaxUnits {
				return nil, &PlanTooLargeError{Units: n, Limit: in.MaxUnits}
			}
			for _, p := range periods {
				units = append(units, events.UnitPlanned{
					Ordinal: len(units) + 1, Source: source, Provider: in.Provider, Dataset: d.Name, Members: d.Members,
					Tier: d.Tier, Cost: d.Cost, Mode: in.Mode, Window: p.Window, Surfaces: d.Surfaces,
					Fingerprint: p.Fingerprint, Calendar: d.Calendar,
					Watermark: in.Mode != events.Backfill && !d.Snapshot && d.Calendar == "",
				})
			}
		}
	}
	return units, nil
}

func (in PlanInput) periods(source string, d Dataset) []Period {
	if d.Calendar != "" {
		return in.calendar(source, d)
	}
	var windows []events.Window
	switch in.Mode {
	case events.Backfill:
		windows = backfill(d, in.Since, in.Before, in.Knobs, in.MaxUnits)
	case events.FullResync:
		windows = fullResync(d, in.Now, in.Before, in.Knobs)
	default:
		var marks []time.Time
		for _, m := range d.members() {
			marks = append(marks, in.Watermark(source, m))
		}
		windows = incremental(d, marks, in.Now, in.Before, in.Knobs)
	}
	periods := make([]Period, len(windows))
	for i, w := range windows {
		periods[i] = Period{Window: w}
	}
	return periods
}

// calendar is W-8: whole UTC periods instead of windows that move with the clock.
func (in PlanInput) calendar(source string, d Dataset) []Period {
	covered := in.Covered(source, d.Name)
	last := make(map[events.Window]string, len(covered))
	for _, p := range covered {
		last[p.Window] = p.Fingerprint
	}
	candidates, isListed := in.Listed(source, d.Name)
	if isListed {
		candidates = distinct(slices.Concat(candidates, remembered(d.Calendar, covered)))
	} else {
		candidates = in.enumerated(d)
	}

	open := PeriodAt(d.Calendar, in.Now)
	var out []Period
	for _, p := range candidates {
		fingerprint, succeeded := last[p.Window]
		wanted := true
		switch in.Mode {
		case events.Backfill:
			wanted = p.Window.From.Before(in.Before) && p.Window.To.After(in.Since)
		case events.Incremental:
			wanted = !succeeded || p.Window == open || isListed && fingerprint != p.Fingerprint
		}
		if wanted {
			out = append(out, p)
		}
	}
	return out
}

// distinct are the periods by start, each once, as it was listed first: a run has one unit per window, whatever a
// provider lists twice or in a zone of its own.
func distinct(periods []Period) []Period {
	out := make([]Period, len(periods))
	for i, p := range periods {
		out[i] = Period{Window: events.NewWindow(p.Window.From, p.Window.To), Fingerprint: p.Fingerprint}
	}
	slices.SortStableFunc(out, func(a, b Period) int {
		return cmp.Or(a.Window.From.Compare(b.Window.From), a.Window.To.Compare(b.Window.To))
	})
	return slices.CompactFunc(out, func(a, b Period) bool { return a.Window == b.Window })
}

// remembered are the periods that held data when they last succeeded. One that is listed no more has vanished: history
// was rewritten, and what was stored of it must go. A period of another calendar has not: the dataset was declared anew.
func remembered(c events.Calendar, covered []Period) []Period {
	var out []Period
	for _, p := range covered {
		if p.Fingerprint != "" && p.Window == PeriodAt(c, p.Window.From) {
			out = append(out, Period{Window: p.Window})
		}
	}
	return out
}

// touched is the first and the last instant that a request asks for of a dataset with a calendar. An end that was asked
// for is exclusive.
func (in PlanInput) touched(d Dataset) (from, last time.Time) {
	from, last = in.Now.Add(-d.depth(in.Knobs)), in.Now
	switch {
	case in.Mode == events.Backfill:
		from, last = in.Since, in.Before.Add(-time.Microsecond)
	case endOf(in.Now, in.Before).Before(in.Now):
		last = in.Before.Add(-time.Microsecond)
	}
	return from, last
}

// enumerated are the periods of a dataset that no provider lists: those that the request touches, the last being the
// open one.
func (in PlanInput) enumerated(d Dataset) []Period {
	from, last := in.touched(d)
	var out []Period
	for w := PeriodAt(d.Calendar, from); !w.From.After(last) && len(out) <= in.MaxUnits; w = PeriodAt(d.Calendar, w.To) {
		out = append(out, Period{Window: w})
	}
	return out
}

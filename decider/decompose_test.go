package decider

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/events"
)

// input is an incremental request for source a, without watermarks, listings or history.
func input(datasets ...Dataset) PlanInput {
	return PlanInput{
		Now: now, Mode: events.Incremental, Provider: "git", Sources: []string{"a"}, Datasets: datasets, Knobs: knobs, MaxUnits: 1000,
		Watermark: func(string, string) time.Time { return none },
		Listed:    func(string, string) ([]Period, bool) { return nil, false },
		Covered:   func(string, string) []Period { return nil },
	}
}

func decompose(t testing.TB, in PlanInput) []events.UnitPlanned {
	t.Helper()
	units, err := Decompose(in)
	require.NoError(t, err)
	return units
}

// P-2, P-3, SC-071, SC-090: source name, dataset key, window start; the same input gives the same units.
func TestUnitsComeInOneOrder(t *testing.T) {
	in := input(plain, heavy, snap)
	in.Sources = []string{"b", "a"}
	in.Mode, in.Since, in.Before = events.Backfill, date(2026, 1, 1), date(2026, 1, 10)
	units := decompose(t, in)
	var order []string
	for i, u := range units {
		require.Equal(t, i+1, u.Ordinal)
		order = append(order, u.Source+"/"+u.Dataset+"/"+u.Window.Name())
	}
	require.Equal(t, []string{
		"a/blobs/2026-01-01..2026-01-08", "a/blobs/2026-01-08..2026-01-10", "a/commits/2026-01-01..2026-01-08",
		"a/commits/2026-01-08..2026-01-10", "a/refs/-",
	}, order[:5])
	require.Len(t, order, 10)
	require.Equal(t, units, decompose(t, in))
	require.Equal(t, []string{"b", "a"}, in.Sources, "the input stays as it is")
}

// P-3, P-7, SC-091: a unit carries what the dataset declares.
func TestAUnitCarriesItsDataset(t *testing.T) {
	family := Dataset{
		Name: "work-items", Members: []string{"items", "labels"}, Tier: events.TierReference, Cost: events.CostHeavy, Surfaces: []string{"s"},
	}
	require.Equal(t, []events.UnitPlanned{{
		Ordinal: 1, Source: "a", Provider: "git", Dataset: "work-items", Members: []string{"items", "labels"}, Tier: events.TierReference,
		Cost: events.CostHeavy, Mode: events.Incremental, Window: events.NewWindow(now.Add(-30*day), now.Add(-23*day)),
		Surfaces: []string{"s"}, Watermark: true,
	}}, decompose(t, input(family)))
}

// P-3, WM-5: a family asks for the watermark of each member.
func TestAFamilyAsksForEachMember(t *testing.T) {
	in := input(Dataset{Name: "work-items", Members: []string{"items", "labels"}})
	in.Watermark = func(source, dataset string) time.Time {
		return map[string]time.Time{"a/items": now.Add(-day), "a/labels": now.Add(-2 * day)}[source+"/"+dataset]
	}
	require.Equal(t, now.Add(-2*day), decompose(t, in)[0].Window.From)
	in.Datasets[0].Members = []string{"items"}
	require.Equal(t, now.Add(-day), decompose(t, in)[0].Window.From)
}

// WM-4, W-8: who moves a watermark: incremental and full_resync, of a dataset that has one.
func TestWhoMovesAWatermark(t *testing.T) {
	calendar := plain
	calendar.Calendar = events.Month
	for name, tt := range map[string]struct {
		mode    events.Mode
		dataset Dataset
		want    bool
	}{
		"incremental":           {events.Incremental, plain, true},
		"full_resync":           {events.FullResync, plain, true},
		"backfill":              {events.Backfill, plain, false},
		"snapshot":              {events.Incremental, snap, false},
		"snapshot, full_resync": {events.FullResync, snap, false},
		"calendar":              {events.Incremental, calendar, false},
		"calendar, full_resync": {events.FullResync, calendar, false},
	} {
		t.Run(name, func(t *testing.T) {
			in := input(tt.dataset)
			in.Mode, in.Since, in.Before = tt.mode, now.Add(-day), now
			units := decompose(t, in)
			require.NotEmpty(t, units)
			for _, u := range units {
				require.Equal(t, tt.want, u.Watermark)
				require.Equal(t, tt.mode, u.Mode)
				require.Equal(t, tt.dataset.Calendar, u.Calendar)
			}
		})
	}
}

// P-1, P-5, W-5, SC-079, SC-081, SC-107: nothing to read is a plan without units, not an error.
func TestNothingToReadIsAPlanWithoutUnits(t *testing.T) {
	noSource := input(plain)
	noSource.Sources = []string{}
	current := input(plain)
	current.Watermark = func(string, string) time.Time { return now }
	for _, in := range []PlanInput{input(), noSource, current} {
		require.Empty(t, decompose(t, in))
	}
}

// P-4, SC-077, SC-078: exactly the limit is accepted; one more is refused with both numbers.
func TestAThousandUnitsAreAcceptedAndOneMoreIsNot(t *testing.T) {
	in := input(plain)
	in.Mode, in.Since, in.Before = events.Backfill, date(2000, 1, 1), date(2000, 1, 1).Add(1000*7*day)
	require.Len(t, decompose(t, in), 1000)

	in.Before = in.Before.Add(time.Microsecond)
	units, err := Decompose(in)
	require.Empty(t, units)
	var tooLarge *PlanTooLargeError
	require.ErrorAs(t, err, &tooLarge)
	require.Equal(t, PlanTooLargeError{Units: 1001, Limit: 1000}, *tooLarge)
	require.ErrorContains(t, err, "at least 1001 units, a run may hold 1000")
}

// period is a listed month.
func period(y int, m time.Month, fingerprint string) Period {
	return Period{Window: PeriodAt(events.Month, date(y, m, 1)), Fingerprint: fingerprint}
}

// monthly is a request for a dataset of months, listed and covered as given. Now lies in 2026-03.
func monthly(mode events.Mode, listed, covered []Period) PlanInput {
	in := input(Dataset{Name: "commits", Calendar: events.Month, Tier: events.TierWorkItem})
	in.Mode = mode
	in.Listed = func(string, string) ([]Period, bool) { return listed, listed != nil }
	in.Covered = func(string, string) []Period { return covered }
	return in
}

// named are the windows of a plan, with the fingerprints that it expects.
func named(units []events.UnitPlanned) map[string]string {
	out := map[string]string{}
	for _, u := range units {
		out[u.Window.Name()] = u.Fingerprint
	}
	return out
}

// W-8, P-12: an incremental plan of listed months holds what is new, what changed, what vanished, and the open month.
func TestAnIncrementalPlanOfListedMonths(t *testing.T) {
	listed := []Period{
		period(2026, 3, "open"), period(2026, 2, "new"), period(2026, 1, "same"), period(2025, 12, "after"), period(1970, 1, "clock"),
		period(2038, 1, "clock"),
	}
	covered := []Period{
		period(2026, 1, "same"), period(2025, 12, "before"), period(2025, 11, "vanished"), period(2025, 10, ""),
	}
	require.Equal(t, map[string]string{
		"2026-03": "open", "2026-02": "new", "2025-12": "after", "2025-11": "", "1970-01": "clock", "2038-01": "clock",
	}, named(decompose(t, monthly(events.Incremental, listed, covered))))
}

// W-8: nothing new is nothing to do, but for the open month.
func TestOnlyTheOpenMonthIsReadAgain(t *testing.T) {
	all := []Period{period(2026, 3, "x"), period(2026, 2, "y"), period(1970, 1, "z")}
	require.Equal(t, map[string]string{"2026-03": "x"}, named(decompose(t, monthly(events.Incremental, all, all))))
	require.Empty(t, decompose(t, monthly(events.Incremental, all[1:], all[1:])), "an open month that holds nothing yet is not listed")
}

// W-8: a month that vanished is read once; its success without a fingerprint ends the matter.
func TestAVanishedMonthIsReadOnce(t *testing.T) {
	covered := []Period{period(2025, 11, "gone")}
	require.Equal(t, map[string]string{"2025-11": ""}, named(decompose(t, monthly(events.Incremental, []Period{}, covered))))
	covered[0].Fingerprint = ""
	require.Empty(t, decompose(t, monthly(events.Incremental, []Period{}, covered)))
}

// W-8: when a dataset changes from months to weeks, the months that were read before are no vanished weeks.
func TestPeriodsOfAnotherCalendarDoNotVanish(t *testing.T) {
	in := monthly(events.Incremental, []Period{}, []Period{period(2025, 11, "month")})
	in.Datasets[0].Calendar = events.Week
	require.Empty(t, decompose(t, in))
}

// W-8: a backfill reads the months that its range touches, whatever they were; a full resync reads all there are.
func TestBackfillAndFullResyncOfListedMonths(t *testing.T) {
	listed := []Period{period(2026, 1, "a"), period(2026, 2, "b"), period(2026, 3, "c"), period(1970, 1, "d")}
	covered := []Period{period(2026, 1, "a"), period(2025, 12, "vanished"), period(2025, 11, "")} // nothing is left of the last
	for name, tt := range map[string]struct {
		since, before time.Time
		want          map[string]string
	}{
		"exactly one month":           {date(2026, 2, 1), date(2026, 3, 1), map[string]string{"2026-02": "b"}},
		"one microsecond more":        {date(2026, 2, 1), date(2026, 3, 1).Add(time.Microsecond), map[string]string{"2026-02": "b", "2026-03": "c"}},
		"one microsecond earlier":     {date(2026, 2, 1).Add(-time.Microsecond), date(2026, 3, 1), map[string]string{"2026-01": "a", "2026-02": "b"}},
		"within a month":              {date(2026, 2, 3), date(2026, 2, 4), map[string]string{"2026-02": "b"}},
		"a vanished one":              {date(2025, 12, 5), date(2025, 12, 6), map[string]string{"2025-12": ""}},
		"from 1970 on":                {date(1970, 1, 1), date(1970, 1, 2), map[string]string{"1970-01": "d"}},
		"a range that holds no month": {date(2024, 1, 1), date(2025, 1, 1), map[string]string{}},
	} {
		t.Run(name, func(t *testing.T) {
			in := monthly(events.Backfill, listed, covered)
			in.Since, in.Before = tt.since, tt.before
			require.Equal(t, tt.want, named(decompose(t, in)))
		})
	}
	require.Equal(t, map[string]string{"2026-01": "a", "2026-02": "b", "2026-03": "c", "1970-01": "d", "2025-12": ""},
		named(decompose(t, monthly(events.FullResync, listed, covered))))
}

// W-8: without a list, the periods from now − depth to now, the last being the open one.
func TestPeriodsWithoutAList(t *testing.T) {
	in := monthly(events.Incremental, nil, []Period{period(2026, 2, "")})
	in.Knobs.Depth = 60 * day // 2026-01-09
	require.Equal(t, map[string]string{"2026-01": "", "2026-03": ""}, named(decompose(t, in)))
	in.Covered = func(string, string) []Period { return []Period{period(2026, 2, "of its result")} }
	require.Equal(t, map[string]string{"2026-01": "", "2026-03": ""}, named(decompose(t, in)), "nothing is listed to differ from")
	in.Mode = events.FullResync
	require.Equal(t, map[string]string{"2026-01": "", "2026-02": "", "2026-03": ""}, named(decompose(t, in)))

	in.Now = date(2026, 3, 1) // exactly the edge: the month that begins is the open one
	require.Equal(t, map[string]string{"2025-12": "", "2026-01": "", "2026-02": "", "2026-03": ""}, named(decompose(t, in)))

	in.Mode, in.Since, in.Before = events.Backfill, date(2025, 10, 31), date(2025, 12, 1)
	require.Equal(t, map[string]string{"2025-10": "", "2025-11": ""}, named(decompose(t, in)))
	in.Since, in.Before = date(2026, 3, 5), date(2026, 4, 1).Add(time.Microsecond) // W-5: a backfill keeps the end that was asked for
	require.Equal(t, map[string]string{"2026-03": "", "2026-04": ""}, named(decompose(t, in)))
}

// W-8: before is exclusive, also where it falls on the edge of a period.
func TestAPeriodThatBeginsAtBeforeIsNotTouched(t *testing.T) {
	for _, mode := range []events.Mode{events.Incremental, events.FullResync} {
		in := monthly(mode, nil, nil)
		in.Knobs.Depth, in.Before = 60*day, date(2026, 3, 1)
		require.Equal(t, map[string]string{"2026-01": "", "2026-02": ""}, named(decompose(t, in)), mode)
		in.Before = date(2026, 3, 1).Add(time.Microsecond)
		require.Contains(t, named(decompose(t, in)), "2026-03", mode)
	}
}

// P-3, glossary of alias: a run has one unit per source, dataset and window, whatever a provider lists, twice or in its own zone.
func TestAListedPeriodIsOneUnit(t *testing.T) {
	zone := time.FixedZone("CET", 3600)
	feb := period(2026, 2, "a")
	same := Period{Window: events.Window{From: feb.Window.From.In(zone), To: feb.Window.To.In(zone)}, Fingerprint: "a"}
	units := decompose(t, monthly(events.Incremental, []Period{feb, same, feb}, nil))
	require.Equal(t, map[string]string{"2026-02": "a"}, named(units))
	require.Len(t, units, 1)
	require.Empty(t, decompose(t, monthly(events.Incremental, []Period{same}, []Period{feb})), "it has succeeded already")
}

// P-2: units of calendar periods come by window start, whatever order the provider lists.
func TestListedPeriodsAreSorted(t *testing.T) {
	units := decompose(t, monthly(events.FullResync, []Period{period(2026, 2, ""), period(1970, 1, ""), period(2025, 7, "")}, nil))
	var order []string
	for _, u := range units {
		order = append(order, u.Window.Name())
	}
	require.Equal(t, []string{"1970-01", "2025-07", "2026-02"}, order)
}

// P-4: a listing with more periods than a run may hold is refused like any other plan.
func TestAListingThatIsTooLongIsRefused(t *testing.T) {
	var listed []Period
	for i := range 1001 {
		listed = append(listed, Period{Window: PeriodAt(events.Month, date(1900, time.Month(1+i), 1)), Fingerprint: "x"})
	}
	_, err := Decompose(monthly(events.Incremental, listed, nil))
	require.True(t, errors.As(err, new(*PlanTooLargeError)))
	require.Len(t, decompose(t, monthly(events.Incremental, listed[1:], nil)), 1000)
}

package decider

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/events"
)

var (
	now   = time.Date(2026, 3, 10, 10, 30, 0, 0, time.UTC) // a Tuesday
	knobs = WindowKnobs{Depth: 30 * day, Chunk: 7 * day, ChunkWorkItem: 14 * day, HeavyWindow: 7 * day}
	plain = Dataset{Name: "commits", Tier: events.TierWorkItem, Cost: events.CostMedium}
	heavy = Dataset{Name: "blobs", Tier: events.TierWorkItem, Cost: events.CostHeavy}
	snap  = Dataset{Name: "refs", Tier: events.TierReference, Cost: events.CostLight, Snapshot: true}
	none  = time.Time{}
)

func date(y int, m time.Month, d int) time.Time { return time.Date(y, m, d, 0, 0, 0, 0, time.UTC) }

func window(from, to time.Time) []events.Window { return []events.Window{events.NewWindow(from, to)} }

// W-1, W-2, W-5 to W-7, SC-098, SC-103, SC-106, SC-107, SC-116: the one window of an incremental run.
func TestTheIncrementalWindow(t *testing.T) {
	overlap := knobs
	overlap.Overlap = time.Hour
	deep := plain
	deep.Depth = 90 * day
	for name, tt := range map[string]struct {
		dataset Dataset
		mark    time.Time
		before  time.Time
		knobs   WindowKnobs
		want    []events.Window
	}{
		"fresh (SC-098)":                     {plain, none, none, knobs, window(now.Add(-30*day), now)},
		"fresh, depth of the dataset (W-7)":  {deep, none, none, knobs, window(now.Add(-90*day), now)},
		"from the watermark":                 {plain, now.Add(-day), none, knobs, window(now.Add(-day), now)},
		"long pause: from the watermark":     {plain, now.Add(-400 * day), none, knobs, window(now.Add(-400*day), now)},
		"minus the overlap":                  {plain, now.Add(-day), none, overlap, window(now.Add(-day-time.Hour), now)},
		"the overlap is none without a mark": {plain, none, none, overlap, window(now.Add(-30*day), now)},
		"watermark is now":                   {plain, now, none, knobs, nil},
		"watermark is now, with overlap":     {plain, now, none, overlap, window(now.Add(-time.Hour), now)},
		"watermark ahead (W-6)":              {plain, now.Add(time.Microsecond), none, knobs, window(now.Add(-time.Hour), now)},
		"watermark far ahead, overlap (W-6)": {plain, now.Add(900 * day), none, overlap, window(now.Add(-time.Hour), now)},
		"before":                             {plain, now.Add(-2 * day), now.Add(-day), knobs, window(now.Add(-2*day), now.Add(-day))},
		"before after now":                   {plain, now.Add(-day), now.Add(day), knobs, window(now.Add(-day), now)},
		"before is the watermark (SC-107)":   {plain, now.Add(-day), now.Add(-day), knobs, nil},
		"before is earlier (SC-107)":         {plain, now.Add(-day), now.Add(-2 * day), knobs, nil},
		"heavy, far behind (W-2)":            {heavy, now.Add(-20 * day), none, knobs, window(now.Add(-20*day), now.Add(-13*day))},
		"heavy, exactly the cap":             {heavy, now.Add(-7 * day), none, knobs, window(now.Add(-7*day), now)},
		"heavy, fresh":                       {heavy, none, none, knobs, window(now.Add(-30*day), now.Add(-23*day))},
		"heavy, before is nearer":            {heavy, now.Add(-20 * day), now.Add(-19 * day), knobs, window(now.Add(-20*day), now.Add(-19*day))},
		"no watermark behaviour (SC-103)":    {snap, none, none, knobs, window(none, now)},
		"no watermark behaviour, before":     {snap, now.Add(-day), now.Add(-2 * day), knobs, window(none, now.Add(-2*day))},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, tt.want, incremental(tt.dataset, []time.Time{tt.mark}, now, tt.before, tt.knobs))
		})
	}
}

// P-3: the window of a family is the widest of its members'.
func TestAFamilyReadsTheWidestWindow(t *testing.T) {
	for name, tt := range map[string]struct {
		marks []time.Time
		from  time.Time
	}{
		"oldest first":       {[]time.Time{now.Add(-3 * day), now.Add(-day)}, now.Add(-3 * day)},
		"oldest last":        {[]time.Time{now.Add(-day), now.Add(-3 * day)}, now.Add(-3 * day)},
		"one was never read": {[]time.Time{now.Add(-day), none}, now.Add(-30 * day)},
		"one lies ahead":     {[]time.Time{now.Add(day), now.Add(-2 * day)}, now.Add(-2 * day)},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, window(tt.from, now), incremental(plain, tt.marks, now, none, knobs))
		})
	}
}

// W-2, SC-104: a heavy dataset a month behind catches up by a week a run, without a gap.
func TestAHeavyDatasetCatchesUpInSteps(t *testing.T) {
	mark, runs := now.Add(-28*day), 0
	for mark.Before(now) {
		w := incremental(heavy, []time.Time{mark}, now, none, knobs)[0]
		require.Equal(t, mark, w.From)
		require.LessOrEqual(t, w.To.Sub(w.From), 7*day)
		mark = w.To
		runs++
	}
	require.Equal(t, 4, runs)
	require.Empty(t, incremental(heavy, []time.Time{mark}, now, none, knobs))
}

// W-3, W-5, SC-099, SC-100: the pieces of a backfill are contiguous, their union is the request, and inner edges are at midnight.
func TestABackfillIsCutAtMidnightWithoutGapOrOverlap(t *testing.T) {
	family := Dataset{Name: "work-items", Members: []string{"a", "b"}}
	oddChunk := knobs
	oddChunk.Chunk = 36 * time.Hour
	for name, tt := range map[string]struct {
		dataset       Dataset
		since, before time.Time
		knobs         WindowKnobs
		pieces        int
	}{
		"90 days of a family (SC-100)":  {family, date(2026, 1, 1), date(2026, 4, 1), knobs, 7},
		"a family from mid-day":         {family, date(2026, 1, 1).Add(10 * time.Hour), date(2026, 4, 1).Add(10 * time.Hour), knobs, 7},
		"three weeks":                   {plain, date(2026, 1, 1), date(2026, 1, 22), knobs, 3},
		"up to now":                     {plain, now.Add(-10 * day), now, knobs, 2},
		"within a day":                  {plain, now.Add(-time.Hour), now, knobs, 1},
		"one microsecond":               {plain, now, now.Add(time.Microsecond), knobs, 1},
		"less than a microsecond":       {plain, now, now.Add(time.Nanosecond), knobs, 0},
		"since is before":               {plain, now, now, knobs, 0},
		"inverted":                      {plain, now, now.Add(-day), knobs, 0},
		"end after now is kept (W-5)":   {plain, now, now.Add(3 * day), knobs, 1},
		"1970 and before":               {plain, date(1969, 12, 30), date(1970, 1, 3), knobs, 1},
		"a chunk that is no whole days": {plain, date(2026, 1, 1), date(2026, 1, 4), oddChunk, 3},
		"another zone":                  {plain, now.In(time.FixedZone("X", 5*3600)), now.Add(8 * day).In(time.FixedZone("Y", -3600)), knobs, 2},
	} {
		t.Run(name, func(t *testing.T) {
			got := backfill(tt.dataset, tt.since, tt.before, tt.knobs, 1000)
			require.Equal(t, tt.pieces, len(got))
			for i, w := range got {
				require.False(t, w.Empty())
				require.LessOrEqual(t, w.To.Sub(w.From), 14*day)
				if i > 0 {
					require.Equal(t, got[i-1].To, w.From, "contiguous")
					require.Equal(t, w.From, w.From.Truncate(day), "midnight UTC")
				}
			}
			if tt.pieces > 0 {
				require.True(t, got[0].From.Equal(tt.since.Truncate(time.Microsecond)))
				require.True(t, got[len(got)-1].To.Equal(tt.before.Truncate(time.Microsecond)))
			}
		})
	}
}

// P-4: a backfill that can never be accepted is not computed to its end.
func TestAnEndlessBackfillStopsBehindTheLimit(t *testing.T) {
	require.Equal(t, 1001, len(backfill(plain, date(1, 1, 2), date(9999, 1, 1), knobs, 1000)))
	require.Equal(t, 1000, len(backfill(plain, date(2026, 1, 1), date(2026, 1, 1).Add(1000*7*day), knobs, 1000)))
	tiny := knobs
	tiny.Chunk = 0
	require.Equal(t, 3, len(backfill(plain, date(2026, 1, 1), date(2026, 1, 4), tiny, 1000)), "a piece is at least a day")
}

// W-4, SC-102: a full resync reads from its depth on, watermark or not; what has no windows is read whole.
func TestTheFullResyncWindow(t *testing.T) {
	require.Equal(t, window(now.Add(-30*day), now), fullResync(plain, now, none, knobs))
	require.Equal(t, window(now.Add(-30*day), now), fullResync(heavy, now, none, knobs), "the cap of W-2 is for incremental runs")
	require.Equal(t, window(now.Add(-30*day), now.Add(-day)), fullResync(plain, now, now.Add(-day), knobs))
	require.Equal(t, window(now.Add(-30*day), now), fullResync(plain, now, now.Add(day), knobs))
	require.Empty(t, fullResync(plain, now, now.Add(-30*day), knobs))
	require.Equal(t, window(none, now), fullResync(snap, now, none, knobs))
	require.Equal(t, window(none, now), backfill(snap, now.Add(-90*day), now, knobs, 1000), "a snapshot is read whole, once")
}

// W-8: whole UTC periods, also across months, years, leap days, and the dates that wrong clocks write.
func TestWholePeriods(t *testing.T) {
	for _, tt := range []struct {
		calendar events.Calendar
		at       time.Time
		name     string
	}{
		{events.Day, now, "2026-03-10"},
		{events.Day, date(2026, 3, 10), "2026-03-10"},
		{events.Day, date(2026, 3, 10).Add(-time.Nanosecond), "2026-03-09"},
		{events.Week, now, "w2026-03-09"},
		{events.Week, date(2026, 3, 9), "w2026-03-09"},
		{events.Week, date(2026, 3, 15), "w2026-03-09"}, // a Sunday
		{events.Week, date(2026, 1, 1), "w2025-12-29"},
		{events.Week, date(2024, 3, 1), "w2024-02-26"},
		{events.Month, now, "2026-03"},
		{events.Month, date(2024, 2, 29), "2024-02"},
		{events.Month, date(2026, 1, 31), "2026-01"},
		{events.Month, date(1970, 1, 1), "1970-01"},
		{events.Month, date(2038, 1, 19), "2038-01"},
		{events.Month, date(1969, 12, 31), "1969-12"},
		{events.Year, now, "2026"},
		{events.Year, date(2024, 12, 31), "2024"},
		{events.Month, time.Date(2026, 3, 1, 0, 30, 0, 0, time.FixedZone("CET", 3600)), "2026-02"}, // the day is that of UTC
	} {
		w := PeriodAt(tt.calendar, tt.at)
		require.Equal(t, tt.name, w.Name())
		require.Equal(t, PeriodStart(tt.calendar, tt.at), w.From)
		require.False(t, tt.at.Before(w.From))
		require.True(t, tt.at.Before(w.To))
		require.Equal(t, w, PeriodAt(tt.calendar, w.To.Add(-time.Microsecond)), "half-open")
		require.NotEqual(t, w, PeriodAt(tt.calendar, w.To))
	}
}

package decider

import (
	"iter"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/events"
)

// candidate is one of ordinal n in a bucket.
func candidate(n int, bucket events.Bucket) Candidate {
	return Candidate{Unit: events.UnitID{15: byte(n)}, Ordinal: n, Bucket: bucket}
}

func ordinals(cs iter.Seq[Candidate]) []int {
	var out []int
	for c := range cs {
		out = append(out, c.Ordinal)
	}
	return out
}

// room is the same for every bucket.
func room(engine, run, bucket int) Room {
	return Room{Engine: engine, Run: run, Bucket: func(events.Bucket) int { return bucket }, Suspects: 1}
}

// HD-3, D-12, SC-132, SC-137: lost units go first, oldest first, then due retries, then planned ones as they come; and a
// unit that was reclaimed three times goes last, so that what nobody ever claims cannot hold back the rest.
func TestCandidatesComeInTheOrderOfTheirNeed(t *testing.T) {
	stale := func(n, dispatches int, first events.Span) Candidate {
		c := candidate(n, "b")
		c.Dispatches, c.FirstDispatchedAt = dispatches, t0.Add(first)
		return c
	}
	retry := func(n int, due events.Span) Candidate {
		c := candidate(n, "b")
		c.AvailableAt = t0.Add(due)
		return c
	}
	w := Waiting{
		Stale:   []Candidate{stale(1, 4, 0), stale(2, 1, 3*second), stale(4, 3, second), stale(3, 1, second), stale(5, 9, second)},
		Retries: []Candidate{retry(12, 2*second), retry(11, second), retry(10, 2*second)},
		Planned: slices.Values([]Candidate{candidate(21, "b"), candidate(20, "b")}),
	}
	before := slices.Clone(w.Stale)
	require.Equal(t, []int{3, 4, 2, 11, 10, 12, 21, 20, 1, 5}, ordinals(w.InOrder()))
	require.Equal(t, before, w.Stale, "the caller's list stays as it is")

	for n := range 10 { // a walk may stop anywhere
		seen := 0
		for range w.InOrder() {
			if seen++; seen > n {
				break
			}
		}
		require.Equal(t, n+1, seen)
	}
}

// HD-3: a run that offers nothing is walked through without a step.
func TestNothingWaitingIsAnEmptyWalk(t *testing.T) {
	require.Empty(t, ordinals(Waiting{}.InOrder()))
	require.Equal(t, []int{1}, ordinals(Waiting{Stale: []Candidate{candidate(1, "b")}}.InOrder()))
}

// HD-4, B-2, B-7, SC-118, SC-124, SC-150, SC-151: units are taken while bucket, run and engine have room.
func TestUnitsAreTakenWhileThereIsRoom(t *testing.T) {
	light, heavy := events.Bucket("p/light"), events.Bucket("p/heavy")
	var ten []Candidate
	for n := 1; n <= 10; n++ {
		ten = append(ten, candidate(n, light))
	}
	mixed := []Candidate{candidate(1, heavy), candidate(2, heavy), candidate(3, light), candidate(4, heavy), candidate(5, light)}
	buckets := Room{Engine: 64, Run: 16, Bucket: func(b events.Bucket) int { return map[events.Bucket]int{heavy: 1, light: 8}[b] }}
	full := Room{Engine: 64, Run: 16, Bucket: func(b events.Bucket) int { return map[events.Bucket]int{light: 8}[b] }}
	for name, tt := range map[string]struct {
		candidates []Candidate
		room       Room
		limit      int
		taken      []int
		left       bool
	}{
		"all fit":                              {ten, room(64, 16, 10), 99, []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, false},
		"bucket cap (SC-118)":                  {ten, room(64, 16, 8), 99, []int{1, 2, 3, 4, 5, 6, 7, 8}, true},
		"run cap":                              {ten, room(64, 3, 8), 99, []int{1, 2, 3}, true},
		"engine cap":                           {ten, room(2, 16, 8), 99, []int{1, 2}, true},
		"limit of a refill":                    {ten, room(64, 16, 8), 1, []int{1}, true},
		"exactly as many as fit":               {ten[:2], room(2, 2, 2), 2, []int{1, 2}, false},
		"a full bucket does not stop (SC-151)": {mixed, buckets, 99, []int{1, 3, 5}, true},
		"a bucket that was full before":        {mixed, full, 99, []int{3, 5}, true},
		"no engine room":                       {ten, room(0, 16, 8), 99, nil, true},
		"cap was lowered (B-7)":                {ten, room(-3, -2, -1), 99, nil, true},
		"bucket cap was lowered":               {ten, room(64, 16, -1), 99, nil, true},
		"nothing to take":                      {nil, room(64, 16, 8), 99, nil, false},
		"nothing to take, no room":             {nil, room(0, 0, 0), 99, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			taken, left := Choose(slices.Values(tt.candidates), tt.room, tt.limit)
			require.Equal(t, tt.taken, ordinals(slices.Values(taken)))
			require.Equal(t, tt.left, left)
		})
	}
}

// HD-4: the walk ends when the run or the engine is full; only a full bucket is walked past.
func TestTheWalkEndsWhenNothingMoreCanFit(t *testing.T) {
	walked := 0
	endless := func(yield func(Candidate) bool) {
		for n := 1; ; n++ {
			if walked++; !yield(candidate(n, "b")) {
				return
			}
		}
	}
	taken, left := Choose(endless, room(64, 2, 8), 99)
	require.Len(t, taken, 2)
	require.True(t, left)
	require.Equal(t, 3, walked)
}

// B-2: all three must have room.
func TestAUnitFitsIfAllThreeCapsHaveRoom(t *testing.T) {
	require.True(t, room(1, 1, 1).Fits("b"))
	for _, r := range []Room{room(0, 1, 1), room(1, 0, 1), room(1, 1, 0), room(-1, 1, 1)} {
		require.False(t, r.Fits("b"))
	}
}

// RW-8, HD-4: of several suspects one is taken, and none while one is at work. The walk goes on behind them, and what is
// left aside counts as left over.
func TestSuspectsGoOneAtATime(t *testing.T) {
	suspect := func(n int) Candidate {
		c := candidate(n, "b")
		c.Suspect = true
		return c
	}
	all := []Candidate{suspect(1), candidate(2, "b"), suspect(3), candidate(4, "b")}
	for name, tt := range map[string]struct {
		candidates []Candidate
		suspects   int
		taken      []int
		left       bool
	}{
		"none is at work":            {all, 1, []int{1, 2, 4}, true},
		"one is at work":             {all, 0, []int{2, 4}, true},
		"the only one":               {all[:2], 1, []int{1, 2}, false},
		"no suspect, one is at work": {[]Candidate{candidate(2, "b")}, 0, []int{2}, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := room(64, 16, 8)
			r.Suspects = tt.suspects
			taken, left := Choose(slices.Values(tt.candidates), r, 99)
			require.Equal(t, tt.taken, ordinals(slices.Values(taken)))
			require.Equal(t, tt.left, left)
			require.Equal(t, tt.suspects > 0, r.Admits("b", true))
			require.True(t, r.Admits("b", false))
		})
	}
}

package replay

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/events"
)

const second = events.Micros(1_000_000)

// A long time in which nothing happened is cut, so that what did happen has room; time never goes back, and every round time
// has its place.
func TestAScaleCutsWhereNothingHappened(t *testing.T) {
	for name, c := range map[string]struct {
		times []events.Micros // seconds
		cuts  int
	}{
		"nothing":                       {[]events.Micros{0}, 0},
		"one step":                      {[]events.Micros{0, 100}, 0},
		"even":                          {[]events.Micros{0, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100}, 0},
		"a backoff":                     {[]events.Micros{0, 1, 2, 3, 4, 304, 305, 306, 307}, 1},
		"two backoffs":                  {[]events.Micros{0, 1, 2, 3, 4, 304, 305, 306, 307, 507, 508, 509}, 2},
		"a burst, and one gap in a day": {[]events.Micros{0, 1, 2, 3, 86400}, 1},
		"more than are cut":             {[]events.Micros{0, 1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8}, maxCuts},
	} {
		t.Run(name, func(t *testing.T) {
			var times []events.Micros
			for _, s := range c.times {
				times = append(times, s*second)
			}
			from, to := times[0], times[len(times)-1]
			sc := newScale(times, from, to, plotFrom, plotTo)
			cuts := 0
			for i, p := range sc.pieces {
				require.LessOrEqual(t, p.x0, p.x1)
				if i > 0 {
					require.Equal(t, sc.pieces[i-1].x1, p.x0)
					require.Equal(t, sc.pieces[i-1].to, p.from)
				}
				if p.cut {
					cuts++
					require.Equal(t, cutWidth, p.x1-p.x0)
				}
			}
			require.Equal(t, c.cuts, cuts)
			require.Equal(t, plotFrom, sc.x(from))
			if to > from {
				require.Equal(t, plotTo, sc.x(to))
			}
			last := plotFrom
			for _, at := range times {
				require.GreaterOrEqual(t, sc.x(at), last)
				last = sc.x(at)
			}
			ticks := sc.ticks(from)
			require.LessOrEqual(t, len(ticks), (plotTo-plotFrom)/tickRoom+2)
			for i, k := range ticks {
				require.Equal(t, sc.x(k.at), k.x)
				if i > 0 {
					require.GreaterOrEqual(t, k.x-ticks[i-1].x, tickRoom)
				}
			}
		})
	}
}

func TestRoundSteps(t *testing.T) {
	for least, want := range map[events.Micros]events.Micros{
		0: 1, 3: 5, 400_000: 500_000, 900_000: second, 3 * second: 5 * second, 61 * second: 120 * second,
		13 * 3600 * second: 24 * 3600 * second, 5 * 24 * 3600 * second: 8 * 24 * 3600 * second,
	} {
		require.Equal(t, want, roundStep(least), "%d", least)
	}
}

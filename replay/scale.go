package replay

import (
	"cmp"
	"slices"
	"time"

	"github.com/towline-dev/towline/events"
)

// scale maps times to columns of a picture. A long time in which nothing happened would press all else together, so a few
// of those are cut short, and drawn as cuts.
type scale struct{ pieces []piece }

type piece struct {
	from, to events.Micros
	x0, x1   int
	cut      bool
}

const (
	maxCuts   = 5
	cutWidth  = 64 // columns
	cutShare  = 3  // a gap is cut that takes more than one part in so many of what is not cut yet
	tickRoom  = 84 // columns between two times of the axis
	cutLeast  = 3  // of fewer gaps none is cut: a run of one long step is that step
	microsDay = events.Micros(24 * time.Hour / time.Microsecond)
)

// newScale takes the times at which something happened, in order, each once.
func newScale(times []events.Micros, from, to events.Micros, x0, x1 int) scale {
	cuts := chooseCuts(times, to-from)
	var sc scale
	at := from
	for _, c := range cuts {
		sc.pieces = append(sc.pieces, piece{from: at, to: c.from}, c)
		at = c.to
	}
	sc.pieces = append(sc.pieces, piece{from: at, to: to})
	sc.pieces = slices.DeleteFunc(sc.pieces, func(p piece) bool { return p.from == p.to && len(cuts) > 0 && !p.cut })
	open, left := events.Micros(0), x1-x0
	for _, p := range sc.pieces {
		if p.cut {
			left -= cutWidth
		} else {
			open += p.to - p.from
		}
	}
	x, seen := x0, events.Micros(0)
	from0 := x0
	for i := range sc.pieces {
		p := &sc.pieces[i]
		p.x0 = x
		if p.cut {
			x += cutWidth
			from0 += cutWidth
		} else {
			seen += p.to - p.from
			x = from0 + share(left, seen, open)
		}
		p.x1 = x
	}
	return sc
}

// chooseCuts takes the longest gaps away, as long as one of them is most of what is there.
func chooseCuts(times []events.Micros, total events.Micros) (cuts []piece) {
	var gaps []piece
	for i := 1; i < len(times); i++ {
		gaps = append(gaps, piece{from: times[i-1], to: times[i], cut: true})
	}
	slices.SortStableFunc(gaps, func(a, b piece) int { return cmp.Compare(b.to-b.from, a.to-a.from) })
	for i, g := range gaps {
		if i == maxCuts || len(gaps)-i < cutLeast || (g.to-g.from)*cutShare <= total {
			break
		}
		cuts, total = append(cuts, g), total-(g.to-g.from)
	}
	slices.SortFunc(cuts, func(a, b piece) int { return cmp.Compare(a.from, b.from) })
	return cuts
}

// share is a part of some columns: whole numbers, so that every machine draws the same.
func share(columns int, part, of events.Micros) int {
	if of == 0 {
		return 0
	}
	for of > microsDay*365*10 { // no overflow below
		part, of = part/1000, of/1000
	}
	return int(events.Micros(columns) * part / of)
}

func (sc scale) x(at events.Micros) int {
	for _, p := range sc.pieces {
		if at <= p.to {
			return p.x0 + share(p.x1-p.x0, max(at-p.from, 0), p.to-p.from)
		}
	}
	return sc.pieces[len(sc.pieces)-1].x1
}

type tick struct {
	x  int
	at events.Micros
}

// ticks are round times since the plan, and where a cut ends.
func (sc scale) ticks(plan events.Micros) (out []tick) {
	add := func(at events.Micros) {
		x := sc.x(at)
		if !slices.ContainsFunc(out, func(t tick) bool { return max(t.x-x, x-t.x) < tickRoom }) {
			out = append(out, tick{x, at})
		}
	}
	add(sc.pieces[0].from)
	for _, p := range sc.pieces {
		if !p.cut {
			add(p.from)
		}
	}
	add(sc.pieces[len(sc.pieces)-1].to)
	for _, p := range sc.pieces {
		if p.cut || p.x1-p.x0 < tickRoom {
			continue
		}
		step := roundStep((p.to - p.from) * tickRoom / events.Micros(p.x1-p.x0))
		at := plan + (p.from-plan)/step*step
		for ; at <= p.to; at += step {
			if at >= p.from {
				add(at)
			}
		}
	}
	slices.SortFunc(out, func(a, b tick) int { return a.x - b.x })
	return out
}

// roundStep is the next length at or above one that people count in.
func roundStep(least events.Micros) events.Micros {
	for unit := events.Micros(1); unit < 1_000_000; unit *= 10 {
		for _, n := range []events.Micros{1, 2, 5} {
			if n*unit >= least {
				return n * unit
			}
		}
	}
	const second = events.Micros(1_000_000)
	for _, n := range []events.Micros{1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 3 * 3600, 6 * 3600, 12 * 3600} {
		if n*second >= least {
			return n * second
		}
	}
	step := microsDay
	for step < least {
		step *= 2
	}
	return step
}

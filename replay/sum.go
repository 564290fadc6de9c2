package replay

import (
	"fmt"
	"slices"
	"strings"
)

// unitStates are the parts of the sum of all units, from below.
var unitStates = [...]string{"succeeded", "failed", "cancelled", "running", "retrying", "dispatching", "planned"}

// tally is how many units are in each of unitStates, or how that changes.
type tally [len(unitStates)]int

func (t *tally) add(state string, n int) {
	if i := slices.Index(unitStates[:], state); i >= 0 {
		t[i] += n
	}
}

// area is how many units were in which state, as steps of a few columns each.
func (v *survey) area(y, h int, used map[string]bool) []drawn {
	cells := (plotTo - plotFrom) / areaCell
	counts := make([]tally, cells) // what was at the end of each cell
	var now tally
	next := 0
	for i := range cells {
		for ; next < len(v.shifts) && (i == cells-1 || v.scale.x(v.shifts[next].at) < plotFrom+(i+1)*areaCell); next++ {
			now.add(v.shifts[next].was, -1)
			now.add(v.shifts[next].is, 1)
		}
		counts[i] = now
	}
	var out []drawn
	below := make([]int, cells)
	level := func(n int) int { return y + h - n*h/max(len(v.units), 1) }
	for j, state := range unitStates {
		if state == "planned" {
			continue // what is left
		}
		var path strings.Builder
		for i := 0; i < cells; {
			low, high, from := level(below[i]), level(below[i]+counts[i][j]), i
			for ; i < cells && level(below[i]) == low && level(below[i]+counts[i][j]) == high; i++ {
				below[i] += counts[i][j]
			}
			if low > high {
				fmt.Fprintf(&path, "M%d %dH%dV%dH%dZ", plotFrom+from*areaCell, high, plotFrom+i*areaCell, low, plotFrom+from*areaCell)
			}
		}
		if path.Len() > 0 {
			used[state] = true
			out = append(out, drawn{Class: state, Path: path.String(), Title: "units that were " + state})
		}
	}
	return out
}

// rest says what has no lane.
func (v *survey) rest() string {
	if len(v.told) == len(v.units) {
		return ""
	}
	var ends tally
	odd := 0
	for _, l := range v.units {
		if v.told[l.Ordinal] {
			continue
		}
		if n := len(l.spans); n > 0 {
			ends.add(l.spans[n-1].state, 1)
		}
		if l.worst > unfinished {
			odd++
		}
	}
	text := fmt.Sprintf("and %s without a lane, of which this page has only the numbers: %s", more(len(v.units)-len(v.told), "unit"), ends)
	if odd > 0 {
		text += fmt.Sprintf("; %d of them not as planned", odd)
	}
	return text
}

func more(n int, thing string) string { return strings.Replace(amount(n, thing), " ", " more ", 1) }

func (t tally) String() string {
	var parts []string
	for i, n := range t {
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, unitStates[i]))
		}
	}
	return strings.Join(parts, ", ")
}

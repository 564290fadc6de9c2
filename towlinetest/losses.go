package towlinetest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// losses counts the windows in which a dataset without a retry policy has lost a unit to the kill. It is what the policy asks
// for and no failure, but whoever reads that none failed is to know that not all was copied.
type losses map[string]int

func (l losses) add(w *window) {
	datasets := slices.Clone(w.lost)
	slices.Sort(datasets)
	for _, d := range slices.Compact(datasets) {
		l[d]++
	}
}

// String is a sentence for each dataset, behind others; empty: nothing was lost.
func (l losses) String() string {
	var b strings.Builder
	for _, d := range slices.Sorted(maps.Keys(l)) {
		fmt.Fprintf(&b, "\n    in %s a unit of %s has ended as worker_lost, for the dataset has no retry policy: give it one (towline.Dataset.Retry, Max 1 or more), or let the oracle expect it",
			count(l[d], "window"), d)
	}
	return b.String()
}

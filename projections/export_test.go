package projections

import (
	"fmt"
	"slices"

	"github.com/towline-dev/towline/events"
)

// Miscounted says in which counts of what is on offer the view differs from a walk over its units, and of which runs it
// says another thing about free slots than the walk does (B-6).
func (h *Hot) Miscounted(now events.Micros) (out []string) {
	h.settle(now)
	differ := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	offered := map[*hotBucket]int{}
	oldest := events.RunID{}
	for _, r := range h.order {
		fits, n := false, 0
		for o, want := range walked(r, now) {
			if got := [3]int{o.planned, o.due, o.stale}; got != want {
				differ("run %s in %s: planned, due and stale are %v, counted %v", r.id, o.bucket.name, want, got)
			}
			units := want[0] + want[1] + want[2]
			offered[o.bucket] += units
			n += units
			fits = fits || units > 0 && h.bucketRoom(o.bucket.name) > 0
		}
		fits = fits && r.inFlight < r.cap && h.flight.live < h.knobs.CapEngine
		if got := h.Fits(r.id, now); got != fits {
			differ("run %s: fits is %t, not %t", r.id, got, fits)
		}
		if got := r.offersAny(); got != (n > 0) {
			differ("run %s: %d units are on offer, it says %t", r.id, n, got)
		}
		if fits && oldest.IsZero() {
			oldest = r.id
		}
	}
	for name, b := range h.buckets {
		if b.offered != offered[b] {
			differ("bucket %s offers %d, counted %d", name, offered[b], b.offered)
		}
	}
	if got, _ := h.OldestWithRoom(now); got != oldest {
		differ("the oldest run with room is %s, not %s", oldest, got)
	}
	return out
}

// walked counts units of a run by offer: planned with an open tier, due, and stale.
func walked(r *hotRun, now events.Micros) map[*offer][3]int {
	out := map[*offer][3]int{}
	for _, o := range r.offers {
		out[o] = [3]int{}
	}
	for _, u := range slices.Concat(r.reference, r.workItems) {
		n := out[u.offer]
		switch {
		case u.status == events.UnitIsPlanned && (u.reference || !slices.ContainsFunc(r.reference, func(first *hotUnit) bool {
			return first.source == u.source && first.status != events.UnitHasSucceeded
		})):
			n[0]++
		case u.status == events.UnitIsRetrying && u.availableAt <= now:
			n[1]++
		case u.status == events.UnitIsDispatching && u.dead:
			n[2]++
		}
		out[u.offer] = n
	}
	return out
}

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
	offered, suspects := map[*hotBucket]int{}, map[*hotBucket]int{}
	oldest := events.RunID{}
	for _, r := range h.order {
		fits, n := false, 0
		for o, want := range walked(h, r, now) {
			if o.tally != want {
				differ("run %s in %s: on offer are %+v, counted %+v", r.id, o.bucket.name, want, o.tally)
			}
			units := want.planned + want.due + want.stale
			offered[o.bucket] += units
			suspects[o.bucket] += want.suspects
			n += units + want.suspects
			fits = fits || (units > 0 || want.suspects > 0 && len(h.atWork) == 0) && h.bucketRoom(o.bucket.name) > 0
		}
		fits = fits && r.inFlight < r.cap && h.flight.live < h.knobs.CapEngine && !h.enginePaused()
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
		if b.offered != offered[b] || b.suspects != suspects[b] {
			differ("bucket %s offers %d and %d suspects, counted %d and %d", name, offered[b], suspects[b], b.offered, b.suspects)
		}
	}
	if got, _ := h.OldestWithRoom(now); got != oldest {
		differ("the oldest run with room is %s, not %s", oldest, got)
	}
	for u := range h.atWork {
		if !u.suspect || u.status != events.UnitIsRunning && (u.status != events.UnitIsDispatching || u.dead) {
			differ("unit %s is no suspect at work", u.id)
		}
	}
	return out
}

// walked counts units of a run by offer, without what is held.
func walked(h *Hot, r *hotRun, now events.Micros) map[*offer]tally {
	out := map[*offer]tally{}
	for _, o := range r.offers {
		out[o] = tally{}
	}
	for _, u := range slices.Concat(r.reference, r.workItems) {
		if h.controls[u.source].Paused || cools(h, u, now) ||
			h.knobs.Missing != nil && h.knobs.Missing(r.sync, u.provider, u.source, u.dataset) != "" {
			continue
		}
		o := u.lane.offer
		n := out[o]
		switch {
		case u.status == events.UnitIsPlanned && (u.reference || !slices.ContainsFunc(r.reference, func(first *hotUnit) bool {
			return first.source == u.source && first.status != events.UnitHasSucceeded
		})):
			n.planned++
		case u.status == events.UnitIsRetrying && u.availableAt > now, u.status == events.UnitIsDispatching && !u.dead:
		case u.suspect && (u.status == events.UnitIsRetrying || u.status == events.UnitIsDispatching):
			n.suspects++
		case u.status == events.UnitIsRetrying:
			n.due++
		case u.status == events.UnitIsDispatching:
			n.stale++
		}
		out[o] = n
	}
	return out
}

// cools says of a unit, by what has been reported, that its account is left alone.
func cools(h *Hot, u *hotUnit, now events.Micros) bool {
	for _, c := range h.cooldowns {
		if c.until > now && slices.ContainsFunc(c.gates, func(g *gate) bool { return g.provider == u.provider && g.source == u.source }) {
			return true
		}
	}
	return false
}

package projections

import (
	"cmp"
	"slices"

	"github.com/towline-dev/towline/events"
)

// Running lists the units that are at work, of the oldest run first.
func (h *Hot) Running() (out []events.UnitID) {
	for _, r := range h.order {
		for _, u := range r.busy {
			if u.status == events.UnitIsRunning {
				out = append(out, u.id)
			}
		}
	}
	return out
}

// Dispatching lists units that wait for a worker, of the oldest run first and by ordinal, at most limit of them, for
// workers that get no message and ask (surfaces 5.4). of says in which lanes they are wanted. Its cost grows with what is in
// flight.
func (h *Hot) Dispatching(limit int, of func(Lane) bool) (out []events.UnitID) {
	for _, r := range h.order {
		var waiting []*hotUnit
		for _, u := range r.busy {
			if u.status != events.UnitIsDispatching || !of(Lane{Sync: r.sync, Provider: u.provider, Source: u.source, Dataset: u.dataset}) {
				continue
			}
			waiting = append(waiting, u)
		}
		slices.SortFunc(waiting, func(a, b *hotUnit) int { return cmp.Compare(a.ordinal, b.ordinal) })
		for _, u := range waiting {
			if len(out) == limit {
				return out
			}
			out = append(out, u.id)
		}
	}
	return out
}

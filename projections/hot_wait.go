package projections

import (
	"slices"

	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/events"
)

// Wait is why a unit is no further at now: the first reason of spec 11.1 that holds, as far as units and runs say it. A
// unit that has ended, or that does not exist, waits for nothing.
func (h *Hot) Wait(id events.UnitID, now events.Micros) decider.Wait {
	h.settle(now)
	u, ok := h.units[id]
	if !ok {
		return decider.Wait{}
	}
	switch u.status {
	case events.UnitIsPlanned, events.UnitIsRetrying:
		return h.waitForDispatch(u, now)
	case events.UnitIsDispatching:
		if u.dead { // it is dispatched again, like any other
			return h.waitForDispatch(u, now)
		}
		if u.wakeup > u.run.announcer.Closed {
			return decider.Wait{Reason: decider.WaitPublish, Kind: events.KindUnit}
		}
		return decider.Wait{Reason: decider.WaitForWorker, At: u.lastDispatched}
	case events.UnitIsRunning:
		return decider.Wait{Reason: decider.WaitRunning, At: u.leaseExpires}
	}
	return decider.Wait{}
}

// OpenRuns lists the open runs, oldest first.
func (h *Hot) OpenRuns() []events.RunID {
	out := make([]events.RunID, len(h.order))
	for i, r := range h.order {
		out[i] = r.id
	}
	return out
}

// OpenUnitsOf lists the units of a run that have not ended: reference units first, each tier by ordinal.
func (h *Hot) OpenUnitsOf(run events.RunID) []events.UnitID {
	r, ok := h.runs[run]
	if !ok {
		return nil
	}
	var out []events.UnitID
	for _, tier := range [][]*hotUnit{r.reference, r.workItems} {
		for _, u := range tier {
			if !u.status.Terminal() {
				out = append(out, u.id)
			}
		}
	}
	return out
}

// RunOf is the run of a unit that has not ended; false: it has, or does not exist. It reads nothing.
func (h *Hot) RunOf(id events.UnitID) (events.RunID, bool) {
	u, ok := h.units[id]
	if !ok || u.status.Terminal() {
		return events.RunID{}, false
	}
	return u.run.id, true
}

// heldBy is what only a person, or another configuration, ends.
func (u *hotUnit) heldBy(h *Hot) decider.Wait {
	switch l := u.lane; {
	case h.enginePaused():
		return decider.Wait{Reason: decider.WaitEnginePaused}
	case l.gate.paused:
		return decider.Wait{Reason: decider.WaitSourcePaused, On: u.source}
	case l.missing != "":
		return decider.Wait{Reason: decider.WaitUnconfigured, On: l.missing}
	}
	return decider.Wait{}
}

func (h *Hot) waitForDispatch(u *hotUnit, now events.Micros) decider.Wait {
	if w := u.heldBy(h); w.Reason != "" {
		return w
	}
	l := u.lane
	behind, blocked := u.blockedBy()
	switch {
	case blocked:
		return decider.Wait{Reason: decider.WaitReference, Behind: behind}
	case l.gate.cooling:
		return decider.Wait{Reason: decider.WaitCooldown, At: l.gate.coolUntil(), On: l.gate.cooldown.key}
	case u.availableAt > now:
		return decider.Wait{Reason: decider.WaitRetryAt, At: u.availableAt}
	case u.suspect && !h.suspectMayGo():
		return decider.Wait{Reason: decider.WaitCrashSuspect, Behind: h.suspectAtWork()}
	case h.free(l.offer.bucket) <= 0:
		return decider.Wait{Reason: decider.WaitCapped, On: string(u.bucket)}
	case u.run.inFlight >= u.run.cap:
		return decider.Wait{Reason: decider.WaitCapped, On: decider.CapRun}
	case h.flight.live >= h.knobs.CapEngine:
		return decider.Wait{Reason: decider.WaitCapped, On: decider.CapEngine}
	}
	return decider.Wait{Reason: decider.WaitPublish, Kind: events.KindDispatch}
}

// blockedBy is the first reference unit for which a planned work item waits (P-9).
func (u *hotUnit) blockedBy() (events.UnitID, bool) {
	if u.status != events.UnitIsPlanned || u.reference || u.lane.from.open() {
		return events.UnitID{}, false
	}
	i := slices.IndexFunc(u.run.reference, func(r *hotUnit) bool {
		return r.source == u.source && r.status != events.UnitHasSucceeded
	})
	return u.run.reference[i].id, true
}

// suspectAtWork is the suspect behind which the others wait.
func (h *Hot) suspectAtWork() (id events.UnitID) {
	for u := range h.atWork { // there is one
		id = u.id
	}
	return id
}

// Resumable is an open run with units that wait for nothing that is held, and when it should be looked at.
type Resumable struct {
	Run events.RunID
	At  events.Micros // now, or the time for which all of them wait
}

// Lane says of what units wait, for Resumable: all planned, retrying and stale ones of one dataset of a source.
type Lane struct{ Sync, Provider, Source, Dataset string }

// Resumable lists the open runs behind a run of which a unit in one of the given lanes waits that nothing holds any more:
// those to be woken when a hold has ended. It reads at most limit runs; last is where the next page
// begins, and more is false at the end.
func (h *Hot) Resumable(after events.RunID, limit int, now events.Micros, of func(Lane) bool) (found []Resumable, last events.RunID, more bool) {
	h.settle(now)
	i, _ := slices.BinarySearchFunc(h.order, after, byRunID)
	if i < len(h.order) && h.order[i].id == after {
		i++
	}
	end := min(i+limit, len(h.order))
	last = after
	for _, r := range h.order[i:end] {
		last = r.id
		if !r.waitsIn(of) {
			continue
		}
		at := now
		if !r.offersAny() {
			at = h.Later(r.id, now).At
		}
		if at != 0 && !h.enginePaused() {
			found = append(found, Resumable{r.id, at})
		}
	}
	return found, last, end < len(h.order)
}

// waitsIn reports a unit that waits in one of the given lanes, and that neither a pause nor the configuration holds.
func (r *hotRun) waitsIn(of func(Lane) bool) bool {
	is := func(l *lane) bool {
		return !l.held() && of(Lane{Sync: r.sync, Provider: l.key.provider, Source: l.key.source, Dataset: l.key.dataset})
	}
	for _, l := range r.lanes { // no order: any will do
		if l.reachable().any() && is(l) {
			return true
		}
	}
	return slices.ContainsFunc(r.retries, func(u *hotUnit) bool { return !u.due && is(u.lane) })
}

// Pause is what is on record of the pause of a source, or of the engine if it is empty; false: it is not paused.
func (h *Hot) Pause(source string) (Pause, bool) {
	c := h.controls[source]
	return Pause{Source: source, By: c.By, Reason: c.Reason, Since: c.Since.Time()}, c.Paused
}

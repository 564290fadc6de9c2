package projections

import (
	"cmp"
	"iter"
	"slices"

	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/events"
)

// OpenUnits counts the units of a run that have not ended (U-21). A run that is not open has none.
func (h *Hot) OpenUnits(run events.RunID) int {
	if r, ok := h.runs[run]; ok {
		return r.open
	}
	return 0
}

// OpenUnitIDs lists the units of a run that have not ended, by ordinal: reference units and work items in the order of the
// plan, as they are cancelled with their run.
func (h *Hot) OpenUnitIDs(run events.RunID) []events.UnitID {
	r, ok := h.runs[run]
	if !ok {
		return nil
	}
	open := make([]*hotUnit, 0, r.open)
	for _, tier := range [][]*hotUnit{r.reference, r.workItems} {
		for _, u := range tier {
			if !u.status.Terminal() {
				open = append(open, u)
			}
		}
	}
	slices.SortFunc(open, func(a, b *hotUnit) int { return cmp.Compare(a.ordinal, b.ordinal) })
	ids := make([]events.UnitID, len(open))
	for i, u := range open {
		ids[i] = u.id
	}
	return ids
}

// Counts says how the ended units of an open run ended.
func (h *Hot) Counts(run events.RunID) events.Counts {
	if r, ok := h.runs[run]; ok {
		return r.counts
	}
	return events.Counts{}
}

// Mode is the post_sync mode that an open run has frozen.
func (h *Hot) Mode(run events.RunID) events.DeliveryMode {
	if r, ok := h.runs[run]; ok {
		return r.mode
	}
	return ""
}

// WaitingFor lists the planned work items of a source in a run, by ordinal (U-13).
func (h *Hot) WaitingFor(run events.RunID, source string) []events.UnitID {
	r, ok := h.runs[run]
	if !ok {
		return nil
	}
	var out []events.UnitID
	for _, u := range r.workItems {
		if u.source == source && u.status == events.UnitIsPlanned {
			out = append(out, u.id)
		}
	}
	return out
}

// Room is what the three caps leave for a run at now (B-1, B-2).
func (h *Hot) Room(run events.RunID, now events.Micros) decider.Room {
	h.settle(now)
	room := decider.Room{Engine: h.knobs.CapEngine - h.flight.live, Bucket: h.bucketRoom, Suspects: 1}
	if !h.suspectMayGo() {
		room.Suspects = 0
	}
	if r, ok := h.runs[run]; ok {
		room.Run = r.cap - r.inFlight
	}
	return room
}

func (h *Hot) bucketRoom(name events.Bucket) int {
	if b, ok := h.buckets[name]; ok {
		return h.free(b)
	}
	return h.knobs.CapBucket(name)
}

// free is how many slots of a bucket are not in use.
func (h *Hot) free(b *hotBucket) int { return h.knobs.CapBucket(b.name) - b.inFlight }

// suspectMayGo: one crash suspect at a time (RW-8).
func (h *Hot) suspectMayGo() bool { return len(h.atWork) == 0 }

// Waiting is what a run has to offer for dispatch at now (HD-3), without what is held.
func (h *Hot) Waiting(run events.RunID, now events.Micros) decider.Waiting {
	h.settle(now)
	r, ok := h.runs[run]
	if !ok || h.enginePaused() {
		return decider.Waiting{Planned: func(func(decider.Candidate) bool) {}}
	}
	w := decider.Waiting{Planned: candidates(r.plannedUnits())}
	for _, u := range r.busy {
		if u.dead && u.status == events.UnitIsDispatching && u.lane.open() {
			c := u.candidate()
			c.MessageGone = h.messageGone(u)
			w.Stale = append(w.Stale, c)
		}
	}
	for _, u := range r.retries {
		if u.due && u.lane.open() {
			w.Retries = append(w.Retries, u.candidate())
		}
	}
	return w
}

func candidates(units iter.Seq[*hotUnit]) iter.Seq[decider.Candidate] {
	return func(yield func(decider.Candidate) bool) {
		for u := range units {
			if !yield(u.candidate()) {
				return
			}
		}
	}
}

func (u *hotUnit) candidate() decider.Candidate {
	return decider.Candidate{
		Unit: u.id, Ordinal: u.ordinal, Bucket: u.bucket, AvailableAt: u.availableAt, Dispatches: u.dispatches,
		FirstDispatchedAt: u.firstDispatched, Suspect: u.suspect,
	}
}

// Later is the time ahead of now for which units of a run wait, if nothing else holds them: that of a retry, or the end
// of a cooldown (HD-6, RL-5).
func (h *Hot) Later(run events.RunID, now events.Micros) decider.Later {
	h.settle(now)
	later := decider.Later{}
	r, ok := h.runs[run]
	if !ok || h.enginePaused() {
		return later
	}
	soonest := func(at events.Micros, cause events.ArmCause) {
		if at != 0 && (later.At == 0 || at < later.At) {
			later = decider.Later{At: at, Cause: cause}
		}
	}
	if h.thaw != 0 { // some cooldown is in force
		for _, l := range r.lanes { // no order: the earliest is one of them
			if !l.held() && l.reachable().any() {
				soonest(l.gate.coolUntil(), events.ArmCooldown)
			}
		}
	}
	for _, u := range r.retries {
		cool := u.lane.gate.coolUntil()
		switch {
		case u.availableAt <= now || u.lane.held():
		case cool > u.availableAt:
			soonest(cool, events.ArmCooldown)
		default:
			soonest(u.availableAt, events.ArmDeferred)
		}
	}
	return later
}

// OldestWithRoom is the oldest open run of which a free slot lets a unit in (B-6). Its cost grows with the open runs and
// their buckets, never with their units.
func (h *Hot) OldestWithRoom(now events.Micros) (events.RunID, bool) {
	h.settle(now)
	if h.enginePaused() || !h.anybodyFits() {
		return events.RunID{}, false
	}
	for _, r := range h.order {
		if h.fits(r) {
			return r.id, true
		}
	}
	return events.RunID{}, false
}

// Fits reports that a free slot lets a unit of the run in.
func (h *Hot) Fits(run events.RunID, now events.Micros) bool {
	h.settle(now)
	r, ok := h.runs[run]
	return ok && !h.enginePaused() && h.fits(r)
}

// anybodyFits is a cheap look before the runs are walked: in the usual state every bucket in which something is on offer
// is full. It may be wrong in one way: a run may be full itself.
func (h *Hot) anybodyFits() bool {
	if h.flight.live >= h.knobs.CapEngine {
		return false
	}
	for _, b := range h.buckets { // no order: any will do
		if (b.offered > 0 || b.suspects > 0 && h.suspectMayGo()) && h.free(b) > 0 {
			return true
		}
	}
	return false
}

func (h *Hot) fits(r *hotRun) bool {
	if r.inFlight >= r.cap || h.flight.live >= h.knobs.CapEngine {
		return false
	}
	return slices.ContainsFunc(r.offers, func(o *offer) bool {
		return (o.units() > 0 || o.suspects > 0 && h.suspectMayGo()) && h.free(o.bucket) > 0
	})
}

// Announced lists the units that wakeup n of run_sync_unit expands to, by ordinal: still dispatching, and announced
// behind the last closed number (K-1).
func (h *Hot) Announced(run events.RunID, n int) []Announced {
	r, ok := h.runs[run]
	if !ok {
		return nil
	}
	var out []Announced
	for _, u := range r.busy {
		if u.status == events.UnitIsDispatching && u.wakeup > r.announcer.Closed && u.wakeup <= n {
			out = append(out, Announced{Unit: u.id, Attempt: u.attempt + 1, ordinal: u.ordinal})
		}
	}
	slices.SortFunc(out, func(a, b Announced) int { return cmp.Compare(a.ordinal, b.ordinal) })
	return out
}

// Announced is a unit that a wakeup invites somebody to claim.
type Announced struct {
	Unit    events.UnitID
	Attempt int // that the claim would open
	ordinal int
}

// Owing is what an open run owes at now. Announced counts the expansion of the run_sync_unit wakeup n.
func (h *Hot) Owing(run decider.Run, n int, now events.Micros) decider.Owing {
	o := decider.Owing{
		RunOpen: run.Open(), RunTerminal: run.Status.Terminal(), PostSync: run.PostSyncOwed, OpenUnits: h.OpenUnits(run.ID),
		Effects: run.Effects(),
	}
	r, ok := h.runs[run.ID]
	if !ok {
		return o
	}
	h.settle(now)
	o.Announced = len(h.Announced(run.ID, n))
	o.Dispatchable = r.offersAny() && !h.enginePaused() // whether or not there is room
	o.UnitLost = slices.ContainsFunc(r.busy, func(u *hotUnit) bool {
		return u.status == events.UnitIsDispatching && h.messageGone(u) && u.lane.open() && !h.enginePaused()
	})
	return o
}

// MessageGone reports a dispatching unit whose message lived in an incarnation that is gone (N-3).
func (h *Hot) MessageGone(id events.UnitID) bool {
	u, ok := h.units[id]
	return ok && u.status == events.UnitIsDispatching && h.messageGone(u)
}

// Watermarks are those in force for the datasets of a source.
func (h *Hot) Watermarks(source string, datasets []string) []events.Watermark {
	var out []events.Watermark
	for _, d := range datasets {
		if at, ok := h.watermarks[place{source, d}]; ok {
			out = append(out, events.Watermark{Source: source, Dataset: d, At: at})
		}
	}
	return out
}

// HasState reports that the last success of a source and dataset has left a state for the next.
func (h *Hot) HasState(source, dataset string) bool { return h.left[place{source, dataset}] }

// GoneDispatches counts the dispatching units whose message is gone, for the record of a boot recovery.
func (h *Hot) GoneDispatches() int {
	n := 0
	for _, r := range h.order {
		for _, u := range r.busy {
			if u.status == events.UnitIsDispatching && h.messageGone(u) {
				n++
			}
		}
	}
	return n
}

// Units is how many units are held: those of open runs that have not ended, and what blocks a source.
func (h *Hot) Units() int { return len(h.units) }

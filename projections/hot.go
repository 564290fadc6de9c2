package projections

import (
	"cmp"
	"iter"
	"slices"

	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/events"
)

// Hot is the view that decisions read: what is open, folded in memory beside the tables, so that a claim and a settle
// make no query. It belongs to the writer: only a transaction may touch it.
//
// It is a fold like the tables. Each event is applied as the change from one state to the next, which is its own
// inverse, so a transaction that is rolled back is undone by applying the changes backwards. Verify compares it with
// the tables (I-26).
type Hot struct {
	position events.Position // folded up to here
	epoch    int             // of the store; it orders fences of different lives (DUR-5)
	held     bool            // it was restored, and nobody has released what it would send (DUR-5)

	runs    map[events.RunID]*hotRun // open ones only
	order   []*hotRun                // the same, oldest first
	ended   []*hotRun                // by a transaction that may still be rolled back
	units   map[events.UnitID]*hotUnit
	buckets map[events.Bucket]*hotBucket
	flight  flight        // all dispatching and running units
	settled events.Micros // up to when flight and cooldowns are

	controls  map[string]decider.Control // by source; empty: the engine
	gates     map[account]*gate
	cooldowns map[string]*cooldown  // by key
	thaw      events.Micros         // earliest end of those in force; 0: none is
	atWork    map[*hotUnit]struct{} // crash suspects that run, or are dispatching and not stale (RW-8)

	watermarks map[place]events.Micros
	left       map[place]bool // where the last success has left a state
	alive      map[events.NodeID]events.StoreMode
	clock      clockFacts
	unarmed    int // messages that were submitted and have no wakeup yet (M-1)

	knobs HotKnobs
	undo  []change
}

// HotKnobs are the values by which the hot view counts; they do not change while it lives.
type HotKnobs struct {
	StaleAfter events.Span // dispatch.stale
	CapEngine  int
	CapBucket  func(events.Bucket) int
	// Missing says what of a unit this node is not configured for, by name; empty: nothing. nil: never anything.
	Missing func(sync, provider, source, dataset string) string
}

type place struct{ source, dataset string }

// hotRun is an open run.
type hotRun struct {
	id       events.RunID
	sync     string
	cap      int
	lease    events.Span
	mode     events.DeliveryMode
	counts   events.Counts // of ended units; Total is the plan's
	open     int
	inFlight int // slots in use: live ones only

	reference []*hotUnit // all that were planned, by ordinal; the cursor stands before the first that may still be
	workItems []*hotUnit
	firstRef  int
	firstWork int

	sources map[string]*hotSource
	lanes   map[laneKey]*lane
	offers  []*offer // one per bucket, in the order in which they came

	busy    []*hotUnit // dispatching and running, in no order
	retries []*hotUnit // retrying, in no order

	announcer decider.Register // run_sync_unit
}

// hotUnit is an open unit.
type hotUnit struct {
	live
	run   *hotRun
	lane  *lane
	dead  bool  // in flight, but takes no slot: stale, or its lease has ended
	due   bool  // retrying, and its time has come
	stamp int32 // of its newest entry in the flight's heap
	grace grace
}

type hotBucket struct {
	name     events.Bucket
	inFlight int // slots in use: live ones only
	offered  int // units of all runs that could be dispatched if there were room
	suspects int // the same, of crash suspects
}

// live is what the hot view keeps of a folded unit.
type live struct {
	id              events.UnitID
	run             events.RunID
	ordinal         int
	provider        string
	source          string
	dataset         string
	reference       bool
	bucket          events.Bucket
	status          events.UnitStatus
	attempt         int
	availableAt     events.Micros
	dispatches      int // in this attempt
	firstDispatched events.Micros
	lastDispatched  events.Micros
	wakeup          int
	leaseExpires    events.Micros
	leaseEnds       events.Micros
	leaseNode       events.NodeID
	suspect         bool
}

func liveOf(u decider.Unit) live {
	return live{
		id: u.ID, run: u.Plan.Run, ordinal: u.Plan.Ordinal, provider: u.Plan.Provider, source: u.Plan.Source,
		dataset: u.Plan.Dataset, reference: u.Plan.Tier == events.TierReference, bucket: u.Bucket(), status: u.Status, attempt: u.Attempt,
		availableAt: u.AvailableAt, dispatches: u.AttemptDispatches, firstDispatched: u.FirstDispatchedAt,
		lastDispatched: u.LastDispatchedAt, wakeup: u.Wakeup, leaseExpires: u.Lease.ExpiresAt, leaseEnds: u.Lease.EndsAt,
		leaseNode: u.Lease.Node, suspect: u.Suspect,
	}
}

func (l live) inFlight() bool {
	return l.status == events.UnitIsDispatching || l.status == events.UnitIsRunning
}

// change is one applied event, kept until its transaction has ended.
type change struct {
	event         events.Envelope
	before, after decider.State
	cooled        *cooled // nil: it reported no rate limit
}

// NewHot is the hot view of an empty log.
func NewHot(k HotKnobs) *Hot {
	return &Hot{
		knobs: k, epoch: 1, runs: map[events.RunID]*hotRun{}, units: map[events.UnitID]*hotUnit{},
		buckets: map[events.Bucket]*hotBucket{}, watermarks: map[place]events.Micros{}, left: map[place]bool{},
		alive: map[events.NodeID]events.StoreMode{}, controls: map[string]decider.Control{}, gates: map[account]*gate{},
		cooldowns: map[string]*cooldown{}, atWork: map[*hotUnit]struct{}{},
	}
}

// Position is how far the log has been folded.
func (h *Hot) Position() events.Position { return h.position }

// Epoch is that of the store.
func (h *Hot) Epoch() int { return h.epoch }

// Runs is how many runs are open.
func (h *Hot) Runs() int { return len(h.runs) }

// Held reports a store that was restored, and that nobody has released since (DUR-5).
func (h *Hot) Held() bool { return h.held }

// Apply folds one event. before and after are the folded state of its stream.
func (h *Hot) Apply(e events.Envelope, before, after decider.State) {
	h.undo = append(h.undo, change{event: e, before: before, after: after})
	h.position = e.Position
	switch b := before.(type) {
	case decider.Unit:
		h.unit(b, after.(decider.Unit))
	case decider.Run:
		h.run(b, after.(decider.Run))
	case decider.Register:
		h.register(after.(decider.Register))
	case decider.Control:
		h.control(after.(decider.Control), after.(decider.Control).Source)
	}
	h.fact(e)
	h.messages(h.undo[len(h.undo)-1], 1)
}

// Mark is a place in the undo log. Forget drops what lies before it: those transactions have ended.
func (h *Hot) Mark() int { return len(h.undo) }

// Forget drops the undo log, and with it the runs that ended.
func (h *Hot) Forget() {
	clear(h.undo)
	h.undo = h.undo[:0]
	for _, r := range h.ended {
		h.release(r)
	}
	h.ended = h.ended[:0]
}

// release lets go of the units of a run that has ended.
func (h *Hot) release(r *hotRun) {
	for _, tier := range [][]*hotUnit{r.reference, r.workItems} {
		for _, u := range tier {
			delete(h.units, u.id)
		}
	}
}

// Rollback undoes everything behind a mark. It reports false if a change cannot be undone in place, so that the view
// must be loaded anew: that is the case for what is not per unit, run or register, which a rolled-back transaction
// hardly ever holds.
func (h *Hot) Rollback(mark int) bool {
	for i := len(h.undo) - 1; i >= mark; i-- {
		c := h.undo[i]
		h.position = c.event.Position - 1
		h.messages(c, -1)
		if c.cooled != nil {
			h.uncool(c.cooled)
		}
		switch b := c.before.(type) {
		case decider.Unit:
			h.unit(c.after.(decider.Unit), b)
		case decider.Run:
			h.run(c.after.(decider.Run), b)
		case decider.Register:
			h.register(b)
		case decider.Control:
			h.control(b, c.after.(decider.Control).Source)
		default:
			if _, isNode := c.before.(decider.Node); isNode {
				return false
			}
		}
		if _, ok := c.event.Event.(events.RestoreHoldReleased); ok {
			return false
		}
		if e, ok := c.event.Event.(events.UnitSucceeded); ok && (len(e.Watermarks) > 0 || len(e.Result.State) > 0) {
			return false
		}
	}
	h.undo = h.undo[:mark]
	return true
}

// fact folds what is no unit, run or register.
func (h *Hot) fact(env events.Envelope) {
	h.clock.apply(env)
	switch e := env.Event.(type) {
	case events.UnitSucceeded:
		h.succeeded(env, e)
	case events.UnitRetryScheduled:
		if newest := &h.undo[len(h.undo)-1]; e.CooldownKey != "" {
			plan := newest.after.(decider.Unit).Plan
			newest.cooled = h.cool(plan.Provider, plan.Source, e.CooldownKey, e.CooldownUntil)
		}
	case events.NodeStarted:
		for id, mode := range h.alive { // no order: each is judged alone
			if e.StoreMode == events.StoreExclusive || mode == events.StoreExclusive {
				delete(h.alive, id)
			}
		}
		if id, ok := env.Stream.Node(); ok {
			h.alive[id] = e.StoreMode
		}
		h.judgeAll()
	case events.NodeStopped:
		if id, ok := env.Stream.Node(); ok {
			delete(h.alive, id)
		}
		h.judgeAll()
	case events.ClockStepped:
		h.stepped(e)
	case events.StoreRestored:
		h.epoch, h.held = e.Epoch, true
	case events.RestoreHoldReleased:
		h.held = false
	}
}

func (h *Hot) succeeded(env events.Envelope, e events.UnitSucceeded) {
	for _, w := range e.Watermarks {
		p := place{w.Source, w.Dataset}
		h.watermarks[p] = max(h.watermarks[p], w.At)
	}
	if len(e.Result.State) == 0 {
		return
	}
	id, _ := env.Stream.Unit()
	if u, ok := h.lastSettled(id); ok {
		h.left[place{u.Plan.Source, u.Plan.Dataset}] = true
	}
}

// lastSettled finds the state of a unit that the newest change has just ended.
func (h *Hot) lastSettled(id events.UnitID) (decider.Unit, bool) {
	if len(h.undo) == 0 {
		return decider.Unit{}, false
	}
	u, ok := h.undo[len(h.undo)-1].after.(decider.Unit)
	return u, ok && u.ID == id
}

func (h *Hot) run(before, after decider.Run) {
	switch {
	case !before.Open() && after.Open():
		h.openRun(after)
	case before.Open() && !after.Open():
		h.endRun(before.ID)
	}
}

// openRun enters a run: a new one, or one whose end is rolled back, with all that it had.
func (h *Hot) openRun(run decider.Run) {
	r := newHotRun(run.ID, run.Plan.Sync, run.Plan.TotalUnits, run.Plan.Policy)
	for i, e := range h.ended {
		if e.id == run.ID {
			r = e
			h.ended = slices.Delete(h.ended, i, i+1)
			for _, l := range r.lanes { // no order: each is counted alone
				l.gate.lanes[l] = struct{}{}
				l.refresh()
			}
			break
		}
	}
	h.enter(r)
}

func newHotRun(id events.RunID, sync string, total int, p events.Policy) *hotRun {
	return &hotRun{
		id: id, sync: sync, cap: p.RunCap, lease: p.Lease, mode: p.PostSync, counts: events.Counts{Total: total},
		sources: map[string]*hotSource{}, lanes: map[laneKey]*lane{},
	}
}

func (h *Hot) enter(r *hotRun) {
	h.runs[r.id] = r
	i, _ := slices.BinarySearchFunc(h.order, r.id, byRunID)
	h.order = slices.Insert(h.order, i, r)
}

// endRun takes a run out. All its units have ended, so it holds no slot and nobody waits in it.
func (h *Hot) endRun(id events.RunID) {
	r, ok := h.runs[id]
	if !ok {
		return
	}
	delete(h.runs, id)
	if i, found := slices.BinarySearchFunc(h.order, id, byRunID); found {
		h.order = slices.Delete(h.order, i, i+1)
	}
	for _, l := range r.lanes { // no order: nothing waits in any of them
		delete(l.gate.lanes, l)
	}
	h.ended = append(h.ended, r)
}

func byRunID(r *hotRun, id events.RunID) int { return r.id.Compare(id) }

func (h *Hot) register(after decider.Register) {
	if after.Kind != events.KindUnit {
		return
	}
	if r, ok := h.runs[after.Owner]; ok {
		r.announcer = after
	}
}

// unit applies the change of one unit. It is symmetric: unit(b, a) undoes unit(a, b).
func (h *Hot) unit(before, after decider.Unit) {
	id := cmp.Or(after.ID, before.ID)
	run, ok := h.runs[cmp.Or(after.Plan.Run, before.Plan.Run)]
	if !ok {
		return // the run has ended: nothing of it is open
	}
	if before.Exists() {
		h.remove(run, h.units[id], liveOf(before))
	}
	if after.Exists() {
		h.add(run, liveOf(after))
	} else {
		delete(h.units, id)
		run.forget(id)
	}
}

func (h *Hot) bucket(name events.Bucket) *hotBucket {
	b, ok := h.buckets[name]
	if !ok {
		b = &hotBucket{name: name}
		h.buckets[name] = b
	}
	return b
}

// add enters a unit in its present state.
func (h *Hot) add(run *hotRun, l live) {
	u, ok := h.units[l.id]
	if !ok {
		u = &hotUnit{run: run, lane: h.laneOf(run, l)}
		h.units[l.id] = u
		run.enlist(u, l)
	}
	l = u.effective(l)
	u.live = l
	if l.reference && l.status != events.UnitHasSucceeded {
		u.lane.from.block(1)
	}
	if l.status.Terminal() {
		count(&run.counts, l.status, 1)
		return
	}
	run.open++
	switch {
	case l.status == events.UnitIsPlanned:
		u.lane.add(&u.lane.waiting.planned, 1)
		run.rewind(u)
	case l.status == events.UnitIsRetrying:
		run.retries = append(run.retries, u)
		h.await(u)
	case l.inFlight():
		run.busy = append(run.busy, u)
		if u.suspect {
			h.atWork[u] = struct{}{}
		}
		h.slots(u, 1)
		h.judge(u)
	}
}

// remove takes a unit out of everything that its state l had entered it in.
func (h *Hot) remove(run *hotRun, u *hotUnit, l live) {
	if l.reference && l.status != events.UnitHasSucceeded {
		u.lane.from.block(-1)
	}
	if l.status.Terminal() {
		count(&run.counts, l.status, -1)
		return
	}
	run.open--
	switch {
	case l.status == events.UnitIsPlanned:
		u.lane.add(&u.lane.waiting.planned, -1)
	case l.status == events.UnitIsRetrying:
		run.retries = without(run.retries, u)
		h.endWait(u)
	case l.inFlight():
		run.busy = without(run.busy, u)
		h.land(u, l.status)
	}
}

func count(c *events.Counts, s events.UnitStatus, n int) {
	switch s {
	case events.UnitHasSucceeded:
		c.Succeeded += n
	case events.UnitHasFailed:
		c.Failed += n
	case events.UnitIsCancelled:
		c.Cancelled += n
	}
}

func without(list []*hotUnit, u *hotUnit) []*hotUnit {
	if i := slices.Index(list, u); i >= 0 {
		last := len(list) - 1
		list[i] = list[last]
		list[last] = nil
		return list[:last]
	}
	return list
}

// enlist appends a new unit to its tier; units are planned by rising ordinal.
func (r *hotRun) enlist(u *hotUnit, l live) {
	tier := &r.workItems
	if l.reference {
		tier = &r.reference
	}
	i, _ := slices.BinarySearchFunc(*tier, l.ordinal, func(u *hotUnit, ordinal int) int { return cmp.Compare(u.ordinal, ordinal) })
	*tier = slices.Insert(*tier, i, u)
}

func (r *hotRun) forget(id events.UnitID) {
	same := func(u *hotUnit) bool { return u.id == id }
	r.reference = slices.DeleteFunc(r.reference, same)
	r.workItems = slices.DeleteFunc(r.workItems, same)
	r.firstRef, r.firstWork = 0, 0
}

// rewind moves the cursor back for a unit that is planned again, which only a rollback does.
func (r *hotRun) rewind(u *hotUnit) {
	tier, first := r.workItems, &r.firstWork
	if u.reference {
		tier, first = r.reference, &r.firstRef
	}
	if *first < len(tier) && tier[*first].ordinal <= u.ordinal {
		return
	}
	i, _ := slices.BinarySearchFunc(tier, u.ordinal, func(u *hotUnit, ordinal int) int { return cmp.Compare(u.ordinal, ordinal) })
	*first = min(*first, i)
}

// plannedUnits walks the planned units of a run with an open tier: reference first, then by ordinal (HD-3).
func (r *hotRun) plannedUnits() iter.Seq[*hotUnit] {
	return func(yield func(*hotUnit) bool) {
		if !r.offersPlanned() {
			return
		}
		for _, t := range []struct {
			units []*hotUnit
			first *int
			work  bool
		}{{r.reference, &r.firstRef, false}, {r.workItems, &r.firstWork, true}} {
			for *t.first < len(t.units) && t.units[*t.first].status != events.UnitIsPlanned {
				*t.first++
			}
			for _, u := range t.units[*t.first:] {
				if u.status != events.UnitIsPlanned || t.work && !u.lane.from.open() || !u.lane.open() {
					continue
				}
				if !yield(u) {
					return
				}
			}
		}
	}
}

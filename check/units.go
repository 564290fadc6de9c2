package check

import (
	"slices"

	"github.com/towline-dev/towline/events"
)

// Unit is the checker's own fold of a unit stream (section 6.1).
//
//	∅ ──UnitPlanned──► planned ──UnitDispatched──► dispatching ──UnitClaimed──► running ──► succeeded, failed
//	                      │                 ▲ ▲ └─────┘ stale                     │
//	                      │                 └─┼──────── retrying ◄────────────────┘ UnitRetryScheduled
//	                      └──► failed (U-13)  └──► failed (U-14)          any open state ──► cancelled (U-15)
type Unit struct {
	ID        events.UnitID
	Run       events.RunID
	Plan      events.UnitPlanned
	Status    events.UnitStatus
	PlannedAt events.Micros
	SettledAt events.Micros // of the terminal event

	Dispatches        int // times dispatched
	AttemptDispatches int // of them for the attempt that they invite
	FirstDispatchedAt events.Micros
	LastDispatchedAt  events.Micros
	Wakeup            int // of run_sync_unit, that announces the newest dispatch

	Attempt        int             // times claimed
	Claimed        events.Position // newest claim; with the epoch before it, the fence
	ClaimedAt      events.Micros
	LastRenewedAt  events.Micros // of the running attempt
	LeaseToken     events.Token  // zero unless running, as the rest of the lease
	LeaseExpiresAt events.Micros
	LeaseEndsAt    events.Micros
	LeaseNode      events.NodeID // zero: an API worker's (N-5)
	GraceUntil     events.Micros // of the running attempt; zero: it had none (CLK-4)
	Worker         string

	AvailableAt         events.Micros // set exactly while retrying
	ExpiredLeaseRetries int
	RateLimitDeferrals  int
	RateLimitFirstAt    events.Micros
	HandBacks           int
	Suspect             bool              // RW-8
	CategoryRetries     []CategoryRetries // in the order in which the categories came up
	Category            events.Category   // of the failure, or of the newest retry
	By                  events.Settler
	Late                []int // attempts with a late result, in the order of the log
	Version             events.Version
}

// CategoryRetries counts the retries for one declared category (U-10).
type CategoryRetries struct {
	Category events.Category
	Count    int
}

type unit struct {
	Unit
	run    *run
	tier   *tier
	bucket *bucket
	last   events.Position // of its newest event

	inBusy, inFlight int // places in run.busy and slots.flight

	slotEnd events.Micros
	holds   bool // a slot

	messageNode  events.NodeID // whose in-process transport took its message; zero: none (N-3)
	retriedSince bool          // since the newest claim
	invitedSince bool          // dispatched since then
	lastToken    events.Token
	graceEnds    events.Micros // the absolute end of a lease under a grace (CLK-4)
	expiry       expiry
}

// endedUnit is what remains of a unit of an ended run.
type endedUnit struct {
	version events.Version
	attempt int
	status  events.UnitStatus
	late    []int
}

type twin struct {
	run             events.RunID
	source, dataset string
	from, to        int64
	open            bool
}

func (c *Checker) unitEvent(e events.Envelope, id events.UnitID) {
	u := c.units[id]
	if u == nil {
		if old, ok := c.ended[id]; ok {
			c.afterRun(e, id, old)
			return
		}
		if ev, ok := e.Event.(events.UnitPlanned); ok {
			c.unitPlanned(e, id, ev)
			return
		}
		c.stray(e, "%s of a unit that was never planned", e.Event.EventType())
		return
	}
	c.version(e, &u.Version)
	u.last = e.Position
	if ev, late := e.Event.(events.UnitLateResult); late {
		c.checkLate(e, ev, u.Attempt, u.Status, u.Late, u.run.Status.Terminal())
		u.Late = append(u.Late, ev.Attempt)
		return
	}
	if u.Status.Terminal() {
		c.afterUnit(e, u.Status)
		return
	}
	if u.run.Status.Terminal() {
		c.wrong("I-2", e, "%s, but its run is %s: every change of a unit needs an open run (6.1)", e.Event.EventType(), u.run.Status)
	}
	c.checkDecided(e, u)
	switch ev := e.Event.(type) {
	case events.UnitPlanned:
		c.wrong("I-2", e, "the unit is planned a second time (U-1)")
	case events.UnitDispatched:
		c.unitDispatched(e, u, ev)
	case events.UnitClaimed:
		c.unitClaimed(e, u, ev)
	case events.UnitLeaseRenewed:
		c.unitRenewed(e, u, ev)
	case events.UnitLeaseExpired:
		c.unitExpired(e, u, ev)
	case events.UnitSucceeded:
		c.unitSucceeded(e, u, ev)
	case events.UnitFailed:
		c.unitFailed(e, u, ev)
	case events.UnitRetryScheduled:
		c.unitRetried(e, u, ev)
	case events.UnitCancelled:
		c.unitCancelled(e, u, ev)
	}
}

// afterUnit takes what is no late result (I-3).
func (c *Checker) afterUnit(e events.Envelope, s events.UnitStatus) {
	c.wrong("I-3", e, "%s follows the end of the unit, which is %s", e.Event.EventType(), s)
}

// afterRun takes an event of a unit whose run has ended and was shrunk.
func (c *Checker) afterRun(e events.Envelope, id events.UnitID, u endedUnit) {
	c.version(e, &u.version)
	if ev, late := e.Event.(events.UnitLateResult); late {
		c.checkLate(e, ev, u.attempt, u.status, u.late, true)
		u.late = append(slices.Clip(u.late), ev.Attempt)
	} else {
		c.afterUnit(e, u.status)
	}
	c.ended[id] = u
}

func (c *Checker) unitPlanned(e events.Envelope, id events.UnitID, ev events.UnitPlanned) {
	r := c.runs[ev.Run]
	if r == nil {
		c.stray(e, "the unit belongs to run %s, which was never planned (U-1)", ev.Run)
		return
	}
	if r.Status.Terminal() {
		c.stray(e, "the unit joins run %s, which is %s (U-1)", ev.Run, r.Status)
		return
	}
	switch {
	case r.plannedTx != c.tx.position:
		c.wrong("I-2", e, "the unit joins its run outside the transaction that plans it (R-1)")
	case r.regs[dispatch] != nil:
		c.wrong("I-2", e, "the unit is planned behind the wakeup of its run (R-1)")
	}
	if ev.Ordinal != len(r.units)+1 {
		c.wrong("I-2", e, "its ordinal is %d, and it is unit %d of its run (P-2)", ev.Ordinal, len(r.units)+1)
	}
	t := twin{run: r.ID, source: ev.Source, dataset: ev.Dataset, to: ev.Window.To.UnixMicro(), open: ev.Window.From.IsZero()}
	if !t.open {
		t.from = ev.Window.From.UnixMicro()
	}
	if _, twice := c.tx.twins[t]; twice {
		c.wrong("I-2", e, "the run has a unit of %s/%s for this window already", ev.Source, ev.Dataset)
	}
	if c.tx.twins == nil {
		c.tx.twins = map[twin]struct{}{}
	}
	c.tx.twins[t] = struct{}{}

	u := &unit{
		Unit: Unit{ID: id, Run: r.ID, Plan: ev, PlannedAt: e.At, Version: c.opened(e.Stream)},
		run:  r, tier: r.tierOf(ev.Provider, ev.Source), bucket: c.slots.bucketOf(events.NewBucket(ev.Provider, ev.Cost)),
		last: e.Position, inBusy: -1, inFlight: -1,
	}
	c.units[id] = u
	r.units = append(r.units, u)
	if ev.Tier == events.TierReference {
		u.tier.references++
	}
	if !r.named && c.sources[ev.Source] {
		c.wrong("I-2", e, "its source %s is paused, and the request names no sources: the plan leaves it out (X-4)", ev.Source)
	}
	if !slices.Contains(u.tier.datasets, ev.Dataset) {
		u.tier.datasets = append(u.tier.datasets, ev.Dataset)
	}
	c.version(e, &u.Version)
	c.move(e, u, events.UnitIsPlanned)
}

// move puts a unit into a state, and keeps the counts of its run, its source and the slots.
func (c *Checker) move(e events.Envelope, u *unit, to events.UnitStatus) {
	r, from := u.run, u.Status
	if n := r.Units.of(from); n != nil {
		*n--
	}
	if n := r.Units.of(to); n != nil {
		*n++
	}
	reference := u.Plan.Tier == events.TierReference
	if from == events.UnitIsPlanned {
		u.tier.planned(reference, -1)
	}
	if to == events.UnitIsPlanned {
		u.tier.planned(reference, 1)
	}
	u.Status = to
	busy := to == events.UnitIsDispatching || to == events.UnitIsRunning || to == events.UnitIsRetrying
	keepIn(&r.busy, u, inBusy, busy)
	keepIn(&c.slots.flight, u, inFlight, busy && to != events.UnitIsRetrying)
	c.count(u)

	if !to.Terminal() {
		return
	}
	u.SettledAt = e.At
	if reference {
		switch to {
		case events.UnitHasSucceeded:
			u.tier.succeeded++
		case events.UnitHasFailed:
			u.tier.failed++
		default:
			u.tier.cancelled++
		}
		if to != events.UnitHasSucceeded {
			c.tx.fallen = append(c.tx.fallen, fallen{u, e.Position})
		}
	}
	if r.Units.Open() == 0 {
		c.tx.drained = append(c.tx.drained, drained{r, e.Position, e.Stream})
	}
}

// drained is the end of the last open unit of a run.
type drained struct {
	run      *run
	position events.Position
	stream   events.StreamID
}

func inBusy(u *unit) *int   { return &u.inBusy }
func inFlight(u *unit) *int { return &u.inFlight }

// keepIn makes u a member of list or not. at is the place of a member; the last one takes the place of one that goes.
func keepIn(list *[]*unit, u *unit, at func(*unit) *int, member bool) {
	l, place := *list, at(u)
	switch {
	case member && *place < 0:
		*place = len(l)
		*list = append(l, u)
	case !member && *place >= 0:
		end := len(l) - 1
		moved := l[end]
		l[*place] = moved
		*at(moved) = *place
		l[end] = nil
		*list = l[:end]
		*place = -1
	}
}

func (n *UnitCounts) of(s events.UnitStatus) *int {
	switch s {
	case events.UnitIsPlanned:
		return &n.Planned
	case events.UnitIsDispatching:
		return &n.Dispatching
	case events.UnitIsRunning:
		return &n.Running
	case events.UnitIsRetrying:
		return &n.Retrying
	case events.UnitHasSucceeded:
		return &n.Succeeded
	case events.UnitHasFailed:
		return &n.Failed
	case events.UnitIsCancelled:
		return &n.Cancelled
	}
	return nil
}

// endAttempt voids the lease; whatever state follows, it has none.
func (u *unit) endAttempt() {
	u.LeaseToken, u.LeaseExpiresAt, u.LeaseEndsAt, u.LeaseNode, u.Worker = "", 0, 0, events.NodeID{}, ""
	u.LastRenewedAt, u.GraceUntil, u.graceEnds, u.AvailableAt = 0, 0, 0, 0
}

// checkLate is U-19: a late result is recorded once per attempt, of an attempt that was made.
func (c *Checker) checkLate(e events.Envelope, ev events.UnitLateResult, attempts int, s events.UnitStatus, late []int, runEnded bool) {
	switch {
	case ev.Attempt < 1 || ev.Attempt > attempts:
		c.wrong("I-2", e, "a late result of attempt %d, and the unit was claimed %d times (U-19)", ev.Attempt, attempts)
	case slices.Contains(late, ev.Attempt):
		c.wrong("I-2", e, "attempt %d has a late result already (U-19)", ev.Attempt)
	}
	switch {
	case ev.Reason == events.LateRunTerminal && !runEnded:
		c.wrong("I-2", e, "the result is late for the end of the run, and the run is open (U-19)")
	case ev.Reason == events.LateUnitTerminal && !s.Terminal():
		c.wrong("I-2", e, "the result is late for the end of the unit, and the unit is %s (U-19)", s)
	case ev.Reason == events.LateAttemptOld && ev.Attempt >= attempts:
		c.wrong("I-2", e, "attempt %d is called old, and it is the newest (U-19)", ev.Attempt)
	}
}

func (c *Checker) unitCancelled(e events.Envelope, u *unit, ev events.UnitCancelled) {
	c.checkOperator(e, ev.Actor, ev.Reason == events.CancelledAlone, ev.Text)
	switch ev.Reason {
	case events.CancelledAlone:
	case events.CancelledWithRun:
		c.tx.cancelled = append(c.tx.cancelled, u)
	case events.CancelledWithReference:
		if u.Status != events.UnitIsPlanned || u.Plan.Tier != events.TierWorkItem || u.tier.cancelled == 0 {
			c.wrong("I-2", e, "no reference unit of source %s was cancelled, or the unit (%s, %s) does not wait for one (U-15)", u.Plan.Source, u.Plan.Tier, u.Status)
		}
	default:
		c.wrong("I-2", e, "a unit cannot be cancelled for %q (U-15)", ev.Reason)
	}
	u.endAttempt()
	u.By = events.ByOperator
	c.move(e, u, events.UnitIsCancelled)
}

// fallen is a reference unit that will not succeed any more.
type fallen struct {
	u        *unit
	position events.Position
}

// endOfCascades: nothing goes on waiting for a reference unit that has failed or was cancelled (U-13, U-15).
func (c *Checker) endOfCascades() {
	for _, f := range c.tx.fallen {
		if f.u.tier.plannedWorking > 0 && !f.u.run.Status.Terminal() {
			c.report("I-2", f.position, events.UnitStream(f.u.ID),
				"the reference unit ended as %s, and the transaction leaves %d work items of source %s waiting for it (U-13)",
				f.u.Status, f.u.tier.plannedWorking, f.u.Plan.Source)
		}
	}
}

package check

import (
	"fmt"

	"github.com/towline-dev/towline/events"
)

// Register is the checker's own fold of an outbox stream (section 6.3).
//
//	idle ──Armed(n)──► pending(n) ──Claimed(n)──► claimed(n) ──Dispatched(n), Dropped(n)──► idle, or pending(n+1)
//	                    ▲  ▲   │ Released(n)         │ │
//	                    │  └───┼─────────────────────┘ └─Dispatched(n), mark_first─► marked ─Outcome─► idle, unresolved
//	         Armed(n+1) │      ▼ Parked(n)
//	                   parked(n)
type Register struct {
	Owner [16]byte // a run, or a message
	Kind  events.Kind
	State RegisterState

	Newest  int // highest number ever armed
	Current int // lowest number neither closed nor parked, else the newest
	Closed  int // highest closed number

	AvailableAt    events.Micros // of Current while pending
	Attempts       int           // of Current
	Floor          bool          // AvailableAt was set by a counted release (O-4)
	MaybePublished bool          // a broker may know Current (O-6)
	Next           int           // the number that waits; 0: none
	NextAt         events.Micros

	ClaimToken     events.Token // zero unless claimed, as the rest of the claim
	ClaimExpiresAt events.Micros
	ClaimNode      events.NodeID

	Outcomes         []TargetOutcome // of the marked number, in the order of the log
	LastDispatchedAt events.Micros
	LastClosedAt     events.Micros
	Transport        string // of the newest OutboxDispatched
	Version          events.Version
}

// RegisterState is the state of a register (section 4.2).
type RegisterState string

const (
	Idle       RegisterState = "idle"
	Pending    RegisterState = "pending"
	Claimed    RegisterState = "claimed"
	Marked     RegisterState = "marked"
	Parked     RegisterState = "parked"
	Unresolved RegisterState = "unresolved"
)

// TargetOutcome is what is known of the publish to one target (K-8), and what an operator said of it (O-17).
type TargetOutcome struct {
	Target   string
	Outcome  events.Outcome
	Resolved events.Resolution
}

// Places of the kinds in run.regs, in the order of events.Kinds.
const (
	dispatch = iota
	fanOut
	finalize
	postSync
)

type register struct {
	Register
	stream  events.StreamID
	run     *run     // nil for kind message
	message *message // nil for the other kinds
	last    events.Position

	parked     []int // numbers that are parked and not closed (K-1)
	topClaimed int   // highest number ever claimed
	claims     int
	claimedAt  events.Position // newest claim
	marks      int
	owed       answer // at the newest claim (O-8)
	counted    bool   // the newest release spent its attempt
	releasedTx events.Position
	released   int // number of the newest release
	cause      events.ReleaseCause

	markExpires events.Micros // of the claim under which the marked number was marked (O-12)
	markNode    events.NodeID
}

// orderOf is the order of effects of a kind (section 7).
func (r *register) orderOf() events.Order {
	if r.Kind == events.KindPostSync && r.run.mode() == events.AtMostOnce {
		return events.MarkFirst
	}
	return events.PublishFirst
}

// announced is the number that an arm would leave open (K-1). A nil register has never been armed.
func (r *register) announced() int {
	switch {
	case r == nil:
		return 1
	case r.State == Pending && !r.MaybePublished:
		return r.Current
	case r.Next != 0:
		return r.Next
	}
	return r.Newest + 1
}

// unknown is the open wakeup that no broker can know, and its time; n is 0 if there is none (I-9, I-10).
func (r *register) unknown() (at events.Micros, n int) {
	switch {
	case r == nil:
		return 0, 0
	case r.State == Pending && !r.MaybePublished:
		return r.AvailableAt, r.Current
	case r.Next != 0:
		return r.NextAt, r.Next
	}
	return 0, 0
}

// describe is the state in a sentence.
func (r *register) describe() string {
	if r == nil {
		return "never armed"
	}
	s := fmt.Sprintf("%s(%d)", r.State, r.Current)
	switch {
	case r.Newest == 0:
		s = "not armed"
	case r.State == Idle:
		s = fmt.Sprintf("idle, wakeup %d closed", r.Closed)
	case r.State == Pending && r.MaybePublished:
		s += ", which may be published"
	}
	if r.Next != 0 {
		s += fmt.Sprintf(", wakeup %d waiting", r.Next)
	}
	return s
}

func (c *Checker) registerEvent(e events.Envelope, owner [16]byte, kind events.Kind) {
	r := c.register(e, owner, kind)
	if r == nil {
		return
	}
	c.version(e, &r.Version)
	r.last = e.Position
	switch ev := e.Event.(type) {
	case events.OutboxArmed:
		c.armed(e, r, ev)
	case events.OutboxClaimed:
		c.claimed(e, r, ev)
	case events.OutboxDispatched:
		c.marked(e, r, ev)
	case events.OutboxReleased:
		c.releasedClaim(e, r, ev)
	case events.OutboxDropped:
		c.dropped(e, r, ev)
	case events.OutboxParked:
		c.parked(e, r, ev)
	case events.OutboxOutcome:
		c.outcome(e, r, ev)
	case events.OutboxResolved:
		c.resolved(e, r, ev)
	}
}

// register finds the register of e, or opens it with its first arm. It is nil for a stray.
func (c *Checker) register(e events.Envelope, owner [16]byte, kind events.Kind) *register {
	at := c.slotOf(owner, kind)
	if *at != nil {
		return *at
	}
	r := &register{
		Register: Register{Owner: owner, Kind: kind, State: Idle, Version: c.opened(e.Stream)},
		stream:   e.Stream, run: c.runs[owner], message: c.messages[owner],
	}
	if kind == events.KindMessage {
		r.run = nil
	} else {
		r.message = nil
	}
	switch _, arm := e.Event.(events.OutboxArmed); {
	case r.run == nil && r.message == nil:
		c.stray(e, "%s, and its owner was never planned or submitted (O-3)", e.Event.EventType())
		return nil
	case !arm:
		c.stray(e, "%s of a register that was never armed", e.Event.EventType())
		return nil
	}
	*at = r
	c.registers = append(c.registers, r)
	return r
}

// slotOf is where the register of an owner is kept; for an owner that the log does not know it is a place for nothing.
func (c *Checker) slotOf(owner [16]byte, kind events.Kind) **register {
	if kind == events.KindMessage {
		if m := c.messages[owner]; m != nil {
			return &m.register
		}
		return new(*register)
	}
	if run := c.runs[owner]; run != nil {
		for i, k := range events.Kinds {
			if k == kind {
				return &run.regs[i]
			}
		}
	}
	return new(*register)
}

// armed checks O-S1 to O-S3 and O-S8.
func (c *Checker) armed(e events.Envelope, r *register, ev events.OutboxArmed) {
	c.mayArm(e, r, ev)
	n := r.announced()
	open, _ := r.unknown()
	switch {
	case ev.N != n:
		c.wrong("I-11", e, "it arms wakeup %d of a register that is %s, and the next wish is wakeup %d (O-2, O-6)", ev.N, r.describe(), n)
	case n <= r.Newest && n == r.Current && r.Floor:
		c.wrong("I-2", e, "it moves wakeup %d, and its time %s is a backoff, which an arm does not move (O-4)", n, open)
	case n <= r.Newest && ev.AvailableAt >= open:
		c.wrong("I-11", e, "it arms wakeup %d again for %s, and that is open and due at %s (O-4)", n, ev.AvailableAt, open)
	}
	if ev.AvailableAt == 0 {
		c.wrong("I-30", e, "wakeup %d is armed for no time", ev.N)
	}

	switch {
	case ev.N == r.Current && r.State == Pending:
		r.AvailableAt = ev.AvailableAt
	case ev.N == r.Next && r.Next != 0:
		r.NextAt = ev.AvailableAt
	case ev.N <= r.Newest: // a number that has ended; it stays so
	case r.State == Pending || r.State == Claimed:
		r.Newest, r.Next, r.NextAt = ev.N, ev.N, ev.AvailableAt
	default:
		r.Newest, r.Next, r.NextAt = ev.N, ev.N, ev.AvailableAt
		r.advance()
	}
}

// mayArm is the column "may be armed again" of section 7, with and O-3.
func (c *Checker) mayArm(e events.Envelope, r *register, ev events.OutboxArmed) {
	first := r.Newest == 0
	if r.State == Parked && ev.Cause == events.ArmMaterialized {
		c.wrong("I-2", e, "wakeup %d is parked, and materialization never arms a parked register (O-S8)", r.Current)
	}
	if ev.Cause == events.ArmRedriven && r.State != Parked {
		c.wrong("I-2", e, "it redrives a register that is %s (O-18)", r.describe())
	}
	switch r.Kind {
	case events.KindPostSync:
		c.mayArmPost(e, r, first)
		return
	case events.KindMessage:
		if first {
			r.message.armedTx = c.tx.position
		} else if ev.Cause != events.ArmRedriven {
			c.wrong("I-2", e, "a message is armed again by redrive only (section 7)")
		}
		return
	case events.KindDispatch:
		c.mayArmDispatch(e, r, ev, first)
	case events.KindUnit, events.KindFinalize:
		if ev.Cause != events.ArmRedriven {
			c.tx.announced = append(c.tx.announced, announced{r, e.Position})
		}
	}
	if r.run.Status.Terminal() && ev.Cause != events.ArmRedriven {
		c.wrong("I-2", e, "nothing is owed, the run is %s (O-3)", r.run.Status)
	}
}

// announced is an arm, until the end of its transaction shows the change that it announces (O-3).
type announced struct {
	r        *register
	position events.Position
}

// endOfAnnounced: run_sync_unit is armed with a dispatch, and finalize_sync_run when no unit is open (section 7, U-21).
func (c *Checker) endOfAnnounced() {
	for _, a := range c.tx.announced {
		run := a.r.run
		if a.r.Kind == events.KindFinalize {
			if open := run.Units.Open(); open > 0 {
				c.report("I-2", a.position, a.r.stream, "finalize_sync_run is armed, and %d units of the run are open (U-21)", open)
			}
			continue
		}
		found := false
		for _, d := range c.tx.dispatched {
			found = found || d.u.run == run
		}
		if !found {
			c.report("I-2", a.position, a.r.stream, "run_sync_unit is armed, and the transaction dispatches no unit of the run (O-3, section 7)")
		}
	}
}

// mayArmDispatch: wakeup 1 is the contract of the plan, behind its units and due now (R-1, P-6).
func (c *Checker) mayArmDispatch(e events.Envelope, r *register, ev events.OutboxArmed, first bool) {
	switch run := r.run; {
	case !first:
	case run.plannedTx != c.tx.position:
		c.wrong("I-2", e, "the first wakeup of the run is armed outside the transaction that plans it (R-1)")
	case len(run.units) < run.Total || run.Total == 0:
		c.wrong("I-2", e, "the first wakeup of the run is armed with %d of %d units planned (R-1)", len(run.units), run.Total)
	case ev.AvailableAt != e.At:
		c.wrong("I-2", e, "the first wakeup of the run is due at %s instead of now (R-1)", ev.AvailableAt)
	}
}

// mayArmPost: post_sync is armed by the end of its run, once (I-8, I-13).
func (c *Checker) mayArmPost(e events.Envelope, r *register, first bool) {
	run := r.run
	switch {
	case !first && r.orderOf() == events.MarkFirst:
		c.wrong("I-13", e, "an at-most-once post_sync is armed a second time, behind wakeup %d", r.Newest)
	case !run.Status.Terminal():
		c.wrong("I-8", e, "post_sync is armed, and the run is %s", run.Status)
	case !run.PostSyncOwed && run.endedTx != c.tx.position: // within that transaction the end of it says so
		c.wrong("I-8", e, "post_sync is armed, and the run owes none: %d units succeeded, %d targets", run.Units.Succeeded, len(run.Policy.Targets))
	}
	if first {
		run.postTx = c.tx.position
	}
}

// advance makes the waiting number the current one, or leaves the register idle.
func (r *register) advance() {
	r.endClaim()
	r.Attempts, r.AvailableAt, r.Floor, r.MaybePublished = 0, 0, false, false
	if r.Next == 0 {
		r.State = Idle
		return
	}
	r.State, r.Current, r.AvailableAt = Pending, r.Next, r.NextAt
	r.Next, r.NextAt = 0, 0
}

func (r *register) endClaim() { r.ClaimToken, r.ClaimExpiresAt, r.ClaimNode = "", 0, events.NodeID{} }

// close ends number n and all below it; a parked number is closed with the next one that closes (K-1).
func (r *register) close(e events.Envelope, n int) {
	r.Closed, r.LastClosedAt = max(r.Closed, n), e.At
	left := r.parked[:0]
	for _, p := range r.parked {
		if p > r.Closed {
			left = append(left, p)
		}
	}
	r.parked = left
	if n >= r.Next {
		r.Next, r.NextAt = 0, 0
	}
	r.Newest, r.Current = max(r.Newest, n), max(r.Current, n)
}

// settleUnits tells the units that number n announced through whose memory their messages went (N-3).
func (r *register) settleUnits(c *Checker, before, n int, node events.NodeID) {
	for _, u := range r.run.busy {
		if u.Status == events.UnitIsDispatching && u.Wakeup > before && u.Wakeup <= n {
			u.messageNode = node
			c.count(u)
		}
	}
}

// endOfRegisters accounts for every number that was armed: it is closed, parked or open (I-11).
func (c *Checker) endOfRegisters() {
	if c.finished {
		return
	}
	c.finished = true
	for _, r := range c.registers {
		open := len(r.parked)
		if r.State == Pending || r.State == Claimed {
			open++
		}
		if r.Next != 0 {
			open++
		}
		if r.Newest-r.Closed != open {
			c.report("I-11", r.last, r.stream, "wakeups %d to %d are not closed, and %d of them are parked or open", r.Closed+1, r.Newest, open)
		}
	}
}

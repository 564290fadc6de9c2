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

	lost       int   // how many processes in a row have died with the message (M-16)
	parked     []int // numbers that are parked and not closed (K-1)
	topClaimed int   // highest number ever claimed
	claims     int
	claimedAt  events.Position // newest claim
	claimTime  events.Micros   // of it
	timelessTx events.Position // of the claim without a time that was taken over from an older outbox (M-7)
	marks      int
	owed       answer // at the newest claim (O-8)
	messages   int    // that the newest claim is for; of post_sync: targets (K-8)
	counted    bool   // the newest release spent its attempt
	releasedTx events.Position
	released   int // number of the newest release
	cause      events.ReleaseCause
	failed     int // number of the newest publish that failed, and when it did (O-16)
	failedAt   events.Micros
	backlog    *recovery // it was due when the breaker of its transport closed (O-16)

	markExpires events.Micros // of the claim under which the marked number was marked (O-12)
	markNode    events.NodeID
}

// order is the order of effects of a kind (section 7).
func (r *register) order() events.Order {
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

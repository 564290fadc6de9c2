package decider

import (
	"slices"

	"github.com/towline-dev/towline/events"
)

// Register is the fold of an outbox stream: the wish that somebody be woken (O-1).
//
//	        Armed(n)            Claimed(n)            Dispatched(n), Dropped(n)
//	idle ──────────► pending(n) ─────────► claimed(n) ────────────────────────► idle, or pending(n+1) if one waits
//	                   ▲  ▲  │ Released(n)     │ │
//	                   │  └──┼─────────────────┘ └─ Dispatched(n), mark_first ─► marked(n) ─Outcome─► idle, unresolved
//	        Armed(n+1) │     ▼ Parked(n)
//	                  parked(n)
//
// The consumer of a message parks it in whatever state it is, but for one that was surely never published (M-11).
//
// An operator parks what is pending, redrives what is parked, which arms n+1, and resolves what is unresolved, which
// closes it. What is idle behind a mark becomes unresolved when the process dies that had begun an effect of it (HP-5).
//
// At most two wakeups are open: the current n, and n+1 that waits while a broker may know n (O-6). They close in order.
type Register struct {
	Owner  [16]byte
	Kind   events.Kind
	Status RegisterStatus // empty: never armed

	Newest  int // highest number ever armed
	Current int // lowest number neither closed nor parked, else the newest
	Closed  int // highest closed number
	Claimed int // highest number ever claimed: what was published has no higher one

	AvailableAt    events.Micros // of Current while pending
	Attempts       int           // of Current
	Floor          bool          // AvailableAt is a backoff, which an arm does not move earlier (O-4)
	MaybePublished bool          // a broker may know the id of Current (O-6)
	FailedAt       events.Micros // when a publish of Current last failed; 0: none did (O-16)

	Next   int // the number that waits; 0: none
	NextAt events.Micros

	Lost int // of a message: how many processes in a row have died with it (M-16)

	Claim Claim // zero unless claimed or marked; the token alone where a consumer was faster than the mark (M-11)

	Targets  int             // how many outcomes the mark of a mark_first number calls for
	Outcomes []TargetOutcome // of it, in order
	Resolved []Resolution    // of it, by an operator, in order

	LastCause        string
	LastText         string
	LastDispatchedAt events.Micros
	LastClosedAt     events.Micros
	Transport        string
	ClosedBy         events.NodeID // incarnation of the newest close
	Closers          []Closer      // of run_sync_unit: who has the messages of which numbers, oldest first
}

// RegisterStatus is the state of a register (spec 4.2).
type RegisterStatus string

const (
	RegisterIdle       RegisterStatus = "idle"
	RegisterPending    RegisterStatus = "pending"
	RegisterClaimed    RegisterStatus = "claimed"
	RegisterMarked     RegisterStatus = "marked"
	RegisterParked     RegisterStatus = "parked"
	RegisterUnresolved RegisterStatus = "unresolved"
)

// Claim is a relay's time-limited right to publish, mark and release the current wakeup, and for a mark_first one to
// record its outcomes.
type Claim struct {
	Token     events.Token
	ExpiresAt events.Micros // 0: counts as expired (O-14)
	Node      events.NodeID
	Messages  int
}

// TargetOutcome is what is known of the publish to one target (K-8). Without targets the name is empty.
type TargetOutcome struct {
	Target  string         `json:"target,omitzero"`
	Outcome events.Outcome `json:"outcome"`
	Cause   string         `json:"cause,omitzero"`
}

// Resolution is an operator's word on a publish of which nobody knew (O-17).
type Resolution struct {
	Target  string            `json:"target"`
	Outcome events.Resolution `json:"outcome"`
	Actor   string            `json:"actor"`
	Reason  string            `json:"reason"`
}

// Closer says in whose memory the messages of closed numbers are: those up to Through, behind the entry before it.
type Closer struct {
	Through int           `json:"through"`
	Node    events.NodeID `json:"node,omitzero"` // zero: they went to a broker
}

// maxClosers bounds the list; a run hardly ever outlives as many incarnations. Beyond it the oldest two become one, under
// the older name: at worst a message is taken for lost that is not, which costs a duplicate.
const maxClosers = 16

// MessageIn is the incarnation in whose memory the message of wakeup n is; zero: it went to a broker, or nowhere yet (N-3).
func (r Register) MessageIn(n int) events.NodeID {
	if n > 0 && n <= r.Closed {
		for _, c := range r.Closers {
			if n <= c.Through {
				return c.Node
			}
		}
	}
	return events.NodeID{}
}

// Outcome returns what is on record for a target.
func (r Register) Outcome(target string) (TargetOutcome, bool) {
	for _, o := range r.Outcomes {
		if o.Target == target {
			return o, true
		}
	}
	return TargetOutcome{}, false
}

func (r Register) resolved(target string) bool {
	return slices.ContainsFunc(r.Resolved, func(x Resolution) bool { return x.Target == target })
}

// Announce is the number that an arm would leave open (K-1): the current one while no broker can know it, the waiting
// one if there is one, else a new one.
func (r Register) Announce() int {
	switch {
	case r.Status == RegisterPending && !r.MaybePublished:
		return r.Current
	case r.Next != 0:
		return r.Next
	}
	return r.Newest + 1
}

// OpenAt is the time of the wakeup that Announce names, and false if there is none yet.
func (r Register) OpenAt() (events.Micros, bool) {
	switch {
	case r.Status == RegisterPending && !r.MaybePublished:
		return r.AvailableAt, true
	case r.Next != 0:
		return r.NextAt, true
	}
	return 0, false
}

// ClaimLive reports that the claim is in force at now (O-9, CLK-1).
func (r Register) ClaimLive(now events.Micros) bool {
	return r.Status == RegisterClaimed && r.Claim.ExpiresAt > now
}

// ClosedInProcess reports that the newest close was a publish to the in-process transport of an incarnation that is gone,
// so that its message is gone too (N-3). gone says of ClosedBy whether it is gone.
func (r Register) ClosedInProcess(gone bool) bool {
	return gone && r.Closed > 0 && events.InProcess(r.Transport)
}

func (r Register) evolve(env events.Envelope) Register {
	switch e := env.Event.(type) {
	case events.OutboxArmed:
		r = r.armed(env, e)
	case events.OutboxClaimed:
		r.Status, r.Attempts, r.Claimed = RegisterClaimed, e.Attempt, max(r.Claimed, e.N)
		r.Claim = Claim{Token: e.Token, ExpiresAt: e.ClaimExpiresAt, Node: env.Node, Messages: e.MessageCount}
		r.AvailableAt, r.Floor = 0, false
	case events.OutboxDispatched:
		r = r.dispatched(env, e)
	case events.OutboxReleased:
		r.Status, r.Claim, r.AvailableAt = RegisterPending, Claim{}, e.AvailableAt
		r.Floor = e.Counted
		r.MaybePublished = r.MaybePublished || e.MaybePublished
		if !e.Counted {
			r.Attempts--
		}
		if e.Cause == events.ReleaseIncarnationGone && r.Kind == events.KindMessage {
			r.Lost++
		}
		if e.Transport != "" {
			r.FailedAt = env.At
		}
		r.LastCause, r.LastText = string(e.Cause), e.Text
	case events.OutboxDropped:
		r.LastCause, r.LastText = string(e.Reason), ""
		r = r.closed(env, e.N).advanced()
	case events.OutboxParked:
		r.LastCause, r.LastText = string(e.Cause), e.Text
		claim := Claim{}
		if e.Cause == events.ParkHandlerFailed {
			claim.Token = r.Claim.Token // its relay may come to mark it
		}
		r.Status, r.Claim, r.AvailableAt, r.Floor = RegisterParked, claim, 0, false
		if r.Next != 0 {
			r = r.advanced()
		}
	case events.OutboxOutcome:
		r.Outcomes = r.withOutcome(TargetOutcome{e.Target, e.Outcome, e.Cause})
		r.LastCause = e.Cause
		r = r.outcomesSettled()
	case events.OutboxResolved:
		r.Resolved = append(r.Resolved[:len(r.Resolved):len(r.Resolved)], Resolution{e.Target, e.Outcome, e.Actor, e.Reason})
		if r.Status == RegisterPending { // in a restored hold: it was sent in an earlier life (O-17)
			return r.closed(env, e.N).advanced()
		}
		r = r.outcomesSettled()
	}
	return r
}

func (r Register) armed(env events.Envelope, e events.OutboxArmed) Register {
	if r.Status == "" {
		r.Owner, r.Kind, _ = env.Stream.Register()
	}
	switch {
	case e.Cause == events.ArmRedriven:
		r.Lost = 0
	case e.Died:
		r.Lost++
	}
	switch {
	case e.N <= r.Newest && e.N == r.Next: // moved earlier while it waits
		r.NextAt = e.AvailableAt
	case e.N <= r.Newest: // moved earlier while pending
		r.AvailableAt = e.AvailableAt
	case r.Status == RegisterPending || r.Status == RegisterClaimed: // waits behind a number that a broker may know
		r.Newest, r.Next, r.NextAt = e.N, e.N, e.AvailableAt
	default:
		r.Newest, r.Next, r.NextAt = e.N, e.N, e.AvailableAt
		r = r.advanced()
	}
	return r
}

func (r Register) dispatched(env events.Envelope, e events.OutboxDispatched) Register {
	r.LastDispatchedAt, r.LastCause, r.LastText = env.At, "", ""
	r = r.closed(env, e.N)
	r.Transport = e.Transport
	if r.Kind == events.KindUnit {
		c := Closer{Through: e.N}
		if events.InProcess(e.Transport) {
			c.Node = env.Node
		}
		r.Closers = r.withCloser(c)
	}
	if e.Order == events.MarkFirst {
		r.Status, r.Targets = RegisterMarked, max(e.MessageCount, 1)
		return r // the claim bounds how long the outcomes may take (O-12)
	}
	return r.advanced()
}

// closed notes the close of n, and with it of every parked number below (K-1).
func (r Register) closed(env events.Envelope, n int) Register {
	if r.ClosedBy != env.Node {
		r.Transport = ""
	}
	r.Closed, r.ClosedBy, r.LastClosedAt = n, env.Node, env.At
	return r
}

// withCloser copies: a state is a value, and an older copy of it may live in a cache.
func (r Register) withCloser(c Closer) []Closer {
	list := slices.Clone(r.Closers)
	if n := len(list); n > 0 && list[n-1].Node == c.Node {
		list[n-1].Through = c.Through
		return list
	}
	if len(list) == maxClosers {
		list[1].Node = list[0].Node
		list = list[1:]
	}
	return append(list, c)
}

// advanced makes the waiting number the current one, or leaves the register idle.
func (r Register) advanced() Register {
	r.Claim, r.Attempts, r.AvailableAt, r.Floor, r.MaybePublished, r.FailedAt = Claim{}, 0, 0, false, false, 0
	if r.Next == 0 {
		r.Status = RegisterIdle
		return r
	}
	r.Status, r.Current, r.AvailableAt = RegisterPending, r.Next, r.NextAt
	r.Next, r.NextAt = 0, 0
	return r
}

// withOutcome copies: a state is a value. A second word on a target takes the place of the first: its publish was accepted,
// and then the process died that had begun the effect (HP-5).
func (r Register) withOutcome(o TargetOutcome) []TargetOutcome {
	list := slices.Clone(r.Outcomes)
	for i, old := range list {
		if old.Target == o.Target {
			list[i] = o
			return list
		}
	}
	return append(list, o)
}

func (r Register) outcomesSettled() Register {
	if len(r.Outcomes) < r.Targets {
		return r
	}
	r.Status, r.Claim = RegisterIdle, Claim{}
	for _, o := range r.Outcomes {
		if o.Outcome == events.Unknown && !r.resolved(o.Target) {
			r.Status = RegisterUnresolved
		}
	}
	return r
}

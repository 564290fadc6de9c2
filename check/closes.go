package check

import (
	"slices"

	"github.com/towline-dev/towline/events"
)

// marked checks O-S5 and O-S5a.
func (c *Checker) marked(e events.Envelope, r *register, ev events.OutboxDispatched) {
	order := r.order()
	if order == events.MarkFirst && r.marks > 0 {
		c.wrong("I-13", e, "an at-most-once post_sync is marked a second time")
	}
	c.checkClaim(e, r, ev.N, ev.Token)
	if c.hold {
		c.wrong("I-2", e, "wakeup %d is marked in a restored hold, and nothing is published in one (DUR-5)", ev.N)
	}
	if ev.Order != order {
		c.wrong("I-2", e, "it is marked %s, and the order of %s is %s (8.1)", ev.Order, r.Kind, order)
	}
	if r.Kind == events.KindPostSync && ev.MessageCount != r.messages {
		c.wrong("I-2", e, "the mark counts %d messages, and its claim was for %d targets (K-8)", ev.MessageCount, r.messages)
	}
	c.noteMark(e, r)
	c.noteWorked(e, r, ev.Transport)
	c.noteElsewhere(e, r, ev.Transport)

	before, local := r.Closed, events.NodeID{}
	if events.InProcess(ev.Transport) {
		local = e.Node
	}
	r.markExpires, r.markNode = r.ClaimExpiresAt, r.ClaimNode
	r.marks++
	r.LastDispatchedAt, r.Transport = e.At, ev.Transport
	r.close(e, ev.N)
	if r.Kind == events.KindUnit {
		r.settleUnits(c, before, ev.N, local)
	}
	if order == events.MarkFirst {
		r.endClaim()
		r.State, r.AvailableAt, r.Outcomes = Marked, 0, nil
		return
	}
	if ev.N >= r.Current {
		r.advance()
	}
}

// dropped checks O-8: a wakeup closes without a publish only if nothing is owed.
func (c *Checker) dropped(e events.Envelope, r *register, ev events.OutboxDropped) {
	if !c.endsDeadClaim(e, r, ev) {
		c.checkClaim(e, r, ev.N, ev.Token)
	}
	if c.owes(e.Node, r, ev.N, e.At) == yes {
		c.wrong("I-2", e, "wakeup %d is dropped for %s, and its obligation stands (O-8)", ev.N, ev.Reason)
	}
	c.tx.beyond = slices.DeleteFunc(c.tx.beyond, func(b beyond) bool { return b.register == r && b.claim.N == ev.N })
	ended := r.run != nil && r.run.Status.Terminal() && r.Kind != events.KindPostSync
	switch ev.Reason {
	case events.DropRunTerminal:
		if !ended {
			c.wrong("I-2", e, "wakeup %d is dropped for the end of its run, which is open (O-8)", ev.N)
		}
	case events.DropUnitGone:
		if r.Kind != events.KindUnit {
			c.wrong("I-2", e, "wakeup %d of %s is dropped for want of units (K-1)", ev.N, r.Kind)
		}
	case events.DropNothingOwed:
		if r.Kind == events.KindDispatch && !ended {
			c.tx.dropped = append(c.tx.dropped, r)
		}
	default:
		c.wrong("I-2", e, "a wakeup cannot be dropped for %q", ev.Reason)
	}
	before := r.Closed
	r.close(e, ev.N)
	if r.Kind == events.KindUnit {
		r.settleUnits(c, before, ev.N, events.NodeID{})
	}
	if ev.N >= r.Current {
		r.advance()
	}
}

// endsDeadClaim: where the release of a dead claim would have to park its number, and nothing is owed, the drop takes
// its place (O-15). That is the one drop without a live claim.
func (c *Checker) endsDeadClaim(e events.Envelope, r *register, ev events.OutboxDropped) bool {
	dead := r.ClaimExpiresAt <= e.At || c.gone(r.ClaimNode)
	limit := c.settings(e.Node).MaxAttempts
	return r.State == Claimed && ev.N == r.Current && ev.Token == r.ClaimToken && dead &&
		r.order() == events.PublishFirst && (limit <= 0 || r.Attempts >= limit)
}

// endOfWakeups: what is claimed for nothing is dropped at once (O-8), a drop leaves the wakeup of what waits for a
// later time (HD-6), and a spent wakeup is parked at once (O-15).
func (c *Checker) endOfWakeups() {
	for _, b := range c.tx.beyond {
		c.wrong("I-12", b.env, "it is attempt %d of wakeup %d, and relay.max_attempts is %d", b.claim.Attempt, b.claim.N, b.limit)
	}
	for _, r := range c.tx.claimed {
		if r.State == Claimed && r.owed == no {
			c.report("I-2", r.claimedAt, r.stream, "wakeup %d is claimed, its obligation is gone, and the transaction does not drop it (O-8)", r.Current)
		}
	}
	for _, r := range c.tx.dropped {
		if r.run.Status.Terminal() {
			continue
		}
		next := c.nextLook(r.run)
		at, n := r.unknown()
		if next != 0 && (n == 0 || at > next && !(n == r.Current && r.Floor)) {
			c.report("I-2", r.last, r.stream, "a wakeup is dropped, a unit waits for %s, and the register is left %s (O-8, HD-6)", next, r.describe())
		}
	}
	for _, r := range c.tx.claimed {
		if r.State == Claimed && r.timelessTx == c.tx.position {
			c.report("I-30", r.claimedAt, r.stream, "wakeup %d is claimed without a time, and the transaction does not release it (M-7)", r.Current)
		}
	}
	limit := c.settings(c.tx.node).MaxAttempts
	for _, r := range c.tx.released {
		if r.State == Pending && r.counted && r.order() == events.PublishFirst && limit > 0 && r.Attempts >= limit {
			c.report("I-30", r.last, r.stream, "wakeup %d has spent its %d attempts and is pending: no scan claims it, and it is not shown as parked (O-15)", r.Current, r.Attempts)
		}
	}
}

// nextLook is the earliest time ahead for which a unit of a run waits that the node of this transaction does not hold: its
// retry, or the end of a cooldown (HD-6, RL-5); 0: none.
func (c *Checker) nextLook(r *run) (next events.Micros) {
	now := c.tx.at
	for _, t := range r.sources {
		if t.plannedReferences > 0 || t.plannedWorking > 0 && t.open() {
			if until := c.cooldown.until(t.provider, t.source); until > now && c.pausedSource(t.source) == "" && !c.lacksSome(c.tx.node, r, t) {
				next = events.Earliest(next, until)
			}
		}
	}
	for _, u := range r.busy {
		until := max(u.AvailableAt, c.cooldown.until(u.Plan.Provider, u.Plan.Source))
		if u.Status == events.UnitIsRetrying && until > now && c.pausedSource(u.Plan.Source) == "" && !c.lacksSome(c.tx.node, r, u.tier) {
			next = events.Earliest(next, until)
		}
	}
	return next
}

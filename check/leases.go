package check

import "github.com/towline-dev/towline/events"

// expiry is a UnitLeaseExpired that waits for its decision (I-19).
type expiry struct {
	tx       events.Position // 0: none
	position events.Position
	cause    events.ExpiryCause
}

// leaseEnd is the first moment at which the lease of a running unit is no longer live (U-17, CLK-4); 0: it is dead.
func (c *Checker) leaseEnd(u *unit) events.Micros {
	if u.Status != events.UnitIsRunning || c.gone(u.LeaseNode) {
		return 0
	}
	return max(u.LeaseExpiresAt, u.GraceUntil)
}

// unitClaimed checks U-5.
func (c *Checker) unitClaimed(e events.Envelope, u *unit, ev events.UnitClaimed) {
	switch {
	case u.Status == events.UnitIsRunning:
		c.wrong("I-4", e, "the unit is running under attempt %d already", u.Attempt)
	case u.Attempt > 0 && !(u.retriedSince && u.invitedSince):
		c.wrong("I-4", e, "no retry and dispatch lie between it and the claim of attempt %d at position %d", u.Attempt, u.Claimed)
	case u.Status != events.UnitIsDispatching:
		c.wrong("I-2", e, "a unit that is %s cannot be claimed (U-5)", u.Status)
	}
	if c.hold {
		c.wrong("I-2", e, "the unit is claimed in a restored hold (DUR-5)")
	}
	if ev.Attempt != u.Attempt+1 {
		c.wrong("I-4", e, "it is attempt %d, and the unit was claimed %d times", ev.Attempt, u.Attempt)
	}
	if ev.Token == "" || ev.Token == u.lastToken {
		c.wrong("I-2", e, "its token is not new (U-5)")
	}
	c.checkLease(e, u, ev)

	held := u.holds
	u.endAttempt()
	u.Attempt, u.Claimed, u.ClaimedAt = ev.Attempt, e.Position, e.At
	u.LeaseToken, u.LeaseExpiresAt, u.LeaseEndsAt, u.Worker = ev.Token, ev.LeaseExpiresAt, ev.LeaseEndsAt, ev.Worker
	if !ev.Remote {
		u.LeaseNode = e.Node
	}
	u.lastToken, u.retriedSince, u.invitedSince, u.messageNode = ev.Token, false, false, events.NodeID{}
	c.move(e, u, events.UnitIsRunning)
	if !held {
		c.checkCaps(e, u, "claim of a stale unit")
	}
}

// checkLease compares the lease of a claim with the policy that its run has frozen (U-5, I-6).
func (c *Checker) checkLease(e events.Envelope, u *unit, ev events.UnitClaimed) {
	p := u.run.Policy
	if p.Lifetime <= 0 {
		return
	}
	ends := e.At.Add(p.Lifetime)
	switch {
	case ev.LeaseEndsAt > ends || ev.LeaseExpiresAt > ends:
		c.wrong("I-6", e, "its lease expires at %s and ends at %s, beyond the lifetime of %s that ends at %s", ev.LeaseExpiresAt, ev.LeaseEndsAt, p.Lifetime, ends)
	case ev.LeaseEndsAt != ends:
		c.wrong("I-2", e, "its lease ends at %s, and the lifetime of %s at %s (U-5)", ev.LeaseEndsAt, p.Lifetime, ends)
	case p.Lease > 0 && ev.LeaseExpiresAt != min(e.At.Add(p.Lease), ends):
		c.wrong("I-2", e, "its lease expires at %s, and a lease of %s at %s (U-5)", ev.LeaseExpiresAt, p.Lease, min(e.At.Add(p.Lease), ends))
	}
}

// checkHolder is what every write of a worker needs (I-5).
func (c *Checker) checkHolder(e events.Envelope, u *unit, attempt int, token events.Token) {
	if u.Status != events.UnitIsRunning {
		c.wrong("I-2", e, "a worker writes, and the unit is %s (U-6 to U-10)", u.Status)
		return
	}
	if attempt != u.Attempt {
		c.wrong("I-5", e, "it is of attempt %d, and the latest claim is attempt %d", attempt, u.Attempt)
	}
	if token == "" || token != u.LeaseToken {
		c.wrong("I-5", e, "its token is not that of the claim at position %d", u.Claimed)
	}
	switch end := c.leaseEnd(u); {
	case end == 0:
		c.wrong("I-5", e, "its lease is dead: incarnation %s is gone", u.LeaseNode)
	case end <= e.At:
		c.wrong("I-5", e, "its lease ended at %s", end)
	}
}

// unitRenewed checks U-6.
func (c *Checker) unitRenewed(e events.Envelope, u *unit, ev events.UnitLeaseRenewed) {
	c.checkHolder(e, u, ev.Attempt, ev.Token)
	if u.Status != events.UnitIsRunning {
		return
	}
	ends, p := max(u.LeaseEndsAt, u.graceEnds), u.run.Policy
	switch {
	case ev.LeaseExpiresAt > ends:
		c.wrong("I-6", e, "the lease is renewed until %s, and its absolute end is %s", ev.LeaseExpiresAt, ends)
	case ev.LeaseExpiresAt <= u.LeaseExpiresAt:
		c.wrong("I-2", e, "the lease is renewed until %s, and it ran until %s already (U-6)", ev.LeaseExpiresAt, u.LeaseExpiresAt)
	case p.Lease > 0 && ev.LeaseExpiresAt != min(e.At.Add(p.Lease), ends):
		c.wrong("I-2", e, "the lease is renewed until %s, and a lease of %s ends at %s (U-6)", ev.LeaseExpiresAt, p.Lease, min(e.At.Add(p.Lease), ends))
	}
	if u.LastRenewedAt != 0 && e.At.Sub(u.LastRenewedAt) < p.Lease/3 {
		c.wrong("I-2", e, "the lease was renewed at %s, less than a third of %s before (U-6)", u.LastRenewedAt, p.Lease)
	}
	u.LeaseExpiresAt, u.LastRenewedAt = ev.LeaseExpiresAt, e.At
	c.count(u)
}

// unitExpired checks U-17: a lease is taken away only when it has ended, or its worker is known to be gone.
func (c *Checker) unitExpired(e events.Envelope, u *unit, ev events.UnitLeaseExpired) {
	u.expiry = expiry{c.tx.position, e.Position, ev.Cause}
	c.tx.expired = append(c.tx.expired, u)
	if u.Status != events.UnitIsRunning {
		c.wrong("I-2", e, "a lease expires, and the unit is %s (U-11, U-12)", u.Status)
		return
	}
	if ev.Attempt != u.Attempt {
		c.wrong("I-2", e, "the lease of attempt %d expires, and the latest claim is attempt %d", ev.Attempt, u.Attempt)
	}
	effective := max(u.LeaseExpiresAt, u.GraceUntil)
	switch ev.Cause {
	case events.LeaseExpired:
		if effective > e.At {
			c.wrong("I-2", e, "the lease runs until %s (U-17)", effective)
		}
	case events.LeaseMissing:
		if u.LeaseExpiresAt != 0 {
			c.wrong("I-2", e, "the unit is said to have no lease, and it has one until %s (U-17)", u.LeaseExpiresAt)
		}
	case events.LeaseIncarnationGone:
		if !c.gone(u.LeaseNode) {
			c.wrong("I-2", e, "the lease belongs to incarnation %q, which is not gone (U-17, N-3, N-5)", named(u.LeaseNode))
		}
	case events.LeaseReleased: // an operator's word
		c.checkOperator(e, "", true, ev.Reason)
	default:
		c.wrong("I-2", e, "a lease cannot expire by %q", ev.Cause)
	}
	if ev.LeaseExpiresAt != u.LeaseExpiresAt && ev.LeaseExpiresAt != effective || ev.LeaseNode != u.LeaseNode || ev.LastRenewedAt != u.LastRenewedAt {
		c.wrong("I-2", e, "it tells of a lease of %q until %s, renewed at %s; the log knows one of %q until %s, renewed at %s",
			named(ev.LeaseNode), when(ev.LeaseExpiresAt), when(ev.LastRenewedAt), named(u.LeaseNode), when(u.LeaseExpiresAt), when(u.LastRenewedAt))
	}
}

// named is an incarnation in a sentence; "" is nobody's, as the lease of an API worker.
func named(id events.NodeID) string {
	if id.IsZero() {
		return ""
	}
	return id.String()
}

// when is a time in a sentence; zero is not a date.
func when(m events.Micros) string {
	if m == 0 {
		return "no time"
	}
	return m.String()
}

// checkDecided: the event behind a UnitLeaseExpired in its stream is the decision, in the same transaction (I-19).
func (c *Checker) checkDecided(e events.Envelope, u *unit) {
	if u.expiry.tx == 0 {
		return
	}
	decided := false
	switch ev := e.Event.(type) {
	case events.UnitFailed:
		decided = ev.By == events.ByReconciler || ev.By == events.ByOperator
	case events.UnitRetryScheduled:
		decided = ev.Cause == events.ExpiredLease
	}
	if !decided {
		c.wrong("I-19", e, "it follows the expiry of the lease at position %d, and is not its decision", u.expiry.position)
		u.expiry = expiry{}
	}
}

// takeExpiry uses up the expiry that a decision of this transaction belongs to.
func (c *Checker) takeExpiry(e events.Envelope, u *unit) {
	if u.expiry.tx != c.tx.position {
		c.wrong("I-19", e, "a lost worker is decided about, and no UnitLeaseExpired stands before it in the transaction")
	}
	u.expiry = expiry{}
}

func (c *Checker) endOfExpiries() {
	for _, u := range c.tx.expired {
		if u.expiry.tx == c.tx.position {
			c.report("I-19", u.expiry.position, events.UnitStream(u.ID), "the lease expired, and the transaction does not decide what becomes of the unit")
		}
	}
}

package check

import (
	"slices"

	"github.com/towline-dev/towline/events"
)

// claimed checks O-S4 and O-7.
func (c *Checker) claimed(e events.Envelope, r *register, ev events.OutboxClaimed) {
	publishFirst := r.order() == events.PublishFirst
	switch {
	case slices.Contains(r.parked, ev.N):
		c.wrong("I-12", e, "wakeup %d is parked and is claimed", ev.N)
	case ev.N <= r.Closed:
		c.wrong("I-11", e, "wakeup %d is claimed, and it is closed", ev.N)
	case r.State == Claimed:
		c.wrong("I-11", e, "wakeup %d is claimed, and the claim of wakeup %d has not ended", ev.N, r.Current)
	case r.State != Pending || ev.N != r.Current:
		c.wrong("I-11", e, "wakeup %d is claimed of a register that is %s", ev.N, r.describe())
	case r.AvailableAt > e.At:
		c.wrong("I-2", e, "wakeup %d is claimed, and it is not due before %s (O-S4)", ev.N, r.AvailableAt)
	}
	limit := c.settings(e.Node).MaxAttempts
	switch {
	case limit > 0 && publishFirst && ev.Attempt > limit:
		c.tx.beyond = append(c.tx.beyond, beyond{e, r, ev, limit}) // unless the transaction drops it
	case ev.Attempt != r.Attempts+1:
		c.wrong("I-2", e, "it is attempt %d of wakeup %d, and %d were counted (O-5)", ev.Attempt, ev.N, r.Attempts)
	}
	switch {
	case c.hold:
		c.wrong("I-2", e, "wakeup %d is claimed in a restored hold (DUR-5)", ev.N)
	case ev.Token == "":
		c.wrong("I-2", e, "the claim has no token (O-7)")
	case ev.ClaimExpiresAt == 0 && r.Kind == events.KindMessage:
		r.timelessTx = c.tx.position // an older outbox held it; it is released in the same transaction (M-7)
	case ev.ClaimExpiresAt <= e.At:
		c.wrong("I-2", e, "the claim expires at %s, before it begins (O-7)", ev.ClaimExpiresAt)
	}

	r.owed, r.messages = c.owes(e.Node, r, ev.N, e.At), ev.MessageCount
	if r.Kind == events.KindUnit && r.owed == yes {
		if n := r.expansion(ev.N); ev.MessageCount != n {
			c.wrong("I-2", e, "the claim counts %d messages, and wakeup %d announces %d units (K-1)", ev.MessageCount, ev.N, n)
		}
	}
	if r.Kind == events.KindPostSync && r.owed == yes {
		r.messages = len(r.run.outstanding())
		if ev.MessageCount != r.messages {
			c.wrong("I-2", e, "the claim counts %d messages, and %d targets are to be told (K-8)", ev.MessageCount, r.messages)
		}
	}
	if ev.N <= r.Closed {
		return // it stays closed
	}
	if ev.N == r.Next {
		r.Next, r.NextAt = 0, 0
	}
	r.State, r.Attempts = Claimed, ev.Attempt
	r.Current, r.Newest, r.topClaimed = ev.N, max(r.Newest, ev.N), max(r.topClaimed, ev.N)
	r.ClaimToken, r.ClaimExpiresAt, r.ClaimNode = ev.Token, ev.ClaimExpiresAt, e.Node
	r.AvailableAt, r.Floor = 0, false
	r.claims++
	r.claimedAt, r.claimTime = e.Position, e.At
	c.tx.claimed = append(c.tx.claimed, r)
	c.noteClaim(e, r, ev.N)
}

// checkClaim is what a mark, a release or a drop needs (O-9, I-11).
func (c *Checker) checkClaim(e events.Envelope, r *register, n int, t events.Token) {
	switch {
	case r.State != Claimed:
		c.wrong("I-11", e, "%s of wakeup %d, and the register is %s", e.Event.EventType(), n, r.describe())
	case n != r.Current:
		c.wrong("I-11", e, "%s of wakeup %d, and the claim is of wakeup %d", e.Event.EventType(), n, r.Current)
	case t != r.ClaimToken:
		c.wrong("I-11", e, "%s of wakeup %d under a token that is not that of its claim", e.Event.EventType(), n)
	case r.ClaimExpiresAt <= e.At:
		c.wrong("I-11", e, "%s of wakeup %d, and its claim expired at %s", e.Event.EventType(), n, r.ClaimExpiresAt)
	}
}

package check

import "github.com/towline-dev/towline/events"

// answer is what the log says of an obligation. It does not show everything: what is not configured at a node is held
// and nobody but the node knows.
type answer int8

const (
	no answer = iota
	perhaps
	yes
)

// claimed checks O-S4 and O-7.
func (c *Checker) claimed(e events.Envelope, r *register, ev events.OutboxClaimed) {
	publishFirst := r.orderOf() == events.PublishFirst
	switch {
	case containsInt(r.parked, ev.N):
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
		c.wrong("I-12", e, "it is attempt %d of wakeup %d, and relay.max_attempts is %d", ev.Attempt, ev.N, limit)
	case ev.Attempt != r.Attempts+1:
		c.wrong("I-2", e, "it is attempt %d of wakeup %d, and %d were counted (O-5)", ev.Attempt, ev.N, r.Attempts)
	}
	switch {
	case c.hold:
		c.wrong("I-2", e, "wakeup %d is claimed in a restored hold (DUR-5)", ev.N)
	case ev.Token == "":
		c.wrong("I-2", e, "the claim has no token (O-7)")
	case ev.ClaimExpiresAt <= e.At:
		c.wrong("I-2", e, "the claim expires at %s, before it begins (O-7)", ev.ClaimExpiresAt)
	}

	r.owed = c.owes(r, ev.N, e.At)
	if r.Kind == events.KindUnit && r.owed == yes {
		if n := r.expansion(ev.N); ev.MessageCount != n {
			c.wrong("I-2", e, "the claim counts %d messages, and wakeup %d announces %d units (K-1)", ev.MessageCount, ev.N, n)
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
	r.claimedAt = e.Position
	c.tx.claimed = append(c.tx.claimed, r)
	c.noteClaim(e, r, ev.N)
}

func containsInt(list []int, n int) bool {
	for _, x := range list {
		if x == n {
			return true
		}
	}
	return false
}

// expansion counts the units that wakeup n would be published for (K-1).
func (r *register) expansion(n int) int {
	count := 0
	for _, u := range r.run.busy {
		if u.Status == events.UnitIsDispatching && u.Wakeup > r.Closed && u.Wakeup <= n {
			count++
		}
	}
	return count
}

// owes says whether the obligation behind a wakeup stands (O-8).
func (c *Checker) owes(r *register, n int, now events.Micros) answer {
	is := func(owed bool) answer {
		if owed {
			return yes
		}
		return no
	}
	switch {
	case r.Kind == events.KindMessage:
		return is(!r.message.over)
	case r.Kind == events.KindPostSync:
		return is(r.orderOf() == events.MarkFirst || !r.run.completed())
	case r.run.Status.Terminal():
		return no
	case r.Kind == events.KindUnit:
		return is(r.expansion(n) > 0)
	case r.Kind == events.KindFinalize:
		return is(r.run.Units.Open() == 0)
	}
	return c.dispatchOwed(r.run, now)
}

// completed: in exactly_once mode a run is done when every target has completed (K-8).
func (r *run) completed() bool {
	done := 0
	for _, p := range r.Posts {
		if p.Completed > 0 && r.hasTarget(p.Target) {
			done++
		}
	}
	return done == len(r.Policy.Targets)
}

// dispatchOwed: some unit is planned with an open tier, due or stale (O-8). What is held may be owed or not.
func (c *Checker) dispatchOwed(r *run, now events.Micros) answer {
	best := no
	add := func(provider, source string) {
		if c.held(provider, source, now) == "" {
			best = yes
		} else if best == no {
			best = perhaps
		}
	}
	for _, t := range r.sources {
		if t.plannedReferences > 0 || t.plannedWorking > 0 && t.open() {
			add(t.provider, t.source)
		}
	}
	for _, u := range r.busy {
		stale, known := c.isStale(u, now)
		switch {
		case u.Status == events.UnitIsRetrying && u.AvailableAt <= now, stale && known:
			add(u.Plan.Provider, u.Plan.Source)
		case !known && best == no:
			best = perhaps
		}
	}
	return best
}

// checkClaim is what a mark, a release or a drop needs (O-9, I-11).
func (c *Checker) checkClaim(e events.Envelope, r *register, n int, t events.Token) bool {
	switch {
	case r.State != Claimed:
		c.wrong("I-11", e, "%s of wakeup %d, and the register is %s", e.Event.EventType(), n, r.describe())
	case n != r.Current:
		c.wrong("I-11", e, "%s of wakeup %d, and the claim is of wakeup %d", e.Event.EventType(), n, r.Current)
	case t != r.ClaimToken:
		c.wrong("I-11", e, "%s of wakeup %d under a token that is not that of its claim", e.Event.EventType(), n)
	case r.ClaimExpiresAt <= e.At:
		c.wrong("I-11", e, "%s of wakeup %d, and its claim expired at %s", e.Event.EventType(), n, r.ClaimExpiresAt)
	default:
		return true
	}
	return false
}

// marked checks O-S5 and O-S5a.
func (c *Checker) marked(e events.Envelope, r *register, ev events.OutboxDispatched) {
	order := r.orderOf()
	if order == events.MarkFirst && r.marks > 0 {
		c.wrong("I-13", e, "an at-most-once post_sync is marked a second time")
	}
	c.checkClaim(e, r, ev.N, ev.Token)
	if ev.Order != order {
		c.wrong("I-2", e, "it is marked %s, and the order of %s is %s (8.1)", ev.Order, r.Kind, order)
	}
	if r.Kind == events.KindPostSync && ev.MessageCount != len(r.run.Policy.Targets) {
		c.wrong("I-2", e, "the mark counts %d messages, and the run has %d targets (K-8)", ev.MessageCount, len(r.run.Policy.Targets))
	}
	c.noteMark(e, r, ev.N)

	before, local := r.Closed, events.NodeID{}
	if ev.Transport == events.TransportLocal {
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

// releasedClaim checks O-S6, with O-5, O-6, O-11, O-13 and O-14.
func (c *Checker) releasedClaim(e events.Envelope, r *register, ev events.OutboxReleased) {
	publishFirst := r.orderOf() == events.PublishFirst
	counted, maybe := true, false
	switch ev.Cause {
	case events.ReleaseClaimExpired, events.ReleaseIncarnationGone, events.ReleaseNoClaimTime:
		maybe = ev.Cause != events.ReleaseNoClaimTime
		c.checkDeadClaim(e, r, ev)
	case events.ReleasePublishUnknown:
		maybe = true
		c.checkClaim(e, r, ev.N, ev.Token)
	case events.ReleaseRefused: // uncounted if the transport's queue is full (B-8)
		counted = ev.Counted
		c.checkClaim(e, r, ev.N, ev.Token)
	case events.ReleaseBreakerOpen, events.ReleaseShed, events.ReleaseShutdown:
		counted = false
		c.checkClaim(e, r, ev.N, ev.Token)
	default:
		c.wrong("I-2", e, "a claim cannot end by %q", ev.Cause)
		counted = ev.Counted
	}
	switch {
	case ev.Counted != counted:
		c.wrong("I-2", e, "a release by %s is said to be counted: %t (O-5)", ev.Cause, ev.Counted)
	case publishFirst && maybe && !ev.MaybePublished:
		c.wrong("I-2", e, "a release by %s leaves wakeup %d as surely unpublished; a broker may know it (O-6)", ev.Cause, ev.N)
	case !publishFirst && ev.MaybePublished:
		c.wrong("I-2", e, "wakeup %d of a mark_first kind is said to be published, and it was never marked (O-6)", ev.N)
	}
	c.checkBackoff(e, r, ev)

	r.releasedTx, r.released, r.counted, r.cause = c.tx.position, ev.N, ev.Counted, ev.Cause
	if r.State != Claimed || ev.N != r.Current {
		return // reported; whatever is open stays as it is
	}
	r.endClaim()
	r.State, r.AvailableAt, r.Floor = Pending, ev.AvailableAt, ev.Counted
	r.MaybePublished = r.MaybePublished || ev.MaybePublished
	if !ev.Counted && r.Attempts > 0 {
		r.Attempts--
	}
	c.tx.released = append(c.tx.released, r)
}

// checkDeadClaim: anybody may end a claim that is dead, and no other (O-14, N-4).
func (c *Checker) checkDeadClaim(e events.Envelope, r *register, ev events.OutboxReleased) {
	switch {
	case r.State != Claimed || ev.N != r.Current:
		c.wrong("I-11", e, "it releases the claim of wakeup %d of a register that is %s", ev.N, r.describe())
	case ev.Token != "" && ev.Token != r.ClaimToken:
		c.wrong("I-11", e, "it releases wakeup %d under a token that is not that of its claim", ev.N)
	case ev.Cause == events.ReleaseClaimExpired && r.ClaimExpiresAt > e.At:
		c.wrong("I-2", e, "the claim of wakeup %d runs until %s (O-S6)", ev.N, r.ClaimExpiresAt)
	case ev.Cause == events.ReleaseIncarnationGone && !c.gone(r.ClaimNode):
		c.wrong("I-2", e, "the claim of wakeup %d belongs to incarnation %q, which is not gone (O-S6)", ev.N, named(r.ClaimNode))
	case ev.Cause == events.ReleaseNoClaimTime && (r.ClaimExpiresAt != 0 || r.Kind != events.KindMessage):
		c.wrong("I-2", e, "it is released for want of a claim time, and its claim runs until %s (M-7)", r.ClaimExpiresAt)
	}
}

// checkBackoff is O-13: a counted release waits, and one of a gone incarnation does not (N-4).
func (c *Checker) checkBackoff(e events.Envelope, r *register, ev events.OutboxReleased) {
	s := c.settings(e.Node)
	switch {
	case ev.AvailableAt == 0:
		c.wrong("I-30", e, "wakeup %d is released for no time", ev.N)
	case ev.AvailableAt < e.At:
		c.wrong("I-2", e, "wakeup %d is released for %s, before now (O-13)", ev.N, ev.AvailableAt)
	case ev.Cause == events.ReleaseIncarnationGone && ev.AvailableAt != e.At:
		c.wrong("I-2", e, "a claim of a gone incarnation is released for %s instead of now (N-4)", ev.AvailableAt)
	case ev.Cause != events.ReleaseIncarnationGone && ev.Cause != events.ReleaseNoClaimTime && ev.Counted && s.BackoffBase > 0 && s.BackoffCap > 0:
		wait := min(s.BackoffBase, s.BackoffCap)
		for n := 1; n < r.Attempts && wait < s.BackoffCap; n++ {
			wait = min(2*wait, s.BackoffCap)
		}
		if got := ev.AvailableAt.Sub(e.At); got < wait || got > wait+wait/10 {
			c.wrong("I-2", e, "wakeup %d waits %s after attempt %d, and its backoff is %s plus a tenth at most (O-13)", ev.N, got, r.Attempts, wait)
		}
	}
}

// dropped checks O-8: a wakeup closes without a publish only if nothing is owed.
func (c *Checker) dropped(e events.Envelope, r *register, ev events.OutboxDropped) {
	if !c.endsDeadClaim(e, r, ev) {
		c.checkClaim(e, r, ev.N, ev.Token)
	}
	if c.owes(r, ev.N, e.At) == yes {
		c.wrong("I-2", e, "wakeup %d is dropped for %s, and its obligation stands (O-8)", ev.N, ev.Reason)
	}
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
		r.orderOf() == events.PublishFirst && (limit <= 0 || r.Attempts >= limit)
}

// parked checks O-S7 and O-S7a.
func (c *Checker) parked(e events.Envelope, r *register, ev events.OutboxParked) {
	limit := c.settings(e.Node).MaxAttempts
	switch {
	case r.orderOf() != events.PublishFirst:
		c.wrong("I-2", e, "wakeup %d of a mark_first kind is parked; nothing could redrive it (O-15, O-21)", ev.N)
	case r.State != Pending || ev.N != r.Current:
		c.wrong("I-2", e, "it parks wakeup %d of a register that is %s (O-S7)", ev.N, r.describe())
	case ev.Cause == events.ParkOperator:
	case ev.Cause != events.ParkAttempts && ev.Cause != events.ParkPermanent:
		c.wrong("I-2", e, "a wakeup cannot be parked for %q", ev.Cause)
	case r.releasedTx != c.tx.position || r.released != ev.N:
		c.wrong("I-2", e, "wakeup %d is parked for %s, and it was not released before in the transaction (O-S7)", ev.N, ev.Cause)
	case ev.Cause == events.ParkPermanent && r.cause != events.ReleaseRefused:
		c.wrong("I-2", e, "wakeup %d is parked for a permanent refusal, and its release says %s (O-S7)", ev.N, r.cause)
	case ev.Cause == events.ParkAttempts && (!r.counted || limit > 0 && r.Attempts < limit):
		c.wrong("I-2", e, "wakeup %d is parked after %d attempts, and relay.max_attempts is %d (O-15)", ev.N, r.Attempts, limit)
	case c.owes(r, ev.N, e.At) == no:
		c.wrong("I-2", e, "wakeup %d is parked, and nothing is owed: it is to be dropped (O-15)", ev.N)
	}
	if ev.Attempts != r.Attempts {
		c.wrong("I-2", e, "it counts %d attempts, and the log %d (O-15)", ev.Attempts, r.Attempts)
	}
	if ev.N != r.Current || ev.N <= r.Closed {
		return
	}
	if !containsInt(r.parked, ev.N) {
		r.parked = append(r.parked, ev.N)
	}
	r.endClaim()
	r.State, r.AvailableAt, r.Floor = Parked, 0, false
	if r.Next != 0 {
		r.advance()
	}
}

// endOfWakeups: what is claimed for nothing is dropped at once (O-8), a drop leaves the wakeup of what waits for a
// later time (HD-6), and a spent wakeup is parked at once (O-15).
func (c *Checker) endOfWakeups() {
	for _, r := range c.tx.claimed {
		if r.State == Claimed && r.owed == no {
			c.report("I-2", r.claimedAt, r.stream, "wakeup %d is claimed, its obligation is gone, and the transaction does not drop it (O-8)", r.Current)
		}
	}
	for _, r := range c.tx.dropped {
		if r.run.Status.Terminal() {
			continue
		}
		var next events.Micros
		for _, u := range r.run.busy {
			if u.Status == events.UnitIsRetrying && u.AvailableAt > c.tx.at {
				next = events.Earliest(next, u.AvailableAt)
			}
		}
		at, n := r.unknown()
		if next != 0 && (n == 0 || at > next && !(n == r.Current && r.Floor)) {
			c.report("I-2", r.last, r.stream, "a wakeup is dropped, a unit is due again at %s, and the register is left %s (O-8, HD-6)", next, r.describe())
		}
	}
	limit := c.settings(c.tx.node).MaxAttempts
	for _, r := range c.tx.released {
		if r.State == Pending && r.counted && r.orderOf() == events.PublishFirst && limit > 0 && r.Attempts >= limit {
			c.report("I-30", r.last, r.stream, "wakeup %d has spent its %d attempts and is pending: no scan claims it, and it is not shown as parked (O-15)", r.Current, r.Attempts)
		}
	}
}

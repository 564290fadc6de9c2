package check

import (
	"slices"

	"github.com/towline-dev/towline/events"
)

// breaker is that of one transport at one node (O-16).
type breaker struct {
	transport string
	kinds     []events.Kind
	only      string
	open      bool
	until     events.Micros
	since     events.Position // it has been open
	changed   events.Position // newest BreakerOpened or BreakerClosed
	probes    int             // claims since the newest opening
	recovery  *recovery       // nil: no outage has ended
	worked    events.Micros   // when the newest wakeup was claimed that went through
}

// recovery is what an outage has left behind, while it is claimed at a limited rate.
type recovery struct {
	since  events.Micros
	left   int // registers that were due then and were not claimed since
	claims int
}

func (n *node) breaker(transport string) *breaker {
	for _, b := range n.breakers {
		if b.transport == transport {
			return b
		}
	}
	b := &breaker{transport: transport}
	n.breakers = append(n.breakers, b)
	return b
}

func (c *Checker) breakerOpened(e events.Envelope, n *node, ev events.BreakerOpened) {
	b := n.breaker(ev.Transport)
	switch {
	case ev.Transport == "":
		c.wrong("I-2", e, "a breaker opens, and no transport is named (O-16)")
	case e.Node != n.id:
		c.wrong("I-2", e, "the breaker of incarnation %s is opened by incarnation %s (O-16)", n.id, named(e.Node))
	case ev.Until != 0 && ev.Until <= c.firstInHand(e.Node, ev.Kinds):
		c.wrong("I-2", e, "the breaker of %s opens until %s, which is over (O-16)", ev.Transport, ev.Until)
	case b.open && b.probes == 0:
		c.wrong("I-2", e, "the breaker of %s opens anew, and no probe was claimed since it opened (O-16)", ev.Transport)
	}
	since := e.Position
	if b.open {
		since = b.since
	}
	*b = breaker{
		transport: ev.Transport, kinds: ev.Kinds, only: ev.Only, open: true, until: ev.Until, since: since, changed: e.Position,
		worked: b.worked,
	}
}

// firstInHand is when an incarnation made the oldest claim of some kinds of which nothing is on record yet; 0: there is none.
// A breaker opens with a receipt, which is younger than the claim of its wakeup and may be much older than the record of it:
// the batch had to end before, and the store to be there (L-11).
func (c *Checker) firstInHand(node events.NodeID, kinds []events.Kind) (first events.Micros) {
	for _, r := range c.registers {
		if (r.State == Claimed || r.State == Marked) && r.ClaimNode == node && slices.Contains(kinds, r.Kind) {
			first = events.Earliest(first, r.claimTime)
		}
	}
	return first
}

func (c *Checker) breakerClosed(e events.Envelope, n *node, ev events.BreakerClosed) {
	b := n.breaker(ev.Transport)
	switch {
	case e.Node != n.id:
		c.wrong("I-2", e, "the breaker of incarnation %s is closed by incarnation %s (O-16)", n.id, named(e.Node))
	case !b.open:
		c.wrong("I-2", e, "the breaker of %s closes, and it is not open (O-16)", ev.Transport)
		return
	}
	b.open, b.changed = false, e.Position
	b.recovery = &recovery{since: e.At}
	for _, r := range c.registers {
		if r.State == Pending && r.AvailableAt <= e.At && slices.Contains(b.kinds, r.Kind) {
			r.backlog = b.recovery
			b.recovery.left++
		}
	}
}

// behindBreaker is the breaker through which a node publishes a kind, as far as the log says; nil: it never opened.
func (c *Checker) behindBreaker(node events.NodeID, k events.Kind) *breaker {
	if n := c.nodes[node]; n != nil {
		for _, b := range n.breakers {
			if slices.Contains(b.kinds, k) {
				return b
			}
		}
	}
	return nil
}

// noProbe: a wakeup says nothing of the transport behind which it waits, so the next one may go. What was claimed before the
// breaker opened was no probe.
func (c *Checker) noProbe(e events.Envelope, r *register) {
	if b := c.behindBreaker(e.Node, r.Kind); b != nil && r.claimedAt > b.changed {
		b.probes = max(b.probes-1, 0)
	}
}

// noteElsewhere: nothing of the wakeup was left to go by the route of its kind (K-9).
func (c *Checker) noteElsewhere(e events.Envelope, r *register, transport string) {
	if b := c.behindBreaker(e.Node, r.Kind); b != nil && b.open && r.Kind == events.KindPostSync && transport != b.transport {
		c.noProbe(e, r)
	}
}

// noteWorked: a mark of a publish_first wakeup proves that its transport has worked since its claim.
func (c *Checker) noteWorked(e events.Envelope, r *register, transport string) {
	if n := c.nodes[e.Node]; n != nil && r.order() == events.PublishFirst {
		b := n.breaker(transport)
		b.worked = max(b.worked, r.claimTime)
	}
}

// checkBlame: a publish that fails burns an attempt if its transport has worked since the number failed before. Whether
// it burns one without that the log does not show.
func (c *Checker) checkBlame(e events.Envelope, r *register, ev events.OutboxReleased) {
	n := c.nodes[e.Node]
	if ev.Transport == "" || n == nil {
		return
	}
	worked := n.breaker(ev.Transport).worked
	if !ev.Counted && ev.Cause != events.ReleaseBreakerOpen && r.failed == ev.N && worked > r.failedAt {
		c.wrong("I-2", e, "the publish of wakeup %d burns no attempt; it failed at %s too, and %s has taken a wakeup of %s since (O-16)",
			ev.N, r.failedAt, ev.Transport, worked)
	}
	r.failed, r.failedAt = ev.N, e.At
}

// checkBreakerRelease: a breaker gives a claim back only if it was open when the claim was made or has opened since, and
// what failed while it was open burns no attempt.
func (c *Checker) checkBreakerRelease(e events.Envelope, r *register, ev events.OutboxReleased) {
	b := c.behindBreaker(e.Node, r.Kind)
	switch {
	case ev.Cause == events.ReleaseBreakerOpen && (b == nil || !b.open && b.changed < r.claimedAt):
		c.wrong("I-2", e, "wakeup %d is released for an open breaker, and none was open (O-16)", ev.N)
	case ev.Counted && ev.Transport != "" && b != nil && b.open && b.transport == ev.Transport && b.since < r.claimedAt:
		c.wrong("I-2", e, "the publish of wakeup %d burns an attempt while the breaker of %s is open (O-16)", ev.N, ev.Transport)
	}
}

// endOfProbes looks at what the transaction has claimed: nothing behind an open breaker, but one probe each time, and
// behind one that has closed no more than the rate allows.
func (c *Checker) endOfProbes() {
	for _, r := range c.tx.claimed {
		if r.backlog != nil {
			r.backlog.left--
			r.backlog = nil
		}
		b := c.behindBreaker(c.tx.node, r.Kind)
		if b == nil {
			continue
		}
		if b.open && (r.State == Claimed || r.State == Marked) { // what is dropped was not published
			c.checkProbe(b, r)
		}
		if b.recovery != nil {
			b.recovery.claims++
		}
	}
	if n := len(c.tx.claimed); n > 0 {
		c.checkDrain(c.tx.claimed[n-1])
	}
}

// soonAProbe: what comes due so soon was to be waited for. It is less than the 10 min of the rule, because the claim was
// looked for before its transaction began.
const soonAProbe = events.Span(9 * 60 * 1e6)

func (c *Checker) checkProbe(b *breaker, r *register) {
	b.probes++
	switch {
	case b.probes > 1:
		c.report("I-2", r.claimedAt, r.stream, "it is claimed while the breaker of %s is open and its probe is out (O-16)", b.transport)
	case c.tx.at < b.until && (b.only == "" || b.only == r.stream.String()):
		c.report("I-2", r.claimedAt, r.stream, "it is claimed while the breaker of %s is open until %s (O-16)", b.transport, b.until)
	case r.order() == events.MarkFirst && slices.ContainsFunc(c.registers, func(other *register) bool {
		return other.State == Pending && other.order() == events.PublishFirst && slices.Contains(b.kinds, other.Kind) &&
			other.AvailableAt <= c.tx.at.Add(soonAProbe)
	}):
		c.report("I-2", r.claimedAt, r.stream, "a wakeup that is sent only once is the probe of %s, and another could be (O-16)", b.transport)
	}
}

// checkDrain: until nothing of the backlog is left, claims keep to relay.drain_rate, in steps of a quarter of a second. A
// transaction that claims less than a step found nothing more. Behind the first minute the rate may have grown, and how much
// of the backlog a relay has counted the log does not show.
func (c *Checker) checkDrain(last *register) {
	n := c.nodes[c.tx.node]
	if n == nil {
		return
	}
	for _, b := range n.breakers {
		rate := n.settings.DrainRate
		if b.recovery == nil || rate <= 0 {
			continue
		}
		step := max(rate/4, 1)
		elapsed := c.tx.at.Sub(b.recovery.since)
		if elapsed >= events.Span(60*1e6) {
			b.recovery = nil
			continue
		}
		if most := step + int(int64(elapsed)*int64(rate)/int64(events.Span(1e6))); b.recovery.claims > most {
			c.report("I-2", last.claimedAt, last.stream, "%d wakeups of %s are claimed %s after its breaker closed, and relay.drain_rate is %d a second (O-16)",
				b.recovery.claims, b.transport, elapsed, rate)
			b.recovery = nil
			continue
		}
		claimed := 0
		for _, r := range c.tx.claimed {
			if slices.Contains(b.kinds, r.Kind) {
				claimed++
			}
		}
		if b.recovery.left <= 0 || claimed > 0 && claimed < step {
			b.recovery = nil
		}
	}
}

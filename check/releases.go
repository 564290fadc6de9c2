package check

import (
	"slices"

	"github.com/towline-dev/towline/events"
)

// releasedClaim checks O-S6, with O-5, O-6, O-11, O-13 and O-14.
func (c *Checker) releasedClaim(e events.Envelope, r *register, ev events.OutboxReleased) {
	publishFirst := r.order() == events.PublishFirst
	counted, maybe := true, false
	switch ev.Cause {
	case events.ReleaseClaimExpired, events.ReleaseIncarnationGone:
		maybe = true
		c.checkDeadClaim(e, r, ev)
	case events.ReleaseNoClaimTime: // the attempt was another outbox's
		counted = false
		c.checkDeadClaim(e, r, ev)
	case events.ReleasePublishUnknown: // uncounted if the transport is to blame (O-16)
		counted, maybe = ev.Counted || ev.Transport == "", true
		c.checkClaim(e, r, ev.N, ev.Token)
	case events.ReleaseRefused: // the same, or if the transport's queue is full (B-8)
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
	if ev.Cause == events.ReleaseRefused || ev.Cause == events.ReleasePublishUnknown {
		c.noteElsewhere(e, r, ev.Transport)
	}
	c.checkBreakerRelease(e, r, ev)
	c.checkBlame(e, r, ev)

	if ev.Cause == events.ReleaseIncarnationGone && r.message != nil {
		r.lost++
	}
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
	case ev.Cause == events.ReleaseNoClaimTime && (r.ClaimExpiresAt != 0 || r.Kind != events.KindMessage || r.timelessTx != c.tx.position):
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
	case ev.Cause == events.ReleaseNoClaimTime && s.BackoffCap > 0 && ev.AvailableAt > e.At.Add(s.BackoffCap):
		c.wrong("I-2", e, "a message that was taken over is released for %s, beyond one backoff cap (M-7)", ev.AvailableAt)
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

// gaveUp checks M-11: the consumer of a message gives up what a relay has published, or may have.
func (c *Checker) gaveUp(e events.Envelope, r *register, ev events.OutboxParked) {
	out := r.State == Claimed || r.State == Pending && r.MaybePublished || r.State == Idle && r.Closed > 0
	switch {
	case r.message == nil:
		c.wrong("I-2", e, "%s is parked for its consumer, and has none (M-11)", r.Kind)
	case !out || ev.N != r.Current:
		c.wrong("I-2", e, "a consumer parks wakeup %d of a register that is %s (M-11)", ev.N, r.describe())
	case r.message.over():
		c.wrong("I-2", e, "a consumer parks a message that is %s (M-11)", r.message.Status)
	}
}

// parked checks O-S7 and O-S7a.
func (c *Checker) parked(e events.Envelope, r *register, ev events.OutboxParked) {
	limit := c.settings(e.Node).MaxAttempts
	switch {
	case r.order() != events.PublishFirst:
		c.wrong("I-2", e, "wakeup %d of a mark_first kind is parked; nothing could redrive it (O-15, O-21)", ev.N)
	case ev.Cause == events.ParkHandlerFailed:
		c.gaveUp(e, r, ev)
	case r.State != Pending || ev.N != r.Current:
		c.wrong("I-2", e, "it parks wakeup %d of a register that is %s (O-S7)", ev.N, r.describe())
	case ev.Cause == events.ParkCrashSuspect:
		if most := c.settings(e.Node).MaxDeliveries; r.message == nil || most > 0 && r.lost < most {
			c.wrong("I-2", e, "wakeup %d is parked as a crash suspect, and %d processes have died with it; handler.max_deliveries is %d (M-16)", ev.N, r.lost, most)
		}
	case ev.Cause == events.ParkOperator:
		c.checkOperator(e, "", true, ev.Text)
		if r.run != nil && r.Kind != events.KindPostSync && r.run.Status.Terminal() {
			c.wrong("I-2", e, "wakeup %d is parked, and its run is %s: nothing is owed (O-15, O-21)", ev.N, r.run.Status)
		}
	case ev.Cause != events.ParkAttempts && ev.Cause != events.ParkPermanent:
		c.wrong("I-2", e, "a wakeup cannot be parked for %q", ev.Cause)
	case ev.Cause == events.ParkAttempts && limit > 0 && r.Attempts >= limit && r.Floor && e.At >= r.AvailableAt && c.owes(e.Node, r, ev.N, e.At) != no:
		// The maximum was lowered since its last release; the claim that is due finds it so (O-S7b).
	case r.releasedTx != c.tx.position || r.released != ev.N:
		c.wrong("I-2", e, "wakeup %d is parked for %s, and it was not released before in the transaction (O-S7)", ev.N, ev.Cause)
	case ev.Cause == events.ParkPermanent && r.messages > 1 && (r.cause == events.ReleasePublishUnknown || r.cause == events.ReleaseBreakerOpen):
		// One message of the fan-out was refused for ever, and another met something else, which the release says (O-10).
	case ev.Cause == events.ParkPermanent && r.cause != events.ReleaseRefused:
		c.wrong("I-2", e, "wakeup %d is parked for a permanent refusal, and its release says %s (O-S7)", ev.N, r.cause)
	case ev.Cause == events.ParkAttempts && (!r.counted || limit > 0 && r.Attempts < limit):
		c.wrong("I-2", e, "wakeup %d is parked after %d attempts, and relay.max_attempts is %d (O-15)", ev.N, r.Attempts, limit)
	case c.owes(e.Node, r, ev.N, e.At) == no:
		c.wrong("I-2", e, "wakeup %d is parked, and nothing is owed: it is to be dropped (O-15)", ev.N)
	}
	if ev.Attempts != r.Attempts {
		c.wrong("I-2", e, "it counts %d attempts, and the log %d (O-15)", ev.Attempts, r.Attempts)
	}
	if ev.Cause == events.ParkPermanent {
		c.noProbe(e, r)
	}
	if ev.Cause == events.ParkHandlerFailed && ev.N == r.Closed && r.State == Idle {
		r.State = Parked // its number stays closed
		return
	}
	if ev.N != r.Current || ev.N <= r.Closed {
		return
	}
	if !slices.Contains(r.parked, ev.N) {
		r.parked = append(r.parked, ev.N)
	}
	r.endClaim()
	r.State, r.AvailableAt, r.Floor = Parked, 0, false
	if r.Next != 0 {
		r.advance()
	}
}

package decider

import (
	"cmp"
	"hash/fnv"
	"math"

	"github.com/towline-dev/towline/events"
)

// ReleaseWakeup ends a claim without a mark. The number stays current, with its id; one that waits keeps waiting.
// A counted release at the last attempt, or for a permanent refusal, parks the number (O-15), or drops it if nothing
// is owed any more. What died or ended unknown may be known to a broker, whatever the caller says (O-6): a forgotten flag
// there would send the next wish under an id that a broker drops. It is counted, too, unless the Failure is the
// transport's (O-16).
type ReleaseWakeup struct {
	Owner          events.RunID
	Kind           events.Kind
	Mode           events.DeliveryMode
	At             events.Micros
	N              int
	Token          events.Token
	Cause          events.ReleaseCause
	Counted        bool
	MaybePublished bool
	Permanent      bool   // the refusal will be the same for ever
	ParkText       string // of that refusal, if other messages of the wakeup met something else; empty: Text
	Failure        Failure
	Text           string
	Backoff        Backoff
	MaxAttempts    int
	Drop           events.DropReason // empty: the obligation stands
	NodeGone       bool              // the claim's incarnation is gone (N-3)
}

func (ReleaseWakeup) Name() string              { return "release_wakeup" }
func (c ReleaseWakeup) Stream() events.StreamID { return events.RegisterStream(c.Owner, c.Kind) }
func (ReleaseWakeup) Fresh() bool               { return false }

func (c ReleaseWakeup) decide(s State) ([]events.Event, *Rejection) {
	r := s.(Register)
	switch c.Cause {
	case events.ReleaseClaimExpired, events.ReleaseIncarnationGone:
		// Anybody may end a dead claim; it is no longer dead if it was renewed by a new claim.
		if r.Status != RegisterClaimed || r.ClaimLive(c.At) && !c.NodeGone {
			return nil, nil
		}
		c.N, c.Token, c.Counted, c.MaybePublished = r.Current, r.Claim.Token, true, true
	default:
		if rejection := r.holds(c.Name(), c.N, c.Token, c.At); rejection != nil {
			return nil, rejection
		}
	}
	if c.Cause == events.ReleasePublishUnknown {
		c.Counted, c.MaybePublished = true, true
	}
	if c.Failure.Transport != "" && !c.Permanent {
		c.Counted = c.Failure.spendsAttempt(r, c.Cause)
	}

	publishFirst := DeliveryOf(c.Kind, c.Mode).Order == events.PublishFirst
	spent := c.Counted && r.Attempts >= c.MaxAttempts
	if publishFirst && (spent || c.Permanent) && c.Drop != "" {
		return []events.Event{events.OutboxDropped{N: c.N, Token: c.Token, Reason: c.Drop}}, nil
	}

	released := events.OutboxReleased{
		N: c.N, Token: c.Token, Cause: c.Cause, Counted: c.Counted, Transport: c.Failure.Transport, Text: c.Text,
		AvailableAt:    c.availableAt(r),
		MaybePublished: c.MaybePublished && publishFirst, // without a mark a mark_first number was surely not published
	}
	switch {
	case publishFirst && c.Permanent:
		return []events.Event{released, c.park(r, events.ParkPermanent)}, nil
	case publishFirst && spent:
		return []events.Event{released, c.park(r, events.ParkAttempts)}, nil
	}
	return []events.Event{released}, nil
}

// park counts the attempts behind the release: one that was not spent is given back (O-5).
func (c ReleaseWakeup) park(r Register, cause events.ParkCause) events.OutboxParked {
	spent := r.Attempts
	if !c.Counted {
		spent--
	}
	return events.OutboxParked{N: c.N, Cause: cause, Attempts: spent, Text: cmp.Or(c.ParkText, c.Text)}
}

// availableAt is now for a claim that died with its incarnation (N-4), and for one with no publish begun; else now +
// backoff. A failure that burns no attempt, such as a full queue, waits the first backoff, so that it is no hot loop.
func (c ReleaseWakeup) availableAt(r Register) events.Micros {
	attempt := r.Attempts
	switch {
	case c.Cause == events.ReleaseIncarnationGone, !c.Counted && c.neverBegan():
		return c.At
	case !c.Counted:
		attempt = 1
	}
	return c.At.Add(c.Backoff.After(MessageID(c.Owner, c.Kind, c.N), attempt))
}

// neverBegan: the claim was given back before its publish. A breaker also ends the claim of its probe, which failed.
func (c ReleaseWakeup) neverBegan() bool {
	switch c.Cause {
	case events.ReleaseShed, events.ReleaseShutdown:
		return true
	case events.ReleaseBreakerOpen:
		return c.Failure.Transport == ""
	}
	return false
}

// Backoff is the wait after a counted release (O-13). The zero value waits not at all.
type Backoff struct {
	Base, Cap events.Span
}

// After is min(base × 2^(attempt−1), cap), plus 0 to 10 %: a fixed hash of the message id and the attempt, so that a
// replay agrees and neighbours spread.
func (b Backoff) After(messageID string, attempt int) events.Span {
	wait := min(b.Base, b.Cap)
	for i := 1; i < attempt && 0 < wait && wait < b.Cap; i++ { // at most 63 doublings, whatever the attempt is
		wait += min(wait, b.Cap-wait)
	}
	h := fnv.New64a()
	h.Write([]byte(messageID))
	h.Write([]byte{'#', byte(attempt), byte(attempt >> 8)})
	const steps = 1000
	tenth, part := wait/10, events.Span(h.Sum64()%(steps+1))
	jitter := tenth/steps*part + tenth%steps*part/steps // tenth × part / steps, without its overflow
	return wait + min(jitter, math.MaxInt64-wait)
}

package decider

import "github.com/towline-dev/towline/events"

// MarkWakeup closes the claimed number n, and n only (O-6): after its publish for publish_first kinds, before it for
// mark_first kinds. It needs the token and a live claim; a refused mark changes nothing and is loud (O-9).
type MarkWakeup struct {
	Owner     events.RunID
	Kind      events.Kind
	Mode      events.DeliveryMode
	At        events.Micros
	N         int
	Token     events.Token
	Transport string
	Messages  int
}

func (MarkWakeup) Name() string              { return "mark_wakeup" }
func (c MarkWakeup) Stream() events.StreamID { return events.RegisterStream(c.Owner, c.Kind) }
func (MarkWakeup) Fresh() bool               { return false }

func (c MarkWakeup) decide(s State) ([]events.Event, *Rejection) {
	r := s.(Register)
	if r.gaveUp(c.N, c.Token) {
		return nil, nil // the consumer was faster than the mark
	}
	if rejection := r.holds(c.Name(), c.N, c.Token, c.At); rejection != nil {
		return nil, rejection
	}
	return []events.Event{events.OutboxDispatched{
		N: c.N, Token: c.Token, Order: DeliveryOf(c.Kind, c.Mode).Order, Transport: c.Transport, MessageCount: c.Messages,
	}}, nil
}

// holds says why a caller does not hold the live claim of n, or nil if it does.
func (r Register) holds(command string, n int, t events.Token, now events.Micros) *Rejection {
	lost := func(reason string) *Rejection { return &Rejection{Command: command, Reason: reason, Err: ErrClaimLost} }
	switch {
	case r.Status != RegisterClaimed || r.Current != n:
		return lost("wakeup is not claimed")
	case r.Claim.Token != t:
		return lost("another relay holds the claim")
	case !r.ClaimLive(now):
		return lost("claim has expired")
	}
	return nil
}

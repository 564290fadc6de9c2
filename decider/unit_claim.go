package decider

import "github.com/towline-dev/towline/events"

// ClaimUnit asks for the only live lease of a dispatching unit (U-5). Any message for the unit may start it; every
// duplicate ends here, as not claimable.
type ClaimUnit struct {
	Unit        events.UnitID
	At          events.Micros
	RunOpen     bool
	Token       events.Token
	Lease       events.Span
	Lifetime    events.Span
	Remote      bool // over the API: the lease belongs to no incarnation (N-5)
	Worker      string
	StaleAfter  events.Span
	MessageGone bool
	SlotFree    bool // room for one more, and for one more suspect; asked only of a stale unit, whose slot may be given away
}

func (ClaimUnit) Name() string              { return "claim_unit" }
func (c ClaimUnit) Stream() events.StreamID { return events.UnitStream(c.Unit) }
func (ClaimUnit) Fresh() bool               { return false }

func (c ClaimUnit) decide(s State) ([]events.Event, *Rejection) {
	u := s.(Unit)
	no := func(err error, reason string) ([]events.Event, *Rejection) {
		return nil, &Rejection{Command: c.Name(), Reason: reason, Err: err}
	}
	switch {
	case !u.Exists():
		return no(ErrNotClaimable, "no such unit")
	case !c.RunOpen:
		return no(ErrNotClaimable, "its run has ended")
	case u.Status == events.UnitIsRetrying && u.AvailableAt > c.At:
		return no(ErrTooEarly, "retrying until "+u.AvailableAt.String())
	case u.Status != events.UnitIsDispatching:
		return no(ErrNotClaimable, "it is "+string(u.Status))
	case !c.SlotFree && u.Stale(c.At, c.StaleAfter, c.MessageGone):
		return no(ErrNotClaimable, "its slot was given away; it will be dispatched again")
	}
	ends := c.At.Add(c.Lifetime)
	return []events.Event{events.UnitClaimed{
		Attempt: u.Attempt + 1, Token: c.Token, Remote: c.Remote, Worker: c.Worker,
		LeaseEndsAt: ends, LeaseExpiresAt: min(c.At.Add(c.Lease), ends),
	}}, nil
}

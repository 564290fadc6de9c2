package decider

import "github.com/towline-dev/towline/events"

// RenewLease moves the end of a live lease, never beyond its absolute end (U-6). Within a third of the lease since the
// last renewal there is nothing to do, so that the log of a unit is bounded by its lifetime.
type RenewLease struct {
	Unit    events.UnitID
	At      events.Micros
	RunOpen bool
	Attempt int
	Token   events.Token
	Lease   events.Span
	Grace   Grace
}

func (RenewLease) Name() string              { return "renew_lease" }
func (c RenewLease) Stream() events.StreamID { return events.UnitStream(c.Unit) }
func (RenewLease) Fresh() bool               { return false }

func (c RenewLease) decide(s State) ([]events.Event, *Rejection) {
	u := s.(Unit)
	if reason, held := u.holds(c.Attempt, c.Token, c.At, c.RunOpen, c.Grace); !held {
		return nil, &Rejection{Command: c.Name(), Reason: string(reason), Err: ErrLeaseLost}
	}
	last := max(u.ClaimedAt, u.LastRenewedAt)
	until := min(c.At.Add(c.Lease), u.Lease.ends(c.Grace))
	if c.At.Sub(last) < c.Lease/3 || until <= u.Lease.ExpiresAt {
		return nil, nil
	}
	return []events.Event{events.UnitLeaseRenewed{Attempt: u.Attempt, Token: c.Token, LeaseExpiresAt: until}}, nil
}

// holds says whether a worker holds the live lease of the attempt, and if not, why. Every write of a worker asks it.
func (u Unit) holds(attempt int, t events.Token, now events.Micros, runOpen bool, g Grace) (events.LateReason, bool) {
	switch {
	case !runOpen:
		return events.LateRunTerminal, false
	case !u.Open():
		return events.LateUnitTerminal, false
	case attempt != u.Attempt:
		return events.LateAttemptOld, false
	case u.Status != events.UnitIsRunning || u.Lease.Token != t || !u.LeaseLive(now, false, g):
		return events.LateLeaseLost, false
	}
	return "", true
}

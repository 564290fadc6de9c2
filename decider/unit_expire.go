package decider

import "github.com/towline-dev/towline/events"

// ExpireLease ends an attempt whose lease has ended without a settle, and decides in the same transaction what becomes
// of the unit (U-11, U-12, RW-4). A unit that was settled or renewed since it was found is left alone (REC-6).
type ExpireLease struct {
	Unit     events.UnitID
	At       events.Micros
	RunOpen  bool
	NodeGone bool                 // the incarnation that holds the lease is gone (N-3)
	Grace    Grace                // of the attempt (CLK-4)
	Policies []events.RetryPolicy // frozen in the run
}

func (ExpireLease) Name() string              { return "expire_lease" }
func (c ExpireLease) Stream() events.StreamID { return events.UnitStream(c.Unit) }
func (ExpireLease) Fresh() bool               { return false }

func (c ExpireLease) decide(s State) ([]events.Event, *Rejection) {
	u := s.(Unit)
	if u.Status != events.UnitIsRunning || !c.RunOpen || u.LeaseLive(c.At, c.NodeGone, c.Grace) {
		return nil, nil
	}
	cause := c.cause(u)
	text := "no settle before the lease ended (" + string(cause) + ")"
	return u.lost(u.expired(cause), c.At, c.Policies, events.ByReconciler, text), nil
}

// expired is the end of the lease that the unit has.
func (u Unit) expired(cause events.ExpiryCause) events.UnitLeaseExpired {
	return events.UnitLeaseExpired{
		Attempt: u.Attempt, LeaseExpiresAt: u.Lease.ExpiresAt, LastRenewedAt: u.LastRenewedAt, LeaseNode: u.Lease.Node,
		Cause: cause,
	}
}

// lost decides what becomes of a unit whose worker is lost: the next attempt if a policy allows one, else its end (RW-4).
func (u Unit) lost(expired events.UnitLeaseExpired, at events.Micros, policies []events.RetryPolicy, by events.Settler, text string) []events.Event {
	policy, eligible := PolicyFor(policies, u.Plan, events.ExpiredLease)
	if eligible && u.ExpiredLeaseRetries < policy.MaxRetries {
		return []events.Event{expired, events.UnitRetryScheduled{
			Attempt: u.Attempt, Cause: events.ExpiredLease, AvailableAt: at.Add(policy.Backoff),
			ExpiredLeaseRetries: u.ExpiredLeaseRetries + 1,
			Suspect:             expired.Cause == events.LeaseIncarnationGone && u.ExpiredLeaseRetries+1 >= policy.MaxRetries,
		}}
	}
	category := events.WorkerLost
	if eligible {
		category = events.WorkerLostExhausted
	}
	return []events.Event{expired, events.UnitFailed{
		Attempt: u.Attempt, Category: category, By: by, Retries: u.Retries(), Text: text,
	}}
}

func (c ExpireLease) cause(u Unit) events.ExpiryCause {
	switch {
	case u.Lease.ExpiresAt == 0:
		return events.LeaseMissing
	case u.Lease.orphaned(c.NodeGone):
		return events.LeaseIncarnationGone
	}
	return events.LeaseExpired
}

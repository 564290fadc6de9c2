package decider

import "github.com/towline-dev/towline/events"

// ExpireLease ends an attempt whose lease has ended without a settle, and decides in the same transaction what becomes
// of the unit (U-11, U-12, RW-4). A unit that was settled or renewed since it was found is left alone (REC-6).
type ExpireLease struct {
	Unit     events.UnitID
	At       events.Micros
	RunOpen  bool
	NodeGone bool                 // the incarnation that holds the lease is gone (N-3)
	Policies []events.RetryPolicy // frozen in the run
}

func (ExpireLease) Name() string              { return "expire_lease" }
func (c ExpireLease) Stream() events.StreamID { return events.UnitStream(c.Unit) }
func (ExpireLease) Fresh() bool               { return false }

func (c ExpireLease) decide(s State) ([]events.Event, *Rejection) {
	u := s.(Unit)
	if u.Status != events.UnitIsRunning || !c.RunOpen || u.LeaseLive(c.At, c.NodeGone) {
		return nil, nil
	}
	expired := events.UnitLeaseExpired{
		Attempt: u.Attempt, LeaseExpiresAt: u.Lease.ExpiresAt, LastRenewedAt: u.LastRenewedAt, LeaseNode: u.Lease.Node,
		Cause: c.cause(u),
	}
	policy, eligible := PolicyFor(c.Policies, u.Plan, events.ExpiredLease)
	if eligible && u.ExpiredLeaseRetries < policy.MaxRetries {
		return []events.Event{expired, events.UnitRetryScheduled{
			Attempt: u.Attempt, Cause: events.ExpiredLease, AvailableAt: c.At.Add(policy.Backoff),
			ExpiredLeaseRetries: u.ExpiredLeaseRetries + 1,
			Suspect:             expired.Cause == events.LeaseIncarnationGone && u.ExpiredLeaseRetries+1 >= policy.MaxRetries,
		}}, nil
	}
	category := events.WorkerLost
	if eligible {
		category = events.WorkerLostExhausted
	}
	return []events.Event{expired, events.UnitFailed{
		Attempt: u.Attempt, Category: category, By: events.ByReconciler, Retries: u.Retries(),
		Text: "no settle before the lease ended (" + string(expired.Cause) + ")",
	}}, nil
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

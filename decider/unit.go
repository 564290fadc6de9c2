package decider

import (
	"slices"

	"github.com/towline-dev/towline/events"
)

// Unit is the fold of a unit stream.
//
//	∅ ──Planned──► planned ──Dispatched──► dispatching ──Claimed──► running ──Succeeded──► succeeded
//	                  │                     ▲  │  └─Dispatched─┘      │  │
//	                  │                     │  │ (stale)              │  └──Failed───────► failed
//	                  │        Dispatched   │  └──Failed─► failed     │
//	                  │      ┌──────────────┘  (never_started)        │
//	                  │   retrying ◄────────────RetryScheduled────────┘
//	                  └──Failed──► failed (reference_failed)
//	any open state ──Cancelled──► cancelled
//
// UnitLeaseExpired stands before the Failed or RetryScheduled that it leads to. UnitLateResult changes nothing but
// the list of attempts that have one. Anything not drawn is forbidden (U-18).
type Unit struct {
	ID        events.UnitID
	Plan      events.UnitPlanned
	Status    events.UnitStatus // empty: the unit does not exist
	PlannedAt events.Micros

	Dispatches        int           // times dispatched
	AttemptDispatches int           // of them since the attempt that they invite was opened
	FirstDispatchedAt events.Micros // of that attempt; a stale reclaim does not move it
	LastDispatchedAt  events.Micros
	Wakeup            int // of run_sync_unit, that announces the newest dispatch (K-1)

	Attempt       int // times claimed
	Claimed       events.Position
	ClaimedAt     events.Micros
	Lease         Lease // zero unless running
	LastRenewedAt events.Micros

	AvailableAt         events.Micros // set exactly while retrying
	ExpiredLeaseRetries int
	RateLimitDeferrals  int
	RateLimitFirstAt    events.Micros
	HandBacks           int
	CategoryRetries     []CategoryRetry // sorted by category
	Suspect             bool            // its process died under it, and its retries are spent: until its next settle (RW-8)

	Category  events.Category
	Text      string
	By        events.Settler
	Cancelled events.CancelReason // why it was cancelled; empty: it was not
	Result    events.Result
	Duration  events.Span
	SettledAt events.Micros

	Settled []Settlement // accepted settles of workers: at most one per attempt, rising
	Late    []int        // attempts with a UnitLateResult, in the order in which they came
}

// Lease is a worker's time-limited right to settle a unit.
type Lease struct {
	Token     events.Token
	ExpiresAt events.Micros // 0: a running unit without a lease counts as expired (U-17)
	EndsAt    events.Micros // absolute
	Node      events.NodeID // zero: an API worker's, which no restart ends (N-5)
	Worker    string
}

// Settlement is the settle that ended an attempt. Repeating it is no late result, also when the next attempt is under
// way or over (HU-9).
type Settlement struct {
	Attempt int
	Token   events.Token
	Outcome Outcome
}

// Outcome is what a settle offers.
type Outcome string

const (
	OutcomeSucceeded  Outcome = "succeeded"
	OutcomeFailed     Outcome = "failed"
	OutcomeHandedBack Outcome = "handed_back"
)

// CategoryRetry counts the retries of one declared category.
type CategoryRetry struct {
	Category events.Category
	Count    int
}

// Exists reports that the unit was planned.
func (u Unit) Exists() bool { return u.Status != "" }

// Open reports a unit that has not ended.
func (u Unit) Open() bool { return u.Status != "" && !u.Status.Terminal() }

// Bucket is what the unit's slot counts against (B-2).
func (u Unit) Bucket() events.Bucket { return events.NewBucket(u.Plan.Provider, u.Plan.Cost) }

// LeaseLive reports that the lease is in force at now; the end itself is outside (CLK-1). nodeGone says that the
// incarnation that holds it is gone (N-3), and g is the grace of the attempt.
func (u Unit) LeaseLive(now events.Micros, nodeGone bool, g Grace) bool {
	return u.Status == events.UnitIsRunning && u.Lease.expires(g) > now && !u.Lease.orphaned(nodeGone)
}

// orphaned: the lease of a worker over the API belongs to no incarnation, so the end of none voids it (N-5).
func (l Lease) orphaned(nodeGone bool) bool { return nodeGone && !l.Node.IsZero() }

// Stale reports a dispatching unit whose message must be taken for lost: it has waited for staleAfter, or its
// message lived in an incarnation that is gone.
func (u Unit) Stale(now events.Micros, staleAfter events.Span, messageGone bool) bool {
	return u.Status == events.UnitIsDispatching && (messageGone || u.LastDispatchedAt.Add(staleAfter) <= now)
}

// Retries is the number of attempts that were tried again.
func (u Unit) Retries() int {
	n := u.ExpiredLeaseRetries + u.RateLimitDeferrals
	for _, c := range u.CategoryRetries {
		n += c.Count
	}
	return n
}

func (u Unit) categoryRetries(c events.Category) int {
	for _, r := range u.CategoryRetries {
		if r.Category == c {
			return r.Count
		}
	}
	return 0
}

func (u Unit) evolve(env events.Envelope) Unit {
	switch e := env.Event.(type) {
	case events.UnitPlanned:
		u.ID, _ = env.Stream.Unit()
		u.Plan, u.Status, u.PlannedAt = e, events.UnitIsPlanned, env.At
	case events.UnitDispatched:
		if u.Status != events.UnitIsDispatching {
			u.AttemptDispatches, u.FirstDispatchedAt = 0, env.At
		}
		u.Status = events.UnitIsDispatching
		u.Dispatches, u.Wakeup = e.Dispatch, e.Wakeup
		u.AttemptDispatches++
		u.LastDispatchedAt, u.AvailableAt = env.At, 0
	case events.UnitClaimed:
		u.Status, u.Attempt, u.Claimed, u.ClaimedAt = events.UnitIsRunning, e.Attempt, env.Position, env.At
		u.Lease = Lease{Token: e.Token, ExpiresAt: e.LeaseExpiresAt, EndsAt: e.LeaseEndsAt, Worker: e.Worker}
		if !e.Remote {
			u.Lease.Node = env.Node
		}
		u.LastRenewedAt = 0
	case events.UnitLeaseRenewed:
		u.Lease.ExpiresAt, u.LastRenewedAt = e.LeaseExpiresAt, env.At
	case events.UnitSucceeded:
		u = u.settled(env.At, events.UnitHasSucceeded, e.Token, OutcomeSucceeded)
		u.Category, u.Text, u.By = "", "", ""
		u.Result, u.Duration = e.Result, e.Duration
	case events.UnitFailed:
		u = u.settled(env.At, events.UnitHasFailed, e.Token, OutcomeFailed)
		u.Category, u.Text, u.By, u.Result = e.Category, e.Text, e.By, e.Result
	case events.UnitRetryScheduled:
		u = u.retried(env.At, e)
	case events.UnitCancelled:
		u = u.settled(env.At, events.UnitIsCancelled, "", "")
		u.By, u.Cancelled = events.ByOperator, e.Reason
	case events.UnitLateResult:
		u.Late = append(u.Late[:len(u.Late):len(u.Late)], e.Attempt)
	}
	return u
}

// settled ends the attempt, and clears the counters of a rate-limit episode (U-20).
func (u Unit) settled(at events.Micros, s events.UnitStatus, t events.Token, o Outcome) Unit {
	u.Status, u.Lease, u.AvailableAt = s, Lease{}, 0
	u.RateLimitDeferrals, u.RateLimitFirstAt = 0, 0
	u.Suspect = false
	if s.Terminal() {
		u.SettledAt = at
	}
	if t != "" {
		u.Settled = append(u.Settled[:len(u.Settled):len(u.Settled)], Settlement{Attempt: u.Attempt, Token: t, Outcome: o})
	}
	return u
}

// accepted reports that this very settle ended its attempt.
func (u Unit) accepted(attempt int, t events.Token, o Outcome) bool {
	return t != "" && slices.Contains(u.Settled, Settlement{Attempt: attempt, Token: t, Outcome: o})
}

func (u Unit) retried(at events.Micros, e events.UnitRetryScheduled) Unit {
	outcome := OutcomeFailed
	if e.Cause == events.HandedBack {
		outcome = OutcomeHandedBack
	}
	u = u.settled(at, events.UnitIsRetrying, e.Token, outcome)
	u.AvailableAt, u.Category, u.Text = e.AvailableAt, e.Cause, e.Text
	u.ExpiredLeaseRetries = e.ExpiredLeaseRetries
	u.RateLimitDeferrals, u.RateLimitFirstAt = e.RateLimitDeferrals, e.RateLimitFirstAt
	u.HandBacks, u.Suspect = e.HandBacks, e.Suspect
	if e.CategoryRetries > 0 {
		u.CategoryRetries = withCategoryRetry(u.CategoryRetries, CategoryRetry{e.Cause, e.CategoryRetries})
	}
	return u
}

// withCategoryRetry copies, because an older state may share the slice.
func withCategoryRetry(old []CategoryRetry, c CategoryRetry) []CategoryRetry {
	out := make([]CategoryRetry, 0, len(old)+1)
	placed := false
	for _, o := range old {
		switch {
		case o.Category == c.Category:
			o, placed = c, true
		case !placed && o.Category > c.Category:
			out, placed = append(out, c), true
		}
		out = append(out, o)
	}
	if !placed {
		out = append(out, c)
	}
	return out
}

package check

import (
	"slices"

	"github.com/towline-dev/towline/events"
)

// settledBy notes whose unit this transaction settles (U-5).
func (c *Checker) settledBy(e events.Envelope, u *unit) {
	c.tx.settlers = append(c.tx.settlers, settler{
		mention{e.Position, e.Stream, e.Event.EventType()}, worker{u.Worker, u.LeaseNode},
	})
}

// unitSucceeded checks U-7.
func (c *Checker) unitSucceeded(e events.Envelope, u *unit, ev events.UnitSucceeded) {
	c.checkHolder(e, u, ev.Attempt, ev.Token)
	c.settledBy(e, u)
	c.checkWatermarks(e, u, ev.Watermarks)
	u.endAttempt()
	u.Category, u.By = "", ""
	c.move(e, u, events.UnitHasSucceeded)
}

// unitFailed checks U-8 and U-12 to U-14.
func (c *Checker) unitFailed(e events.Envelope, u *unit, ev events.UnitFailed) {
	if ev.Attempt != u.Attempt && ev.By != events.ByWorker {
		c.wrong("I-2", e, "it ends attempt %d, and the unit was claimed %d times", ev.Attempt, u.Attempt)
	}
	if ev.By != events.ByWorker && ev.Token != "" {
		c.wrong("I-2", e, "it bears the token of a worker, and says it is by %s", ev.By)
	}
	switch ev.By {
	case events.ByWorker:
		c.checkHolder(e, u, ev.Attempt, ev.Token)
		c.settledBy(e, u)
		if lostWorker(ev.Category) || ev.Category == events.ReferenceFailed || ev.Category == events.NeverStarted {
			c.wrong("I-2", e, "a worker cannot fail its unit as %s (section 19)", ev.Category)
		}
	case events.ByReconciler, events.ByOperator:
		c.checkLost(e, u, ev)
	case events.ByDispatch:
		c.checkNeverStarted(e, u, ev)
	case events.ByReference:
		if u.Status != events.UnitIsPlanned || u.Plan.Tier != events.TierWorkItem || u.tier.failed == 0 || ev.Category != events.ReferenceFailed {
			c.wrong("I-2", e, "a %s unit that is %s fails as %s, with %d failed reference units of source %s (U-13)",
				u.Plan.Tier, u.Status, ev.Category, u.tier.failed, u.Plan.Source)
		}
	default:
		c.wrong("I-2", e, "nobody called %q ends units", ev.By)
	}
	u.endAttempt()
	u.Category, u.By = ev.Category, ev.By
	c.move(e, u, events.UnitHasFailed)
}

func lostWorker(c events.Category) bool {
	return c == events.WorkerLost || c == events.WorkerLostExhausted
}

// checkLost is U-12 with RW-4: a lost worker ends its unit only if U-11 does not apply, under the category that says why.
func (c *Checker) checkLost(e events.Envelope, u *unit, ev events.UnitFailed) {
	if u.Status != events.UnitIsRunning {
		c.wrong("I-2", e, "a lost worker ends a unit that is %s (U-12)", u.Status)
	}
	c.takeExpiry(e, u)
	want := events.WorkerLost
	if p, ok := policyFor(u, events.ExpiredLease); ok {
		want = events.WorkerLostExhausted
		if u.ExpiredLeaseRetries < p.MaxRetries {
			c.wrong("I-2", e, "the unit fails, and policy %q allows retry %d of %d (U-11, U-12)", p.Name, u.ExpiredLeaseRetries+1, p.MaxRetries)
			return
		}
	}
	if ev.Category != want {
		c.wrong("I-2", e, "its category is %s, and it must be %s (RW-4)", ev.Category, want)
	}
}

// checkNeverStarted is U-14.
func (c *Checker) checkNeverStarted(e events.Envelope, u *unit, ev events.UnitFailed) {
	const dispatches = 3
	if stale, known := c.isStale(u, e.At); u.Status != events.UnitIsDispatching || known && !stale {
		c.wrong("I-2", e, "the unit is given up as never started, and it is %s since %s and not stale (U-14)", u.Status, u.LastDispatchedAt)
	}
	after := c.settings(e.Node).NeverStartedAfter
	switch {
	case ev.Category != events.NeverStarted:
		c.wrong("I-2", e, "dispatch fails a unit as %s (U-14)", ev.Category)
	case u.AttemptDispatches < dispatches:
		c.wrong("I-2", e, "the unit is given up after %d dispatches of the attempt (U-14)", u.AttemptDispatches)
	case after < 0:
		c.wrong("I-2", e, "the unit is given up, and dispatch.never_started_after is 0: never (U-14)")
	case after > 0 && u.FirstDispatchedAt.Add(after) > e.At:
		c.wrong("I-2", e, "the unit is given up, first dispatched at %s; dispatch.never_started_after is %s (U-14)", u.FirstDispatchedAt, after)
	case !c.room(e, u):
		c.wrong("I-2", e, "the unit is given up while no slot is free for it (U-14)")
	}
	if why := c.held(u.Plan.Provider, u.Plan.Source, e.At); why != "" {
		c.wrong("I-2", e, "a unit is given up while %s (U-14)", why)
	}
}

// unitRetried checks U-9, U-10, U-11 and U-16.
func (c *Checker) unitRetried(e events.Envelope, u *unit, ev events.UnitRetryScheduled) {
	switch {
	case ev.AvailableAt == 0:
		c.wrong("I-30", e, "the unit is tried again at no time: no scan would ever find it (U-18)")
	case ev.AvailableAt < e.At:
		c.wrong("I-2", e, "the next attempt is due at %s, before it is decided", ev.AvailableAt)
	}
	if ev.Cause == events.ExpiredLease {
		c.checkLostRetry(e, u, ev)
	} else {
		c.checkHolder(e, u, ev.Attempt, ev.Token)
		c.settledBy(e, u)
	}
	switch ev.Cause {
	case events.ExpiredLease:
	case events.RateLimit:
		c.checkDeferral(e, u, ev)
	case events.HandedBack:
		c.checkHandBack(e, u, ev)
	default:
		c.checkDeclaredRetry(e, u, ev)
	}
	c.checkEpisode(e, u, ev)
	if ev.Cause != events.ExpiredLease && ev.ExpiredLeaseRetries != u.ExpiredLeaseRetries {
		c.wrong("I-19", e, "it counts %d retries for a lost lease, there were %d, and its cause is %s (RL-3)", ev.ExpiredLeaseRetries, u.ExpiredLeaseRetries, ev.Cause)
	}
	if ev.CooldownKey != "" {
		if ev.CooldownUntil != ev.AvailableAt {
			c.wrong("I-2", e, "its cooldown ends at %s, and the deferral at %s (RL-4)", when(ev.CooldownUntil), when(ev.AvailableAt))
		}
		c.cooldown.note(u.Plan.Provider, u.Plan.Source, ev.CooldownKey, ev.CooldownUntil)
	}

	u.endAttempt()
	u.AvailableAt, u.Category = ev.AvailableAt, ev.Cause
	u.ExpiredLeaseRetries, u.HandBacks = ev.ExpiredLeaseRetries, ev.HandBacks
	u.RateLimitDeferrals, u.RateLimitFirstAt = ev.RateLimitDeferrals, ev.RateLimitFirstAt
	if ev.CategoryRetries > 0 {
		u.categoryRetries(ev.Cause).Count = ev.CategoryRetries
	}
	u.retriedSince, u.invitedSince = true, false
	c.move(e, u, events.UnitIsRetrying)
	c.tx.retried = append(c.tx.retried, retried{u, ev.AvailableAt, e.Position})
}

// checkLostRetry is U-11 and I-19.
func (c *Checker) checkLostRetry(e events.Envelope, u *unit, ev events.UnitRetryScheduled) {
	if u.Status != events.UnitIsRunning {
		c.wrong("I-2", e, "a unit that is %s is tried again (U-11)", u.Status)
	}
	c.takeExpiry(e, u)
	if ev.Attempt != u.Attempt || ev.Token != "" {
		c.wrong("I-2", e, "it ends attempt %d without a worker, and the unit was claimed %d times (U-11)", ev.Attempt, u.Attempt)
	}
	p, eligible := policyFor(u, events.ExpiredLease)
	switch {
	case !eligible:
		c.wrong("I-19", e, "no policy of the run lets a unit of %s/%s (%s) be tried again after a lost lease (RW-3)", u.Plan.Provider, u.Plan.Dataset, u.Plan.Mode)
	case ev.ExpiredLeaseRetries > p.MaxRetries:
		c.wrong("I-19", e, "it is retry %d, and policy %q allows %d", ev.ExpiredLeaseRetries, p.Name, p.MaxRetries)
	case ev.AvailableAt != e.At.Add(p.Backoff) && ev.AvailableAt != 0:
		c.wrong("I-2", e, "the next attempt is due at %s, and the backoff of policy %q is %s (U-11)", ev.AvailableAt, p.Name, p.Backoff)
	}
	if ev.ExpiredLeaseRetries != u.ExpiredLeaseRetries+1 {
		c.wrong("I-19", e, "it is retry %d, and the unit had %d", ev.ExpiredLeaseRetries, u.ExpiredLeaseRetries)
	}
}

// checkDeferral is U-9 and RL-2: I-20.
func (c *Checker) checkDeferral(e events.Envelope, u *unit, ev events.UnitRetryScheduled) {
	s := c.settings(e.Node)
	first := u.RateLimitFirstAt
	if u.RateLimitDeferrals == 0 {
		first = e.At
	}
	switch {
	case ev.RateLimitDeferrals != u.RateLimitDeferrals+1:
		c.wrong("I-20", e, "it is deferral %d, and the episode had %d", ev.RateLimitDeferrals, u.RateLimitDeferrals)
	case ev.RateLimitFirstAt != first:
		c.wrong("I-20", e, "the episode is said to begin at %s, and it began at %s", ev.RateLimitFirstAt, first)
	case s.MaxDeferrals > 0 && ev.RateLimitDeferrals > s.MaxDeferrals:
		c.wrong("I-20", e, "it is deferral %d, and the budget is %d", ev.RateLimitDeferrals, s.MaxDeferrals)
	case s.MaxWait > 0 && ev.AvailableAt > first.Add(s.MaxWait):
		c.wrong("I-20", e, "it waits until %s, and the budget of %s since %s ends before", ev.AvailableAt, s.MaxWait, first)
	}
}

// checkHandBack is U-16.
func (c *Checker) checkHandBack(e events.Envelope, u *unit, ev events.UnitRetryScheduled) {
	const most = 10
	switch {
	case ev.HandBacks != u.HandBacks+1 || ev.HandBacks >= most:
		c.wrong("I-2", e, "it is hand-back %d in a row, after %d, and %d end the unit (U-16)", ev.HandBacks, u.HandBacks, most)
	case ev.HandBacks == 1 && ev.AvailableAt != e.At:
		c.wrong("I-2", e, "a unit that is handed back for the first time is due at %s instead of now (U-16)", ev.AvailableAt)
	}
}

// checkDeclaredRetry is U-10.
func (c *Checker) checkDeclaredRetry(e events.Envelope, u *unit, ev events.UnitRetryScheduled) {
	p, eligible := policyFor(u, ev.Cause)
	n := u.retriesFor(ev.Cause)
	switch {
	case !eligible:
		c.wrong("I-2", e, "no policy of the run lets a unit of %s/%s (%s) be tried again after %s (U-10)", u.Plan.Provider, u.Plan.Dataset, u.Plan.Mode, ev.Cause)
	case ev.CategoryRetries != n+1 || ev.CategoryRetries > p.MaxRetries:
		c.wrong("I-2", e, "it is retry %d for %s after %d, and policy %q allows %d (U-10)", ev.CategoryRetries, ev.Cause, n, p.Name, p.MaxRetries)
	case ev.AvailableAt != e.At.Add(p.Backoff) && ev.AvailableAt != 0:
		c.wrong("I-2", e, "the next attempt is due at %s, and the backoff of policy %q is %s (U-10)", ev.AvailableAt, p.Name, p.Backoff)
	}
}

// checkEpisode is U-20: only a deferral and a hand-back leave a rate-limit episode open.
func (c *Checker) checkEpisode(e events.Envelope, u *unit, ev events.UnitRetryScheduled) {
	n, first := 0, events.Micros(0)
	switch ev.Cause {
	case events.RateLimit:
		return
	case events.HandedBack:
		n, first = u.RateLimitDeferrals, u.RateLimitFirstAt
	}
	if ev.RateLimitDeferrals != n || ev.RateLimitFirstAt != first {
		c.wrong("I-20", e, "it leaves an episode of %d deferrals since %s, and %s leaves one of %d since %s (U-20)",
			ev.RateLimitDeferrals, when(ev.RateLimitFirstAt), ev.Cause, n, when(first))
	}
}

// policyFor is RW-3 without the count: the first policy that its run has frozen and that lets the unit be tried again
// after the cause.
func policyFor(u *unit, cause events.Category) (events.RetryPolicy, bool) {
	for _, p := range u.run.Policy.Retry {
		causes := p.RetryOn
		if len(causes) == 0 {
			causes = []events.Category{events.ExpiredLease}
		}
		if p.Provider == u.Plan.Provider && slices.Contains(p.Modes, u.Plan.Mode) && subset(u.Plan.Datasets(), p.Family) &&
			len(u.Plan.Surfaces) > 0 && subset(u.Plan.Surfaces, p.Surfaces) && slices.Contains(causes, cause) {
			return p, true
		}
	}
	return events.RetryPolicy{}, false
}

func subset(list, of []string) bool {
	for _, x := range list {
		if !slices.Contains(of, x) {
			return false
		}
	}
	return true
}

func (u *unit) retriesFor(cat events.Category) int {
	for _, r := range u.CategoryRetries {
		if r.Category == cat {
			return r.Count
		}
	}
	return 0
}

func (u *unit) categoryRetries(cat events.Category) *CategoryRetries {
	for i := range u.CategoryRetries {
		if u.CategoryRetries[i].Category == cat {
			return &u.CategoryRetries[i]
		}
	}
	u.CategoryRetries = append(u.CategoryRetries, CategoryRetries{Category: cat})
	return &u.CategoryRetries[len(u.CategoryRetries)-1]
}

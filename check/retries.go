package check

import (
	"slices"

	"github.com/towline-dev/towline/events"
)

// unitRetried checks U-9, U-10, U-11 and U-16.
func (c *Checker) unitRetried(e events.Envelope, u *unit, ev events.UnitRetryScheduled) {
	switch {
	case ev.AvailableAt == 0:
		c.wrong("I-30", e, "the unit is tried again at no time: no scan would ever find it (U-18)")
	case ev.AvailableAt < e.At:
		c.wrong("I-2", e, "the next attempt is due at %s, before it is decided", ev.AvailableAt)
	}
	suspect := false
	if ev.Cause == events.ExpiredLease {
		suspect = c.checkLostRetry(e, u, ev)
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
	if ev.Suspect != suspect {
		c.wrong("I-2", e, "it says suspect %t, and the unit is one exactly if its process died under it at its last retry (RW-8)", ev.Suspect)
	}
	c.checkEpisode(e, u, ev)
	if ev.Cause != events.ExpiredLease && ev.ExpiredLeaseRetries != u.ExpiredLeaseRetries {
		c.wrong("I-19", e, "it counts %d retries for a lost lease, there were %d, and its cause is %s (RL-3)", ev.ExpiredLeaseRetries, u.ExpiredLeaseRetries, ev.Cause)
	}
	switch limited := ev.Cause == events.RateLimit; {
	case limited && ev.CooldownKey == "":
		c.wrong("I-2", e, "a rate limit names no account to be left alone (RL-4)")
	case !limited && ev.CooldownKey != "":
		c.wrong("I-2", e, "its cause is %s, and it begins a cooldown (RL-4)", ev.Cause)
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
	u.Suspect = suspect
	u.retriedSince, u.invitedSince = true, false
	c.move(e, u, events.UnitIsRetrying)
	c.tx.retried = append(c.tx.retried, retried{u, ev.AvailableAt, e.Position})
}

// checkLostRetry is U-11 and I-19. It reports a crash suspect (RW-8).
func (c *Checker) checkLostRetry(e events.Envelope, u *unit, ev events.UnitRetryScheduled) (suspect bool) {
	if u.Status != events.UnitIsRunning {
		c.wrong("I-2", e, "a unit that is %s is tried again (U-11)", u.Status)
	}
	gone := u.expiry.cause == events.LeaseIncarnationGone
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
	return eligible && gone && ev.ExpiredLeaseRetries >= p.MaxRetries
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
	case s.MaxDeferrals != 0 && ev.RateLimitDeferrals > max(s.MaxDeferrals, 0):
		c.wrong("I-20", e, "it is deferral %d, and the budget is %d", ev.RateLimitDeferrals, max(s.MaxDeferrals, 0))
	case s.MaxWait != 0 && ev.AvailableAt > c.budgetSince(first).Add(max(s.MaxWait, 0)):
		c.wrong("I-20", e, "it waits until %s, and the budget of %s since %s ends before", ev.AvailableAt, max(s.MaxWait, 0), c.budgetSince(first))
	}
}

// checkLimited is the other half of RL-2: a unit fails for a rate limit when its budget is spent, under the category that
// says so.
func (c *Checker) checkLimited(e events.Envelope, u *unit, category events.Category) {
	s := c.settings(e.Node)
	switch {
	case category == events.RateLimit:
		c.wrong("I-20", e, "a rate limit fails the unit: it is deferred, or its budget is spent (U-9, RL-2)")
	case category != events.RateLimitExhausted || s.MaxDeferrals <= 0 || s.MaxWait <= 0:
	case u.RateLimitDeferrals < s.MaxDeferrals && (u.RateLimitDeferrals == 0 || c.budgetSince(u.RateLimitFirstAt).Add(s.MaxWait) > e.At):
		c.wrong("I-20", e, "its budget is said to be spent, with %d of %d deferrals since %s, of %s", u.RateLimitDeferrals, s.MaxDeferrals,
			when(c.budgetSince(u.RateLimitFirstAt)), s.MaxWait)
	}
}

// budgetSince is where a budget of time begins: at its first use, or when a clock was set forward behind it (CLK-8).
func (c *Checker) budgetSince(first events.Micros) events.Micros { return max(first, c.stepped) }

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

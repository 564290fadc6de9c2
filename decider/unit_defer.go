package decider

import (
	"cmp"

	"github.com/towline-dev/towline/events"
)

// RateLimit is what a provider said of a rate limit (RL-1), and the budget of an episode of them (RL-2).
type RateLimit struct {
	After   events.Span // how long to wait, as the provider said; 0: it did not say
	Account string      // whose limit it is; empty: the source's own

	MaxDeferrals int         // rate_limit.max_deferrals
	MaxWait      events.Span // rate_limit.max_wait, since the first deferral
	Default      events.Span // rate_limit.default_wait

	Stepped events.Micros // when a clock was last set forward, and the budget of time began anew; 0: never (CLK-8)
}

// deferred answers a rate limit: the unit waits, and so does whatever uses the same account (U-9, RL-4). The wait is cut
// to what is left of the budget. When nothing is left of it, in number or in time, the unit fails.
func (c FailUnit) deferred(u Unit) []events.Event {
	first := cmp.Or(u.RateLimitFirstAt, c.At)
	left := max(first, c.Limit.Stepped).Add(c.Limit.MaxWait).Sub(c.At)
	if u.RateLimitDeferrals >= c.Limit.MaxDeferrals || left <= 0 {
		return []events.Event{events.UnitFailed{
			Attempt: c.Attempt, Token: c.Token, Category: events.RateLimitExhausted, Text: c.Text, By: events.ByWorker,
			Retries: u.Retries(), Result: c.Result,
		}}
	}
	wait := c.Limit.After
	if wait <= 0 {
		wait = c.Limit.Default
	}
	until := c.At.Add(min(wait, left))
	return []events.Event{events.UnitRetryScheduled{
		Attempt: c.Attempt, Token: c.Token, Cause: events.RateLimit, Text: c.Text, AvailableAt: until,
		ExpiredLeaseRetries: u.ExpiredLeaseRetries, RateLimitDeferrals: u.RateLimitDeferrals + 1, RateLimitFirstAt: first,
		CooldownKey: CooldownKey(u.Plan.Provider, cmp.Or(c.Limit.Account, u.Plan.Source)), CooldownUntil: until,
		Result: c.Result,
	}}
}

// CooldownKey names what one rate limit holds: an account at a provider (RL-4).
func CooldownKey(provider, account string) string { return provider + "/" + account }

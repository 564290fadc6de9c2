package decider

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/events"
)

// limit is a rate limit that asks to wait so long, under the usual budget.
func limit(wait events.Span) RateLimit {
	return RateLimit{After: wait, MaxDeferrals: 10, MaxWait: 2 * hour, Default: minute}
}

// deferral is the report of a rate limit by attempt 1.
func deferral(after, wait events.Span) FailUnit {
	c := fail(after, events.RateLimit)
	c.Limit = limit(wait)
	return c
}

// deferred is a unit that runs at t0 by attempt 1, with so many deferrals since an hour before.
func deferred(n int) []happening {
	return []happening{
		at(-2*hour, thePlan), at(-hour, dispatched(1, 1, 1, events.DispatchPlanned)), at(-hour, claimed(-hour, 1, tokenA)),
		at(-hour, events.UnitRetryScheduled{
			Attempt: 1, Token: tokenA, Cause: events.RateLimit, AvailableAt: t0, RateLimitDeferrals: n, RateLimitFirstAt: t0.Add(-hour),
			ExpiredLeaseRetries: 1,
		}),
		at(0, dispatched(2, 2, 2, events.DispatchRetry)), at(0, claimed(0, 2, tokenB)),
	}
}

// spentBy is the report of attempt 2 of such a unit.
func spentBy(after events.Span) FailUnit {
	c := deferral(after, 30*second)
	c.Attempt, c.Token = 2, tokenB
	return c
}

// U-9, RL-1 to RL-4, SC-262, SC-263, SC-274: a rate limit is no failure. The unit waits as long as the provider says, else
// the default; what the attempt has reported is kept, and the account of the source is left alone as long.
func TestARateLimitIsADeferral(t *testing.T) {
	for name, tt := range map[string]struct {
		wait, want events.Span
		account    string
		key        string
	}{
		"as long as it says":              {30 * second, 30 * second, "", "linear/team"},
		"it does not say":                 {0, minute, "", "linear/team"},
		"a time that has passed":          {-hour, minute, "", "linear/team"},
		"cut to the budget":               {3 * hour, 2 * hour, "", "linear/team"},
		"an account that sources share":   {second, second, "workspace-7", "linear/workspace-7"},
		"exactly the budget":              {2 * hour, 2 * hour, "", "linear/team"},
		"a microsecond less than that":    {2*hour - micro, 2*hour - micro, "", "linear/team"},
		"the shortest wait that there is": {micro, micro, "", "linear/team"},
	} {
		t.Run(name, func(t *testing.T) {
			c := deferral(second, tt.wait)
			c.Limit.Account = tt.account
			until := t0.Add(second + tt.want)
			got := decide(t, givenUnit(running()...), c)
			require.Equal(t, []events.Event{events.UnitRetryScheduled{
				Attempt: 1, Token: tokenA, Cause: events.RateLimit, Text: "refused", AvailableAt: until, RateLimitDeferrals: 1,
				RateLimitFirstAt: t0.Add(second), CooldownKey: tt.key, CooldownUntil: until, Result: events.Result{Rows: 1},
			}}, got)
			u := givenUnit(and(running(), then(second, got)...)...)
			require.Equal(t, events.UnitIsRetrying, u.Status)
			require.Equal(t, []any{1, t0.Add(second), until}, []any{u.RateLimitDeferrals, u.RateLimitFirstAt, u.AvailableAt})
		})
	}
}

// RL-2, I-20, SC-264, SC-265: an episode has a budget of deferrals, and of time since its first; the wait is cut to what is
// left of it. Spent, the unit fails under a category of its own.
func TestARateLimitHasABudget(t *testing.T) {
	next := decide(t, givenUnit(deferred(9)...), spentBy(second))[0].(events.UnitRetryScheduled)
	require.Equal(t, []any{10, t0.Add(-hour), 1}, []any{next.RateLimitDeferrals, next.RateLimitFirstAt, next.ExpiredLeaseRetries}, "RL-3")

	long := spentBy(second)
	long.Limit.After = 2 * hour
	require.Equal(t, t0.Add(hour), decide(t, givenUnit(deferred(1)...), long)[0].(events.UnitRetryScheduled).AvailableAt)

	exhausted := []events.Event{events.UnitFailed{
		Attempt: 2, Token: tokenB, Category: events.RateLimitExhausted, Text: "refused", By: events.ByWorker, Retries: 11,
		Result: events.Result{Rows: 1},
	}}
	require.Equal(t, exhausted, decide(t, givenUnit(deferred(10)...), spentBy(second)), "the 11th deferral")

	none := spentBy(second)
	none.Limit.MaxDeferrals = 0
	require.Equal(t, events.RateLimitExhausted, decide(t, givenUnit(deferred(1)...), none)[0].(events.UnitFailed).Category)
	require.Equal(t, events.RateLimitExhausted, decide(t, givenUnit(running()...), func() FailUnit {
		c := deferral(second, second)
		c.Limit.MaxWait = 0
		return c
	}())[0].(events.UnitFailed).Category)
}

// RL-2, CLK-1, SC-264: the time is spent exactly when it is over.
func TestTheTimeOfARateLimitEnds(t *testing.T) {
	at := func(after events.Span) events.Event {
		given := and(deferred(1)[:4], happening{t0.Add(hour - second), nodeA, dispatched(2, 2, 2, events.DispatchRetry)},
			happening{t0.Add(hour - second), nodeA, claimed(hour-second, 2, tokenB)})
		return decide(t, givenUnit(given...), spentBy(after))[0]
	}
	require.Equal(t, t0.Add(hour), at(hour-micro).(events.UnitRetryScheduled).AvailableAt)
	require.Equal(t, events.RateLimitExhausted, at(hour).(events.UnitFailed).Category)
}

// U-9, I-19: no policy is asked for a rate limit, and nobody else's category may pass for a spent budget.
func TestARateLimitIsNoMatterOfAPolicy(t *testing.T) {
	c := deferral(second, second)
	c.Policies = []events.RetryPolicy{retryOn(3, events.RateLimit)}
	require.Zero(t, decide(t, givenUnit(running()...), c)[0].(events.UnitRetryScheduled).CategoryRetries)
	c.Category = events.RateLimitExhausted
	require.Equal(t, events.ProviderError, decide(t, givenUnit(running()...), c)[0].(events.UnitFailed).Category)
}

// U-20, SC-266, SC-267: the next settle ends the episode, so counters start again; a lost lease between two deferrals does,
// too, and has its own maximum, so the two in turn come to an end.
func TestAnEpisodeEndsWithTheNextSettle(t *testing.T) {
	lost := expire(lease, Linear(1, minute))
	got := decide(t, givenUnit(deferred(9)...), lost)
	retry := got[len(got)-1]
	require.Equal(t, events.WorkerLostExhausted, retry.(events.UnitFailed).Category, "it has one behind it")

	given := and(deferred(9), at(second, events.UnitRetryScheduled{Attempt: 2, Token: tokenB, Cause: events.Network, AvailableAt: t0.Add(minute), CategoryRetries: 1}),
		at(minute, dispatched(3, 3, 3, events.DispatchRetry)), at(minute, claimed(minute, 3, tokenA)))
	c := deferral(minute+second, second)
	c.Attempt = 3
	next := decide(t, givenUnit(given...), c)[0].(events.UnitRetryScheduled)
	require.Equal(t, []any{1, t0.Add(minute + second)}, []any{next.RateLimitDeferrals, next.RateLimitFirstAt})
}

// U-19, HU-9, SC-268: a deferral that comes too late changes nothing, and one that is repeated gets the first answer.
func TestALateDeferralIsRefused(t *testing.T) {
	late := requireRefused(t, givenUnit(running()...), deferral(lease, second), ErrLeaseLost)
	require.IsType(t, events.UnitLateResult{}, late[0])
	got := decide(t, givenUnit(running()...), deferral(second, second))
	requireNothing(t, givenUnit(and(running(), then(second, got)...)...), deferral(2*second, second))
}

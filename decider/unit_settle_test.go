package decider

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/events"
)

func complete(after events.Span) CompleteUnit {
	return CompleteUnit{Unit: theUnit, At: t0.Add(after), RunOpen: true, Attempt: 1, Token: tokenA, Result: events.Result{Rows: 3}}
}

func fail(after events.Span, category events.Category) FailUnit {
	return FailUnit{
		Unit: theUnit, At: t0.Add(after), RunOpen: true, Attempt: 1, Token: tokenA, Category: category, Text: "refused",
		Result: events.Result{Rows: 1},
	}
}

// U-7, SC-161: a success ends the unit, with what the worker reported and how long it took.
func TestASuccessEndsTheUnit(t *testing.T) {
	got := decide(t, givenUnit(running()...), complete(30*second))
	require.Equal(t, []events.Event{events.UnitSucceeded{
		Attempt: 1, Token: tokenA, Result: events.Result{Rows: 3}, Duration: 30 * second,
	}}, got)
	u := givenUnit(and(running(), then(30*second, got)...)...)
	require.Equal(t, events.UnitHasSucceeded, u.Status)
	require.Equal(t, Lease{}, u.Lease)
	require.Equal(t, t0.Add(30*second), u.SettledAt)
	require.Equal(t, 3, u.Result.Rows)
}

// CLK-1, U-7, U-8: a settle counts while the lease is live, and not at its end.
func TestASettleCountsUntilTheLeaseEnds(t *testing.T) {
	u := givenUnit(running()...)
	require.Len(t, decide(t, u, complete(lease-micro)), 1)
	require.Len(t, decide(t, u, fail(lease-micro, events.Auth)), 1)
	require.Len(t, requireRefused(t, u, complete(lease), ErrLeaseLost), 1)
	require.Len(t, requireRefused(t, u, fail(lease, events.Auth), ErrLeaseLost), 1)
}

// withMark is a unit that moves the watermark of a window, running at t0.
func withMark(change func(*events.UnitPlanned)) Unit {
	p := thePlan
	p.Mode, p.Watermark = events.Incremental, true
	p.Window = events.NewWindow(t0.Time().AddDate(0, 0, -7), t0.Time().AddDate(0, 0, -1))
	change(&p)
	return givenUnit(and([]happening{at(-minute, p)}, running()[1:]...)...)
}

// WM-1 to WM-5, SC-108, SC-110 to SC-113, SC-115: what a success does to the watermark.
func TestWatermarksMoveWithTheSuccess(t *testing.T) {
	end := t0.Add(-24 * hour)
	mark := func(dataset string, at events.Micros) events.Watermark {
		return events.Watermark{Source: "team", Dataset: dataset, At: at}
	}
	for name, tt := range map[string]struct {
		plan    func(*events.UnitPlanned)
		current []events.Watermark
		want    []events.Watermark
	}{
		"first":                       {plan: func(*events.UnitPlanned) {}, want: []events.Watermark{mark("work-items", end)}},
		"higher than before":          {func(*events.UnitPlanned) {}, []events.Watermark{mark("work-items", end-1)}, []events.Watermark{mark("work-items", end)}},
		"equal is not written":        {func(*events.UnitPlanned) {}, []events.Watermark{mark("work-items", end)}, nil},
		"lower is not written":        {func(*events.UnitPlanned) {}, []events.Watermark{mark("work-items", end+1)}, nil},
		"another dataset is no guard": {func(*events.UnitPlanned) {}, []events.Watermark{mark("other", end+1)}, []events.Watermark{mark("work-items", end)}},
		"another source is no guard":  {func(*events.UnitPlanned) {}, []events.Watermark{{Source: "x", Dataset: "work-items", At: end + 1}}, []events.Watermark{mark("work-items", end)}},
		"without watermark behaviour": {plan: func(p *events.UnitPlanned) { p.Watermark = false }},
		"one per member": {
			plan:    func(p *events.UnitPlanned) { p.Members = []string{"items", "labels"} },
			current: []events.Watermark{mark("labels", end)}, want: []events.Watermark{mark("items", end)},
		},
		"window ends after now": {
			plan: func(p *events.UnitPlanned) { p.Window = events.NewWindow(t0.Time(), t0.Time().AddDate(0, 0, 1)) },
			want: []events.Watermark{mark("work-items", t0.Add(second))},
		},
		"full_resync writes": {plan: func(p *events.UnitPlanned) { p.Mode = events.FullResync }, want: []events.Watermark{mark("work-items", end)}},
	} {
		t.Run(name, func(t *testing.T) {
			c := complete(second)
			c.Watermarks = tt.current
			c.Result.Detail = json.RawMessage(`{"covered_until":"2099-01-01"}`) // WM-2: no claim of the provider counts
			require.Equal(t, tt.want, decide(t, withMark(tt.plan), c)[0].(events.UnitSucceeded).Watermarks)
		})
	}
}

// U-8, SC-163: a failure ends the unit with its category.
func TestAFailureEndsTheUnit(t *testing.T) {
	require.Equal(t, []events.Event{events.UnitFailed{
		Attempt: 1, Token: tokenA, Category: events.Auth, Text: "refused", By: events.ByWorker, Result: events.Result{Rows: 1},
	}}, decide(t, givenUnit(running()...), fail(second, events.Auth)))
}

// retryOn is a policy that the unit meets, for these categories.
func retryOn(most int, categories ...events.Category) events.RetryPolicy {
	p := Linear(most, minute)
	p.RetryOn = categories
	return p
}

// U-10, E-2, SC-191, SC-192: a category is tried again exactly if the frozen policy lists it and has retries left.
func TestADeclaredCategoryIsTriedAgain(t *testing.T) {
	u := givenUnit(running()...)
	c := fail(second, events.Network)
	c.Policies = []events.RetryPolicy{retryOn(1, events.Network)}
	require.Equal(t, []events.Event{events.UnitRetryScheduled{
		Attempt: 1, Token: tokenA, Cause: events.Network, Text: "refused", AvailableAt: t0.Add(second + minute), CategoryRetries: 1,
		Result: events.Result{Rows: 1},
	}}, decide(t, u, c))

	for name, policies := range map[string][]events.RetryPolicy{
		"no policy":             nil,
		"lost workers only":     {Linear(1, minute)},
		"other categories":      {retryOn(1, events.Timeout, events.ExpiredLease)},
		"listed, no retry left": {retryOn(0, events.Network)},
		"another provider":      {{Provider: "git", RetryOn: []events.Category{events.Network}, MaxRetries: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			c.Policies = policies
			require.Equal(t, events.Network, decide(t, u, c)[0].(events.UnitFailed).Category)
		})
	}
}

// U-20: each category has its own maximum, so that alternating causes cannot go on for ever; the others keep theirs.
func TestEachCategoryHasItsOwnCount(t *testing.T) {
	policies := []events.RetryPolicy{retryOn(1, events.Network, events.Timeout, events.ExpiredLease)}
	hs := running()
	try := func(n int, category events.Category) []events.Event {
		after := events.Span(n) * 10 * minute
		c := fail(after+second, category)
		c.Attempt, c.Policies = n, policies
		hs = and(hs, at(after, dispatched(n, n, n, events.DispatchRetry)), at(after, claimed(after, n, tokenA)))
		got := decide(t, givenUnit(hs...), c)
		hs = and(hs, then(after+second, got)...)
		return got
	}
	hs = hs[:1]
	require.IsType(t, events.UnitRetryScheduled{}, try(1, events.Timeout)[0])
	require.IsType(t, events.UnitRetryScheduled{}, try(2, events.Network)[0])
	require.Equal(t, []CategoryRetry{{events.Network, 1}, {events.Timeout, 1}}, givenUnit(hs...).CategoryRetries)
	require.Equal(t, 2, givenUnit(hs...).Retries())
	last := try(3, events.Timeout)[0]
	require.Equal(t, 2, last.(events.UnitFailed).Retries)
}

// U-20: a declared retry keeps the count of lost workers, and ends a rate-limit episode and a row of hand-backs.
func TestADeclaredRetryEndsAnEpisode(t *testing.T) {
	given := and(running(),
		at(second, events.UnitRetryScheduled{
			Attempt: 1, Token: tokenA, Cause: events.RateLimit, AvailableAt: t0.Add(minute), RateLimitDeferrals: 9,
			RateLimitFirstAt: t0, HandBacks: 3, ExpiredLeaseRetries: 2,
		}),
		at(minute, dispatched(2, 2, 2, events.DispatchRetry)), at(minute, claimed(minute, 2, tokenA)))
	c := fail(minute+second, events.Network)
	c.Attempt, c.Policies = 2, []events.RetryPolicy{retryOn(1, events.Network)}
	got := decide(t, givenUnit(given...), c)
	require.Equal(t, 2, got[0].(events.UnitRetryScheduled).ExpiredLeaseRetries)
	u := givenUnit(and(given, then(minute+second, got)...)...)
	require.Equal(t, []any{2, 0, events.Micros(0), 0}, []any{u.ExpiredLeaseRetries, u.RateLimitDeferrals, u.RateLimitFirstAt, u.HandBacks})
}

// U-20: success and failure end a rate-limit episode too; only a deferral and a hand-back do not.
func TestTheEndOfAUnitEndsItsEpisode(t *testing.T) {
	given := and(running(),
		at(second, events.UnitRetryScheduled{
			Attempt: 1, Token: tokenA, Cause: events.RateLimit, AvailableAt: t0.Add(minute), RateLimitDeferrals: 9, RateLimitFirstAt: t0,
		}),
		at(minute, dispatched(2, 2, 2, events.DispatchRetry)), at(minute, claimed(minute, 2, tokenA)))
	for _, end := range []events.Event{
		events.UnitSucceeded{Attempt: 2, Token: tokenA}, events.UnitFailed{Attempt: 2, Token: tokenA, Category: events.Auth},
	} {
		u := givenUnit(and(given, at(minute+second, end))...)
		require.Zero(t, u.RateLimitDeferrals, end.EventType())
		require.Zero(t, u.RateLimitFirstAt, end.EventType())
	}
}

// E-1, I-19: what only a reconciler, a cascade or a rule may find is no category of a worker's failure. A worker that
// reports an expired lease would else get the retries of one, without a lease that expired.
func TestAWorkerCannotReportWhatIsNotItsOwn(t *testing.T) {
	policies := []events.RetryPolicy{Linear(5, minute), retryOn(5, events.ExpiredLease, events.HandedBack, events.WorkerLost)}
	for _, category := range []events.Category{
		"", events.ExpiredLease, events.HandedBack, events.WorkerLost, events.WorkerLostExhausted, events.ReferenceFailed,
		events.NeverStarted, events.InvalidPayload, events.HandlerFailed,
	} {
		c := fail(second, category)
		c.Policies = policies
		got := decide(t, givenUnit(running()...), c)
		require.Equal(t, events.ProviderError, got[0].(events.UnitFailed).Category, category)
	}
}

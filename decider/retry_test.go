package decider

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/events"
)

// RW-3, RW-4, SC-204, SC-207, SC-208: each condition alone makes a unit ineligible, and only the count says "exhausted".
func TestEachConditionOfARetryAloneForbidsIt(t *testing.T) {
	policy := Linear(1, minute)
	for name, tt := range map[string]struct {
		plan   func(*events.UnitPlanned)
		policy func(*events.RetryPolicy)
		want   events.Category // empty: tried again
	}{
		"all hold":              {want: ""},
		"family, every member":  {plan: func(u *events.UnitPlanned) { u.Dataset, u.Members = "work_item", policy.Family }, want: ""},
		"provider":              {plan: func(u *events.UnitPlanned) { u.Provider = "jira" }, want: events.WorkerLost},
		"mode":                  {plan: func(u *events.UnitPlanned) { u.Mode = events.Incremental }, want: events.WorkerLost},
		"mode, full_resync":     {plan: func(u *events.UnitPlanned) { u.Mode = events.FullResync }, want: events.WorkerLost},
		"dataset":               {plan: func(u *events.UnitPlanned) { u.Dataset = "users" }, want: events.WorkerLost},
		"one member of many":    {plan: func(u *events.UnitPlanned) { u.Members = []string{"work-items", "users"} }, want: events.WorkerLost},
		"no surface":            {plan: func(u *events.UnitPlanned) { u.Surfaces = nil }, want: events.WorkerLost},
		"empty surfaces":        {plan: func(u *events.UnitPlanned) { u.Surfaces = []string{} }, want: events.WorkerLost},
		"one surface of many":   {plan: func(u *events.UnitPlanned) { u.Surfaces = []string{"work-items", "users"} }, want: events.WorkerLost},
		"cause is not listed":   {policy: func(p *events.RetryPolicy) { p.RetryOn = []events.Category{events.Network} }, want: events.WorkerLost},
		"cause is listed":       {policy: func(p *events.RetryPolicy) { p.RetryOn = []events.Category{events.ExpiredLease} }, want: ""},
		"count":                 {policy: func(p *events.RetryPolicy) { p.MaxRetries = 0 }, want: events.WorkerLostExhausted},
		"policy without modes":  {policy: func(p *events.RetryPolicy) { p.Modes = nil }, want: events.WorkerLost},
		"policy without family": {policy: func(p *events.RetryPolicy) { p.Family = nil }, want: events.WorkerLost},
	} {
		t.Run(name, func(t *testing.T) {
			plan, p := thePlan, policy
			if tt.plan != nil {
				tt.plan(&plan)
			}
			if tt.policy != nil {
				tt.policy(&p)
			}
			u := givenUnit(and([]happening{at(-minute, plan)}, running()[1:]...)...)
			got := decide(t, u, expire(lease, p))
			if tt.want == "" {
				require.IsType(t, events.UnitRetryScheduled{}, got[1])
				return
			}
			require.Equal(t, tt.want, got[1].(events.UnitFailed).Category)
		})
	}
	over := expire(lease, policy) // NT(run)
	over.RunOpen = false
	requireNothing(t, givenUnit(running()...), over)
}

// RW-2, RW-3: the first policy that the unit meets decides; one that it does not meet is no obstacle.
func TestTheFirstPolicyThatAUnitMeetsDecides(t *testing.T) {
	other := events.RetryPolicy{Name: "other", Provider: "git"}
	first, second := Linear(1, minute), Linear(3, hour)
	got, ok := PolicyFor([]events.RetryPolicy{other, first, second}, thePlan, events.ExpiredLease)
	require.True(t, ok)
	require.Equal(t, first, got)
	_, ok = PolicyFor([]events.RetryPolicy{other}, thePlan, events.ExpiredLease)
	require.False(t, ok)
}

// RW-5: the shipped policy is the original's rule.
func TestTheShippedPolicyIsTheOriginalsRule(t *testing.T) {
	five := []string{"work-items", "work-item-labels", "work-item-projects", "work-item-history", "work-item-comments"}
	require.Equal(t, events.RetryPolicy{
		Name: "linear", Provider: "linear", Modes: []events.Mode{events.Backfill}, Family: five, Surfaces: five, MaxRetries: 1,
		Backoff: minute,
	}, Linear(1, minute))
}

package decider

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/events"
)

// a run is open from its plan to its end. Running is derived in the views and never stands in the fold.
func TestTheRunFollowsItsDiagram(t *testing.T) {
	plan, start := at(0, plannedRun(1)), at(second, events.RunDispatchStarted{})
	for _, tt := range []struct {
		given  []happening
		status events.RunStatus
		open   bool
	}{
		{nil, "", false},
		{[]happening{plan}, events.RunIsPlanned, true},
		{[]happening{plan, start}, events.RunIsDispatching, true},
		{[]happening{plan, start, at(minute, events.RunFinalized{Status: events.RunPartialFailed})}, events.RunPartialFailed, false},
		{[]happening{plan, at(minute, events.RunCancelled{Actor: "ada", Reason: "wrong"})}, events.RunIsCancelled, false},
	} {
		r := givenRun(tt.given...)
		require.Equal(t, tt.status, r.Status)
		require.Equal(t, tt.open, r.Open())
		require.Equal(t, len(tt.given) > 0, r.Exists())
	}
}

// the fold keeps what the terminal event says, and when.
func TestTheRunKeepsHowItEnded(t *testing.T) {
	plan := plannedRun(2)
	base := Run{ID: theRun, Plan: plan, PlannedAt: t0, StartedAt: t0.Add(second), CompletedAt: t0.Add(minute)}
	finalized, cancelled := base, base
	finalized.Status, finalized.Reason, finalized.Counts = events.RunFailed, "all_units_cancelled", counts(2, 0, 0, 2)
	cancelled.Status, cancelled.Reason, cancelled.Counts, cancelled.PostSyncOwed = events.RunIsCancelled, "wrong", counts(2, 1, 0, 1), true

	hs := []happening{at(0, plan), at(second, events.RunDispatchStarted{})}
	require.Equal(t, finalized, givenRun(and(hs, at(minute, events.RunFinalized{
		Status: events.RunFailed, Reason: "all_units_cancelled", Counts: counts(2, 0, 0, 2),
	}))...))
	require.Equal(t, cancelled, givenRun(and(hs, at(minute, events.RunCancelled{
		Actor: "ada", Reason: "wrong", Counts: counts(2, 1, 0, 1), PostSyncOwed: true,
	}))...))
}

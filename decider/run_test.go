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

package decider

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/events"
)

func cancelRun(n events.Counts) CancelRun {
	return CancelRun{Run: theRun, Counts: n, Actor: "ada", Reason: "wrong range"}
}

// a cancelled run says who ended it and why, how its units ended, and whether somebody must be told.
func TestACancelledRunSaysWhoAndWhy(t *testing.T) {
	started := and([]happening{at(0, plannedRun(2))}, at(second, events.RunDispatchStarted{}))
	untold := plannedRun(2)
	untold.Policy.Targets = nil
	for name, tt := range map[string]struct {
		given []happening
		n     events.Counts
		owed  bool
	}{
		"planned":               {started[:1], counts(2, 0, 0, 2), false},
		"dispatching":           {started, counts(2, 0, 1, 1), false},
		"with a success":        {started, counts(2, 1, 0, 1), true},
		"success, no target":    {[]happening{at(0, untold)}, counts(2, 1, 0, 1), false},
		"every unit had ended":  {started, counts(2, 1, 1, 0), true},
		"the total is the plan": {started, counts(0, 0, 0, 2), false},
	} {
		t.Run(name, func(t *testing.T) {
			want := tt.n
			want.Total = 2
			require.Equal(t, []events.Event{events.RunCancelled{Actor: "ada", Reason: "wrong range", Counts: want, PostSyncOwed: tt.owed}},
				decide(t, givenRun(tt.given...), cancelRun(tt.n)))
		})
	}
}

// no cancel ends a run over an open unit.
func TestNoRunIsCancelledOverAnOpenUnit(t *testing.T) {
	requireNothing(t, givenRun(at(0, plannedRun(2))), cancelRun(counts(2, 0, 0, 1)))
}

// SC-278: a cancel of a cancelled run is nothing; a run that ended otherwise keeps its end.
func TestACancelOfWhatHasEnded(t *testing.T) {
	cancelled := []happening{at(0, plannedRun(1)), at(second, events.RunCancelled{Actor: "bob", Reason: "x", Counts: counts(1, 0, 0, 1)})}
	requireNothing(t, givenRun(cancelled...), cancelRun(counts(1, 0, 0, 1)))
	requireNothing(t, givenRun(), cancelRun(events.Counts{}))
	for _, s := range []events.RunStatus{events.RunSucceeded, events.RunPartialFailed, events.RunFailed} {
		hs := []happening{at(0, plannedRun(1)), at(second, events.RunFinalized{Status: s, Counts: counts(1, 0, 1, 0)})}
		require.Empty(t, requireRefused(t, givenRun(hs...), cancelRun(events.Counts{}), ErrConflict))
	}
}

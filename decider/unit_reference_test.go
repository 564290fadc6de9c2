package decider

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/events"
)

var theReference = events.UnitID{0: 1, 15: 9}

// U-13, P-9, SC-155: a work item that waits for a failed reference unit fails with it, and names it.
func TestAWaitingWorkItemFailsWithItsReference(t *testing.T) {
	c := FailReference{Unit: theUnit, RunOpen: true, Reference: theReference}
	require.Equal(t, []events.Event{events.UnitFailed{
		Category: events.ReferenceFailed, By: events.ByReference,
		Text: "reference unit " + theReference.String() + " of its source failed",
	}}, decide(t, givenUnit(at(0, thePlan)), c))
}

// U-13: only what waits, only work items, only in an open run.
func TestTheCascadeTakesOnlyWhatWaits(t *testing.T) {
	reference := thePlan
	reference.Tier = events.TierReference
	c := FailReference{Unit: theUnit, RunOpen: true, Reference: theReference}
	for name, given := range map[string][]happening{
		"no such unit": nil,
		"reference":    {at(0, reference)},
		"dispatching":  dispatching(),
		"running":      running(),
		"retrying":     retrying(),
		"succeeded":    ended()[events.UnitHasSucceeded],
		"failed":       ended()[events.UnitHasFailed],
	} {
		t.Run(name, func(t *testing.T) { requireNothing(t, givenUnit(given...), c) })
	}
	c.RunOpen = false
	requireNothing(t, givenUnit(at(0, thePlan)), c)
}

package decider

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/events"
)

// L-3: every stream has a zero state, by its family; what no rule reads is not tracked.
func TestEveryStreamHasAZeroState(t *testing.T) {
	for _, id := range []events.StreamID{
		{},
	} {
		require.Equal(t, Untracked{}, Zero(id), id.String())
	}
	require.Equal(t, Run{}, Zero(events.RunStream(theRun)))
	require.Equal(t, Unit{}, Zero(events.UnitStream(theUnit)))
	require.Equal(t, Job{}, Zero(events.JobStream(theJob)))
	require.Equal(t, Node{}, Zero(events.NodeStream(nodeA)))
	require.Equal(t, Control{}, Zero(events.EngineControlStream()))
	require.Equal(t, Control{}, Zero(events.SourceControlStream("x")))
	for _, k := range events.Kinds[:4] {
		require.Equal(t, Register{}, Zero(events.RegisterStream(theRun, k)))
	}
	require.Equal(t, Register{}, Zero(events.MessageStream(events.MessageID{1})))
	require.Equal(t, Topic{}, Zero(events.AppStream("x")))
	require.Equal(t, Schedule{}, Zero(events.ScheduleStream("x")))
	require.Equal(t, Occurrence{}, Zero(events.OccurrenceStream("x", "y")))
	require.Equal(t, Untracked{}, Evolve(Untracked{}, history(events.ScheduleStream("x"), at(0, events.ScheduleDefined{}))[0]))
}

// L-5: a rejection names the command, the reason and a kind of refusal that a caller can act on.
func TestARejectionNamesCommandAndReason(t *testing.T) {
	_, rejection := Decide(givenUnit(), claim(0))
	require.EqualError(t, rejection, "claim_unit: not claimable: no such unit")
	require.ErrorIs(t, rejection, ErrNotClaimable)
}

// E-4: a command can be printed; its token cannot.
func TestACommandPrintsWithoutItsToken(t *testing.T) {
	for _, s := range samples() {
		requireMasked(t, s.command)
	}
	requireMasked(t, givenUnit(and(running(), at(second, events.UnitSucceeded{Attempt: 1, Token: tokenA}))...))
	requireMasked(t, givenUnit(running()...))
	requireMasked(t, givenRegister(events.KindUnit, claimedRegister()...))
}

package decider

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/events"
)

// facts are the answers of one transaction.
type facts struct {
	open    int
	waiting map[string][]events.UnitID
	later   Later
}

func (f facts) OpenUnits(events.RunID) int                               { return f.open }
func (f facts) WaitingFor(_ events.RunID, source string) []events.UnitID { return f.waiting[source] }
func (f facts) Mode(events.RunID) events.DeliveryMode                    { return events.AtMostOnce }
func (f facts) Later(events.RunID) Later                                 { return f.later }

// reaction is what follows from the last of the given happenings.
func reaction(f facts, id events.StreamID, hs ...happening) []Command {
	log := history(id, hs...)
	return React(log[len(log)-1], Fold(id, log), f)
}

func armFinalize(after events.Span) ArmWakeup {
	return ArmWakeup{Owner: theRun, Kind: events.KindFinalize, Mode: events.AtMostOnce, At: t0.Add(after), Cause: events.ArmSettled}
}

// U-21, I-9, SC-161, SC-224: the settle that leaves no unit open arms finalize; one that leaves one arms nothing for it.
func TestTheLastSettleArmsFinalize(t *testing.T) {
	succeeded := and(running(), at(second, events.UnitSucceeded{Attempt: 1, Token: tokenA}))
	failed := and(running(), at(second, events.UnitFailed{Attempt: 1, Token: tokenA, Category: events.Auth}))
	for _, hs := range [][]happening{succeeded, failed} {
		require.Equal(t, []Command{armFinalize(second)}, reaction(facts{}, events.UnitStream(theUnit), hs...))
		require.Empty(t, reaction(facts{open: 1}, events.UnitStream(theUnit), hs...))
	}
}

// U-9 to U-11, U-16: a retry wakes the dispatch at its time, and finalizes nothing.
func TestARetryWakesTheDispatchAtItsTime(t *testing.T) {
	require.Equal(t, []Command{ArmWakeup{
		Owner: theRun, Kind: events.KindDispatch, Mode: events.AtMostOnce, At: t0.Add(70 * second), Cause: events.ArmDeferred,
	}}, reaction(facts{}, events.UnitStream(theUnit), retrying()...))
}

// O-8, HD-6, SC-043: a dispatch wakeup that is dropped, by whatever path, leaves one for the retry that lies ahead.
func TestADroppedDispatchArmsTheNextRetry(t *testing.T) {
	dropped := and(claimedRegister(), at(second, events.OutboxDropped{N: 1, Token: tokenA, Reason: events.DropNothingOwed}))
	f := facts{open: 1, later: Later{t0.Add(minute), events.ArmDeferred}}
	require.Equal(t, []Command{ArmWakeup{
		Owner: theRun, Kind: events.KindDispatch, Mode: events.AtMostOnce, At: t0.Add(minute), Cause: events.ArmDeferred,
	}}, reaction(f, events.RegisterStream(theRun, events.KindDispatch), dropped...))
	require.Empty(t, reaction(f, events.RegisterStream(theRun, events.KindFinalize), dropped...))
	f.later.Cause = events.ArmCooldown // RL-5: and one for the end of a cooldown
	require.Equal(t, events.ArmCooldown, reaction(f, events.RegisterStream(theRun, events.KindDispatch), dropped...)[0].(ArmWakeup).Cause)
	require.Empty(t, reaction(facts{open: 1}, events.RegisterStream(theRun, events.KindDispatch), dropped...))
}

// U-13, SC-155, SC-156: a reference unit that fails takes what waits for it, of its source only, however it failed.
func TestAFailedReferenceFailsWhatWaitsForIt(t *testing.T) {
	reference := thePlan
	reference.Tier = events.TierReference
	hs := and([]happening{at(-minute, reference)}, running()[1:]...)
	a, b := events.UnitID{1}, events.UnitID{2}
	f := facts{open: 2, waiting: map[string][]events.UnitID{"team": {a, b}, "other": {{3}}}}
	cascade := []Command{
		FailReference{Unit: a, RunOpen: true, Reference: theUnit}, FailReference{Unit: b, RunOpen: true, Reference: theUnit},
	}
	for _, failed := range []events.UnitFailed{
		{Attempt: 1, Token: tokenA, Category: events.Auth, By: events.ByWorker},
		{Attempt: 1, Category: events.WorkerLost, By: events.ByReconciler},
		{Category: events.NeverStarted, By: events.ByDispatch},
	} {
		require.Equal(t, cascade, reaction(f, events.UnitStream(theUnit), and(hs, at(second, failed))...))
	}
	work := and(running(), at(second, events.UnitFailed{Attempt: 1, Category: events.WorkerLost}))
	require.Empty(t, reaction(f, events.UnitStream(theUnit), work...), "a work item takes nobody with it")
	none := and(hs, at(second, events.UnitFailed{Attempt: 1, Category: events.Auth}))
	require.Equal(t, []Command{armFinalize(second)}, reaction(facts{}, events.UnitStream(theUnit), none...))
}

// R-3, J-1, I-8, SC-220: the end of a run closes its job, and arms post_sync exactly if it is owed.
func TestTheEndOfARunClosesItsJob(t *testing.T) {
	closeJob := CloseJob{Job: theJob, Status: events.RunSucceeded, Counts: counts(1, 1, 0, 0)}
	armPost := ArmWakeup{Owner: theRun, Kind: events.KindPostSync, Mode: events.AtMostOnce, At: t0, Cause: events.ArmFinalized}
	require.Equal(t, []Command{closeJob, armPost}, reaction(facts{}, events.RunStream(theRun), endedRun()...))

	failed := []happening{at(-hour, plannedRun(0)), at(-hour, events.RunFinalized{Status: events.RunFailed})}
	require.Equal(t, []Command{CloseJob{Job: theJob, Status: events.RunFailed}}, reaction(facts{}, events.RunStream(theRun), failed...))
}

// U-15, SC-157, SC-280: a cancelled reference unit takes what waits for it, and the last cancelled unit wakes the finalizer.
func TestACancelledReferenceCancelsWhatWaitsForIt(t *testing.T) {
	reference := thePlan
	reference.Tier = events.TierReference
	cancelled := at(second, events.UnitCancelled{Reason: events.CancelledAlone})
	hs := []happening{at(-minute, reference), cancelled}
	a, b := events.UnitID{1}, events.UnitID{2}
	f := facts{open: 2, waiting: map[string][]events.UnitID{"team": {a, b}, "other": {{3}}}}
	require.Equal(t, []Command{
		CancelUnit{Unit: a, RunOpen: true, Reason: events.CancelledWithReference},
		CancelUnit{Unit: b, RunOpen: true, Reason: events.CancelledWithReference},
	}, reaction(f, events.UnitStream(theUnit), hs...))

	work := []happening{at(-minute, thePlan), cancelled}
	require.Empty(t, reaction(f, events.UnitStream(theUnit), work...), "a work item takes nobody with it")
	require.Equal(t, []Command{armFinalize(second)}, reaction(facts{}, events.UnitStream(theUnit), work...))
	along := []happening{at(-minute, thePlan), at(second, events.UnitCancelled{Reason: events.CancelledWithReference})}
	require.Equal(t, []Command{armFinalize(second)}, reaction(facts{}, events.UnitStream(theUnit), along...))
}

// U-15: a unit that is cancelled with its run wakes nobody and cancels nobody: its run ends in the same transaction.
func TestAUnitCancelledWithItsRunWakesNobody(t *testing.T) {
	reference := thePlan
	reference.Tier = events.TierReference
	hs := []happening{at(-minute, reference), at(second, events.UnitCancelled{Reason: events.CancelledWithRun})}
	f := facts{waiting: map[string][]events.UnitID{"team": {{1}}}}
	require.Empty(t, reaction(f, events.UnitStream(theUnit), hs...))
}

// I-8, SC-277: the cancel of a run closes its job, and arms post_sync exactly if it is owed.
func TestTheCancelOfARunClosesItsJob(t *testing.T) {
	closeJob := CloseJob{Job: theJob, Status: events.RunIsCancelled, Counts: counts(2, 1, 0, 1)}
	armPost := ArmWakeup{Owner: theRun, Kind: events.KindPostSync, Mode: events.AtMostOnce, At: t0, Cause: events.ArmFinalized}
	hs := []happening{at(-hour, plannedRun(2)), at(0, events.RunCancelled{Actor: "ada", Reason: "x", Counts: counts(2, 1, 0, 1), PostSyncOwed: true})}
	require.Equal(t, []Command{closeJob, armPost}, reaction(facts{}, events.RunStream(theRun), hs...))
	hs[1] = at(0, events.RunCancelled{Actor: "ada", Reason: "x", Counts: counts(2, 1, 0, 1)})
	require.Equal(t, []Command{closeJob}, reaction(facts{}, events.RunStream(theRun), hs...))
}

// U-19, R-10: what only records something, or is a step of a register, has no consequence.
func TestMostEventsHaveNoConsequence(t *testing.T) {
	for _, hs := range [][]happening{
		dispatching()[:1], dispatching(), running(),
		and(running(), at(second, events.UnitLeaseRenewed{Attempt: 1})),
		and(running(), at(second, events.UnitLeaseExpired{Attempt: 1})),
		and(running(), at(second, events.UnitLateResult{Attempt: 1})),
	} {
		require.Empty(t, reaction(facts{}, events.UnitStream(theUnit), hs...))
	}
	require.Empty(t, reaction(facts{}, events.RunStream(theRun), at(0, plannedRun(1))))
	require.Empty(t, reaction(facts{}, events.RegisterStream(theRun, events.KindDispatch), claimedRegister()...))
}

// B-6, B-3: which transitions give a slot back. An expired lease counts: nobody has refilled its place yet.
func TestWhichTransitionsFreeASlot(t *testing.T) {
	expired := and(running(), at(lease, events.UnitLeaseExpired{Attempt: 1}))
	for name, tt := range map[string]struct {
		given []happening
		freed bool
	}{
		"planned":              {dispatching()[:1], false},
		"dispatched":           {dispatching(), false},
		"dispatched again":     {and(dispatching(), at(hour, dispatched(2, 1, 2, events.DispatchStale))), false},
		"claimed":              {running(), false},
		"renewed":              {and(running(), at(second, events.UnitLeaseRenewed{Attempt: 1, LeaseExpiresAt: t0.Add(hour)})), false},
		"late result":          {and(running(), at(second, events.UnitLateResult{Attempt: 1})), false},
		"lease expired":        {expired, false},
		"failed behind it":     {and(expired, at(lease, events.UnitFailed{Attempt: 1})), true},
		"retried behind it":    {and(expired, at(lease, events.UnitRetryScheduled{Attempt: 1, AvailableAt: t0.Add(hour)})), true},
		"succeeded":            {ended()[events.UnitHasSucceeded], true},
		"failed":               {ended()[events.UnitHasFailed], true},
		"given back":           {retrying(), true},
		"reference failed":     {and(dispatching()[:1], at(0, events.UnitFailed{Category: events.ReferenceFailed})), false},
		"cancelled in flight":  {and(dispatching(), at(0, events.UnitCancelled{Reason: "unit_cancelled"})), true},
		"cancelled at work":    {ended()[events.UnitIsCancelled], true},
		"cancelled, planned":   {and(dispatching()[:1], at(0, events.UnitCancelled{Reason: "run_cancelled"})), false},
		"never started (U-14)": {and(dispatching(), at(24*hour, events.UnitFailed{Category: events.NeverStarted})), false},
	} {
		t.Run(name, func(t *testing.T) {
			n := len(tt.given)
			run, freed := Freed(givenUnit(tt.given[:n-1]...), givenUnit(tt.given...))
			require.Equal(t, tt.freed, freed)
			require.Equal(t, theRun, run)
		})
	}
	_, freed := Freed(givenRun(), givenRun(at(0, plannedRun(1))))
	require.False(t, freed)
}

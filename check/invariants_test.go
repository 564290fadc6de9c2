package check

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/events"
)

// Section 23: no invariant is listed that no planted corruption has shown to be checked.
func TestEveryInvariantHasAPlantedCorruption(t *testing.T) {
	planted := map[string]string{}
	for _, f := range everyFault(t) {
		require.NotEmpty(t, f.name)
		planted[f.rule] = f.by
	}
	seen := map[string]bool{}
	for _, i := range Invariants {
		require.False(t, seen[i.Number], "%s is listed twice", i.Number)
		seen[i.Number] = true
		require.NotEmpty(t, i.Statement)
		require.Equal(t, i.By, planted[i.Number], "%s has no planted corruption, or another method finds it", i.Number)
	}
	for rule := range planted {
		require.True(t, seen[rule], "a corruption is planted for %s, which is not listed", rule)
	}
}

// I-2: of a correct log no event may be taken out unnoticed, but for those that nothing later depends on.
func TestNoEventIsMissedUnnoticed(t *testing.T) {
	free := map[events.Type]string{
		events.TypeUnitLateResult:      "a record for people (U-19)",
		events.TypeNodeRecovered:       "a record for people (N-4)",
		events.TypeNodeStopped:         "an incarnation may die without it",
		events.TypeNodeConfigChanged:   "a value in force",
		events.TypeClockStepped:        "found only if somebody needed the grace",
		events.TypeRunsArchived:        "moves streams, changes nothing",
		events.TypeStoreRestored:       "found only if something depends on the hold",
		events.TypeEngineResumed:       "found only if something is dispatched after it",
		events.TypeSourceResumed:       "found only if something is dispatched after it",
		events.TypeScheduleDefined:     "a definition may be left as it was, and what it says is read by no invariant",
		events.TypeSchedulePaused:      "found only if something depends on it",
		events.TypeScheduleResumed:     "found only if something is minted after it",
		events.TypeScheduleRemoved:     "found only if something depends on it",
		events.TypeOccurrencesMissed:   "due times are not known to the checker",
		events.TypeOccurrenceQueued:    "an occurrence may be triggered at once (J-2)",
		events.TypeOccurrenceSkipped:   "an occurrence may never be decided",
		events.TypeOccurrenceRejected:  "an occurrence may never be decided",
		events.TypePostSyncFailed:      "exactly_once may fail any number of times, or none",
		events.TypeUnitLeaseRenewed:    "found only if the settle needed it",
		events.TypeOutboxOutcome:       "the last step of its register",
		events.TypeMessageHandled:      "the last step of its message",
		events.TypeMessageRejected:     "the last step of its message",
		events.TypeRestoreHoldReleased: "found only if something is claimed after it",
	}
	for _, sc := range scenarios {
		whole := newScript(t)
		sc.play(whole)
		for i, e := range whole.entries {
			if free[e.event.EventType()] != "" || lastOfItsOwn(whole, i) || spare(sc.name, e) {
				continue
			}
			s := newScript(t)
			sc.play(s)
			s.drop(s.entries[i])
			if len(checkLog(s.render(), Options{}).Violations()) == 0 {
				t.Errorf("%s: entry %d, %s in %s, is missed unnoticed", sc.name, i+1, events.Describe(e.event), e.stream)
			}
		}
	}
}

// spare are single events without which the rest of their scenario is a correct log too.
func spare(scenario string, e *entry) bool {
	switch ev := e.event.(type) {
	case events.OutboxArmed: // one of two arms of a waiting number
		return scenario == "outbox" && ev.N == 2 && ev.Cause == events.ArmCapped ||
			scenario == "suspects" && ev.Cause == events.ArmCapped // a net that the settle makes superfluous
	case events.OutboxDispatched: // the claim is not over where the log ends
		return (scenario == "restart" || scenario == "suspects") && ev.N == 2 && e.stream == reg(1, events.KindDispatch) ||
			scenario == "outage" && e.stream == reg(4, events.KindDispatch)
	case events.OutboxDropped: // the same
		return scenario == "cooldown"
	case events.OutboxParked: // what nobody parks is pending
		return scenario == "application messages" && ev.Cause == events.ParkOperator
	}
	return false
}

// lastOfItsOwn reports the last event of its stream that stands alone in its transaction: a log that ends before it is
// as correct.
func lastOfItsOwn(s *script, i int) bool {
	for j, e := range s.entries {
		if j != i && (e.group == s.entries[i].group || j > i && e.stream == s.entries[i].stream) {
			return false
		}
	}
	return true
}

// The list of violations is bounded; the count is not.
func TestViolationsAreBounded(t *testing.T) {
	s := newScript(t)
	s.start(1)
	for range 300 {
		s.add(run1, events.UnitClaimed{})
	}
	c := checkLog(s.render(), Options{})
	require.Len(t, c.Violations(), DefaultAtMost)
	require.Equal(t, 300, c.Total())
	require.Len(t, checkLog(s.render(), Options{AtMost: 3}).Violations(), 3)
	require.Len(t, c.Standstills(s.now), 0)
	require.Equal(t, "I-2 at 2 "+run1.String()+": UnitClaimed does not belong into this stream", fmt.Sprint(c.Violations()[0]))
}

package decider

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/events"
)

// markedFor is post_sync wakeup 1, marked for two targets.
func markedFor(more ...events.Event) []happening {
	return and(and(claimedRegister(), at(second, marked(1, tokenA, 2))), then(2*second, more)...)
}

func record(target string, o events.Outcome, cause string) RecordOutcome {
	return RecordOutcome{Owner: theRun, Kind: events.KindPostSync, N: 1, Target: target, Outcome: o, Cause: cause}
}

// O-12, K-8, SC-051 to SC-053: the outcome is recorded per target, as it is.
func TestAnOutcomeIsRecordedPerTarget(t *testing.T) {
	for _, c := range []RecordOutcome{
		record("a", events.Accepted, ""), record("a", events.Refused, "no such exchange"), record("a", events.Unknown, "timeout"),
		record("b", events.Unknown, events.OutcomeRelayDied), record("b", events.Refused, events.OutcomeNotSent),
	} {
		require.Equal(t, []events.Event{events.OutboxOutcome{N: 1, Target: c.Target, Outcome: c.Outcome, Cause: c.Cause}},
			decide(t, givenRegister(events.KindPostSync, markedFor()...), c))
	}
}

// O-12: only one outcome per target, only for the marked number; a later word is the caller's to count and log.
func TestTheFirstOutcomeStands(t *testing.T) {
	accepted := outcome("a", events.Accepted)
	resolved := events.OutboxResolved{N: 1, Target: "b", Outcome: events.ResolvedLost}
	for name, tt := range map[string]struct {
		given   []happening
		command RecordOutcome
	}{
		"known already":          {markedFor(accepted), record("a", events.Refused, "")},
		"late word of the relay": {markedFor(outcome("a", events.Unknown)), record("a", events.Accepted, "")},
		"all are known":          {markedFor(accepted, outcome("b", events.Accepted)), record("c", events.Accepted, "")},
		"unresolved":             {markedFor(accepted, outcome("b", events.Unknown)), record("b", events.Accepted, "")},
		"resolved":               {markedFor(accepted, outcome("b", events.Unknown), resolved), record("b", events.Accepted, "")},
		"resolved while marked":  {markedFor(resolved), record("b", events.Accepted, "")},
		"not marked":             {claimedRegister(), record("a", events.Accepted, "")},
		"never armed":            {nil, record("a", events.Accepted, "")},
		"another number":         {markedFor(), RecordOutcome{Owner: theRun, Kind: events.KindPostSync, N: 2, Target: "a", Outcome: events.Accepted}},
	} {
		t.Run(name, func(t *testing.T) { requireNothing(t, givenRegister(events.KindPostSync, tt.given...), tt.command) })
	}
}

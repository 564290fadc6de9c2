package decider

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/events"
)

func lose(target string, begun, gone bool) LoseEffect {
	return LoseEffect{Owner: theRun, Kind: events.KindPostSync, Target: target, Begun: begun, NodeGone: gone}
}

// HP-5, O-S9, C-24: an effect that had begun when its process died is put on record as unknown, whatever was known of its
// publish, and its register waits for a person, who may resolve it.
func TestAnEffectWhoseProcessDiedIsUnknown(t *testing.T) {
	for _, known := range []events.Outcome{events.Accepted, events.Refused} {
		hs := markedFor(outcome("a", known), outcome("b", events.Accepted))
		lost := decide(t, givenRegister(events.KindPostSync, hs...), lose("a", true, true))
		require.Equal(t, []events.Event{events.OutboxOutcome{N: 1, Target: "a", Outcome: events.Unknown, Cause: "process_died"}}, lost)
		hs = and(hs, then(minute, lost)...)
		r := givenRegister(events.KindPostSync, hs...)
		require.Equal(t, RegisterUnresolved, r.Status)
		require.Equal(t, []TargetOutcome{{"a", events.Unknown, "process_died"}, {"b", events.Accepted, ""}}, r.Outcomes)
		require.Equal(t, Reason{Why: WaitUnresolved, Kind: events.KindPostSync}, sight().WhyPost(r, Run{}))
		r = givenRegister(events.KindPostSync, and(hs, then(hour, decide(t, r, resolve("a", events.ResolvedDelivered)))...)...)
		require.Equal(t, RegisterIdle, r.Status)
		requireNothing(t, r, lose("a", true, true))
	}
}

// HP-5, C-46, O-12: only one that had begun, and whose process is known to be gone. What has never begun stays as it is,
// and while its publish has no outcome that one comes first.
func TestAnEffectThatMayStillEndIsNotGivenUp(t *testing.T) {
	both := markedFor(outcome("a", events.Accepted), outcome("b", events.Accepted))
	for name, tt := range map[string]struct {
		given   []happening
		command LoseEffect
	}{
		"never begun":           {both, lose("a", false, true)},
		"at work":               {both, lose("a", true, false)},
		"marked":                {markedFor(outcome("a", events.Accepted)), lose("a", true, true)},
		"no outcome":            {both, lose("c", true, true)},
		"unknown already":       {markedFor(outcome("a", events.Unknown), outcome("b", events.Accepted)), lose("a", true, true)},
		"never armed":           {nil, lose("a", true, true)},
		"claimed, not yet sent": {claimedRegister(), lose("a", true, true)},
	} {
		t.Run(name, func(t *testing.T) { requireNothing(t, givenRegister(events.KindPostSync, tt.given...), tt.command) })
	}
}

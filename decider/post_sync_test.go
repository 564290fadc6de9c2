package decider

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/events"
)

// endedRun is a run that ended well at t0, with more behind it.
func endedRun(more ...events.Event) []happening {
	return and([]happening{
		at(-hour, plannedRun(1)), at(0, events.RunFinalized{Status: events.RunSucceeded, Counts: counts(1, 1, 0, 0), PostSyncOwed: true}),
	}, then(second, more)...)
}

func start(target string) StartPost {
	return StartPost{Run: theRun, Target: target, MessageID: TargetMessageID(theRun, 1, target), Sent: true}
}

func started(target string) events.PostSyncStarted {
	return events.PostSyncStarted{Generation: Generation(theRun), Target: target, MessageID: TargetMessageID(theRun, 1, target)}
}

// HP-2, K-4, K-8, SC-057, SC-058, SC-060: the effect of each target is taken once in the life of the run.
func TestAnEffectIsTakenOncePerTarget(t *testing.T) {
	require.Equal(t, []events.Event{started("activity")}, decide(t, givenRun(endedRun()...), start("activity")))
	taken := endedRun(started("activity"))
	require.Equal(t, []events.Event{started("digest")}, decide(t, givenRun(taken...), start("digest")))
	for _, after := range [][]happening{
		taken, endedRun(started("activity"), events.PostSyncCompleted{Target: "activity"}),
		endedRun(started("activity"), events.PostSyncFailed{Target: "activity"}),
	} {
		requireNothing(t, givenRun(after...), start("activity"))
	}
}

// HP-1: a message that comes before its run has ended, or that no mark announced, is unexpected.
func TestAnUnexpectedMessageStartsNoEffect(t *testing.T) {
	unmarked := start("activity")
	unmarked.Sent = false
	for name, tt := range map[string]struct {
		given   []happening
		command StartPost
	}{
		"no such run": {nil, start("activity")},
		"run is open": {endedRun()[:1], start("activity")},
		"not marked":  {endedRun(), unmarked},
		"no target":   {endedRun(), start("nobody")}, // K-8
	} {
		t.Run(name, func(t *testing.T) {
			require.Empty(t, requireRefused(t, givenRun(tt.given...), tt.command, ErrInvalid))
		})
	}
	require.Len(t, decide(t, givenRun(at(0, plannedRun(1)), at(second, events.RunCancelled{Actor: "ada"})), start("activity")), 1)
}

// HP-2, SC-059: an effect ends once, well or badly, and a failed one is not tried again.
func TestAnEffectEndsOnce(t *testing.T) {
	id := TargetMessageID(theRun, 1, "activity")
	done := CompletePost{Run: theRun, Target: "activity", MessageID: id, Sent: true, Result: "3 rows"}
	failed := FailPost{Run: theRun, Target: "activity", MessageID: id, Sent: true, Category: events.SinkError, Text: "locked"}
	completedEvent := events.PostSyncCompleted{Generation: Generation(theRun), Target: "activity", MessageID: id, Result: "3 rows"}
	failedEvent := events.PostSyncFailed{
		Generation: Generation(theRun), Target: "activity", MessageID: id, Category: events.SinkError, Text: "locked",
	}
	taken := givenRun(endedRun(started("activity"))...)
	require.Equal(t, []events.Event{completedEvent}, decide(t, taken, done))
	require.Equal(t, []events.Event{failedEvent}, decide(t, taken, failed))
	for _, r := range []Run{
		givenRun(endedRun()...), givenRun(endedRun(started("digest"))...),
		givenRun(endedRun(started("activity"), completedEvent)...), givenRun(endedRun(started("activity"), failedEvent)...),
	} {
		requireNothing(t, r, done)
		requireNothing(t, r, failed)
	}
}

// R-7, HP-4: what follows the end of a run changes its posts and nothing else; one line per target, the newest last.
func TestPostsAreKeptPerTarget(t *testing.T) {
	before := givenRun(endedRun()...)
	after := givenRun(endedRun(started("a"), started("b"), events.PostSyncFailed{Target: "a", MessageID: "m", Category: events.Timeout, Text: "x"})...)
	require.Equal(t, []Post{
		{Target: "b", MessageID: TargetMessageID(theRun, 1, "b"), Status: PostStarted, At: t0.Add(second), Node: nodeA},
		{Target: "a", MessageID: "m", Status: PostFailed, Category: events.Timeout, Text: "x", Failures: 1, At: t0.Add(second)},
	}, after.Posts)
	done := givenRun(endedRun(started("a"), events.PostSyncCompleted{Target: "a", MessageID: "m", Result: "3 rows"})...)
	require.Equal(t, []Post{{Target: "a", MessageID: "m", Status: PostCompleted, Result: "3 rows", At: t0.Add(second)}}, done.Posts)
	_, taken := after.Post("c")
	require.False(t, taken)
	after.Posts = nil
	require.Equal(t, before, after)
}

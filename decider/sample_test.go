package decider

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/events"
)

// sample is a command in a state in which it decides something.
type sample struct {
	given   []happening
	command Command
}

// samples holds every command, at least once for each way in which it can decide. The laws hold for all of them.
func samples() []sample {
	reference := thePlan
	reference.Tier = events.TierReference
	gone := dispatch(second)
	gone.MessageGone = true
	retried := fail(second, events.Network)
	retried.Policies = []events.RetryPolicy{retryOn(1, events.Network)}
	dropped := take(second)
	dropped.Drop = events.DropNothingOwed
	spentNow := release(second, events.ReleaseRefused)
	spentNow.MaxAttempts = 1
	notOwed := spentNow
	notOwed.Drop = events.DropRunTerminal
	markFirst := mark(second)
	markFirst.Kind, markFirst.Mode = events.KindPostSync, events.AtMostOnce
	publishFirst := markFirst
	publishFirst.Mode = events.ExactlyOnce
	first := arm(0)
	first.New = true
	armPost := ArmWakeup{Owner: theRun, Kind: events.KindPostSync, Mode: events.AtMostOnce, At: t0, Cause: events.ArmFinalized}
	armAgain := ArmWakeup{Owner: theRun, Kind: events.KindPostSync, Mode: events.ExactlyOnce, At: t0, Cause: events.ArmMaterialized}
	parked := and(claimedRegister(), at(0, released(1, tokenA, events.ReleaseRefused, 0, false)), at(0, events.OutboxParked{N: 1}))
	openJob := []happening{at(0, events.JobOpened{Sync: "work"})}
	up := []happening{at(0, events.NodeStarted{Host: "box"})}
	done := counts(1, 1, 0, 0)
	unresolved := and(markedFor(), at(minute, events.OutboxOutcome{N: 1, Target: "a", Outcome: events.Unknown}),
		at(minute, events.OutboxOutcome{N: 1, Target: "b", Outcome: events.Unknown}))
	paused := []happening{at(0, events.EnginePaused{Actor: "ada"})}
	sourcePaused := []happening{at(0, events.SourcePaused{Actor: "ada"})}
	return []sample{
		{nil, OpenJob{Job: theJob, Opened: events.JobOpened{Sync: "work"}}},
		{openJob, LinkJob{Job: theJob, Run: theRun}},
		{openJob, CloseJob{Job: theJob, Status: events.RunSucceeded, Counts: done}},

		{nil, PlanRun{Run: theRun, Plan: plannedRun(2)}},
		{nil, PlanRun{Run: theRun, Plan: plannedRun(0)}},
		{endedRun()[:1], StartRun{Run: theRun}},
		{endedRun()[:1], FinalizeRun{Run: theRun, Counts: done}},
		{endedRun()[:1], cancelRun(done)},
		{endedRun(), start("activity")},
		{endedRun(started("activity")), CompletePost{Run: theRun, Target: "activity", Sent: true, Result: "ok"}},
		{endedRun(started("activity")), FailPost{Run: theRun, Target: "activity", Sent: true, Category: events.SinkError}},
		{once(), CompletePost{Run: theRun, Target: "activity", Sent: true}},
		{once(failed("activity", 1)), FailPost{Run: theRun, Target: "activity", MessageID: TargetMessageID(theRun, 2, "activity"), Sent: true}},

		{nil, PlanUnit{Unit: theUnit, Plan: thePlan}},
		{dispatching()[:1], dispatch(0)},
		{retrying(), dispatch(70 * second)},
		{dispatching(), dispatch(staleAfter)},
		{dispatching(), gone},
		{neverClaimed(), neverStarted(24 * hour)},
		{dispatching(), claim(second)},
		{running(), renew(30 * second)},
		{running(), renewIn(theGrace(t0.Add(hour)), hour)},
		{running(), complete(second)},
		{running(), complete(lease)}, // late
		{running(), fail(second, events.Auth)},
		{running(), retried},
		{running(), deferral(second, 30*second)},
		{deferred(10), spentBy(second)},
		{running(), handBack(second)},
		{running(), expire(lease)},
		{running(), expire(lease, Linear(1, minute))},
		{[]happening{at(0, thePlan)}, FailReference{Unit: theUnit, RunOpen: true, Reference: theReference}},
		{dispatching()[:1], cancelUnit(events.CancelledWithRun)},
		{dispatching()[:1], cancelUnit(events.CancelledWithReference)},
		{running(), cancelUnit(events.CancelledAlone)},
		{running(), releaseUnit(second)},
		{running(), releaseUnit(second, Linear(1, minute))},

		{nil, arm(0)},
		{nil, first},
		{claimedRegister(), arm(0)},
		{parked, arm(0)},
		{nil, armPost},
		{postRegister(published(1, tokenA)), armAgain},
		{claimedRegister()[:1], take(second)},
		{claimedRegister()[:1], dropped},
		{claimedRegister(), mark(second)},
		{claimedRegister(), markFirst},
		{postRegister(), publishFirst},
		{claimedRegister(), release(second, events.ReleaseRefused)},
		{claimedRegister(), spentNow},
		{claimedRegister(), notOwed},
		{claimedRegister(), failing(second, events.ReleasePublishUnknown, Failure{})},
		{claimedRegister(), failing(second, events.ReleaseBreakerOpen, Failure{})},
		{claimedRegister(), ending(minute, events.ReleaseClaimExpired, false)},
		{claimedRegister(), ending(second, events.ReleaseIncarnationGone, true)},
		{markedFor(), record("a", events.Unknown, events.OutcomeRelayDied)},
		{markedFor(outcome("a", events.Accepted), outcome("b", events.Accepted)), lose("a", true, true)},
		{claimedRegister()[:1], park()},
		{parked, redrive(second)},
		{unresolved, resolve("a", events.ResolvedLost)},

		{nil, SubmitMessage{Topic: "t", Message: events.MessageSubmitted{Message: theMessage}}},
		{submittedMessage(), rejected()},
		{claimedRegister(), FailMessage{Owner: theRun, Text: "no"}},
		{nil, imported(ImportPending)},
		{nil, imported(ImportInProgress)},
		{nil, imported(ImportSpent)},

		{nil, StartNode{Node: nodeA, Started: events.NodeStarted{Host: "box"}}},
		{up, RecoverNode{Node: nodeA}},
		{up, NoteStep{Node: nodeA, Number: 1, Before: t0, After: t0.Add(hour), GraceUntil: t0.Add(hour + lease)}},
		{up, confirm(hour)},
		{up, ArchiveRuns{Node: nodeA, Archived: events.RunsArchived{Segment: "9", Hash: "00", Streams: []string{"run/x"}}}},
		{up, ChangeConfig{Node: nodeA, Config: json.RawMessage(`{"cap.run":4}`), Actor: "SIGHUP"}},
		{up, StopNode{Node: nodeA, Reason: "signal"}},
		{up, OpenBreaker{Node: nodeA, Opened: opened("nats", 10*second)}},
		{and(up, at(second, opened("nats", 10*second))), OpenBreaker{Node: nodeA, Opened: opened("nats", minute)}},
		{and(up, at(second, opened("nats", 10*second))), CloseBreaker{Node: nodeA, Closed: events.BreakerClosed{Transport: "nats"}}},

		{up, RestoreStore{Node: nodeA, Epoch: 2, Head: 1187}},
		{nil, ReleaseHold{Number: 1, Actor: "ada", Reason: "looked at what would be sent"}},
		{[]happening{at(0, events.RestoreHoldReleased{Actor: "ada"})}, ReleaseHold{Number: 2, Actor: "ada", Reason: "again"}},
		{nil, PauseEngine{Actor: "ada", Reason: "upgrade"}},
		{paused, ResumeEngine{Actor: "ada"}},
		{nil, PauseSource{Source: "team", Actor: "ada"}},
		{sourcePaused, ResumeSource{Source: "team", Actor: "ada"}},

		{nil, DefineSchedule{Schedule: "nightly", Defined: nightly()}},
		{defined(), PauseSchedule{Schedule: "nightly", Actor: "ada", Reason: "holidays"}},
		{defined(at(minute, events.SchedulePaused{Actor: "ada"})), ResumeSchedule{Schedule: "nightly", Actor: "ada", Missed: missed(2)}},
		{defined(), RemoveSchedule{Schedule: "nightly", Actor: "configuration"}},
		{defined(), MissOccurrences{Schedule: "nightly", Missed: missed(2)}},
		{nil, QueueOccurrence{Schedule: "nightly", Civil: "a", Instant: t0}},
		{queuedOccurrence(), TriggerOccurrence{Schedule: "nightly", Civil: "a", Instant: t0, Job: theJob, Run: theRun}},
		{queuedOccurrence(), SkipOccurrence{Schedule: "nightly", Civil: "a", Instant: t0, Reason: events.SkippedPaused}},
		{nil, RejectOccurrence{Schedule: "nightly", Civil: "a", Instant: t0, Category: "plan_too_large"}},
	}
}

// commandTypes are the types of the samples, each once.
func commandTypes() []reflect.Type {
	var types []reflect.Type
	for _, s := range samples() {
		if t := reflect.TypeOf(s.command); !slices.Contains(types, t) {
			types = append(types, t)
		}
	}
	return types
}

// L-5: the laws hold for all commands, so a command of the package that has no sample fails here.
func TestEveryCommandHasASample(t *testing.T) {
	var declared, sampled []string
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		require.NoError(t, err)
		for _, d := range f.Decls {
			if method, ok := d.(*ast.FuncDecl); ok && method.Recv != nil && method.Name.Name == "decide" {
				declared = append(declared, fmt.Sprint(method.Recv.List[0].Type))
			}
		}
	}
	for _, typ := range commandTypes() {
		sampled = append(sampled, typ.Name())
	}
	require.NotEmpty(t, declared)
	require.ElementsMatch(t, declared, sampled)
}

// L-6: the recorded name of a command is a file format: one word per command.
func TestCommandNamesAreDistinctAndFrozen(t *testing.T) {
	var names []string
	for _, typ := range commandTypes() {
		names = append(names, reflect.Zero(typ).Interface().(Command).Name())
	}
	require.ElementsMatch(t, []string{
		"open_job", "link_job", "close_job", "plan_run", "start_run", "finalize_run", "start_post", "complete_post", "fail_post",
		"plan_unit", "dispatch_unit", "fail_never_started", "claim_unit", "renew_lease", "complete_unit", "fail_unit",
		"hand_back_unit", "expire_lease", "fail_reference", "arm_wakeup", "claim_wakeup", "mark_wakeup", "release_wakeup",
		"record_outcome", "cancel_run", "cancel_unit", "release_unit", "submit_message", "reject_message", "fail_message", "import_wakeup", "park_wakeup", "redrive_wakeup", "resolve_wakeup", "lose_effect", "start_node", "recover_node",
		"note_step", "confirm_clock", "change_config", "archive_runs", "stop_node", "open_breaker", "close_breaker",
		"restore_store", "release_hold",
		"pause_engine", "resume_engine", "pause_source", "resume_source",
		"define_schedule", "pause_schedule", "resume_schedule", "remove_schedule", "miss_occurrences",
		"queue_occurrence", "trigger_occurrence", "skip_occurrence", "reject_occurrence",
	}, names)
}

// requireMasked: whatever prints it, a value shows no token (E-4).
func requireMasked(t testing.TB, v any) {
	t.Helper()
	for _, verb := range []string{"%v", "%+v", "%#v", "%s"} {
		require.NotContains(t, fmt.Sprintf(verb, v), "token-", "%T", v)
	}
}

package events

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// One story runs through the samples: the nightly sync of two repositories on 2 March 2026. They are what the fixtures
// were written from, so they read like a log.
var (
	runID  = mustParse(ParseRunID, "01KJPJ9D80V6C3Q8WYKX0ZB4RM")
	jobID  = mustParse(ParseJobID, "01KJPJ9D80JE2M5R7S9TVX1Z3B")
	nodeID = mustParse(ParseNodeID, "01KJPHYYF0N0DE4A6C8E0G2J4K")
	msgID  = mustParse(ParseMessageID, "01KJPJCHZ0M5G7J9K1N3Q5S7V9")
)

func mustParse[I any](parse func(string) (I, error), s string) I {
	id, err := parse(s)
	if err != nil {
		panic(err)
	}
	return id
}

// clock is a time of that morning.
func clock(hour, minute, second int) Micros {
	return MicrosOf(time.Date(2026, 3, 2, hour, minute, second, 0, time.UTC))
}

func month(y int, m time.Month) Window {
	from := time.Date(y, m, 1, 0, 0, 0, 0, time.UTC)
	return NewWindow(from, from.AddDate(0, 1, 0))
}

var samples = []Event{
	RunPlanned{
		Job: jobID, Sync: "code", TriggeredBy: TriggerSchedule, Occurrence: "nightly/2026-03-02T03:00+01:00", Mode: Incremental,
		Selection: Selection{Sources: []string{"harbour", "ridge"}, Before: clock(8, 0, 0)},
		LeftOut:   []LeftOut{{Source: "old-attic", Reason: "unavailable"}}, TotalUnits: 4,
		Policy: Policy{
			Lease: SpanOf(time.Minute), Lifetime: SpanOf(time.Hour), Countdown: SpanOf(time.Minute), RunCap: 16,
			Retry: []RetryPolicy{{
				Name: "code/commits", Provider: "git", Modes: []Mode{Incremental, Backfill}, Family: []string{"commits"},
				Surfaces: []string{"commits", "changes"}, MaxRetries: 1, Backoff: SpanOf(time.Minute),
				RetryOn: []Category{ExpiredLease, Network},
			}},
			PostSync: AtMostOnce, Targets: []string{"activity", "digest"},
		},
	},
	RunDispatchStarted{},
	RunFinalized{Status: RunPartialFailed, Counts: Counts{Total: 4, Succeeded: 3, Failed: 1}, PostSyncOwed: true},
	RunCancelled{
		Actor: "ada", Reason: "wrong range", Counts: Counts{Total: 4, Succeeded: 1, Cancelled: 3}, PostSyncOwed: true,
	},
	PostSyncStarted{
		Generation: "01KJPJ9D80V6C3Q8WYKX0ZB4RM.1", Target: "activity", MessageID: "01KJPJ9D80V6C3Q8WYKX0ZB4RM.post_sync.1.activity",
	},
	PostSyncCompleted{
		Generation: "01KJPJ9D80V6C3Q8WYKX0ZB4RM.1", Target: "activity", MessageID: "01KJPJ9D80V6C3Q8WYKX0ZB4RM.post_sync.1.activity",
		Result: "42 months updated",
	},
	PostSyncFailed{
		Generation: "01KJPJ9D80V6C3Q8WYKX0ZB4RM.1", Target: "digest", MessageID: "01KJPJ9D80V6C3Q8WYKX0ZB4RM.post_sync.1.digest",
		Category: ProviderError, Text: "no such table: digest",
	},

	UnitPlanned{
		Run: runID, Ordinal: 2, Source: "harbour", Provider: "git", Dataset: "commits", Tier: TierWorkItem, Cost: CostMedium,
		Mode: Incremental, Window: month(2026, time.February), Surfaces: []string{"commits", "changes"},
		Fingerprint: "118:9f3a6c", Calendar: Month,
	},
	UnitDispatched{Dispatch: 2, Wakeup: 3, Attempt: 2, Cause: DispatchRetry, Bucket: NewBucket("git", CostMedium)},
	UnitClaimed{
		Attempt: 1, Token: "lease-secret", LeaseExpiresAt: clock(8, 1, 2), LeaseEndsAt: clock(9, 0, 2), Remote: true,
		Worker: "edge-7",
	},
	UnitLeaseRenewed{Attempt: 1, Token: "lease-secret", LeaseExpiresAt: clock(8, 1, 22)},
	UnitSucceeded{
		Attempt: 1, Token: "lease-secret",
		Result: Result{
			Rows: 118, Fingerprint: "118:9f3a6c", State: json.RawMessage(`{"cursor":"c0ffee","id":1234567890123456789}`),
			Detail: json.RawMessage(`{"authors":7}`),
		},
		Duration:   SpanOf(1500 * time.Millisecond),
		Watermarks: []Watermark{{Source: "harbour", Dataset: "commits", At: clock(8, 0, 0)}},
	},
	UnitLeaseExpired{
		Attempt: 1, LeaseExpiresAt: clock(8, 1, 22), LastRenewedAt: clock(8, 0, 22), Cause: LeaseIncarnationGone,
		LeaseNode: nodeID,
	},
	UnitFailed{
		Attempt: 2, Token: "lease-secret", Category: Network, Text: "dial tcp: connection refused", By: ByWorker, Retries: 1,
		Result: Result{Rows: 3},
	},
	UnitRetryScheduled{
		Attempt: 1, Token: "lease-secret", Cause: RateLimit, Text: "429", AvailableAt: clock(8, 2, 0), ExpiredLeaseRetries: 1,
		RateLimitDeferrals: 2, RateLimitFirstAt: clock(7, 59, 0), HandBacks: 1, CategoryRetries: 1, CooldownKey: "git/harbour",
		CooldownUntil: clock(8, 2, 0), Result: Result{Rows: 5},
	},
	UnitCancelled{Actor: "ada", Reason: "unit_cancelled"},
	UnitLateResult{Attempt: 1, Outcome: "succeeded", Reason: LateLeaseLost, Text: LateResultText},

	OutboxArmed{N: 2, AvailableAt: clock(8, 1, 0), Cause: ArmRedriven, Reason: "broker is back"},
	OutboxClaimed{N: 2, Token: "claim-secret", ClaimExpiresAt: clock(8, 2, 0), Attempt: 1, MessageCount: 8},
	OutboxDispatched{N: 2, Token: "claim-secret", Order: PublishFirst, Transport: TransportLocal, MessageCount: 8},
	OutboxReleased{
		N: 2, Token: "claim-secret", Cause: ReleasePublishUnknown, AvailableAt: clock(8, 1, 10), Counted: true,
		MaybePublished: true, Text: "timeout after 5s",
	},
	OutboxDropped{N: 2, Token: "claim-secret", Reason: DropUnitGone},
	OutboxParked{N: 2, Cause: ParkAttempts, Attempts: 20, Text: "no such topic"},
	OutboxOutcome{N: 1, Target: "activity", Outcome: Unknown, Cause: OutcomeRelayDied},
	OutboxResolved{N: 1, Target: "activity", Outcome: ResolvedLost, Actor: "ada", Reason: "no trace at the receiver"},

	JobOpened{
		Trigger: TriggerManual, Actor: "ada", Reason: "after the move", Sync: "code", IdempotencyKey: "move-2026-03-02",
		RequestFingerprint: "sha256:51c3",
	},
	JobLinked{Run: runID},
	JobClosed{Status: RunSucceeded, Counts: Counts{Total: 2, Succeeded: 2}},

	ScheduleDefined{
		Cron: "0 3 * * *", TimeZone: "Europe/Berlin", CatchUp: "all", Max: 3, Overlap: "queue",
		Template: json.RawMessage(`{"sync":"code","mode":"incremental"}`),
	},
	SchedulePaused{Actor: "ada", Reason: "maintenance"},
	ScheduleResumed{Actor: "ada", Reason: "maintenance is over"},
	ScheduleRemoved{Actor: "ada", Reason: "replaced by weekly"},
	OccurrencesMissed{FromCivil: "2026-02-27T03:00+01:00", ToCivil: "2026-03-01T03:00+01:00", Count: 3},
	OccurrenceQueued{Instant: clock(2, 0, 0)},
	OccurrenceTriggered{Instant: clock(2, 0, 0), Job: jobID, Run: runID},
	OccurrenceSkipped{Instant: clock(2, 0, 0), Reason: "overlap"},
	OccurrenceRejected{Instant: clock(2, 0, 0), Category: "plan_too_large", Text: "1200 units, limit 1000"},

	EnginePaused{Actor: "ada", Reason: "disk is being replaced"},
	EngineResumed{Actor: "ada", Reason: "disk is back"},
	RestoreHoldReleased{Actor: "ada", Reason: "checked what would be sent"},
	SourcePaused{Actor: "ada", Reason: "mirror is down"},
	SourceResumed{Actor: "ada", Reason: "mirror is up"},

	NodeStarted{
		Host: "harbour-box", PID: 4711, Version: "0.1.0", StoreMode: StoreExclusive, Config: json.RawMessage(`{"relay.batch":50}`),
	},
	NodeRecovered{GoneIncarnations: 1, Leases: 2, Claims: 1, Dispatches: 3},
	NodeConfigChanged{Changed: json.RawMessage(`{"cap.bucket":4}`), Actor: "ada"},
	ClockStepped{Before: clock(8, 0, 0), After: clock(9, 0, 0), GraceUntil: clock(9, 1, 0), Actor: "ada"},
	BreakerOpened{Transport: "nats", Cause: "5 refusals in a row"},
	BreakerClosed{Transport: "nats", Cause: "probe accepted"},
	RunsArchived{
		Segment: "2026-01.seg", Hash: "sha256:77ab", Streams: []string{"run/01KJKZMR00T9GGJ5K3E1YQ7HFA"},
	},
	SegmentPurged{
		Segment: "2025-01.seg", Hash: "sha256:12fe", Positions: []Position{1, 2, 5},
		Summaries: json.RawMessage(`[{"run":"01KJKZMR00T9GGJ5K3E1YQ7HFA","status":"succeeded"}]`),
	},
	StoreRestored{Epoch: 2, Head: 1187},
	NodeStopped{Reason: "signal: terminated"},

	MessageSubmitted{
		Message: msgID, Payload: json.RawMessage(`{"reading":0.1,"id":9223372036854775807}`),
		Metadata: map[string]string{"trace": "00-4bf9", "tenant": "north"}, Key: "reading-17", AvailableAt: clock(8, 0, 5),
	},
	MessageHandled{
		Message: msgID, DeliveryMessageID: "01KJPJCHZ0M5G7J9K1N3Q5S7V9.message.1", Result: json.RawMessage(`{"stored":true}`),
	},
	MessageRejected{Message: msgID, Category: InvalidPayload, Text: "unit id \"null\": want a ULID of 26 characters"},
}

func sampleOf(t testing.TB, want Type) Event {
	t.Helper()
	for _, e := range samples {
		if e.EventType() == want {
			return e
		}
	}
	require.FailNow(t, "no sample", "add one for %s to samples_test.go", want)
	return nil
}

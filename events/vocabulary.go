package events

import "encoding/json"

// The words below are stored in payloads and shown on every surface: a file format.

// Mode says how a run chooses its windows (spec 13.1).
type Mode string

const (
	Incremental Mode = "incremental"
	Backfill    Mode = "backfill"
	FullResync  Mode = "full_resync"
)

// CatchUp says what becomes of the times of a schedule that were missed (S-5).
type CatchUp string

const (
	CatchUpSkip CatchUp = "skip" // none of them runs
	CatchUpOnce CatchUp = "once" // the newest does
	CatchUpAll  CatchUp = "all"  // the newest max do, one behind the other
)

// Overlap says what becomes of a due time while the schedule's last run is open (S-6).
type Overlap string

const (
	OverlapSkip  Overlap = "skip"
	OverlapQueue Overlap = "queue" // one waits
)

// SkipReason says why an occurrence will not run (S-6, S-7).
type SkipReason string

const (
	SkippedOverlap   SkipReason = "overlap"
	SkippedQueueFull SkipReason = "queue_full"
	SkippedPaused    SkipReason = "paused"
	SkippedChanged   SkipReason = "schedule_changed"
	SkippedRemoved   SkipReason = "schedule_removed"
)

// MissedReason says why times of a schedule have no occurrence of their own (S-5, S-7).
type MissedReason string

const (
	MissedCatchUp MissedReason = "catch_up" // nobody looked when they were due, and catch-up leaves them out
	MissedPaused  MissedReason = "paused"   // they were due during a pause
)

// Trigger says what started a run (spec 15).
type Trigger string

const (
	TriggerManual   Trigger = "manual"
	TriggerSchedule Trigger = "schedule"
	TriggerBackfill Trigger = "backfill"
	TriggerRetry    Trigger = "retry"
)

// Tier orders the units of one source: reference first, work items when all of those have succeeded (P-9).
type Tier string

const (
	TierReference Tier = "reference"
	TierWorkItem  Tier = "work_item"
)

// Cost is the half of a bucket that the provider's dataset table gives (P-7).
type Cost string

const (
	CostLight  Cost = "light"
	CostMedium Cost = "medium"
	CostHeavy  Cost = "heavy"
)

// Bucket is what the concurrency cap counts: provider/cost.
type Bucket string

// NewBucket joins the two halves.
func NewBucket(provider string, c Cost) Bucket { return Bucket(provider + "/" + string(c)) }

// RunStatus is the state of a run. Running is derived in the views and never stored.
type RunStatus string

const (
	RunIsPlanned     RunStatus = "planned"
	RunIsDispatching RunStatus = "dispatching"
	RunIsRunning     RunStatus = "running"
	RunSucceeded     RunStatus = "succeeded"
	RunPartialFailed RunStatus = "partial_failed"
	RunFailed        RunStatus = "failed"
	RunIsCancelled   RunStatus = "cancelled"
)

// Terminal reports a status that never changes again.
func (s RunStatus) Terminal() bool {
	switch s {
	case RunSucceeded, RunPartialFailed, RunFailed, RunIsCancelled:
		return true
	}
	return false
}

// UnitStatus is the state of a unit (D-7).
type UnitStatus string

const (
	UnitIsPlanned     UnitStatus = "planned"
	UnitIsDispatching UnitStatus = "dispatching"
	UnitIsRunning     UnitStatus = "running"
	UnitIsRetrying    UnitStatus = "retrying"
	UnitHasSucceeded  UnitStatus = "succeeded"
	UnitHasFailed     UnitStatus = "failed"
	UnitIsCancelled   UnitStatus = "cancelled"
)

// Terminal reports a status that never changes again (U-18).
func (s UnitStatus) Terminal() bool {
	switch s {
	case UnitHasSucceeded, UnitHasFailed, UnitIsCancelled:
		return true
	}
	return false
}

// Category is the typed reason of a failure (spec 19). It comes from a typed error, never from text (E-1).
type Category string

const (
	RateLimit          Category = "rate_limit"
	RateLimitExhausted Category = "rate_limit_exhausted"
	Timeout            Category = "timeout"
	Network            Category = "network"
	Auth               Category = "auth"
	NotFound           Category = "not_found"
	Configuration      Category = "configuration"
	ProviderError      Category = "provider_error"
	SinkError          Category = "sink_error"
	UndeclaredSurface  Category = "undeclared_surface"

	WorkerLost          Category = "worker_lost"
	WorkerLostExhausted Category = "worker_lost_retry_exhausted"
	ReferenceFailed     Category = "reference_failed"
	NeverStarted        Category = "never_started"

	InvalidPayload Category = "invalid_payload"
	HandlerFailed  Category = "handler_failed"

	ExpiredLease Category = "expired_lease" // a cause of retries (RW-2), never the category of a failure
	HandedBack   Category = "handed_back"   // the same, for U-16
)

// Reported are the categories that a worker may give to the failure of its unit (spec 19).
var Reported = []Category{
	RateLimit, Timeout, Network, Auth, NotFound, Configuration, ProviderError, SinkError, UndeclaredSurface,
}

// Reasons of a run that ended badly for no unit's fault.
const (
	ReasonNoUnits           = "no_sync_units_planned"
	ReasonAllUnitsCancelled = "all_units_cancelled"
)

// Settler says who ended a unit badly.
type Settler string

const (
	ByWorker     Settler = "worker"
	ByReconciler Settler = "reconciler"
	ByDispatch   Settler = "dispatch"
	ByReference  Settler = "reference"
	ByOperator   Settler = "operator"
)

// DispatchCause says why a unit got a slot.
type DispatchCause string

const (
	DispatchPlanned         DispatchCause = "planned"
	DispatchRetry           DispatchCause = "retry"
	DispatchStale           DispatchCause = "stale"
	DispatchIncarnationGone DispatchCause = "incarnation_gone"
)

// ExpiryCause says how a lease ended without a settle.
type ExpiryCause string

const (
	LeaseExpired         ExpiryCause = "expired"
	LeaseMissing         ExpiryCause = "no_lease"
	LeaseIncarnationGone ExpiryCause = "incarnation_gone"
	LeaseReleased        ExpiryCause = "released"
)

// CancelReason says for whose sake a unit was cancelled (U-15).
type CancelReason string

const (
	CancelledWithRun       CancelReason = "run_cancelled"
	CancelledAlone         CancelReason = "unit_cancelled"
	CancelledWithReference CancelReason = "reference_cancelled" // of its source, for which it waited
)

// LateReason says why a late settle was refused (U-19).
type LateReason string

const (
	LateLeaseLost    LateReason = "lease_lost"
	LateRunTerminal  LateReason = "run_terminal"
	LateUnitTerminal LateReason = "unit_terminal"
	LateAttemptOld   LateReason = "attempt_old"
)

// ArmCause says which change a wakeup announces.
type ArmCause string

const (
	ArmPlanned      ArmCause = "planned"
	ArmCapped       ArmCause = "capped"
	ArmCooldown     ArmCause = "cooldown"
	ArmDeferred     ArmCause = "deferred"
	ArmSlotFreed    ArmCause = "slot_freed"
	ArmDispatched   ArmCause = "dispatched"
	ArmSettled      ArmCause = "settled"
	ArmFinalized    ArmCause = "finalized"
	ArmResumed      ArmCause = "resumed"
	ArmMaterialized ArmCause = "materialized"
	ArmRedriven     ArmCause = "redriven"
	ArmMessage      ArmCause = "message"
)

// Order says whether a wakeup is marked after it was published or before (spec 8.1).
type Order string

const (
	PublishFirst Order = "publish_first"
	MarkFirst    Order = "mark_first"
)

// The in-process transports. Application messages have one of their own, so that a queue of theirs that is full holds up no
// run.
const (
	TransportLocal         = "local"
	TransportLocalMessages = "local-messages"
)

// InProcess reports an in-process transport: its messages die with their incarnation (N-3).
func InProcess(transport string) bool {
	return transport == TransportLocal || transport == TransportLocalMessages
}

// ReleaseCause says why a claim ended without a mark.
type ReleaseCause string

const (
	ReleaseRefused         ReleaseCause = "refused"
	ReleasePublishUnknown  ReleaseCause = "publish_unknown"
	ReleaseClaimExpired    ReleaseCause = "claim_expired"
	ReleaseIncarnationGone ReleaseCause = "incarnation_gone"
	ReleaseBreakerOpen     ReleaseCause = "breaker_open"
	ReleaseShed            ReleaseCause = "shed"
	ReleaseShutdown        ReleaseCause = "shutdown"
	ReleaseNoClaimTime     ReleaseCause = "migration_no_claim_time"
)

// DropReason says why nothing was owed any more (O-8).
type DropReason string

const (
	DropRunTerminal DropReason = "run_terminal"
	DropNothingOwed DropReason = "nothing_owed"
	DropUnitGone    DropReason = "unit_gone"
)

// ParkCause says why a wakeup is published no more (O-15, M-11, M-16).
type ParkCause string

const (
	ParkAttempts      ParkCause = "attempts"
	ParkPermanent     ParkCause = "permanent"
	ParkOperator      ParkCause = "operator"
	ParkCrashSuspect  ParkCause = "crash_suspect"  // of a message: too many processes in a row have died with it (M-16)
	ParkHandlerFailed ParkCause = "handler_failed" // of a message: its consumer has failed at every delivery (M-11)
)

// Outcome is what is known of a publish (O-10). Unknown is a result of its own, never folded into another.
type Outcome string

const (
	Accepted Outcome = "accepted"
	Refused  Outcome = "refused"
	Unknown  Outcome = "unknown"
)

// Causes of a mark_first outcome other than accepted (O-12, HP-5).
const (
	OutcomeRelayDied   = "relay_died"
	OutcomeNotSent     = "not_sent"
	OutcomeProcessDied = "process_died" // of an effect that had begun; its publish has an outcome already
)

// Resolution is what an operator says of an unknown publish (O-17).
type Resolution string

const (
	ResolvedDelivered Resolution = "delivered"
	ResolvedLost      Resolution = "lost"
)

// DeliveryMode is the guarantee of post_sync (D-4).
type DeliveryMode string

const (
	AtMostOnce  DeliveryMode = "at_most_once"
	ExactlyOnce DeliveryMode = "exactly_once"
)

// StoreMode says how many processes may hold the store (N-2).
type StoreMode string

const (
	StoreExclusive StoreMode = "exclusive"
	StoreShared    StoreMode = "shared"
)

// Selection is what a request chose. A nil list means all that are enabled, an empty one means none (P-1).
type Selection struct {
	Sources  []string `json:"sources,omitzero"`
	Datasets []string `json:"datasets,omitzero"`
	Since    Micros   `json:"since,omitzero"`
	Before   Micros   `json:"before,omitzero"`
}

// LeftOut is a source that the plan could not use, and why (P-12).
type LeftOut struct {
	Source string `json:"source"`
	Reason string `json:"reason"`
}

// Policy is what RunPlanned freezes: a later change of the configuration does not change a run (CFG-2).
type Policy struct {
	Lease     Span          `json:"lease_us,omitzero"`
	Lifetime  Span          `json:"lifetime_us,omitzero"`
	Countdown Span          `json:"countdown_us,omitzero"`
	RunCap    int           `json:"run_cap,omitzero"`
	Retry     []RetryPolicy `json:"retry,omitempty"`
	PostSync  DeliveryMode  `json:"post_sync,omitzero"`
	Targets   []string      `json:"targets,omitempty"` // of post_sync, in order (K-8)
	// Sent are those of Targets whose message is all of their action: once it is published nobody reports on it (HP-4).
	Sent []string `json:"sent,omitempty"`
	// MaxDeliveries of exactly_once: a target that has failed in so many wakeups is held (REC-10).
	MaxDeliveries int `json:"max_deliveries,omitzero"`
}

// RetryPolicy says which units may be tried again after what (RW-2). It is data: every condition of RW-3 is a field.
type RetryPolicy struct {
	Name       string     `json:"name"`
	Provider   string     `json:"provider"`
	Modes      []Mode     `json:"modes"`
	Family     []string   `json:"family"`   // datasets
	Surfaces   []string   `json:"surfaces"` // that are safe to write again
	MaxRetries int        `json:"max_retries,omitzero"`
	Backoff    Span       `json:"backoff_us,omitzero"`
	RetryOn    []Category `json:"retry_on,omitempty"` // nil: expired_lease only
}

// Watermark says up to where the data of a source and dataset has been read (WM-2).
type Watermark struct {
	Source  string `json:"source"`
	Dataset string `json:"dataset"`
	At      Micros `json:"at"`
}

// Counts is how the units of a run ended.
type Counts struct {
	Total     int `json:"total,omitzero"`
	Succeeded int `json:"succeeded,omitzero"`
	Failed    int `json:"failed,omitzero"`
	Cancelled int `json:"cancelled,omitzero"`
}

// Result is what a worker reports of a unit that succeeded. It is stored as it is.
type Result struct {
	Rows        int             `json:"rows,omitzero"`        // written by this attempt
	Fingerprint string          `json:"fingerprint,omitzero"` // of what was read (W-8); empty: none
	State       json.RawMessage `json:"state,omitzero"`       // for the next unit of the same source and dataset
	Detail      json.RawMessage `json:"detail,omitzero"`      // for people; State and Detail together at most 64 KiB
}

// MaxResultBytes bounds State and Detail of a Result together, MaxFingerprintBytes a fingerprint.
const (
	MaxResultBytes      = 64 << 10
	MaxFingerprintBytes = 1024
)

// Calendar is a kind of whole UTC period that a dataset may declare as its windows (W-8). Empty: none.
type Calendar string

const (
	Day   Calendar = "day"
	Week  Calendar = "week" // from Monday
	Month Calendar = "month"
	Year  Calendar = "year"
)

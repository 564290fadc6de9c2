package towline

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/towline-dev/towline/events"
)

// RecordedKnobs are the values that NodeStarted keeps of a start (CFG-2), for whoever lets an engine go on from the log of
// another. What is not recorded, or is unknown to this release, has its default. Error: what is recorded is no such object,
// or holds a value that no engine starts with.
func RecordedKnobs(config json.RawMessage) (Knobs, error) {
	k := Knobs{}
	if len(config) == 0 {
		return k, nil
	}
	var values map[string]json.RawMessage
	if err := json.Unmarshal(config, &values); err != nil {
		return k, fmt.Errorf("recorded configuration: %w", err)
	}
	var wrong error
	read := func(key string, to any) bool {
		value, said := values[key]
		if !said {
			return false
		}
		if err := json.Unmarshal(value, to); err != nil && wrong == nil {
			wrong = fmt.Errorf("recorded configuration: %s: %w", key, err)
		}
		return true
	}
	for key, to := range k.recordedDurations() {
		var us events.Span
		if read(key, &us) {
			*to.value = us.Std()
		}
		if us == 0 && to.never && values[key] != nil {
			*to.value = -1
		}
	}
	for key, to := range k.recordedNumbers() {
		said := read(key, to.value)
		if said && *to.value == 0 && to.never {
			*to.value = -1
		}
	}
	read("cap.buckets", &k.CapBuckets)
	if wrong != nil {
		return Knobs{}, wrong
	}
	if err := k.withDefaults().check(); err != nil {
		return Knobs{}, fmt.Errorf("recorded configuration: %w", err)
	}
	return k, nil
}

// recordedDuration and recordedNumber are fields whose recorded 0 may mean never, which is negative in Knobs.
type (
	recordedDuration struct {
		value *time.Duration
		never bool
	}
	recordedNumber struct {
		value *int
		never bool
	}
)

func (k *Knobs) recordedDurations() map[string]recordedDuration {
	return map[string]recordedDuration{
		"reconcile.interval_us":               {value: &k.ReconcileInterval},
		"relay.claim_ttl_us":                  {value: &k.ClaimTTL},
		"relay.publish_timeout_us":            {value: &k.PublishTimeout},
		"relay.backoff_base_us":               {value: &k.BackoffBase},
		"relay.backoff_cap_us":                {value: &k.BackoffCap},
		"relay.redrive_after_us":              {value: &k.RedriveAfter},
		"relay.breaker_open_us":               {value: &k.BreakerOpen},
		"dispatch.countdown_us":               {value: &k.Countdown},
		"dispatch.stale_us":                   {value: &k.Stale},
		"dispatch.never_started_after_us":     {&k.NeverStartedAfter, true},
		"plan.depth_us":                       {value: &k.Depth},
		"plan.backfill_chunk_us":              {value: &k.BackfillChunk},
		"plan.backfill_chunk_work_item_us":    {value: &k.BackfillChunkWorkItem},
		"plan.heavy_window_us":                {value: &k.HeavyWindow},
		"plan.watermark_overlap_us":           {value: &k.WatermarkOverlap},
		"unit.lease_us":                       {value: &k.Lease},
		"unit.max_lifetime_us":                {value: &k.MaxLifetime},
		"unit.expired_lease_retry_backoff_us": {&k.ExpiredLeaseRetryBackoff, true},
		"rate_limit.max_wait_us":              {&k.RateLimitMaxWait, true},
		"rate_limit.default_wait_us":          {value: &k.RateLimitDefaultWait},
		"post_sync.redrive_after_us":          {value: &k.PostSyncRedriveAfter},
		"api.idempotency_ttl_us":              {value: &k.IdempotencyTTL},
		"clock.step_bound_us":                 {value: &k.ClockStepBound},
		"shutdown.grace_us":                   {&k.ShutdownGrace, true},
	}
}

func (k *Knobs) recordedNumbers() map[string]recordedNumber {
	return map[string]recordedNumber{
		"reconcile.repair_limit":         {value: &k.RepairLimit},
		"reconcile.scan_limit":           {value: &k.ScanLimit},
		"reconcile.page":                 {value: &k.Page},
		"relay.batch":                    {value: &k.RelayBatch},
		"relay.max_attempts":             {value: &k.MaxAttempts},
		"relay.drain_rate":               {value: &k.DrainRate},
		"relay.breaker_failures":         {value: &k.BreakerFailures},
		"cap.bucket":                     {value: &k.CapBucket},
		"cap.run":                        {value: &k.CapRun},
		"cap.engine":                     {value: &k.CapEngine},
		"plan.max_units":                 {value: &k.MaxUnits},
		"unit.expired_lease_max_retries": {&k.ExpiredLeaseMaxRetries, true},
		"rate_limit.max_deferrals":       {&k.RateLimitMaxDeferrals, true},
		"handler.max_deliveries":         {value: &k.MaxDeliveries},
		"error.max_bytes":                {value: &k.ErrorMaxBytes},
	}
}

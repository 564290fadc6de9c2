package config

import (
	"time"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/events"
)

// duration is short for tables.
type duration = time.Duration

// knob is where a value of towline.Knobs belongs.
func knob[T any](at func(*towline.Knobs) *T) func(*Config, []string) any {
	return func(c *Config, _ []string) any { return at(&c.Knobs) }
}

// engineKeys are the values of section 20 of the specification that package towline knows as Knobs. Bounds between two of
// them are held by Knobs.Check.
func engineKeys() []Key {
	type k = towline.Knobs
	return []Key{
		{Path: "reconcile.interval", Form: Duration, Default: "60s", Min: "1s", Live: true, at: knob(func(k *k) *duration { return &k.ReconcileInterval }),
			Doc: "Between two passes of the reconciler, at most; a commit that leaves something due nudges it at once."},
		{Path: "reconcile.repair_limit", Form: Count, Default: "100", Min: "1", Live: true, at: knob(func(k *k) *int { return &k.RepairLimit }),
			Doc: "Decisions of one pass and scan."},
		{Path: "reconcile.scan_limit", Form: Count, Default: "5000", Min: "1", Live: true, at: knob(func(k *k) *int { return &k.ScanLimit }),
			Doc: "Rows that one scan of a pass reads."},
		{Path: "reconcile.page", Form: Count, Default: "500", Min: "1", Live: true, at: knob(func(k *k) *int { return &k.Page }),
			Doc: "Rows of one page."},
		{Path: "relay.batch", Form: Count, Default: "50", Min: "1", Max: "1000", Live: true, at: knob(func(k *k) *int { return &k.RelayBatch }),
			Doc: "Wakeups claimed at once."},
		{Path: "relay.claim_ttl", Form: Duration, Default: "60s", Min: "200ms", Live: true, at: knob(func(k *k) *duration { return &k.ClaimTTL }),
			Doc: "Length of a claim; more than twice relay.publish_timeout."},
		{Path: "relay.publish_timeout", Form: Duration, Default: "5s", Min: "100ms", Live: true, at: knob(func(k *k) *duration { return &k.PublishTimeout }),
			Doc: "Longest publish; behind it the outcome is unknown."},
		{Path: "relay.backoff_base", Form: Duration, Default: "5s", Min: "1ms", Live: true, at: knob(func(k *k) *duration { return &k.BackoffBase }),
			Doc: "Wait after the first publish that failed; it doubles."},
		{Path: "relay.backoff_cap", Form: Duration, Default: "5m", Min: "1ms", Live: true, at: knob(func(k *k) *duration { return &k.BackoffCap }),
			Doc: "Longest of these waits; at least relay.backoff_base."},
		{Path: "relay.max_attempts", Form: Count, Default: "20", Min: "1", Live: true, at: knob(func(k *k) *int { return &k.MaxAttempts }),
			Doc: "Publishes of one wakeup number, then it is parked. An open breaker burns none."},
		{Path: "relay.redrive_after", Form: Duration, Default: "60s", Min: "100ms", Live: true, at: knob(func(k *k) *duration { return &k.RedriveAfter }),
			Doc: "A closed wakeup whose work is still owed is armed again; at least relay.publish_timeout."},
		{Path: "relay.drain_rate", Form: Rate, Default: "40/s", Min: "1/s", Live: true, at: knob(func(k *k) *int { return &k.DrainRate }),
			Doc: "Wakeups of one transport behind an outage, until none is overdue."},
		{Path: "relay.breaker_failures", Form: Count, Default: "5", Min: "1", Live: true, at: knob(func(k *k) *int { return &k.BreakerFailures }),
			Doc: "Failures of one transport in a row, then its wakeups wait."},
		{Path: "relay.breaker_open", Form: Duration, Default: "10s", Min: "100ms", Live: true, at: knob(func(k *k) *duration { return &k.BreakerOpen }),
			Doc: "How long they wait until one is let through as a probe; it doubles to 5 min."},
		{Path: "dispatch.countdown", Form: Duration, Default: "60s", Min: "1s", Live: true, at: knob(func(k *k) *duration { return &k.Countdown }),
			Doc: "Safety net of a run that waits for slots."},
		{Path: "dispatch.stale", Form: Duration, Default: "15m", Min: "1s", Live: true, at: knob(func(k *k) *duration { return &k.Stale }),
			Doc: "A dispatched unit that nobody has claimed for so long is dispatched again."},
		{Path: "dispatch.never_started_after", Form: Duration, Default: "24h", zeroIsNever: true, Live: true, at: knob(func(k *k) *duration { return &k.NeverStartedAfter }),
			Doc: "And given up at last. 0: never."},
		{Path: "cap.bucket", Form: Count, Default: "8", Min: "1", Live: true, at: knob(func(k *k) *int { return &k.CapBucket }),
			Doc: "Units in flight per provider and cost class."},
		{Path: "cap.buckets.NAME", Form: Count, Min: "1", Live: true,
			at: func(c *Config, n []string) any {
				return setNumber(func(most int) {
					if c.Knobs.CapBuckets == nil {
						c.Knobs.CapBuckets = map[events.Bucket]int{}
					}
					c.Knobs.CapBuckets[events.Bucket(n[0])] = most
				})
			},
			Doc: "The same for one bucket, which is named PROVIDER/COST, as git/heavy."},
		{Path: "cap.run", Form: Count, Default: "16", Min: "1", Live: true, at: knob(func(k *k) *int { return &k.CapRun }),
			Doc: "Units in flight per run; frozen when a run is planned."},
		{Path: "cap.engine", Form: Count, Default: "64", Min: "1", Live: true, at: knob(func(k *k) *int { return &k.CapEngine }),
			Doc: "Units in flight altogether."},
		{Path: "plan.max_units", Form: Count, Default: "1000", Min: "1", Live: true, at: knob(func(k *k) *int { return &k.MaxUnits }),
			Doc: "Units of one run; a larger plan is refused before anything is written."},
		{Path: "plan.depth", Form: Duration, Default: "30d", Min: "1d", Live: true, at: knob(func(k *k) *duration { return &k.Depth }),
			Doc: "How far back a first run reads, where no calendar periods are listed."},
		{Path: "plan.backfill_chunk", Form: Duration, Default: "7d", Min: "1d", Live: true, at: knob(func(k *k) *duration { return &k.BackfillChunk }),
			Doc: "Length of a backfill's window."},
		{Path: "plan.backfill_chunk_work_item", Form: Duration, Default: "14d", Min: "1d", Live: true, at: knob(func(k *k) *duration { return &k.BackfillChunkWorkItem }),
			Doc: "The same for a family of datasets."},
		{Path: "plan.heavy_window", Form: Duration, Default: "7d", Min: "1s", Live: true, at: knob(func(k *k) *duration { return &k.HeavyWindow }),
			Doc: "Longest incremental window of a heavy dataset; more than plan.watermark_overlap."},
		{Path: "plan.watermark_overlap", Form: Duration, Default: "0s", Live: true, at: knob(func(k *k) *duration { return &k.WatermarkOverlap }),
			Doc: "Read again before the watermark."},
		{Path: "unit.lease", Form: Duration, Default: "60s", Min: "1s", Live: true, at: knob(func(k *k) *duration { return &k.Lease }),
			Doc: "Lease of a worker, renewed every third of it; frozen when a run is planned."},
		{Path: "unit.max_lifetime", Form: Duration, Default: "1h", Min: "1s", Live: true, at: knob(func(k *k) *duration { return &k.MaxLifetime }),
			Doc: "Longest attempt, renewals included; at least unit.lease."},
		{Path: "unit.expired_lease_max_retries", Form: Count, Default: "1", Min: "0", zeroIsNever: true, Live: true,
			Alias: "SYNC_UNIT_EXPIRED_LEASE_MAX_RETRIES", at: knob(func(k *k) *int { return &k.ExpiredLeaseMaxRetries }),
			Doc: "Retries after a lost worker, for policies that set none. 0: none."},
		{Path: "unit.expired_lease_retry_backoff", Form: Duration, Default: "60s", zeroIsNever: true, Live: true,
			Alias: "SYNC_UNIT_EXPIRED_LEASE_RETRY_BACKOFF_SECONDS", aliasUnit: "s", at: knob(func(k *k) *duration { return &k.ExpiredLeaseRetryBackoff }),
			Doc: "Wait before such a retry, for policies that set none. 0: at once."},
		{Path: "rate_limit.max_deferrals", Form: Count, Default: "10", Min: "0", zeroIsNever: true, Live: true, at: knob(func(k *k) *int { return &k.RateLimitMaxDeferrals }),
			Doc: "Deferrals of one unit in a row, then it fails. 0: none."},
		{Path: "rate_limit.max_wait", Form: Duration, Default: "2h", zeroIsNever: true, Live: true, at: knob(func(k *k) *duration { return &k.RateLimitMaxWait }),
			Doc: "Length of them together. 0: not at all."},
		{Path: "rate_limit.default_wait", Form: Duration, Default: "60s", Min: "1s", Live: true, at: knob(func(k *k) *duration { return &k.RateLimitDefaultWait }),
			Doc: "Wait if the provider does not say how long."},
		{Path: "post_sync.redrive_after", Form: Duration, Default: "15m", Min: "100ms", Live: true, at: knob(func(k *k) *duration { return &k.PostSyncRedriveAfter }),
			Doc: "In mode exactly_once, what was sent so long ago and is not done is sent again; at least relay.publish_timeout."},
		{Path: "handler.max_deliveries", Form: Count, Default: "10", Min: "1", at: knob(func(k *k) *int { return &k.MaxDeliveries }),
			Doc: "Deliveries of one in-process message, and failed wakeups of an exactly_once target."},
		{Path: "api.idempotency_ttl", Form: Duration, Default: "7d", Min: "1h", Live: true, at: knob(func(k *k) *duration { return &k.IdempotencyTTL }),
			Doc: "How long an idempotency key is kept."},
		{Path: "clock.step_bound", Form: Duration, Default: "30s", Min: "1s", Live: true, at: knob(func(k *k) *duration { return &k.ClockStepBound }),
			Doc: "A larger step of the wall clock is recorded, and leases are graced; half of unit.lease, if that is shorter."},
		{Path: "shutdown.grace", Form: Duration, Default: "20s", zeroIsNever: true, Live: true, at: knob(func(k *k) *duration { return &k.ShutdownGrace }),
			Doc: "How long running units may finish at a stop. 0: not at all."},
		{Path: "error.max_bytes", Form: Count, Default: "2000", Min: "64", Live: true, at: knob(func(k *k) *int { return &k.ErrorMaxBytes }),
			Doc: "Longest stored text of an error."},
	}
}

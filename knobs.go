package towline

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/projections"
)

// Knobs are the values of section 20 of the specification. Beside each stands its key, by which errors, the log and the
// documents name it, and its default, which a zero value means.
type Knobs struct {
	ReconcileInterval time.Duration // reconcile.interval: between two passes of the reconciler; 60 s, at least 1 s
	RepairLimit       int           // reconcile.repair_limit: decisions of one pass and scan; 100
	ScanLimit         int           // reconcile.scan_limit: rows that one scan of a pass reads; 5000
	Page              int           // reconcile.page: rows of one page; 500

	RelayBatch     int           // relay.batch: wakeups claimed at once; 50, at most 1000
	ClaimTTL       time.Duration // relay.claim_ttl: of a claim; 60 s, more than twice the publish timeout
	PublishTimeout time.Duration // relay.publish_timeout: of one publish; 5 s, at least 100 ms
	BackoffBase    time.Duration // relay.backoff_base: after the first failed publish; 5 s
	BackoffCap     time.Duration // relay.backoff_cap: longest backoff; 5 min
	MaxAttempts    int           // relay.max_attempts: of one wakeup, then it is parked; 20
	RedriveAfter   time.Duration // relay.redrive_after: a closed wakeup whose work is still owed is armed again; 60 s, at least the publish timeout

	DrainRate       int           // relay.drain_rate: wakeups a second of one transport behind an outage, until none is overdue; 40
	BreakerFailures int           // relay.breaker_failures: in a row of one transport, then its wakeups wait; 5
	BreakerOpen     time.Duration // relay.breaker_open: until one is let through to try it, doubling to 5 min; 10 s, at least 100 ms

	Countdown         time.Duration // dispatch.countdown: safety net of a run that waits for slots; 60 s, at least 1 s
	Stale             time.Duration // dispatch.stale: a dispatched unit that nobody claims is dispatched again; 15 min, at least 1 s
	NeverStartedAfter time.Duration // dispatch.never_started_after: and at last given up; 24 h, negative: never

	CapBucket  int                   // cap.bucket: units in flight per provider and cost class; 8
	CapBuckets map[events.Bucket]int // cap.bucket.PROVIDER/COST: the same for single buckets; nil: CapBucket for all
	CapRun     int                   // cap.run: units in flight per run; 16
	CapEngine  int                   // cap.engine: units in flight; 64

	MaxUnits              int           // plan.max_units: of one run; 1000
	Depth                 time.Duration // plan.depth: how far back a first run reads; 30 d, at least a day
	BackfillChunk         time.Duration // plan.backfill_chunk: length of a backfill's window; 7 d, at least a day
	BackfillChunkWorkItem time.Duration // plan.backfill_chunk_work_item: the same for a family; 14 d, at least a day
	HeavyWindow           time.Duration // plan.heavy_window: longest incremental window of a heavy dataset; 7 d
	WatermarkOverlap      time.Duration // plan.watermark_overlap: read again before the watermark; 0

	Lease                    time.Duration // unit.lease: of a worker, renewed every third of it; 60 s, at least 1 s
	MaxLifetime              time.Duration // unit.max_lifetime: of one attempt; 1 h, at least the lease
	ExpiredLeaseMaxRetries   int           // unit.expired_lease_max_retries: of the shipped policy; 1, negative: none
	ExpiredLeaseRetryBackoff time.Duration // unit.expired_lease_retry_backoff: of the shipped policy; 60 s, negative: at once

	RateLimitMaxDeferrals int           // rate_limit.max_deferrals: of one unit in a row, then it fails; 10, negative: none
	RateLimitMaxWait      time.Duration // rate_limit.max_wait: of them together, since the first; 2 h, negative: not at all
	RateLimitDefaultWait  time.Duration // rate_limit.default_wait: if the provider does not say how long; 60 s, at least 1 s

	PostSyncRedriveAfter time.Duration // post_sync.redrive_after: of exactly_once: what was sent so long ago and is not done is sent again; 15 min, at least the publish timeout
	MaxDeliveries        int           // handler.max_deliveries: of one in-process message, and failed wakeups of an exactly_once target; 10
	IdempotencyTTL       time.Duration // api.idempotency_ttl: an idempotency key is kept so long; 7 d, at least 1 h
	ClockStepBound       time.Duration // clock.step_bound: a larger step of the wall clock is recorded; 30 s, at least 1 s; half of Lease, if that is shorter
	ShutdownGrace        time.Duration // shutdown.grace: running units may finish so long; 20 s, negative: not at all
	ErrorMaxBytes        int           // error.max_bytes: of a stored error text; 2000, at least 64
}

const day = 24 * time.Hour

// withDefaults fills in what is zero.
func (k Knobs) withDefaults() Knobs {
	durations := []struct {
		value *time.Duration
		def   time.Duration
	}{
		{&k.ReconcileInterval, time.Minute}, {&k.ClaimTTL, time.Minute}, {&k.PublishTimeout, 5 * time.Second},
		{&k.BackoffBase, 5 * time.Second}, {&k.BackoffCap, 5 * time.Minute}, {&k.RedriveAfter, time.Minute},
		{&k.BreakerOpen, 10 * time.Second}, {&k.Countdown, time.Minute}, {&k.Stale, 15 * time.Minute}, {&k.NeverStartedAfter, day}, {&k.Depth, 30 * day},
		{&k.BackfillChunk, 7 * day}, {&k.BackfillChunkWorkItem, 14 * day}, {&k.HeavyWindow, 7 * day},
		{&k.Lease, time.Minute}, {&k.MaxLifetime, time.Hour}, {&k.ExpiredLeaseRetryBackoff, time.Minute},
		{&k.RateLimitMaxWait, 2 * time.Hour}, {&k.RateLimitDefaultWait, time.Minute}, {&k.PostSyncRedriveAfter, 15 * time.Minute},
		{&k.IdempotencyTTL, 7 * day}, {&k.ClockStepBound, 30 * time.Second}, {&k.ShutdownGrace, 20 * time.Second},
	}
	for _, d := range durations {
		if *d.value == 0 {
			*d.value = d.def
		}
	}
	numbers := []struct {
		value *int
		def   int
	}{
		{&k.RepairLimit, 100}, {&k.ScanLimit, 5000}, {&k.Page, 500}, {&k.RelayBatch, 50}, {&k.MaxAttempts, 20},
		{&k.BreakerFailures, 5}, {&k.DrainRate, 40},
		{&k.CapBucket, 8}, {&k.CapRun, 16}, {&k.CapEngine, 64}, {&k.MaxUnits, 1000}, {&k.ExpiredLeaseMaxRetries, 1},
		{&k.RateLimitMaxDeferrals, 10}, {&k.MaxDeliveries, 10}, {&k.ErrorMaxBytes, 2000},
	}
	for _, n := range numbers {
		if *n.value == 0 {
			*n.value = n.def
		}
	}
	return k
}

// Check names the first value that is out of bounds, by its key in the configuration. Open says the same.
func (k Knobs) Check() error { return k.withDefaults().check() }

// check names the first value that is out of bounds, by its key in the configuration.
func (k Knobs) check() error {
	for _, b := range []struct {
		key  string
		ok   bool
		got  any
		want string
	}{
		{"reconcile.interval", k.ReconcileInterval >= time.Second, k.ReconcileInterval, "at least 1s"},
		{"reconcile.repair_limit", k.RepairLimit >= 1, k.RepairLimit, "at least 1"},
		{"reconcile.scan_limit", k.ScanLimit >= 1, k.ScanLimit, "at least 1"},
		{"reconcile.page", k.Page >= 1, k.Page, "at least 1"},
		{"relay.batch", k.RelayBatch >= 1 && k.RelayBatch <= 1000, k.RelayBatch, "1 to 1000"},
		{"relay.publish_timeout", k.PublishTimeout >= 100*time.Millisecond, k.PublishTimeout, "at least 100ms"},
		{"relay.claim_ttl", k.ClaimTTL > 2*k.PublishTimeout, k.ClaimTTL, "more than twice relay.publish_timeout"},
		{"relay.backoff_base", k.BackoffBase > 0, k.BackoffBase, "more than 0"},
		{"relay.backoff_cap", k.BackoffCap >= k.BackoffBase, k.BackoffCap, "at least relay.backoff_base"},
		{"relay.max_attempts", k.MaxAttempts >= 1, k.MaxAttempts, "at least 1"},
		{"relay.redrive_after", k.RedriveAfter >= k.PublishTimeout, k.RedriveAfter, "at least relay.publish_timeout"},
		{"relay.drain_rate", k.DrainRate >= 1, k.DrainRate, "at least 1"},
		{"relay.breaker_failures", k.BreakerFailures >= 1, k.BreakerFailures, "at least 1"},
		{"relay.breaker_open", k.BreakerOpen >= 100*time.Millisecond, k.BreakerOpen, "at least 100ms"},
		{"dispatch.countdown", k.Countdown >= time.Second, k.Countdown, "at least 1s"},
		{"dispatch.stale", k.Stale >= time.Second, k.Stale, "at least 1s"},
		{"cap.bucket", k.CapBucket >= 1, k.CapBucket, "at least 1"},
		{"cap.run", k.CapRun >= 1, k.CapRun, "at least 1"},
		{"cap.engine", k.CapEngine >= 1, k.CapEngine, "at least 1"},
		{"plan.max_units", k.MaxUnits >= 1, k.MaxUnits, "at least 1"},
		{"plan.depth", k.Depth >= day, k.Depth, "at least a day"},
		{"plan.backfill_chunk", k.BackfillChunk >= day, k.BackfillChunk, "at least a day"},
		{"plan.backfill_chunk_work_item", k.BackfillChunkWorkItem >= day, k.BackfillChunkWorkItem, "at least a day"},
		{"plan.heavy_window", k.HeavyWindow > k.WatermarkOverlap, k.HeavyWindow, "more than plan.watermark_overlap"},
		{"plan.watermark_overlap", k.WatermarkOverlap >= 0, k.WatermarkOverlap, "0 or more"},
		{"unit.lease", k.Lease >= time.Second, k.Lease, "at least 1s"},
		{"unit.max_lifetime", k.MaxLifetime >= k.Lease, k.MaxLifetime, "at least unit.lease"},
		{"rate_limit.default_wait", k.RateLimitDefaultWait >= time.Second, k.RateLimitDefaultWait, "at least 1s"},
		{"post_sync.redrive_after", k.PostSyncRedriveAfter >= k.PublishTimeout, k.PostSyncRedriveAfter, "at least relay.publish_timeout"},
		{"handler.max_deliveries", k.MaxDeliveries >= 1, k.MaxDeliveries, "at least 1"},
		{"clock.step_bound", k.ClockStepBound >= time.Second, k.ClockStepBound, "at least 1s"},
		{"api.idempotency_ttl", k.IdempotencyTTL >= time.Hour, k.IdempotencyTTL, "at least 1h"},
		{"error.max_bytes", k.ErrorMaxBytes >= 64, k.ErrorMaxBytes, "at least 64"},
	} {
		if !b.ok {
			return fmt.Errorf("%s is %v: want %s", b.key, b.got, b.want)
		}
	}
	for bucket, n := range k.CapBuckets {
		if n < 1 {
			return fmt.Errorf("cap.bucket of %s is %d: want at least 1", bucket, n)
		}
	}
	return nil
}

func (k Knobs) expiredLeaseMaxRetries() int { return max(k.ExpiredLeaseMaxRetries, 0) }

func (k Knobs) expiredLeaseBackoff() events.Span {
	return events.SpanOf(max(k.ExpiredLeaseRetryBackoff, 0))
}

func (k Knobs) maxDeferrals() int { return max(k.RateLimitMaxDeferrals, 0) }

func (k Knobs) maxWait() events.Span { return events.SpanOf(max(k.RateLimitMaxWait, 0)) }

func (k Knobs) neverStarted() events.Span { return events.SpanOf(max(k.NeverStartedAfter, 0)) }

func (k Knobs) clockBound() events.Span { return events.SpanOf(k.ClockStepBound) }

// stepBound is the bound in force for steps: a lease that is renewed every third of it must outlive a step that nobody
// records (CLK-3).
func (k Knobs) stepBound() events.Span { return events.SpanOf(min(k.ClockStepBound, k.Lease/2)) }

func (k Knobs) capOf(b events.Bucket) int {
	if n, ok := k.CapBuckets[b]; ok {
		return n
	}
	return k.CapBucket
}

func (k Knobs) hot() projections.HotKnobs {
	return projections.HotKnobs{StaleAfter: events.SpanOf(k.Stale), CapEngine: k.CapEngine, CapBucket: k.capOf}
}

func (k Knobs) windows() decider.WindowKnobs {
	return decider.WindowKnobs{
		Depth: k.Depth, Chunk: k.BackfillChunk, ChunkWorkItem: k.BackfillChunkWorkItem, HeavyWindow: k.HeavyWindow,
		Overlap: k.WatermarkOverlap,
	}
}

// Backoff is the wait after a failed publish (O-13).
func (k Knobs) Backoff() decider.Backoff {
	return decider.Backoff{Base: events.SpanOf(k.BackoffBase), Cap: events.SpanOf(k.BackoffCap)}
}

// recorded are the values in force, by their keys in the configuration, as NodeStarted keeps them (CFG-2). Durations are
// in microseconds, as everywhere in the log.
func (k Knobs) recorded() json.RawMessage {
	us := time.Duration.Microseconds
	values := map[string]any{
		"reconcile.interval_us":               us(k.ReconcileInterval),
		"reconcile.repair_limit":              k.RepairLimit,
		"reconcile.scan_limit":                k.ScanLimit,
		"reconcile.page":                      k.Page,
		"relay.batch":                         k.RelayBatch,
		"relay.claim_ttl_us":                  us(k.ClaimTTL),
		"relay.publish_timeout_us":            us(k.PublishTimeout),
		"relay.backoff_base_us":               us(k.BackoffBase),
		"relay.backoff_cap_us":                us(k.BackoffCap),
		"relay.max_attempts":                  k.MaxAttempts,
		"relay.redrive_after_us":              us(k.RedriveAfter),
		"relay.drain_rate":                    k.DrainRate,
		"relay.breaker_failures":              k.BreakerFailures,
		"relay.breaker_open_us":               us(k.BreakerOpen),
		"dispatch.countdown_us":               us(k.Countdown),
		"dispatch.stale_us":                   us(k.Stale),
		"dispatch.never_started_after_us":     k.neverStarted(),
		"cap.bucket":                          k.CapBucket,
		"cap.run":                             k.CapRun,
		"cap.engine":                          k.CapEngine,
		"plan.max_units":                      k.MaxUnits,
		"plan.depth_us":                       us(k.Depth),
		"plan.backfill_chunk_us":              us(k.BackfillChunk),
		"plan.backfill_chunk_work_item_us":    us(k.BackfillChunkWorkItem),
		"plan.heavy_window_us":                us(k.HeavyWindow),
		"plan.watermark_overlap_us":           us(k.WatermarkOverlap),
		"unit.lease_us":                       us(k.Lease),
		"unit.max_lifetime_us":                us(k.MaxLifetime),
		"unit.expired_lease_max_retries":      k.expiredLeaseMaxRetries(),
		"unit.expired_lease_retry_backoff_us": k.expiredLeaseBackoff(),
		"rate_limit.max_deferrals":            k.maxDeferrals(),
		"rate_limit.max_wait_us":              k.maxWait(),
		"rate_limit.default_wait_us":          us(k.RateLimitDefaultWait),
		"post_sync.redrive_after_us":          us(k.PostSyncRedriveAfter),
		"handler.max_deliveries":              k.MaxDeliveries,
		"api.idempotency_ttl_us":              us(k.IdempotencyTTL),
		"clock.step_bound_us":                 us(k.ClockStepBound),
		"shutdown.grace_us":                   us(max(k.ShutdownGrace, 0)),
		"error.max_bytes":                     k.ErrorMaxBytes,
	}
	if len(k.CapBuckets) > 0 {
		values["cap.buckets"] = k.CapBuckets
	}
	b, err := json.Marshal(values) // keys come out sorted
	if err != nil {
		panic(fmt.Sprintf("towline: encode knobs: %v", err))
	}
	return b
}

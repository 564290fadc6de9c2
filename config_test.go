package towline_test

import (
	"context"
	"database/sql"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/internal/enginetest"
)

// Section 20, SC-105, SC-219: a value out of its bounds refuses the start, and the error names it by its key; nothing
// is written.
func TestAKnobOutOfBoundsIsNamed(t *testing.T) {
	w := newWorkshop(t)
	require.NoError(t, w.file.Close())
	for key, k := range map[string]towline.Knobs{
		"reconcile.interval":                {ReconcileInterval: time.Second - 1},
		"reconcile.repair_limit":            {RepairLimit: -1},
		"reconcile.scan_limit":              {ScanLimit: -1},
		"reconcile.page":                    {Page: -1},
		"relay.batch":                       {RelayBatch: 1001},
		"relay.publish_timeout":             {PublishTimeout: 100*time.Millisecond - 1},
		"relay.claim_ttl":                   {ClaimTTL: 10 * time.Second},
		"relay.backoff_base":                {BackoffBase: -1},
		"relay.backoff_cap":                 {BackoffCap: time.Second},
		"relay.max_attempts":                {MaxAttempts: -1},
		"relay.redrive_after":               {RedriveAfter: time.Second},
		"relay.drain_rate":                  {DrainRate: -1},
		"relay.breaker_failures":            {BreakerFailures: -1},
		"relay.breaker_open":                {BreakerOpen: 100*time.Millisecond - 1},
		"dispatch.countdown":                {Countdown: time.Second - 1},
		"dispatch.stale":                    {Stale: time.Second - 1},
		"cap.bucket":                        {CapBucket: -1},
		"cap.bucket of p/heavy":             {CapBuckets: map[events.Bucket]int{"p/heavy": 0}},
		"cap.run":                           {CapRun: -1},
		"cap.engine":                        {CapEngine: -1},
		"plan.max_units":                    {MaxUnits: -1},
		"plan.depth":                        {Depth: 24*time.Hour - 1},
		"plan.backfill_chunk":               {BackfillChunk: time.Hour},
		"plan.backfill_chunk_work_item":     {BackfillChunkWorkItem: time.Hour},
		"plan.heavy_window":                 {WatermarkOverlap: 7 * 24 * time.Hour},
		"plan.watermark_overlap":            {WatermarkOverlap: -1},
		"unit.lease":                        {Lease: time.Second - 1},
		"unit.max_lifetime":                 {MaxLifetime: time.Second, Lease: 2 * time.Second},
		"post_sync.redrive_after":           {PostSyncRedriveAfter: time.Second},
		"handler.max_deliveries":            {MaxDeliveries: -1},
		"api.idempotency_ttl":               {IdempotencyTTL: time.Minute},
		"clock.step_bound":                  {ClockStepBound: time.Second - 1},
		"error.max_bytes":                   {ErrorMaxBytes: 63},
		"relay.claim_ttl is 10s: want more": {ClaimTTL: 10 * time.Second},
	} {
		w.o.config.Knobs = k
		require.ErrorContains(t, w.open(), key)
	}
	w.o.config.Knobs = towline.Knobs{}
	require.NoError(t, w.open())
	require.Len(t, enginetest.Only[events.NodeStarted](w.since(0)), 2, "a refused start has left no trace")
	k := w.e.Knobs()
	require.Equal(t, time.Minute, k.Lease)
	require.Equal(t, 8, k.CapBucket)
}

// W-2, SC-105, SC-219, P-7: a sync that could not be planned refuses the start, and the error says what is wrong where.
func TestASyncThatCannotBePlannedIsNamed(t *testing.T) {
	long := strings.Repeat("x", 201)
	dataset := func(d towline.Dataset) func(*towline.Sync) {
		return func(s *towline.Sync) { s.Datasets = []towline.Dataset{d} }
	}
	target := func(x towline.Target) func(*towline.Sync) {
		x.Name = "t"
		return func(s *towline.Sync) { s.PostSync.Targets = []towline.Target{x} }
	}
	nothing := func(context.Context, *sql.Tx, towline.Post) error { return nil }
	w := newWorkshop(t)
	require.NoError(t, w.file.Close())
	for want, change := range map[string]func(*towline.Sync){
		"name is empty":             func(s *towline.Sync) { s.Name = "" },
		"longer than 200 bytes":     func(s *towline.Sync) { s.Name = long },
		"control character":         func(s *towline.Sync) { s.Name = "a\nb" },
		"not valid UTF-8":           func(s *towline.Sync) { s.Name = "a\xff" },
		"provider is empty":         func(s *towline.Sync) { s.Provider = "" },
		"source is empty":           func(s *towline.Sync) { s.Sources = []string{""} },
		`source "x" stands twice`:   func(s *towline.Sync) { s.Sources = []string{"x", "x"} },
		`dataset "a" stands twice`:  func(s *towline.Sync) { s.Datasets = []towline.Dataset{{Name: "a"}, {Name: "a"}} },
		`dataset is empty`:          dataset(towline.Dataset{}),
		`tier "first"`:              dataset(towline.Dataset{Name: "a", Tier: "first"}),
		`cost "free"`:               dataset(towline.Dataset{Name: "a", Cost: "free"}),
		`window "decade"`:           dataset(towline.Dataset{Name: "a", Window: "decade"}),
		"a snapshot has no windows": dataset(towline.Dataset{Name: "a", Window: towline.Day, Snapshot: true}),
		"depth 1h0m0s":              dataset(towline.Dataset{Name: "a", Depth: time.Hour}),
		"retry max -1":              dataset(towline.Dataset{Name: "a", Retry: towline.Retry{Max: -1}}),
		"retry backoff -1s":         dataset(towline.Dataset{Name: "a", Retry: towline.Retry{Backoff: -time.Second}}),
		`member "m" stands twice`:   dataset(towline.Dataset{Name: "a", Members: []string{"m", "m"}}),
		`surface is empty`:          dataset(towline.Dataset{Name: "a", Surfaces: []string{""}}),
		"retry max is 0":            dataset(towline.Dataset{Name: "a", Retry: towline.Retry{Backoff: time.Second}}),
		`retry mode "nightly"`:      dataset(towline.Dataset{Name: "a", Retry: towline.Retry{Modes: []events.Mode{"nightly"}}}),
		`retry on "rate_limit"`:     dataset(towline.Dataset{Name: "a", Retry: towline.Retry{On: []events.Category{events.RateLimit}}}),
		`retry on "never_started"`:  dataset(towline.Dataset{Name: "a", Retry: towline.Retry{On: []events.Category{events.NeverStarted}}}),
		"post_sync target is empty": func(s *towline.Sync) { s.PostSync.Targets = []towline.Target{{}} },
		`target "t" stands twice`: func(s *towline.Sync) {
			s.PostSync.Targets = []towline.Target{{Name: "t"},
				{Name: "t"}}
		},
		`post_sync mode "sometimes"`:                  func(s *towline.Sync) { s.PostSync.Mode = "sometimes" },
		`target "t": it has sql and func`:             target(towline.Target{SQL: "SELECT 1", Func: nothing}),
		`it has exec and transport: want one of them`: target(towline.Target{Exec: []string{"true"}, Transport: "x"}),
		"exec is empty":                               target(towline.Target{Exec: []string{""}}),
		"a secret is not written as name=value":       target(towline.Target{Exec: []string{"true"}, Secrets: []string{"hunter2"}}),
		"secrets, dir and timeout are those of exec":  target(towline.Target{SQL: "SELECT 1", Secrets: []string{"A=b"}}),
		"env, secrets, dir and timeout are those":     target(towline.Target{SQL: "SELECT 1", Timeout: time.Second}),
		"timeout -1s":                target(towline.Target{Exec: []string{"true"}, Timeout: -time.Second}),
		`env "A": want name=value`:   target(towline.Target{Exec: []string{"true"}, Env: []string{"A"}}),
		"db is that of func":         target(towline.Target{DB: new(sql.DB)}),
		"topic is that of transport": target(towline.Target{Topic: "x"}),
		"exec cannot commit with the once-ledger": func(s *towline.Sync) {
			s.PostSync = towline.PostSync{Mode: towline.ExactlyOnce, Targets: []towline.Target{{Name: "t", Exec: []string{"true"}}}}
		},
		"transport cannot commit with the once-ledger": func(s *towline.Sync) {
			s.PostSync = towline.PostSync{Mode: towline.ExactlyOnce, Targets: []towline.Target{{Name: "t", Transport: "x"}}}
		},
	} {
		s := reports()
		change(&s)
		w.o.config.Syncs = []towline.Sync{s}
		require.ErrorContains(t, w.open(), want)
	}
	w.o.config.Syncs = []towline.Sync{reports(), reports()}
	require.ErrorContains(t, w.open(), `sync "reports" is configured twice`)
	other := reports() // P-7: it would share the watermarks
	other.Name, other.Sources = "mirror", []string{"west", "south"}
	w.o.config.Syncs = []towline.Sync{reports(), other}
	require.ErrorContains(t, w.open(), `source "south" with dataset "articles" stands twice, in sync "reports" and in sync "mirror"`)
	w.o.config.Syncs = []towline.Sync{reports()}
	require.NoError(t, w.open())
}

// P-7: what a sync leaves out has its default, and the caller's own value is not changed.
func TestDefaultsOfASync(t *testing.T) {
	s := reports()
	w := newWorkshop(t, s)
	got, ok := w.e.Sync("reports")
	require.True(t, ok)
	require.Equal(t, towline.WorkItem, got.Datasets[0].Tier)
	require.Equal(t, towline.Medium, got.Datasets[0].Cost)
	require.Equal(t, []string{"articles"}, got.Datasets[0].Surfaces)
	require.Equal(t, towline.AtMostOnce, got.PostSync.Mode)
	require.Zero(t, got.PostSync.Targets[0].Timeout)
	require.Empty(t, s.Datasets[0].Tier)

	other := reports()
	other.PostSync.Targets = []towline.Target{{Name: "run", Exec: []string{"true"}}, {Name: "send", Transport: "broker"},
		{Name: "tell", Transport: "broker", Topic: "ended"}}
	w = newWorkshop(t, other)
	got, _ = w.e.Sync("reports")
	require.Equal(t, 5*time.Minute, got.PostSync.Targets[0].Timeout)
	require.Equal(t, "post_sync", got.PostSync.Targets[1].Topic)
	require.Equal(t, "ended", got.PostSync.Targets[2].Topic)
	require.Empty(t, other.PostSync.Targets[1].Topic)
	_, ok = w.e.Sync("nobody")
	require.False(t, ok)
}

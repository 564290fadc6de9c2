package script

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/events"
)

// The commands that say what there is. The world is made by the first command that needs it. What is said of syncs and knobs
// later holds for the incarnations that start from then on; what is said of providers, effects and consumers, at once.
type (
	// World says how many processes there are, and between what.
	World struct {
		Nodes    int       `line:"key=nodes"`     // that share the store; 0: 1, which has it to itself
		Broker   bool      `line:"key=broker"`    // engine messages go through a broker outside of the nodes; false: each node has a queue in memory
		Workers  int       `line:"key=workers"`   // units that run at once in a node; 0: 3
		Seed     uint64    `line:"key=seed"`      // of ids, tokens and of who moves next; 0: 1
		Start    string    `line:"key=start"`     // when the world begins; empty: 2026-03-02T08:00:00Z
		MaxBytes int       `line:"key=max_bytes"` // size budget of the store; 0: none
		Order    string    `line:"key=order"`     // who moves next: first (or nothing): what has moved last, then the oldest; seed: the seed chooses
		Settings []Setting `line:"settings"`
	}

	// Configure changes settings.
	Configure struct {
		Settings []Setting `line:"settings"`
	}

	// Sync is a sync. Said again, it changes, and keeps its datasets.
	Sync struct {
		Name         string              `line:"arg"`
		Provider     string              `line:"key=provider"` // empty: stations
		Sources      []string            `line:"key=sources"`
		PostSync     []string            `line:"key=post_sync"` // its targets, each a script of the sink
		Mode         events.DeliveryMode `line:"key=mode"`
		OneActiveRun bool                `line:"key=one_active_run"`
	}

	// Dataset is a dataset of a sync. Said again, it changes.
	Dataset struct {
		Sync     string            `line:"arg"`
		Name     string            `line:"arg"`
		Members  []string          `line:"key=members"`
		Tier     events.Tier       `line:"key=tier"`
		Cost     events.Cost       `line:"key=cost"`
		Window   events.Calendar   `line:"key=window"`
		Snapshot bool              `line:"key=snapshot"`
		Depth    time.Duration     `line:"key=depth"`
		Surfaces []string          `line:"key=surfaces"`
		Retries  int               `line:"key=retries"`
		Backoff  time.Duration     `line:"key=backoff"`
		RetryOn  []events.Category `line:"key=retry_on"`
		Modes    []events.Mode     `line:"key=retry_modes"`
	}

	// Provider says what the provider of a sync does with attempts. Without it, an attempt takes a second and writes a row.
	// What was said last comes first.
	//
	//	fails CATEGORY       it fails
	//	rate_limited WAIT    it is told to wait; without WAIT it is not told how long
	//	takes TIME           it works so long, then it does what else is said
	//	hangs                it works until its context ends
	//	deaf                 it works for hours and does not hear that
	//	panics
	//	stops                it gives the unit back
	//	strays               it writes to a surface that the unit has not declared
	//	works                nothing special, whatever was said before
	Provider struct {
		Sync    string `line:"arg"`
		Does    string `line:"arg"`
		What    string `line:"arg,optional"`
		Attempt int    `line:"key=attempt"` // 0: each
		Account string `line:"key=account"`
		Text    string `line:"key=text"`
		Of      string `line:"rest=of"` // words of a unit's name: weather 2 harbour/readings 2026-02-28; empty: all
	}

	// Effect says what the script of a post_sync target does: fails, or works.
	Effect struct {
		Sync   string `line:"arg"`
		Target string `line:"arg"`
		Does   string `line:"arg"`
		Times  int    `line:"key=times"` // 0: always
	}

	// Consume says that the application consumes a topic, and what it does: nothing special, fails, or rejects.
	Consume struct {
		Topic string `line:"arg"`
		Does  string `line:"arg,optional"`
		Key   string `line:"key=key"`   // empty: all
		Times int    `line:"key=times"` // 0: always
	}
)

func (c World) String() string     { return line(c) }
func (c Configure) String() string { return line(c) }
func (c Sync) String() string      { return line(c) }
func (c Dataset) String() string   { return line(c) }
func (c Provider) String() string  { return line(c) }
func (c Effect) String() string    { return line(c) }
func (c Consume) String() string   { return line(c) }

func (c World) check() error {
	if c.Order != "" && c.Order != "first" && c.Order != "seed" {
		return fmt.Errorf("who moves next is chosen by order=first or order=seed, and not by %q", c.Order)
	}
	return nil
}

func (c World) play(ctx context.Context, p *Player) error {
	if p.world != nil {
		return fmt.Errorf("the world is there: change it with configure")
	}
	p.setup = c
	if c.Start != "" {
		start, err := time.Parse(time.RFC3339, c.Start)
		if err != nil {
			return err
		}
		p.start = start.UTC()
		p.trace.start = events.MicrosOf(p.start)
	}
	return Configure{c.Settings}.play(ctx, p)
}

func (c Configure) play(_ context.Context, p *Player) error {
	for _, s := range c.Settings {
		if err := set(&p.knobs, s); err != nil {
			return fmt.Errorf("%s: %w", s.Key, err)
		}
	}
	p.configure()
	return nil
}

func (c Sync) play(_ context.Context, p *Player) error {
	s := p.sync(c.Name)
	if s == nil {
		s = &syncSetup{}
		p.syncs = append(p.syncs, s)
	}
	s.Sync = c
	p.configure()
	return nil
}

func (c Dataset) play(_ context.Context, p *Player) error {
	s, err := p.mustSync(c.Sync)
	if err != nil {
		return err
	}
	if c.Retries == 0 && (c.Backoff != 0 || len(c.RetryOn) > 0 || len(c.Modes) > 0) {
		return errors.New("it says how to try again, and not how often: retries is missing")
	}
	if i := slices.IndexFunc(s.datasets, func(d Dataset) bool { return d.Name == c.Name }); i >= 0 {
		s.datasets[i] = c
	} else {
		s.datasets = append(s.datasets, c)
	}
	p.configure()
	return nil
}

func (c Provider) play(_ context.Context, p *Player) error {
	s, err := p.mustSync(c.Sync)
	if err != nil {
		return err
	}
	s.provider = append(s.provider, &behaviour{c, p.says(c)})
	p.configure()
	return nil
}

func (c Effect) check() error {
	if c.Does != "fails" && c.Does != "works" {
		return fmt.Errorf("an effect fails or works, and does not do %q", c.Does)
	}
	return nil
}

func (c Effect) play(_ context.Context, p *Player) error {
	s, err := p.mustSync(c.Sync)
	if err != nil {
		return err
	}
	if !slices.Contains(s.PostSync, c.Target) {
		return noSuch("target", c.Target, s.PostSync)
	}
	p.effects = append(p.effects, &times[Effect]{of: c, left: c.Times, said: p.says(c)})
	return nil
}

func (c Consume) check() error {
	switch {
	case c.Does == "" && (c.Key != "" || c.Times != 0):
		return errors.New("it says of what, or how often, and not what the consumer does: fails or rejects is missing")
	case c.Does != "" && c.Does != "fails" && c.Does != "rejects":
		return fmt.Errorf("a consumer fails or rejects, and does not do %q", c.Does)
	}
	return nil
}

func (c Consume) play(_ context.Context, p *Player) error {
	if p.world != nil && !slices.Contains(p.topics, c.Topic) {
		return fmt.Errorf("the world is there: topic %s comes too late", c.Topic)
	}
	p.topics = append(p.topics, c.Topic)
	said := &said{of: c} // one of whom nothing else is said waits for nothing
	if c.Does != "" {
		said = p.says(c)
	}
	p.consumers = append(p.consumers, &times[Consume]{of: c, left: c.Times, said: said})
	return nil
}

// times is something that happens a number of times; 0 at its beginning: always.
type times[T any] struct {
	of   T
	left int
	over bool
	said *said
}

// take reports that it happens once more.
func (t *times[T]) take() bool {
	switch {
	case t.over:
		return false
	case t.left > 0:
		t.left--
		t.over = t.left == 0
	}
	return true
}

// syncSetup is what was said of a sync.
type syncSetup struct {
	Sync
	datasets []Dataset
	provider []*behaviour
}

// behaviour is what was said of a provider.
type behaviour struct {
	Provider
	said *said
}

func (s *syncSetup) config() towline.Sync {
	out := towline.Sync{
		Name: s.Name, Provider: s.Provider(), Sources: s.Sources, OneActiveRun: s.OneActiveRun,
		PostSync: towline.PostSync{Mode: s.Mode},
	}
	for _, name := range s.PostSync {
		out.PostSync.Targets = append(out.PostSync.Targets, towline.Target{Name: name, SQL: name})
	}
	for _, d := range s.datasets {
		out.Datasets = append(out.Datasets, towline.Dataset{
			Name: d.Name, Members: d.Members, Tier: d.Tier, Cost: d.Cost, Window: d.Window, Snapshot: d.Snapshot, Depth: d.Depth,
			Surfaces: d.Surfaces, Retry: towline.Retry{Max: d.Retries, Backoff: d.Backoff, Modes: d.Modes, On: d.RetryOn},
		})
	}
	return out
}

// Provider is how the provider of the sync is called.
func (s *syncSetup) Provider() string {
	if s.Sync.Provider == "" {
		return "stations"
	}
	return s.Sync.Provider
}

// set changes a knob. What a file calls 0 a Knobs calls negative, where it does not mean the default.
func set(k *towline.Knobs, s Setting) error {
	if bucket, ok := strings.CutPrefix(s.Key, "cap.bucket."); ok {
		_, cost, _ := strings.Cut(bucket, "/")
		if cost == "" || inVocabulary(reflect.TypeFor[events.Cost](), cost) != nil {
			return fmt.Errorf("a bucket is a provider and a cost, as stations/light, and %s is none", bucket)
		}
		n, err := strconv.Atoi(s.Value)
		caps := map[events.Bucket]int{events.Bucket(bucket): n}
		for b, n := range k.CapBuckets {
			if _, changed := caps[b]; !changed {
				caps[b] = n
			}
		}
		k.CapBuckets = caps
		return err
	}
	if at, known := spans(k)[s.Key]; known {
		d, err := parseDuration(s.Value)
		if d == 0 {
			d = -1
		}
		*at = d
		return err
	}
	if at, known := numbers(k)[s.Key]; known {
		n, err := strconv.Atoi(s.Value)
		if n == 0 {
			n = -1
		}
		*at = n
		return err
	}
	return fmt.Errorf("there is no such setting%s", instead(s.Key, slices.Concat(slices.Collect(maps.Keys(spans(k))), slices.Collect(maps.Keys(numbers(k))))))
}

func spans(k *towline.Knobs) map[string]*time.Duration {
	return map[string]*time.Duration{
		"reconcile.interval": &k.ReconcileInterval, "relay.claim_ttl": &k.ClaimTTL, "relay.publish_timeout": &k.PublishTimeout,
		"relay.backoff_base": &k.BackoffBase, "relay.backoff_cap": &k.BackoffCap, "relay.redrive_after": &k.RedriveAfter,
		"relay.breaker_open": &k.BreakerOpen, "dispatch.countdown": &k.Countdown, "dispatch.stale": &k.Stale,
		"dispatch.never_started_after": &k.NeverStartedAfter, "plan.depth": &k.Depth, "plan.backfill_chunk": &k.BackfillChunk,
		"plan.backfill_chunk_work_item": &k.BackfillChunkWorkItem, "plan.heavy_window": &k.HeavyWindow,
		"plan.watermark_overlap": &k.WatermarkOverlap, "unit.lease": &k.Lease, "unit.max_lifetime": &k.MaxLifetime,
		"unit.expired_lease_retry_backoff": &k.ExpiredLeaseRetryBackoff, "rate_limit.max_wait": &k.RateLimitMaxWait,
		"rate_limit.default_wait": &k.RateLimitDefaultWait, "post_sync.redrive_after": &k.PostSyncRedriveAfter,
		"api.idempotency_ttl": &k.IdempotencyTTL, "clock.step_bound": &k.ClockStepBound, "shutdown.grace": &k.ShutdownGrace,
	}
}

func numbers(k *towline.Knobs) map[string]*int {
	return map[string]*int{
		"reconcile.repair_limit": &k.RepairLimit, "reconcile.scan_limit": &k.ScanLimit, "reconcile.page": &k.Page,
		"relay.batch": &k.RelayBatch, "relay.max_attempts": &k.MaxAttempts, "relay.drain_rate": &k.DrainRate,
		"relay.breaker_failures": &k.BreakerFailures, "cap.bucket": &k.CapBucket, "cap.run": &k.CapRun, "cap.engine": &k.CapEngine,
		"plan.max_units": &k.MaxUnits, "unit.expired_lease_max_retries": &k.ExpiredLeaseMaxRetries,
		"rate_limit.max_deferrals": &k.RateLimitMaxDeferrals, "handler.max_deliveries": &k.MaxDeliveries,
		"error.max_bytes": &k.ErrorMaxBytes,
	}
}

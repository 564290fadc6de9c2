package sim_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/provider"
	"github.com/towline-dev/towline/sim"
	"github.com/towline-dev/towline/sink"
)

// scenario is what a world is asked to do.
type scenario struct {
	name        string // empty: there is one of its kind
	seed        uint64
	syncs       []sim.Sync
	knobs       towline.Knobs
	broker      bool // messages go over a broker
	requests    []towline.RunSpec
	acts        []sim.Act
	submissions []sim.Submission
	topics      map[string]sim.Handler
	waits       time.Duration // at most, without a fault: for a retry that the provider causes, and for operators
	windows     []string      // rows of the crash table that its windows must hit
}

const goldenSeed = 8

const retryBackoff = 30 * time.Second

// whole exercises everything that a run can meet without a fault: two runs at once that share slots, reference units
// before work items, capped buckets that settles refill, a unit that renews its lease, one that fails and is tried again,
// a dataset whose lost workers are tried again and one whose lost workers fail, and a post_sync with two targets.
func whole() scenario {
	days := func(d int) time.Time { return sim.DefaultStart.Truncate(24*time.Hour).AddDate(0, 0, d) }
	retry := towline.Retry{
		Max: 1, Backoff: retryBackoff, On: []provider.Category{expiredLease, provider.Network},
	}
	return scenario{
		seed:  cmp.Or(*seed, goldenSeed),
		knobs: towline.Knobs{CapBucket: 2},
		waits: retryBackoff,
		syncs: []sim.Sync{
			{
				Sync: towline.Sync{
					Name: "weather", Provider: "stations", Sources: []string{"harbour", "ridge"},
					Datasets: []towline.Dataset{
						{Name: "places", Tier: towline.Reference, Cost: towline.Light, Snapshot: true},
						{Name: "readings", Window: towline.Day, Retry: retry},
					},
					PostSync: towline.PostSync{Targets: []towline.Target{{Name: "mart", SQL: "refresh mart"}, {Name: "search", SQL: "refresh search"}}},
				},
				Provider: provider.Func(flaky), Takes: slow,
			},
			{
				Sync: towline.Sync{
					Name: "traffic", Provider: "stations", Sources: []string{"pier"},
					Datasets: []towline.Dataset{
						{Name: "codes", Tier: towline.Reference, Cost: towline.Light, Retry: retry},
						{Name: "counts", Window: towline.Day, Depth: 24 * time.Hour},
					},
					PostSync: towline.PostSync{Targets: []towline.Target{{Name: "mart", SQL: "refresh mart"}, {Name: "search", SQL: "refresh search"}}},
				},
				Provider: provider.Func(copyRows),
			},
		},
		requests: []towline.RunSpec{
			{Sync: "weather", Mode: towline.Backfill, Since: days(-3), Before: days(-1), Key: "weather-1"},
			{Sync: "traffic", Key: "traffic-1"},
		},
	}
}

// small is one run of three units, for enumerations that multiply.
func small() scenario {
	s := whole()
	s.syncs = s.syncs[1:]
	s.requests = s.requests[1:]
	s.knobs.CapBucket = 1
	s.waits = 0
	return s
}

const expiredLease = provider.Category("expired_lease")

// copyRows writes rows that depend on the unit alone, so that every attempt writes the same.
func copyRows(ctx context.Context, u provider.Unit, s sink.Sink) (provider.Result, error) {
	const rows = 3
	for i := range rows {
		if err := s.Put(ctx, u.Dataset, fmt.Sprintf("%s-%d", u.Source, i), map[string]any{"of": u.Dataset, "n": i}); err != nil {
			return provider.Result{}, err
		}
	}
	return provider.Result{}, nil
}

var errLine = errors.New("the line is down")

// flaky is copyRows, but the first attempt of one unit fails in a way that the policy lists.
func flaky(ctx context.Context, u provider.Unit, s sink.Sink) (provider.Result, error) {
	if failsOnce(u.Source, u.Dataset, u.Window.Name()) && u.Attempt == 1 {
		return provider.Result{}, provider.Fail(provider.Network, errLine)
	}
	return copyRows(ctx, u, s)
}

func failsOnce(source, dataset, window string) bool {
	return source == "harbour" && dataset == "readings" && window == "2026-02-27"
}

// slow lets one unit work longer than half its lease, so that it must renew.
func slow(u provider.Unit) time.Duration {
	if u.Source == "ridge" && u.Dataset == "readings" && u.Window.Name() == "2026-02-28" {
		return 50 * time.Second
	}
	return time.Second
}

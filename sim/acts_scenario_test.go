package sim_test

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/provider"
	"github.com/towline-dev/towline/sim"
	"github.com/towline-dev/towline/sink"
	"github.com/towline-dev/towline/transport"
)

// The scenarios `acts` are what operators, applications, and providers that ask to wait do to runs. They are three, because
// windows are enumerated one by one, and a window costs as much as its scenario is long.
func acts() []scenario { return []scenario{holding(), stopping(), registering()} }

// How long an operator waits before a resume or a redrive, and a provider asks to wait.
const (
	operatorsPause = 20 * time.Second
	askedToWait    = 25 * time.Second
)

func day(d int) time.Time { return sim.DefaultStart.Truncate(24*time.Hour).AddDate(0, 0, d) }

func lostIsRetried() towline.Retry { return towline.Retry{Max: 3, Backoff: retryBackoff} }

func refresh(mode events.DeliveryMode, targets ...string) towline.PostSync {
	p := towline.PostSync{Mode: mode}
	for _, name := range targets {
		p.Targets = append(p.Targets, towline.Target{Name: name, SQL: "refresh " + name})
	}
	return p
}

// holding is what keeps units from being dispatched: the engine is paused and resumed, then a source, and the provider of
// the other source asks to wait once.
func holding() scenario {
	pauseEngine, resumeEngine := pausing("weather", "", afterOneSuccess)
	pauseSource, resumeSource := pausing("weather", "ridge", atWorkAgain("ridge"))
	return scenario{
		name: "holding", seed: cmp.Or(*seed, goldenSeed), knobs: towline.Knobs{CapBucket: 1},
		waits: 2 * operatorsPause, // within which the provider waits, too
		syncs: []sim.Sync{{
			Sync: towline.Sync{
				Name: "weather", Provider: "stations", Sources: []string{"harbour", "ridge"},
				Datasets: []towline.Dataset{{Name: "readings", Window: towline.Day, Retry: lostIsRetried()}},
			},
			Provider: provider.Func(limitedOnce),
		}},
		requests: []towline.RunSpec{{Sync: "weather", Mode: towline.Backfill, Since: day(-3), Before: day(-1), Key: "weather-1"}},
		acts:     []sim.Act{pauseEngine, resumeEngine, pauseSource, resumeSource},
		windows:  []string{"C-13", "C-28"},
	}
}

// stopping is what ends runs and units before their time, and begins them anew: of one run everything is cancelled while a
// unit is at work; of the other one unit is cancelled, one is taken from its worker, and one fails and is retried.
func stopping() scenario {
	pier := towline.Sync{
		Name: "traffic", Provider: "stations", Sources: []string{"pier"},
		Datasets: []towline.Dataset{{Name: "counts", Window: towline.Day, Retry: lostIsRetried()}},
	}
	tides := pier
	tides.Name, tides.Sources, tides.PostSync = "tides", []string{"buoy"}, refresh(towline.AtMostOnce, "mart")
	return scenario{
		name: "stopping", seed: cmp.Or(*seed, goldenSeed), knobs: towline.Knobs{CapBucket: 2},
		waits: retryBackoff,
		syncs: []sim.Sync{
			{Sync: pier, Provider: provider.Func(refusedOnce)},
			{Sync: tides, Provider: provider.Func(copyRows)},
		},
		requests: []towline.RunSpec{
			{Sync: "traffic", Mode: towline.Backfill, Since: day(-4), Before: day(-1), Key: "traffic-1"},
			{Sync: "tides", Mode: towline.Backfill, Since: day(-3), Before: day(-1), Key: "tides-1"},
		},
		acts: []sim.Act{
			cancellingRun("tides"), cancellingUnit("traffic", day(-4)), releasing("traffic", day(-3)), retrying("traffic"), resolving(),
		},
		windows: []string{"C-13", "C-22", "C-23", "C-24", "C-28", "C-32"},
	}
}

// registering is what an operator does to registers, and an application to the store: a dispatch, a finalize and a message
// are parked and redriven, a post_sync in exactly_once mode has two targets, and of three messages one fails once and one
// is refused.
func registering() scenario {
	parkDispatch, redriveDispatch := parking("stock", events.KindDispatch)
	parkFinalize, redriveFinalize := parking("stock", events.KindFinalize)
	parkMessage, redriveMessage := parkingMessage("orders", "parked")
	return scenario{
		name: "registering", seed: cmp.Or(*seed, goldenSeed), knobs: towline.Knobs{CapBucket: 1},
		waits: 2 * operatorsPause, // of the dispatch, beside that of the message, and of the finalize
		syncs: []sim.Sync{{
			Sync: towline.Sync{
				Name: "stock", Provider: "shops", Sources: []string{"market"},
				Datasets: []towline.Dataset{{Name: "items", Window: towline.Day, Retry: lostIsRetried()}},
				PostSync: refresh(towline.ExactlyOnce, "mart", "search"),
			},
			Provider: provider.Func(copyRows),
		}},
		requests: []towline.RunSpec{{Sync: "stock", Mode: towline.Backfill, Since: day(-2), Before: day(-1), Key: "stock-1"}},
		acts:     []sim.Act{parkDispatch, redriveDispatch, parkFinalize, redriveFinalize, parkMessage, redriveMessage},
		submissions: []sim.Submission{
			{Topic: "orders", Key: "parked", Payload: `{"order":1}`, AvailableAt: sim.DefaultStart.Add(operatorsPause / 2)},
			{Topic: "orders", Key: "unlucky", Payload: `{"order":2}`},
			{Topic: "letters", Key: "refused", Payload: `"nobody reads this"`},
		},
		topics:  map[string]sim.Handler{"orders": unluckyOnce},
		windows: []string{"C-13", "C-25", "C-33", "C-34", "C-35", "C-36", "C-40"},
	}
}

var errNotNow = errors.New("not now")

// limitedOnce is copyRows, but the provider asks to wait at its first call for one unit.
func limitedOnce(ctx context.Context, u provider.Unit, s sink.Sink) (provider.Result, error) {
	if u.Source == "harbour" && u.Window.Name() == day(-2).Format(time.DateOnly) && sim.Try(ctx) == 1 {
		return provider.Result{}, provider.RateLimited(askedToWait, errNotNow)
	}
	return copyRows(ctx, u, s)
}

// refusedOnce is copyRows, but the provider refuses its first call for one unit, and that is not tried again by itself.
func refusedOnce(ctx context.Context, u provider.Unit, s sink.Sink) (provider.Result, error) {
	if u.Window.Name() == day(-2).Format(time.DateOnly) && sim.Try(ctx) == 1 {
		return provider.Result{}, provider.Fail(provider.Auth, errNotNow)
	}
	return copyRows(ctx, u, s)
}

// unluckyOnce fails at the first delivery of one message. Its row is undone with it.
func unluckyOnce(ctx context.Context, m *message.Message) error {
	if m.Metadata.Get(events.MetadataKey) == "unlucky" && transport.Delivery(ctx) == 1 {
		return errNotNow
	}
	return nil
}

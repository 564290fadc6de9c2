package crash

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/projections"
	"github.com/towline-dev/towline/provider"
	"github.com/towline-dev/towline/sim"
	"github.com/towline-dev/towline/sink"
)

// newspaper is a real run, made by the simulator: a reference unit before others, a unit that fails and is tried again, one
// that is told to wait, one whose lost worker fails it, a post_sync with two targets, a source that is paused and resumed,
// and a message of an application. Its second process recovers from the death of the first.
type newspaper struct {
	mode  events.DeliveryMode
	kills []int
	plain bool // no operator and no message
	nodes int  // that share the store and a broker; 0: one has both for itself
}

func (p newspaper) sync() sim.Sync {
	retry := towline.Retry{Max: 2, Backoff: 20 * time.Second, On: []provider.Category{provider.Network}}
	return sim.Sync{
		Sync: towline.Sync{
			Name: "paper", Provider: "press", Sources: []string{"north"},
			Datasets: []towline.Dataset{
				{Name: "desks", Tier: towline.Reference, Cost: towline.Light, Retry: retry},
				{Name: "articles", Window: towline.Day, Depth: 48 * time.Hour, Retry: retry},
				{Name: "letters", Cost: towline.Light},
			},
			PostSync: towline.PostSync{Mode: p.mode, Targets: []towline.Target{{Name: "mart", SQL: "refresh"}, {Name: "search", SQL: "index"}}},
		},
		Provider: provider.Func(press),
	}
}

// press is what the provider of a newspaper does.
func press(ctx context.Context, u provider.Unit, s sink.Sink) (provider.Result, error) {
	first := sim.Try(ctx) == 1
	switch {
	case u.Dataset == "desks" && first:
		return provider.Result{}, provider.Fail(provider.Network, errors.New("the line is down"))
	case u.Dataset == "articles" && first && u.Window.Name() == "2026-03-01":
		return provider.Result{}, provider.RateLimited(30*time.Second, errors.New("slow down"))
	}
	for i := range 3 {
		if err := s.Put(ctx, u.Dataset, string(rune('a'+i)), map[string]int{"n": i}); err != nil {
			return provider.Result{}, err
		}
	}
	return provider.Result{}, nil
}

// print makes the run, and returns its store.
func (p newspaper) print(t *testing.T) string {
	t.Helper()
	ctx := context.Background()
	path := filepath.Join(t.TempDir(), "towline.db")
	c := sim.Config{Store: path, Seed: 5, Syncs: []sim.Sync{p.sync()}, Kills: p.kills, Knobs: towline.Knobs{CapBucket: 1}, Nodes: p.nodes, Broker: p.nodes > 0}
	if !p.plain {
		c.Messages = map[string]sim.Handler{"mail": func(context.Context, *message.Message) error { return nil }}
	}
	w := sim.New(c)
	w.Request(towline.RunSpec{Sync: "paper", Key: "monday"})
	if !p.plain {
		w.Submit(sim.Submission{Topic: "mail", Key: "secret-key", Payload: `{"to":"nobody"}`})
		w.Act(pauses()...)
	}
	require.NoError(t, w.Run(ctx))
	require.NoError(t, w.Bury())
	return path
}

// pauses are an operator who pauses a source when its first unit has begun, and resumes it a minute later.
func pauses() []sim.Act {
	by := towline.Actor{Name: "ada", Reason: "maintenance"}
	return []sim.Act{
		{Name: "pause", Look: func(v projections.View, _ events.Micros) (sim.Move, error) {
			runs, err := v.OpenRuns(events.RunID{}, 1)
			if err != nil || len(runs) == 0 {
				return sim.Move{}, err
			}
			paused, err := v.Paused()
			if len(paused) > 0 {
				return sim.Move{Over: true}, err
			}
			return sim.Move{Do: func(ctx context.Context, e *towline.Engine) error { return e.PauseSource(ctx, "north", by) }}, err
		}},
		{Name: "resume", Standing: true, Look: func(v projections.View, now events.Micros) (sim.Move, error) {
			paused, err := v.Paused()
			if err != nil || len(paused) == 0 {
				return sim.Move{}, err
			}
			at := events.MicrosOf(paused[0].Since.Add(time.Minute))
			if now < at {
				return sim.Move{At: at}, nil
			}
			return sim.Move{Do: func(ctx context.Context, e *towline.Engine) error { return e.ResumeSource(ctx, "north", by) }}, nil
		}},
	}
}

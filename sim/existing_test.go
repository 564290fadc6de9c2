package sim_test

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/sim"
)

// C-2, N-4: a world that knows nothing but a store goes on with what it finds there, and calls it by its names.
func TestAWorldBeginsOnALog(t *testing.T) {
	ctx := context.Background()
	s := small()
	path := filepath.Join(t.TempDir(), "towline.db")
	first := sim.New(sim.Config{Store: path, Seed: s.seed, Syncs: s.syncs, Knobs: s.knobs, Kills: []int{30}})
	first.Request(s.requests...)
	require.ErrorIs(t, first.Live(ctx), sim.ErrDead)
	at := first.Now()
	require.NoError(t, first.Bury())

	next := sim.New(sim.Config{Store: path, Seed: s.seed, Start: at.Time(), Syncs: s.syncs, Knobs: s.knobs})
	require.NoError(t, next.Run(ctx))
	var label []string
	for _, b := range next.Lives()[0].Boundaries {
		label = append(label, b.Label())
	}
	require.Contains(t, strings.Join(label, "\n"), "RunFinalized(traffic)")
	names := sim.NewNames()
	log, err := next.Log(ctx)
	require.NoError(t, err)
	names.Commit(log)
	for _, env := range log {
		if id, ok := env.Stream.Unit(); ok {
			require.Contains(t, names.Unit(id), "traffic ")
		}
		if id, ok := env.Stream.Run(); ok {
			require.Equal(t, "traffic", names.Run(id))
			require.Equal(t, "traffic post_sync.1", names.Wakeup(id, events.KindPostSync, 1))
		}
	}
	require.NoError(t, next.Bury())
}

// K-9, HP-4: the message of a target that names a broker goes there, and nobody here handles it.
func TestTheMessageOfATargetGoesStraight(t *testing.T) {
	ctx := context.Background()
	s := small()
	s.syncs[0].PostSync.Targets = []towline.Target{{Name: "others", Transport: "elsewhere"}}
	w := sim.New(sim.Config{Store: filepath.Join(t.TempDir(), "towline.db"), Seed: s.seed, Syncs: s.syncs, Knobs: s.knobs})
	w.Request(s.requests...)
	require.NoError(t, w.Run(ctx))
	sent := 0
	for _, p := range w.Outside().Published {
		if p.Kind == events.KindPostSync {
			sent++
			require.Equal(t, "others", p.Target)
		}
	}
	require.Equal(t, 1, sent)
	require.Empty(t, w.Outside().Destination.Effects())
	log, err := w.Log(ctx)
	require.NoError(t, err)
	for _, env := range log {
		require.NotEqual(t, events.TypePostSyncStarted, env.Event.EventType())
	}
	require.NoError(t, w.Bury())
}

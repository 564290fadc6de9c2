package replay_test

import (
	"bytes"
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/provider"
	"github.com/towline-dev/towline/replay"
	"github.com/towline-dev/towline/sim"
	"github.com/towline-dev/towline/sink"
)

// The size of a page and the time that it takes, for 10 units and for 1,000, with a death in the middle and some failures:
// as usual, and with everything. HTML quotes them.
//
//	go test ./replay -run '^$' -bench Page -benchtime 1x
func BenchmarkPage(b *testing.B) {
	for _, world := range []struct {
		name string
		days int
	}{{"10 units", 5}, {"1000 units", 500}} {
		path := filepath.Join(b.TempDir(), "towline.db")
		playBackfill(b, path, world.days)
		s, run := only(b, path)
		for name, o := range map[string]replay.HTMLOptions{"usual": {}, "everything": {Units: 1000, Steps: 1e6}} {
			b.Run(world.name+"/"+name, func(b *testing.B) {
				var page bytes.Buffer
				for b.Loop() {
					page.Reset()
					require.NoError(b, replay.HTML(b.Context(), &page, history(b, s, 0, run), o))
				}
				b.ReportMetric(float64(page.Len()), "bytes")
				b.ReportMetric(float64(bytes.Count(page.Bytes(), []byte(`<li class="step`))), "steps")
			})
		}
	}
}

// playBackfill makes the store of a run of two units for each day.
func playBackfill(tb testing.TB, path string, days int) {
	tb.Helper()
	n := 0
	sync := sim.Sync{
		Sync: towline.Sync{
			Name: "weather", Provider: "stations", Sources: []string{"harbour", "ridge"},
			Datasets: []towline.Dataset{
				{Name: "readings", Window: towline.Day, Retry: towline.Retry{Max: 2, Backoff: 30 * time.Second, On: []provider.Category{provider.Network}}},
			},
		},
		Provider: provider.Func(func(context.Context, provider.Unit, sink.Sink) (provider.Result, error) {
			switch n++; {
			case n%97 == 0:
				return provider.Result{}, provider.Fail(provider.Network, errors.New("the line is down"))
			case n%301 == 0:
				return provider.Result{}, provider.Fail(provider.Auth, errors.New("the door is shut"))
			}
			return provider.Result{Rows: 1}, nil
		}),
		Takes: func(u provider.Unit) time.Duration {
			return time.Second + time.Duration(u.Window.From.Day())*100*time.Millisecond
		},
	}
	w := sim.New(sim.Config{Store: path, Seed: 1, Kills: []int{days * 10}, Knobs: towline.Knobs{MaxUnits: 2000, CapBucket: 8}, Syncs: []sim.Sync{sync}})
	today := sim.DefaultStart.Truncate(24 * time.Hour)
	w.Request(towline.RunSpec{Sync: "weather", Mode: towline.Backfill, Since: today.AddDate(0, 0, -days), Before: today})
	require.NoError(tb, w.Run(context.Background()))
	require.NoError(tb, w.Bury())
}

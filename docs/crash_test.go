package docs_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/crash"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/provider"
	"github.com/towline-dev/towline/sim"
	"github.com/towline-dev/towline/sink"
)

// What OPERATING.md says of crash windows is done as it says.
func TestACrashWindowIsPlayedAgain(t *testing.T) {
	ctx := context.Background()
	t.Chdir(t.TempDir())
	store := filepath.Join(t.TempDir(), "towline.db")
	w := sim.New(sim.Config{Store: store, Seed: 1, Syncs: []sim.Sync{{
		Sync: towline.Sync{Name: "s", Provider: "p", Sources: []string{"a"}, Datasets: []towline.Dataset{{Name: "d"}}},
		Provider: provider.Func(func(context.Context, provider.Unit, sink.Sink) (provider.Result, error) {
			return provider.Result{}, nil
		}),
	}}})
	w.Request(towline.RunSpec{Sync: "s", Key: "k"})
	require.NoError(t, w.Run(ctx))
	var run events.RunID
	log, err := w.Log(ctx)
	require.NoError(t, err)
	for _, env := range log {
		if id, ok := env.Stream.Run(); ok {
			run = id
		}
	}
	require.NoError(t, w.Bury())
	require.NoError(t, dieEverywhere(ctx, store, run))
	require.NoFileExists(t, "defect.case", "nothing ends badly")

	o := crash.Options{Store: store}
	m, err := crash.MakeMatrix(ctx, o)
	require.NoError(t, err)
	c, err := crash.MakeCase(ctx, o, m.Rows[5])
	require.NoError(t, err)
	f, err := os.Create("good.case")
	require.NoError(t, err)
	require.NoError(t, c.Write(f))
	require.NoError(t, f.Close())
	require.NoError(t, playAgain(ctx, "good.case"))
}

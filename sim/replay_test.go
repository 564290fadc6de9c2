package sim_test

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/projections"
	"github.com/towline-dev/towline/sim"
	"github.com/towline-dev/towline/store"
	"github.com/towline-dev/towline/store/sqlite"
)

// I-31, G-20, SC-362: recovery is replay. At every crash the store is copied three times; one copy keeps its views, two
// lose them. Opened with the same clock and entropy and driven by the same chances, all three go on byte for byte alike,
// and end with the same views.
func TestRecoveryIsReplayOfTheLog(t *testing.T) {
	b := measure(t, whole())
	enumerate(t, "crash windows, replayed without views", len(b.boundaries), sample*thin(), func(v *verdict, i int) {
		at := b.boundaries[i]
		if *window != 0 && at.N != *window {
			v.left = true
			return
		}
		v.name = fmt.Sprintf("crash at %s, seed %d: go test ./sim -run TestRecoveryIsReplayOfTheLog -seed %[2]d -window %[3]d", at, b.scenario.seed, at.N)
		ctx := context.Background()
		w := b.world(v, at.N)
		require.ErrorIs(v, w.Live(ctx), sim.ErrDead)
		require.NoError(v, w.Bury())

		copies := make([]*sim.World, 3)
		for n := range copies {
			var err error
			copies[n], err = w.Fork(filepath.Join(v.dir, fmt.Sprintf("copy%d.db", n)))
			require.NoError(v, err)
			v.bury(copies[n])
		}
		dropViews(v, filepath.Join(v.dir, "copy1.db"), filepath.Join(v.dir, "copy2.db"))

		var kept future
		for n, copied := range copies {
			v.ended(copied.Run(ctx))
			got := look(v, copied)
			require.NoError(v, copied.Bury())
			if n == 0 {
				kept = got
				continue
			}
			for p := range min(len(kept.log), len(got.log)) {
				require.Equal(v, kept.log[p], got.log[p], "I-31: row %d of the log, in copy %d that lost its views", p+1, n)
			}
			require.Len(v, got.log, len(kept.log), "I-31: events in copy %d that lost its views", n)
			require.Equal(v, kept.views, got.views, "L-8: views of copy %d that lost them", n)
		}
		require.Greater(v, len(kept.log), int(w.Crashes()[0].Head))
	})
}

// future is what a store has come to.
type future struct {
	log   []string                    // raw rows, all columns
	views map[string]projections.Page // every table, whole
}

func look(v *verdict, w *sim.World) (f future) {
	err := w.Read(context.Background(), func(r store.Reader) (err error) {
		err = r.Query(func(row store.Row) error {
			var s string
			err := row.Scan(&s)
			f.log = append(f.log, s)
			return err
		}, `SELECT concat_ws(' ', position, tx, hex(stream), version, at, type, schema, quote(actor), quote(command),
			quote(cause), quote(node), data) FROM events ORDER BY position`)
		if err != nil {
			return err
		}
		f.views = map[string]projections.Page{}
		for _, t := range projections.Tables() {
			if f.views[t.Name], err = projections.ReadPage(r, t, nil, math.MaxInt32); err != nil {
				return err
			}
		}
		return nil
	})
	require.NoError(v, err)
	return f
}

// dropViews takes the views out of a store, and puts a copy of it into the place of another.
func dropViews(v *verdict, path, other string) {
	ctx := context.Background()
	s, err := sqlite.Open(ctx, path, sqlite.Options{Synchronous: "normal", Inline: true})
	require.NoError(v, err)
	require.NoError(v, s.Write(ctx, func(tx store.Tx) error { return projections.Drop(tx) }))
	require.NoError(v, s.Close())
	data, err := os.ReadFile(path)
	require.NoError(v, err)
	require.NoError(v, os.WriteFile(other, data, 0o644))
}

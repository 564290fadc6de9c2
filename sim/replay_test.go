package sim_test

import (
	"context"
	"fmt"
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
	enumerate(t, len(b.boundaries), sample, func(v *verdict, i int, dir string) {
		at := b.boundaries[i]
		if *window != 0 && at.N != *window {
			return
		}
		v.dir = dir
		v.name = fmt.Sprintf("crash at %s, seed %d: go test ./sim -run TestRecoveryIsReplayOfTheLog -seed %[2]d -window %[3]d", at, b.scenario.seed, at.N)
		ctx := context.Background()
		w := b.world(v, dir, at.N)
		require.ErrorIs(v, w.Live(ctx), sim.ErrDead)
		require.NoError(v, w.Bury())

		var kept future
		for n, drop := range []bool{false, true, true} {
			path := filepath.Join(dir, fmt.Sprintf("copy%d.db", n))
			copied, err := w.Fork(path)
			require.NoError(v, err)
			if drop {
				dropViews(v, path)
			}
			require.NoError(v, copied.Run(ctx))
			got := look(v, copied)
			require.NoError(v, copied.Bury())
			if n == 0 {
				kept = got
				continue
			}
			for p := range min(len(kept.log), len(got.log)) {
				require.Equal(v, kept.log[p], got.log[p], "I-31: row %d of the log, without views %v", p, drop)
			}
			require.Len(v, got.log, len(kept.log), "I-31: events, without views %v", drop)
			require.Empty(v, kept.views.Compare(got.views), "L-8: the views")
		}
		require.Greater(v, len(kept.log), int(w.Crashes()[0].Head))
	})
}

// future is what a store has come to.
type future struct {
	log   []string // raw rows, all columns
	views projections.Rows
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
		f.views, err = projections.HashRows(r)
		return err
	})
	require.NoError(v, err)
	return f
}

func dropViews(v *verdict, path string) {
	ctx := context.Background()
	s, err := sqlite.Open(ctx, path, sqlite.Options{Synchronous: "normal", Inline: true})
	require.NoError(v, err)
	require.NoError(v, s.Write(ctx, func(tx store.Tx) error { return projections.Drop(tx) }))
	require.NoError(v, s.Close())
}

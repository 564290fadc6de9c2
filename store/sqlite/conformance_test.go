package sqlite_test

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/store"
	"github.com/towline-dev/towline/store/sqlite"
	"github.com/towline-dev/towline/store/storetest"
)

func TestConformance(t *testing.T) {
	for name, o := range map[string]sqlite.Options{"exclusive": {}, "shared": {Shared: true}} {
		t.Run(name, func(t *testing.T) {
			storetest.Run(t, func(t *testing.T, so storetest.Options) store.Store {
				o.Now = so.Now
				s, err := sqlite.Open(context.Background(), filepath.Join(so.Dir, "towline.db"), o)
				require.NoError(t, err)
				return s
			})
		})
	}
}

package providertest_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/provider"
	"github.com/towline-dev/towline/provider/providertest"
	"github.com/towline-dev/towline/sink"
)

// RW-6: the sink of a test refuses what a real one refuses, and keeps the rest in order.
func TestSink(t *testing.T) {
	s := providertest.NewSink(provider.Unit{Surfaces: []string{"readings"}})
	ctx, cancel := context.WithCancel(context.Background())
	require.NoError(t, s.Put(ctx, "readings", "a", map[string]int{"v": 1}))
	require.ErrorIs(t, s.Put(ctx, "secrets", "a", nil), sink.ErrUndeclared)
	full := errors.New("disk full")
	s.Fail = func(providertest.Row) error { return full }
	require.ErrorIs(t, s.Put(ctx, "readings", "b", nil), full)
	cancel()
	require.ErrorIs(t, s.Put(ctx, "readings", "c", nil), context.Canceled)
	s.Progress(1, 2)
	s.State(json.RawMessage(`1`))
	require.Equal(t, []providertest.Row{{Surface: "readings", Key: "a", JSON: `{"v":1}`}}, s.Rows())
	require.Equal(t, []providertest.Progress{{Done: 1, Total: 2}}, s.Reports())
	require.JSONEq(t, `1`, string(s.Left()))
}

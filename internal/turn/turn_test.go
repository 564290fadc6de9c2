package turn

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// DUR-3, HC-10: one has the turn at a time. Who waits in vain says so and may try again; what he has left behind keeps nobody.
func TestOneHasTheTurnAtATime(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f-turn")
	first, second := At(path, time.Minute), At(path, 10*time.Millisecond)
	require.NoError(t, first.During(func() error {
		for range 3 {
			require.ErrorIs(t, second.During(func() error { panic("it is not its turn") }), ErrTaken)
		}
		return nil
	}))
	third := At(path, time.Minute)
	for range 3 {
		ran := 0
		require.NoError(t, third.During(func() error { ran++; return nil }))
		require.Equal(t, 1, ran)
	}
	for _, x := range []*Turn{first, second, third, nil} {
		x.Close()
	}
	require.NoError(t, (*Turn)(nil).During(func() error { return nil }), "where nobody else writes it is always ours")
}

package node_test

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/node"
)

// N-6: a stop that comes with the start is a clean stop, and does not wait for handlers that never ran.
func TestAStopThatComesWithTheStart(t *testing.T) {
	n, err := node.Open(t.Context(), node.Config{Store: filepath.Join(t.TempDir(), "towline.db")})
	require.NoError(t, err)
	stopped, stop := context.WithCancel(t.Context())
	stop()
	start := time.Now()
	require.NoError(t, n.Run(stopped))
	require.Less(t, time.Since(start), 30*time.Second)
}

package node_test

import (
	"context"
	"errors"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/node"
	"github.com/towline-dev/towline/provider"
)

// starter is a provider that has something to clear up.
type starter struct {
	provider.Func
	start func(context.Context) error
}

func (s starter) Start(ctx context.Context) error { return s.start(ctx) }

// EX-7, N-2, N-4: a provider starts when the store is held, so that nobody else is at work on it, and before anything may be
// claimed. If it cannot, the process does not start, and lets go of the store.
func TestAProviderStartsBeforeAnythingIsClaimed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "towline.db")
	errPlanted := errors.New("planted")
	s := works(nothingToDo)
	var held error
	s.Provider = starter{nothingToDo, func(ctx context.Context) error {
		_, held = node.Open(ctx, node.Config{Store: path, Logger: quiet()})
		return errPlanted
	}}
	_, err := node.Open(t.Context(), node.Config{Store: path, Syncs: []node.Sync{s}, Logger: quiet()})
	require.ErrorIs(t, err, errPlanted)
	require.ErrorContains(t, err, `sync "days": start of its provider: planted`)
	require.Error(t, held, "another process may not have the store")

	calls := 0
	s.Provider = starter{nothingToDo, func(context.Context) error { calls++; return nil }}
	n := open(t, node.Config{Store: path, Syncs: []node.Sync{s}})
	require.Equal(t, 1, calls)
	require.NoError(t, n.Close())
}

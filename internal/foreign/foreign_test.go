package foreign_test

import (
	"errors"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/internal/foreign"
)

// HU-6, HC-11: whatever the code does, its caller goes on and knows what has happened.
func TestTheCallerGoesOn(t *testing.T) {
	itself := func(err error) error { return err }
	mine := errors.New("mine")
	require.NoError(t, foreign.Call(func() error { return nil }, itself))
	require.Equal(t, mine, foreign.Call(func() error { return mine }, itself))
	require.ErrorIs(t, foreign.Call(func() error { runtime.Goexit(); return nil }, itself), foreign.ErrGone)
	err := foreign.Call(func() error { panic(mine) }, itself)
	panicked, ok := errors.AsType[*foreign.PanicError](err)
	require.True(t, ok)
	require.Equal(t, mine, panicked.Value)
	require.EqualError(t, err, "panic: mine")
}

package sqlite

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/store"
)

// DUR-1: whatever a caller was told is on disk, is, when the process is killed in the middle of its next commits.
func TestWhatWasAcknowledgedSurvivesAKill(t *testing.T) {
	path := filepath.Join(t.TempDir(), "towline.db")
	acknowledged := 0
	for _, more := range []int{1, 50, 200} {
		c := start(t, "write", path)
		for n := range more {
			require.Equal(t, strconv.Itoa(n+1), c.line(t))
		}
		c.kill(t)
		acknowledged += c.drain(t, more)
		s := open(t, path, Options{})
		log := readAll(t, s)
		require.GreaterOrEqual(t, len(log), acknowledged)
		require.LessOrEqual(t, len(log), acknowledged+1, "one may have been on its way")
		acknowledged = len(log)
		var check string
		require.NoError(t, s.DB().QueryRow(`PRAGMA integrity_check`).Scan(&check))
		require.Equal(t, "ok", check)
		require.NoError(t, s.Close())
	}
}

// HC-41: a process that is killed while it makes a store leaves one that the next process finishes.
func TestAKillDuringSetup(t *testing.T) {
	for range 10 {
		path := filepath.Join(t.TempDir(), "towline.db")
		c := start(t, "open", path)
		for { // until it has begun
			if _, err := os.Stat(path); err == nil {
				break
			}
			runtime.Gosched()
		}
		c.kill(t)
		_ = c.cmd.Wait()
		s := open(t, path, Options{})
		require.NoError(t, appendNext(s, 1))
		require.NoError(t, s.Close())
	}
}

// HC-41: the same, at the two places where it can stand half done.
func TestHalfMadeStores(t *testing.T) {
	stamped := filepath.Join(t.TempDir(), "stamped.db")
	_, err := stamp(context.Background(), dsn{path: stamped, busyTimeout: busyTimeout})
	require.NoError(t, err)
	empty := filepath.Join(t.TempDir(), "empty.db")
	require.NoError(t, os.WriteFile(empty, nil, 0o644))
	for _, path := range []string{stamped, empty} {
		s := open(t, path, Options{})
		require.NoError(t, s.Write(context.Background(), appendTo(unit(1), 0, renewed(1))))
		require.Equal(t, newestLevel, s.Level())
	}
}

// HC-10: while another program has the write lock, Write waits, and then says that the store is unavailable. Nothing
// is lost or stuck by it: when the lock is free the next one succeeds.
func TestAnotherProgramHoldsTheWriteLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "towline.db")
	s := open(t, path, Options{busyTimeout: 50})
	require.NoError(t, appendNext(s, 0))
	other := start(t, "lock", path)
	require.Equal(t, "ready", other.line(t))
	for range 3 {
		require.ErrorIs(t, appendNext(s, 1), store.ErrUnavailable)
	}
	require.Len(t, readAll(t, s), 1, "a read does not wait")
	_, ok := other.end(t)
	require.True(t, ok)
	require.NoError(t, appendNext(s, 1))
	require.Len(t, readAll(t, s), 2)
}

// HC-03, HC-10: a lock that is given back in time costs a wait and no more.
func TestAShortLockIsWaitedFor(t *testing.T) {
	path := filepath.Join(t.TempDir(), "towline.db")
	s := open(t, path, Options{})
	other := start(t, "lock", path)
	require.Equal(t, "ready", other.line(t))
	ctx, cancel := context.WithCancel(context.Background())
	stays, leaves := make(chan error, 1), make(chan error, 1)
	go func() { stays <- appendNext(s, 1) }()
	awaitQueued(s, 1) // a commit takes nobody before it has the lock
	go func() { leaves <- s.Write(ctx, appendTo(unit(2), 0, renewed(1))) }()
	awaitQueued(s, 2)
	cancel()
	require.ErrorIs(t, <-leaves, context.Canceled)
	_, ok := other.end(t)
	require.True(t, ok)
	require.NoError(t, <-stays)
	require.Len(t, readAll(t, s), 1)
}

func awaitQueued(s *Store, n int) {
	for s.Queued() != n {
		runtime.Gosched()
	}
}

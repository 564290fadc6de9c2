package sqlite

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/internal/turn"
	"github.com/towline-dev/towline/store"
)

// N-2: exclusive mode has the store for itself; shared mode has it with others in shared mode. A refusal says who and
// what to do. A process that died holds nothing.
func TestModesOfTwoProcesses(t *testing.T) {
	for name, tt := range map[string]struct {
		first, second string
		fits          bool
	}{
		"exclusive and exclusive": {"open", "open", false},
		"exclusive and shared":    {"open", "open-shared", false},
		"shared and exclusive":    {"open-shared", "open", false},
		"shared and shared":       {"open-shared", "open-shared", true},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "towline.db")
			first := start(t, tt.first, path)
			require.Equal(t, "ready", first.line(t))
			second := start(t, tt.second, path)
			got := second.line(t)
			if tt.fits {
				require.Equal(t, "ready", got)
				_, ok := second.end(t)
				require.True(t, ok)
			} else {
				require.Contains(t, got, store.ErrLocked.Error())
				require.Contains(t, got, path)
				require.Contains(t, got, "shared mode")
			}
			first.kill(t)
			require.Error(t, first.cmd.Wait())
			s := open(t, path, Options{})
			require.True(t, s.Exclusive())
		})
	}
}

// N-2: also within one process, and by whatever name the file is called.
func TestOneProcessOpensAStoreOnce(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "towline.db")
	s := open(t, path, Options{})
	link := filepath.Join(t.TempDir(), "link.db")
	require.NoError(t, os.Symlink(path, link))
	for _, name := range []string{path, link} {
		for _, o := range []Options{{}, {Shared: true}} {
			_, err := Open(context.Background(), name, o)
			require.ErrorIs(t, err, store.ErrLocked)
			require.ErrorContains(t, err, "in this process already")
			require.NotContains(t, err.Error(), "another process", "which contradicts that")
		}
	}
	require.NoError(t, s.Write(context.Background(), appendTo(unit(1), 0, renewed(1))), "the attempts cost it nothing")
	require.NoError(t, s.Close())
	again := open(t, link, Options{Shared: true})
	require.False(t, again.Exclusive())
	require.Equal(t, s.Path(), again.Path())
	_, err := Open(context.Background(), path, Options{})
	require.ErrorIs(t, err, store.ErrLocked)
	require.NotContains(t, err.Error(), "in process", "nobody holds it alone")
}

// HC-41: processes that start on a missing file at the same moment all succeed; it is made and migrated once.
func TestManyProcessesStartOnAFreshFile(t *testing.T) {
	rounds, processes := 20, 6
	if testing.Short() {
		rounds = 3
	}
	files, err := fs.Glob(migrations, "migrations/*.sql")
	require.NoError(t, err)
	for range rounds {
		path := filepath.Join(t.TempDir(), "towline.db")
		var all []*child
		for range processes {
			all = append(all, start(t, "once", path))
		}
		for _, c := range all {
			rest, ok := c.end(t)
			require.True(t, ok, rest)
		}
		s := open(t, path, Options{})
		require.Len(t, readAll(t, s), processes)
		var applied, types int
		require.NoError(t, s.DB().QueryRow(`SELECT count(*) FROM schema_migrations WHERE version_id > 0`).Scan(&applied))
		require.NoError(t, s.DB().QueryRow(`SELECT count(*) FROM event_types`).Scan(&types))
		require.Equal(t, len(files), applied, "each once")
		require.Equal(t, len(events.Types()), types)
		require.Equal(t, newestLevel, s.Level())
		require.NoError(t, s.Close())
	}
}

// HC-41: whoever sets a store up keeps the others out, and they do not wait for ever.
func TestSetupIsWaitedFor(t *testing.T) {
	path := filepath.Join(t.TempDir(), "towline.db")
	setup, err := lockForSetup(context.Background(), path)
	require.NoError(t, err)
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	_, err = Open(gone, path, Options{})
	require.ErrorIs(t, err, context.Canceled)
	opened := make(chan *Store, 1)
	go func() {
		s, err := Open(context.Background(), path, Options{})
		if err != nil {
			t.Error(err)
		}
		opened <- s
	}()
	require.NoError(t, setup.release())
	require.NoError(t, (<-opened).Close())
}

// HC-10, HC-57: processes in shared mode append to the same stream; each sees what the others did, and none loses
// an event or is told that the file is busy.
func TestProcessesShareALog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "towline.db")
	s := open(t, path, Options{Shared: true})
	require.NoError(t, s.Write(context.Background(), appendTo(unit(1), 0, renewed(0))))
	var all []*child
	for range 3 {
		all = append(all, start(t, "race", path))
	}
	for n := range 100 {
		require.NoError(t, appendNext(s, n))
	}
	for _, c := range all {
		rest, ok := c.end(t)
		require.True(t, ok, rest)
	}
	require.Len(t, readAll(t, s), 401)
	// What this store remembers of the stream is not what it last did to it.
	err := s.Write(context.Background(), appendTo(unit(1), 100, renewed(0)))
	var conflict *store.ConflictError
	require.ErrorAs(t, err, &conflict)
	require.EqualValues(t, 401, conflict.Actual)
}

// HC-10: a process that has the turn and does not go on makes the store unavailable to the others, and no more: when
// it goes on, or dies, so do they.
func TestATurnThatDoesNotEnd(t *testing.T) {
	path := filepath.Join(t.TempDir(), "towline.db")
	s := open(t, path, Options{Shared: true, busyTimeout: 50})
	require.NoError(t, appendNext(s, 0))
	stuck := turn.At(s.Path()+"-turn", time.Minute)
	require.NoError(t, stuck.During(func() error {
		for range 3 {
			require.ErrorIs(t, appendNext(s, 1), store.ErrUnavailable)
		}
		return nil
	}))
	require.NoError(t, appendNext(s, 1))
	require.NoError(t, appendNext(s, 2))
	stuck.Close()
	require.Len(t, readAll(t, s), 3)
}

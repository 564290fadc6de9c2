package sqlite_test

import (
	"context"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/store"
	"github.com/towline-dev/towline/store/sqlite"
)

func appendOne(s *sqlite.Store, id events.RunID) error {
	return s.Write(context.Background(), func(tx store.Tx) error {
		_, err := tx.Append(events.RunStream(id), 0, events.Meta{}, events.RunFinalized{Status: events.RunSucceeded})
		return err
	})
}

// L-1, DUR-1, N-2: nothing is acknowledged any more once the file, its WAL or its lock has gone from its place: it would be
// gone with the process, or stand beside what another one writes.
func TestAFileThatIsTakenAwayIsNotWrittenOn(t *testing.T) {
	for name, take := range map[string]func(t *testing.T, path string) error{
		"deleted":          func(_ *testing.T, path string) error { return os.Remove(path) },
		"moved":            func(_ *testing.T, path string) error { return os.Rename(path, path+".old") },
		"its WAL deleted":  func(_ *testing.T, path string) error { return os.Remove(path + "-wal") },
		"replaced by copy": replace,
		// Whoever starts next would take this process for dead: another lock is no lock.
		"its lock deleted":  func(_ *testing.T, path string) error { return os.Remove(path + "-lock") },
		"its lock replaced": func(t *testing.T, path string) error { return replace(t, path+"-lock") },
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "towline.db")
			s, err := sqlite.Open(context.Background(), path, sqlite.Options{Inline: true})
			require.NoError(t, err)
			require.NoError(t, appendOne(s, events.RunID{1}))
			require.NoError(t, take(t, path))
			require.ErrorIs(t, appendOne(s, events.RunID{2}), store.ErrMoved)
			require.ErrorIs(t, appendOne(s, events.RunID{3}), store.ErrMoved)
			_ = s.Close() // it cannot be a good one
		})
	}
}

// L-11, O-12: what was refused because the file had gone is not in it either, when it is put back.
func TestWhatWasRefusedIsNotKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "towline.db")
	s, err := sqlite.Open(context.Background(), path, sqlite.Options{Inline: true})
	require.NoError(t, err)
	require.NoError(t, appendOne(s, events.RunID{1}))
	aside := t.TempDir()
	move := func(from, to string) {
		for _, suffix := range []string{"", "-wal", "-shm"} {
			if err := os.Rename(filepath.Join(from, "towline.db"+suffix), filepath.Join(to, "towline.db"+suffix)); err != nil {
				require.ErrorIs(t, err, os.ErrNotExist)
			}
		}
	}
	move(filepath.Dir(path), aside)
	require.ErrorIs(t, appendOne(s, events.RunID{2}), store.ErrMoved)
	_ = s.Close()
	move(aside, filepath.Dir(path))
	s, err = sqlite.Open(context.Background(), path, sqlite.Options{Inline: true})
	require.NoError(t, err)
	require.NoError(t, s.Read(context.Background(), func(r store.Reader) error {
		head, _, err := r.Head()
		require.EqualValues(t, 1, head)
		return err
	}))
	require.NoError(t, s.Close())
}

func replace(t *testing.T, path string) error {
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path+".copy", b, 0o644))
	return os.Rename(path+".copy", path)
}

// DUR-3, N-2: what cannot be a store, or would have two locks, is refused, and left as it is.
func TestAFileThatCannotBeAStore(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "towline.db")
	s, err := sqlite.Open(context.Background(), path, sqlite.Options{})
	require.NoError(t, err)
	require.NoError(t, s.Close())
	for name, c := range map[string]struct {
		make func(path string) error
		want string
	}{
		"hard link": {func(p string) error { return os.Link(path, p) }, "has 2 names"},
		"pipe":      {func(p string) error { return syscall.Mkfifo(p, 0o600) }, "is not a regular file"},
		"folder":    {func(p string) error { return os.Mkdir(p, 0o700) }, "is not a regular file"},
		"WAL alone": {func(p string) error { return os.WriteFile(p+"-wal", []byte("x"), 0o600) }, "put the file back"},
	} {
		p := filepath.Join(dir, name)
		require.NoError(t, c.make(p))
		_, err := sqlite.Open(context.Background(), p, sqlite.Options{})
		require.ErrorContains(t, err, c.want)
		require.NoError(t, os.RemoveAll(p))
	}
}

// L-1: REPLACE does not go past what keeps the log append-only.
func TestReplaceChangesNoEvent(t *testing.T) {
	s, err := sqlite.Open(context.Background(), filepath.Join(t.TempDir(), "towline.db"), sqlite.Options{Inline: true})
	require.NoError(t, err)
	require.NoError(t, appendOne(s, events.RunID{1}))
	_, err = s.DB().Exec(`REPLACE INTO events SELECT position, tx, stream, version, at, type, schema, 'mallory', command, cause, node, data FROM events`)
	require.Error(t, err)
	var actor *string
	require.NoError(t, s.DB().QueryRow(`SELECT actor FROM events`).Scan(&actor))
	require.Nil(t, actor)
	require.NoError(t, s.Close())
}

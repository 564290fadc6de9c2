package sqlite

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/store"
)

// storeOf makes a store at rest with so many events.
func storeOf(t *testing.T, path string, n int) {
	t.Helper()
	s, err := Open(context.Background(), path, Options{})
	require.NoError(t, err)
	for i := range n {
		require.NoError(t, appendNext(s, i))
	}
	require.NoError(t, s.Close())
}

func logOf(t *testing.T, path string) []events.Envelope {
	t.Helper()
	s, err := Open(context.Background(), path, Options{})
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	return readAll(t, s)
}

// DUR-5: a copy that is made while another process holds the store alone, and writes without a pause, is the log of one
// moment: nothing that was on disk before it began is missing. The process goes on, and the copy is a store.
func TestABackupUnderLoad(t *testing.T) {
	dir := t.TempDir()
	path, to := filepath.Join(dir, "towline.db"), filepath.Join(dir, "copy.db")
	c := start(t, "write", path)
	for range 50 {
		c.line(t)
	}
	var looks int
	got, err := Backup(context.Background(), path, to, BackupOptions{Progress: func(done, total int) {
		require.LessOrEqual(t, done, total)
		looks++
	}})
	require.NoError(t, err)
	require.Positive(t, looks)
	require.GreaterOrEqual(t, int(got.Head), 50)
	require.Equal(t, Copy{Path: to, Bytes: got.Bytes, Level: newestLevel, Epoch: 1, Head: got.Head, At: got.At}, got)
	for range 50 {
		c.line(t)
	}
	c.kill(t)
	last := c.drain(t, 0)
	require.NotContains(t, folder(t, dir), "copy.db-partial")
	copied, all := logOf(t, to), logOf(t, path)
	require.Len(t, copied, int(got.Head))
	require.Equal(t, all[:len(copied)], copied)
	require.GreaterOrEqual(t, len(all), last)
}

// HC-56: a store at rest is copied as it lies there: nothing appears beside it, and not a byte of it changes. While it is
// copied nobody opens it.
func TestABackupOfAStoreAtRest(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	path := filepath.Join(dir, "towline.db")
	storeOf(t, path, 3)
	before := folder(t, dir)
	_, err := Backup(context.Background(), path, filepath.Join(other, "copy.db"), BackupOptions{
		Verify: func(_ context.Context, copied string) error {
			require.Len(t, logOf(t, copied), 3)
			return nil
		},
		Progress: func(int, int) {
			_, err := Open(context.Background(), path, Options{})
			require.ErrorIs(t, err, store.ErrLocked)
		},
	})
	require.NoError(t, err)
	delete(before, "towline.db-lock") // it says who has it
	after := folder(t, dir)
	delete(after, "towline.db-lock")
	require.Equal(t, before, after)
	require.Len(t, logOf(t, filepath.Join(other, "copy.db")), 3)
}

// A store that was killed has its newest commits in its WAL: they are in the copy, and the WAL stays as it was.
func TestABackupOfAKilledStore(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	path := filepath.Join(dir, "towline.db")
	c := start(t, "write", path)
	c.line(t)
	c.kill(t)
	last := c.drain(t, 1)
	before := folder(t, dir)
	require.NotEmpty(t, before["towline.db-wal"])
	got, err := Backup(context.Background(), path, filepath.Join(other, "copy.db"), BackupOptions{})
	require.NoError(t, err)
	require.GreaterOrEqual(t, int(got.Head), last)
	after := folder(t, dir)
	for _, name := range []string{"towline.db", "towline.db-wal"} {
		require.Equal(t, before[name], after[name], name)
	}
}

// What a copy may not take the place of. Each refusal leaves the file as it was.
func TestABackupReplacesNothingUnasked(t *testing.T) {
	dir := t.TempDir()
	path, to := filepath.Join(dir, "towline.db"), filepath.Join(dir, "copy.db")
	storeOf(t, path, 2)
	require.NoError(t, os.WriteFile(to, []byte("mine"), 0o600))
	backup := func(to string, force bool) error {
		_, err := Backup(context.Background(), path, to, BackupOptions{Force: force})
		return err
	}
	require.ErrorIs(t, backup(to, false), fs.ErrExist)
	require.ErrorContains(t, backup(path, true), "is the store itself")
	require.NoError(t, os.WriteFile(to+"-wal", nil, 0o600))
	require.ErrorIs(t, backup(to, true), store.ErrLocked)
	require.Equal(t, "mine", folder(t, dir)["copy.db"])
	require.NoError(t, os.Remove(to+"-wal"))
	require.NoError(t, backup(to, true))
	require.Len(t, logOf(t, to), 2)
	_, err := Backup(context.Background(), filepath.Join(dir, "none.db"), to+"2", BackupOptions{})
	require.ErrorIs(t, err, fs.ErrNotExist)
	_, err = os.Stat(filepath.Join(dir, "none.db"))
	require.ErrorIs(t, err, fs.ErrNotExist)
}

// DUR-5: what fails, or dies, on the way leaves no file that could be taken for a copy; and the next one is not disturbed by
// what a killed one has left.
func TestABackupThatFailsLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	path, to := filepath.Join(dir, "towline.db"), filepath.Join(dir, "copy.db")
	storeOf(t, path, 2)
	bad := errors.New("not good")
	_, err := Backup(context.Background(), path, to, BackupOptions{Verify: func(context.Context, string) error { return bad }})
	require.ErrorIs(t, err, bad)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err = Backup(ctx, path, to, BackupOptions{})
	require.ErrorIs(t, err, context.Canceled)
	c := start(t, "backup-small", path+" "+to)
	said, ok := c.end(t)
	require.False(t, ok)
	require.Contains(t, said, store.ErrUnavailable.Error(), "a full disk")
	for name := range folder(t, dir) {
		require.False(t, strings.HasPrefix(name, "copy.db"), name)
	}
	c = start(t, "backup-die", path+" "+to)
	_, ok = c.end(t)
	require.False(t, ok)
	require.NoFileExists(t, to)
	require.DirExists(t, to+"-partial")
	_, err = Backup(context.Background(), path, to, BackupOptions{})
	require.NoError(t, err)
	require.NoDirExists(t, to+"-partial")
	require.Len(t, logOf(t, to), 2)
}

func init() {
	// backup-small copies where there is room for some pages only.
	roles["backup-small"] = func(arg string) error {
		path, to, _ := strings.Cut(arg, " ")
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 20 << 10, Max: 20 << 10}); err != nil {
			return err
		}
		_, err := Backup(context.Background(), path, to, BackupOptions{})
		return err
	}
	// backup-die is killed with a copy that is whole, and has no name yet.
	roles["backup-die"] = func(arg string) error {
		path, to, _ := strings.Cut(arg, " ")
		_, err := Backup(context.Background(), path, to, BackupOptions{Verify: func(context.Context, string) error {
			return killSelf()
		}})
		return err
	}
}

func killSelf() error {
	if err := syscall.Kill(os.Getpid(), syscall.SIGKILL); err != nil {
		return err
	}
	select {}
}

// A damaged store has no good copy, and one is not made of it.
func TestABackupOfADamagedStore(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "towline.db")
	storeOf(t, path, 200)
	damage(t, path)
	_, err := Backup(context.Background(), path, filepath.Join(dir, "copy.db"), BackupOptions{})
	require.ErrorIs(t, err, ErrDamaged)
	require.NoFileExists(t, filepath.Join(dir, "copy.db"))
}

// damage overwrites the last page of a file.
func damage(t *testing.T, path string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	require.NoError(t, err)
	info, err := f.Stat()
	require.NoError(t, err)
	_, err = f.WriteAt([]byte(strings.Repeat("broken ", 500)), info.Size()-4096)
	require.NoError(t, err)
	require.NoError(t, f.Close())
}

// The oldest copies of a store go first, and no other file does: not that of a store that has the same name elsewhere, nor a copy
// that somebody has opened.
func TestBackupsArePruned(t *testing.T) {
	ctx, dir := context.Background(), t.TempDir()
	path, other := filepath.Join(t.TempDir(), "towline.db"), filepath.Join(t.TempDir(), "towline.db")
	storeOf(t, path, 1)
	storeOf(t, other, 1)
	none, err := Backups(ctx, path, filepath.Join(dir, "missing"))
	require.NoError(t, err)
	require.Empty(t, none)
	began := time.Date(2026, 11, 29, 23, 59, 59, 0, time.UTC)
	named := func(i int) string { return filepath.Join(dir, BackupName(path, began.Add(time.Duration(i)*time.Hour))) }
	for i := range 6 {
		_, err := Backup(ctx, map[bool]string{true: path, false: other}[i != 1], named(i), BackupOptions{})
		require.NoError(t, err)
	}
	require.NoError(t, os.WriteFile(named(0)+"-wal", nil, 0o600))
	others := []string{"towline-notes.db", "towline-20261129T235959Z.db.txt", "other-20261129T235959Z.db", filepath.Base(named(7))}
	for _, name := range others {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
	}
	removed, err := PruneBackups(ctx, path, dir, 3)
	require.NoError(t, err)
	require.Len(t, removed, 1)
	require.Equal(t, named(2), removed[0].Path)
	left, err := Backups(ctx, path, dir)
	require.NoError(t, err)
	require.Len(t, left, 4)
	require.Equal(t, named(0), left[0].Path, "somebody has opened it")
	require.Equal(t, named(3), left[1].Path)
	for _, name := range append(others, filepath.Base(named(1))) {
		require.FileExists(t, filepath.Join(dir, name))
	}
	removed, err = PruneBackups(ctx, path, dir, 0)
	require.NoError(t, err)
	require.Empty(t, removed)
}

// DUR-5: which copy is older is decided by what it holds. One that was named while the clock ran ahead does not push out those that
// come when it is right again; of a restored store, those of the earlier life go first.
func TestBackupsAreOldByWhatTheyHold(t *testing.T) {
	ctx, dir := context.Background(), t.TempDir()
	path := filepath.Join(t.TempDir(), "towline.db")
	right := time.Date(2026, 11, 29, 23, 59, 59, 0, time.UTC)
	named := func(at time.Time) string { return filepath.Join(dir, BackupName(path, at)) }
	backUp := func(at time.Time) {
		storeOf(t, path, 1)
		_, err := Backup(ctx, path, named(at), BackupOptions{})
		require.NoError(t, err)
	}
	backUp(right)
	backUp(right.AddDate(10, 0, 0))
	backUp(right.Add(time.Hour))
	removed, err := PruneBackups(ctx, path, dir, 1)
	require.NoError(t, err)
	require.Len(t, removed, 2)
	require.Equal(t, named(right), removed[0].Path)
	require.Equal(t, named(right.AddDate(10, 0, 0)), removed[1].Path)
	require.FileExists(t, named(right.Add(time.Hour)))

	copied := filepath.Join(t.TempDir(), "copy.db")
	_, err = Backup(ctx, path, copied, BackupOptions{})
	require.NoError(t, err)
	storeOf(t, path, 5)
	backUp(right.Add(2 * time.Hour))
	_, err = Restore(ctx, copied, path, RestoreOptions{})
	require.NoError(t, err)
	backUp(right.Add(time.Minute))
	left, err := Backups(ctx, path, dir)
	require.NoError(t, err)
	require.Len(t, left, 3)
	require.Equal(t, named(right.Add(time.Minute)), left[2].Path)
	require.Equal(t, 2, left[2].Epoch)
	require.Less(t, left[2].Head, left[1].Head)
}

// A process that is killed in a regular backup leaves a part of it under a name that is never used again. The next one removes it,
// and nothing that is being made.
func TestUnfinishedBackupsAreRemoved(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "towline.db")
	storeOf(t, path, 1)
	at := time.Date(2026, 11, 29, 23, 59, 59, 0, time.UTC)
	left, making := filepath.Join(dir, BackupName(path, at)+partialSuffix), filepath.Join(dir, BackupName(path, at.Add(time.Hour)))
	others := []string{filepath.Join(dir, "towline-notes.db"+partialSuffix), filepath.Join(dir, "other-20261129T235959Z.db"+partialSuffix)}
	for _, name := range append(others, left) {
		require.NoError(t, os.Mkdir(name, 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(name, partialFile), []byte("half"), 0o600))
	}
	_, err := Backup(context.Background(), path, making, BackupOptions{Verify: func(context.Context, string) error {
		return RemoveUnfinished(path, dir)
	}})
	require.NoError(t, err)
	require.NoDirExists(t, left)
	require.FileExists(t, making)
	for _, name := range others {
		require.FileExists(t, filepath.Join(name, partialFile))
	}
}

// A backup takes the place of a file only.
func TestABackupIsNotAFolder(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "towline.db")
	storeOf(t, path, 1)
	for _, force := range []bool{false, true} {
		_, err := Backup(context.Background(), path, t.TempDir(), BackupOptions{Force: force})
		require.ErrorContains(t, err, "is no file: give the copy another name")
	}
}

// DUR-5: a copy that was never opened has no lock that a backup of it could take. If an engine starts on it meanwhile, the backup
// may be torn, and is not kept.
func TestABackupOfACopyThatIsOpenedMeanwhile(t *testing.T) {
	_, copied := twoStores(t)
	to := filepath.Join(t.TempDir(), "again.db")
	backup := func(during func()) error {
		_, err := Backup(context.Background(), copied, to, BackupOptions{Progress: func(int, int) { during() }})
		return err
	}
	require.ErrorIs(t, backup(func() { storeOf(t, copied, 1) }), store.ErrUnavailable)
	require.NoFileExists(t, to)
	require.NoError(t, backup(func() {}))
	require.Len(t, logOf(t, to), 4)
}

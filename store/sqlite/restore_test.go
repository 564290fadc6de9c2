package sqlite

import (
	"context"
	"database/sql"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/store"
)

func restoredAt() time.Time { return time.Date(2026, 11, 30, 8, 0, 0, 0, time.UTC) }

const asideSuffix = "-before-20261130T080000Z"

// twoStores makes a store of five events and a copy of its first three.
func twoStores(t *testing.T) (path, copied string) {
	t.Helper()
	dir := t.TempDir()
	path, copied = filepath.Join(dir, "towline.db"), filepath.Join(dir, "copy.db")
	storeOf(t, path, 3)
	_, err := Backup(context.Background(), path, copied, BackupOptions{})
	require.NoError(t, err)
	storeOf(t, path, 2)
	return path, copied
}

func epochOf(t *testing.T, path string) (epoch int) {
	t.Helper()
	s, err := Open(context.Background(), path, Options{})
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	require.NoError(t, s.Read(context.Background(), func(r store.Reader) (err error) {
		return r.Query(func(row store.Row) error { return row.Scan(&epoch) }, `SELECT coalesce(max(epoch), 1) FROM restores`)
	}))
	return epoch
}

// DUR-5: a restore puts the copy in the place of the store, keeps both, and raises the epoch above that of either, however
// often the same copy is restored: a sink has seen the fences of every life.
func TestARestore(t *testing.T) {
	path, copied := twoStores(t)
	before := folder(t, filepath.Dir(path))
	for i := range 3 {
		at := restoredAt().Add(time.Duration(i) * time.Second)
		r, err := Restore(context.Background(), copied, path, RestoreOptions{Now: func() time.Time { return at }})
		require.NoError(t, err)
		require.Equal(t, i+2, r.Epoch)
		require.EqualValues(t, 3, r.Head)
		require.Equal(t, path, r.Path)
		require.EqualValues(t, []int{5, 3, 3}[i], r.Replaced.Head)
		require.Equal(t, i+2, epochOf(t, path))
		require.Len(t, logOf(t, path), 3)
		require.Len(t, logOf(t, r.Aside), int(r.Replaced.Head))
	}
	after := folder(t, filepath.Dir(path))
	require.Equal(t, before["copy.db"], after["copy.db"])
	require.Equal(t, before["towline.db"], after["towline.db"+asideSuffix])
	require.NoDirExists(t, path+"-restoring")
	require.NoFileExists(t, path+"-wal")
}

// DUR-5: whoever restores, the engine that had the store can open the new one: the store, the old one and the locks are of the
// owner of what was replaced, or of the folder where there was nothing.
func TestARestoreKeepsTheOwner(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root gives files away")
	}
	theirs := owner{65534, 65533}
	whose := func(name string) (o owner, mode os.FileMode) {
		info, err := os.Stat(name)
		require.NoError(t, err)
		o, known := ownerOf(info)
		require.True(t, known)
		return o, info.Mode().Perm()
	}
	t.Run("of the store", func(t *testing.T) {
		path, copied := twoStores(t)
		require.NoError(t, os.Remove(path+"-lock"))
		require.NoError(t, os.Chmod(path, 0o640))
		require.NoError(t, os.Chown(path, theirs.user, theirs.group))
		r, err := Restore(context.Background(), copied, path, RestoreOptions{Now: restoredAt})
		require.NoError(t, err)
		require.NoError(t, r.Disowned)
		for _, name := range []string{path, r.Aside, path + "-lock"} {
			of, _ := whose(name)
			require.Equal(t, theirs, of, name)
		}
		_, mode := whose(path)
		require.Equal(t, os.FileMode(0o640), mode)
	})
	t.Run("of the folder", func(t *testing.T) {
		_, copied := twoStores(t)
		dir := t.TempDir()
		require.NoError(t, os.Chown(dir, theirs.user, theirs.group))
		r, err := Restore(context.Background(), copied, filepath.Join(dir, "towline.db"), RestoreOptions{Now: restoredAt})
		require.NoError(t, err)
		require.NoError(t, r.Disowned)
		for _, name := range []string{r.Path, r.Path + "-lock", r.Path + "-setup"} {
			of, _ := whose(name)
			require.Equal(t, theirs, of, name)
		}
	})
	t.Run("who may not says so", func(t *testing.T) {
		path, copied := twoStores(t)
		require.NoError(t, os.Chown(path, theirs.user, theirs.group))
		r, err := Restore(context.Background(), copied, path, RestoreOptions{
			Now: restoredAt, chown: func(string, int, int) error { return os.ErrPermission },
		})
		require.NoError(t, err, "the store is restored all the same")
		require.ErrorIs(t, r.Disowned, os.ErrPermission)
		require.ErrorContains(t, r.Disowned, "it was user 65534, group 65533")
		require.Equal(t, 2, epochOf(t, path))
	})
}

// DUR-5: a copy restores where there was no store, and an operator who knows of a later life can name an epoch.
func TestARestoreOnAnotherPath(t *testing.T) {
	_, copied := twoStores(t)
	path := filepath.Join(t.TempDir(), "elsewhere.db")
	r, err := Restore(context.Background(), copied, path, RestoreOptions{Epoch: 9})
	require.NoError(t, err)
	require.Empty(t, r.Aside)
	require.Nil(t, r.Replaced)
	require.Equal(t, 9, epochOf(t, path))
	require.Len(t, logOf(t, path), 3)
}

// What cannot be restored changes nothing.
func TestARestoreIsRefused(t *testing.T) {
	path, copied := twoStores(t)
	restore := func(from string) error {
		_, err := Restore(context.Background(), from, path, RestoreOptions{})
		return err
	}
	bad := filepath.Join(t.TempDir(), "bad.db")
	storeOf(t, bad, 200)
	damage(t, bad)
	require.ErrorIs(t, restore(bad), ErrDamaged)
	require.NoError(t, os.WriteFile(bad, []byte("text"), 0o600))
	require.ErrorIs(t, restore(bad), store.ErrFormat)
	require.ErrorContains(t, restore(path), "is the store itself")
	require.Error(t, restore(filepath.Join(t.TempDir(), "none.db")))
	for _, role := range []string{"open", "open-shared"} {
		c := start(t, role, path)
		require.Equal(t, "ready", c.line(t))
		require.ErrorIs(t, restore(copied), store.ErrLocked)
		_, ok := c.end(t)
		require.True(t, ok)
	}
	require.Len(t, logOf(t, path), 5)
	require.Equal(t, 1, epochOf(t, path))
}

// DUR-5: a store that is damaged is what a restore is for: it is set aside with its WAL, as it is.
func TestARestoreOverADamagedStore(t *testing.T) {
	path, copied := twoStores(t)
	require.NoError(t, os.WriteFile(path, []byte("text"), 0o600))
	require.NoError(t, os.WriteFile(path+"-wal", []byte("rest"), 0o600))
	r, err := Restore(context.Background(), copied, path, RestoreOptions{Now: restoredAt})
	require.NoError(t, err)
	require.Nil(t, r.Replaced)
	files := folder(t, filepath.Dir(path))
	require.Equal(t, "text", files["towline.db"+asideSuffix])
	require.Equal(t, "rest", files["towline.db"+asideSuffix+"-wal"])
	require.Len(t, logOf(t, path), 3)
}

// DUR-5: what is damaged may still say in which epoch it lived, and the sinks have seen that.
func TestARestoreOverADamagedStoreRaisesItsEpoch(t *testing.T) {
	path, copied := twoStores(t)
	_, err := Restore(context.Background(), copied, path, RestoreOptions{Epoch: 4})
	require.NoError(t, err)
	storeOf(t, path, 200)
	damage(t, path)
	r, err := Restore(context.Background(), copied, path, RestoreOptions{})
	require.NoError(t, err)
	require.Nil(t, r.Replaced)
	require.Equal(t, 5, r.Epoch)
}

// DUR-5: a restore that is killed behind any of its steps, while the last commits of the old store lie in a WAL, leaves the
// old store or the new one, each whole; the next restore goes through.
func TestARestoreIsKilled(t *testing.T) {
	for _, step := range []string{"locked", "copied", "settled", "begun", "kept", "aside", "bare", "moved"} {
		t.Run(step, func(t *testing.T) {
			path, copied := twoStores(t)
			w := start(t, "write", path)
			w.line(t)
			w.kill(t)
			w.drain(t, 0)
			c := start(t, "restore-die", strings.Join([]string{step, copied, path}, " "))
			_, ok := c.end(t)
			require.False(t, ok)
			log := logOf(t, path)
			if !slices.Contains([]string{"aside", "bare", "moved"}, step) {
				require.NoFileExists(t, path+asideSuffix, "what has the name of a store is whole")
			}
			if step == "moved" {
				require.Len(t, log, 3)
				require.Equal(t, 2, epochOf(t, path))
				require.Greater(t, len(logOf(t, path+asideSuffix)), 5)
			} else {
				require.Greater(t, len(log), 5)
				require.Equal(t, 1, epochOf(t, path))
			}
			r, err := Restore(context.Background(), copied, path, RestoreOptions{})
			require.NoError(t, err)
			require.Equal(t, epochOf(t, path), r.Epoch)
			require.Len(t, logOf(t, path), 3)
			require.NoDirExists(t, path+"-restoring")
		})
	}
}

// DUR-5: somebody who reads the old store keeps a part of it in its WAL. A restore is refused then, for the file alone would not
// be whole, and its epoch might be one that only the WAL knows; nothing has changed.
func TestARestoreIsRefusedWhileSomebodyReads(t *testing.T) {
	path, copied := twoStores(t)
	done := readerOf(t, path)
	storeOf(t, path, 1)
	_, err := Restore(context.Background(), copied, path, RestoreOptions{Now: restoredAt})
	require.ErrorIs(t, err, store.ErrLocked)
	require.ErrorContains(t, err, "end what reads it")
	done()
	require.NoFileExists(t, path+asideSuffix)
	require.Len(t, logOf(t, path), 7)
	r, err := Restore(context.Background(), copied, path, RestoreOptions{})
	require.NoError(t, err)
	require.EqualValues(t, 7, r.Replaced.Head)
}

// readerOf holds a snapshot of a store, as a shell may, until the function is called that it returns.
func readerOf(t *testing.T, path string) (done func()) {
	t.Helper()
	s, err := Open(context.Background(), path, Options{})
	require.NoError(t, err)
	require.NoError(t, appendNext(s, 0)) // there is a WAL to stand on
	db, err := sql.Open(driverName, dsn{path: path}.visitor())
	require.NoError(t, err)
	tx, err := db.BeginTx(context.Background(), &sql.TxOptions{ReadOnly: true})
	require.NoError(t, err)
	require.NoError(t, tx.QueryRowContext(context.Background(), `SELECT count(*) FROM events`).Scan(new(int)))
	require.NoError(t, s.Close())
	return func() {
		require.NoError(t, tx.Rollback())
		require.NoError(t, db.Close())
	}
}

// DUR-5: a copy that nobody may write, as in an archive, is a store that can be written where it is restored; one that takes the
// place of a store has the permissions of that.
func TestARestoredStoreCanBeWritten(t *testing.T) {
	path, copied := twoStores(t)
	mode := func(path string) os.FileMode {
		info, err := os.Stat(path)
		require.NoError(t, err)
		return info.Mode().Perm()
	}
	require.NoError(t, os.Chmod(copied, 0o440))
	require.NoError(t, os.Chmod(path, 0o600))
	_, err := Restore(context.Background(), copied, path, RestoreOptions{})
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), mode(path))
	other := filepath.Join(t.TempDir(), "other.db")
	_, err = Restore(context.Background(), copied, other, RestoreOptions{})
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o640), mode(other))
}

// DUR-5: a link to a store that is lost still says where the store belongs.
func TestARestoreFollowsALinkToNothing(t *testing.T) {
	_, copied := twoStores(t)
	dir := t.TempDir()
	lost, link := filepath.Join(dir, "disk", "towline.db"), filepath.Join(dir, "towline.db")
	require.NoError(t, os.Mkdir(filepath.Dir(lost), 0o755))
	require.NoError(t, os.Symlink(filepath.Join("disk", "towline.db"), link))
	r, err := Restore(context.Background(), copied, link, RestoreOptions{})
	require.NoError(t, err)
	require.Empty(t, r.Aside, "there was none")
	require.Equal(t, lost, r.Path)
	require.Len(t, logOf(t, link), 3)
	require.FileExists(t, lost)
}

func init() {
	// restore-die is killed behind a step of a restore.
	roles["restore-die"] = func(arg string) error {
		words := strings.Fields(arg)
		_, err := Restore(context.Background(), words[1], words[2], RestoreOptions{Now: restoredAt, step: func(step string) {
			if step == words[0] {
				panic(killSelf()) // it does not return
			}
		}})
		return err
	}
}

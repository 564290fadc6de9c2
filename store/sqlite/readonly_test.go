package sqlite

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/store"
)

// lookAt is every file of a folder with its content: what a reader must leave as it is.
func lookAt(t *testing.T, dir string) map[string][32]byte {
	t.Helper()
	out := map[string][32]byte{}
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		require.NoError(t, err)
		out[e.Name()] = sha256.Sum256(b)
	}
	return out
}

func openToRead(t *testing.T, path string) *ReadOnly {
	t.Helper()
	s, err := OpenReadOnly(context.Background(), path)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

func headOf(t *testing.T, s store.Store) events.Position {
	t.Helper()
	var head events.Position
	require.NoError(t, s.Read(context.Background(), func(r store.Reader) (err error) {
		head, _, err = r.Head()
		return err
	}))
	return head
}

// made is a store of three events that nobody has open.
func made(t *testing.T) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "towline.db")
	s, err := Open(context.Background(), path, Options{})
	require.NoError(t, err)
	for n := range 3 {
		require.NoError(t, appendNext(s, n))
	}
	require.NoError(t, s.Close())
	return path
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	b, err := os.ReadFile(from)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(to, b, 0o644))
}

// DUR-8, N-2: the store of an engine that has it for itself is read all the same, commit by commit, and the engine does not
// notice: its lock file is as it was, and it goes on writing and ends well.
func TestTheStoreOfAnotherProcessIsRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "towline.db")
	writer := start(t, "append", path)
	require.Equal(t, "1", writer.line(t))
	lock, err := os.ReadFile(path + "-lock")
	require.NoError(t, err)
	s := openToRead(t, path)
	require.EqualValues(t, 1, headOf(t, s))
	writer.say(t)
	require.Equal(t, "2", writer.line(t))
	require.EqualValues(t, 2, headOf(t, s), "each read is a snapshot of its own")
	require.ErrorIs(t, s.Write(context.Background(), func(store.Tx) error { return nil }), store.ErrReadOnly)
	after, err := os.ReadFile(path + "-lock")
	require.NoError(t, err)
	require.Equal(t, lock, after)
	_, ok := writer.end(t)
	require.True(t, ok)
	require.EqualValues(t, 2, headOf(t, s), "its engine has gone")
}

// DUR-8: what a killed engine has left is read with the commits in its WAL, and stays as it is.
func TestTheStoreOfAKilledProcessIsRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "towline.db")
	writer := start(t, "append", path)
	require.Equal(t, "1", writer.line(t))
	writer.kill(t)
	_ = writer.cmd.Wait()
	wal, err := os.ReadFile(path + "-wal")
	require.NoError(t, err)
	require.NotEmpty(t, wal)
	db, err := os.ReadFile(path)
	require.NoError(t, err)
	s, err := OpenReadOnly(context.Background(), path)
	require.NoError(t, err)
	require.EqualValues(t, 1, headOf(t, s))
	require.NoError(t, s.Close())
	walAfter, err := os.ReadFile(path + "-wal")
	require.NoError(t, err)
	dbAfter, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, wal, walAfter)
	require.Equal(t, db, dbAfter)
}

// DUR-8: a file that nobody has open is read without a trace: no WAL, no lock, no byte of it changes.
func TestAFileAtRestIsReadWithoutATrace(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "copy.db")
	copyFile(t, made(t), path)
	before := lookAt(t, dir)
	s, err := OpenReadOnly(context.Background(), path)
	require.NoError(t, err)
	require.EqualValues(t, 3, headOf(t, s))
	require.Len(t, readAll(t, s), 3)
	require.Equal(t, newestLevel, s.Level())
	require.Equal(t, before, lookAt(t, dir))
	require.NoError(t, s.Close())
	require.Equal(t, before, lookAt(t, dir))
	require.ErrorIs(t, s.Read(context.Background(), func(store.Reader) error { return nil }), store.ErrClosed)
}

// DUR-8: an engine that starts while a file is read is no reason for a wrong answer: the read fails and says so, and the
// next one sees what the engine has committed, and what it commits then.
func TestAnEngineStartsUnderAReader(t *testing.T) {
	path := made(t)
	s := openToRead(t, path)
	require.EqualValues(t, 3, headOf(t, s))
	var writer *Store
	err := s.Read(context.Background(), func(r store.Reader) error {
		_, _, err := r.Head()
		require.NoError(t, err)
		writer, err = Open(context.Background(), path, Options{})
		require.NoError(t, err)
		require.NoError(t, appendNext(writer, 4))
		return nil
	})
	require.ErrorIs(t, err, store.ErrUnavailable)
	require.ErrorContains(t, err, "read again")
	require.EqualValues(t, 4, headOf(t, s))
	require.NoError(t, appendNext(writer, 5))
	require.EqualValues(t, 5, headOf(t, s))
	require.NoError(t, writer.Close())
	require.EqualValues(t, 5, headOf(t, s))

	writer = open(t, path, Options{})
	require.NoError(t, appendNext(writer, 6))
	require.NoError(t, writer.Close())
	require.EqualValues(t, 6, headOf(t, s), "what was read before is not remembered over a whole life of an engine")
}

// DUR-8: a reader needs no right to write, neither to the file nor to its folder. The test is that of another user, for root
// may write everywhere.
func TestAFolderThatCannotBeWritten(t *testing.T) {
	for name, tt := range map[string]struct {
		left []string // beside the file
		want string
	}{
		"a copy":              {nil, "head 3"},
		"with WAL and index":  {[]string{"-wal", "-shm"}, "head 4"},
		"with its WAL alone":  {[]string{"-wal"}, "error open store to read: store unavailable: PATH has a WAL beside it, and its folder cannot be written: copy both into one that can"},
		"with an empty WAL":   {[]string{"-empty"}, "head 3"},
		"with its lock files": {[]string{"-lock", "-setup"}, "head 3"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := folderForOthers(t)
			path := filepath.Join(dir, "towline.db")
			source := made(t)
			copyFile(t, source, path)
			live := open(t, source, Options{})
			require.NoError(t, appendNext(live, 4))
			for _, suffix := range tt.left {
				if suffix == "-empty" {
					require.NoError(t, os.WriteFile(path+"-wal", nil, 0o644))
					continue
				}
				copyFile(t, source+suffix, path+suffix)
			}
			require.NoError(t, os.Chmod(dir, 0o555))
			t.Cleanup(func() { require.NoError(t, os.Chmod(dir, 0o755)) })
			before := lookAt(t, dir)
			reader := startAs(t, "read", path)
			got := reader.line(t)
			if tt.want[:4] == "head" {
				require.Equal(t, tt.want, got)
			} else {
				require.Contains(t, got, "has a WAL beside it, and its folder cannot be written: copy both into one that can")
			}
			require.Equal(t, before, lookAt(t, dir))
		})
	}
}

// DUR-8, DUR-7: what is no store, not yet one, or one of a newer release is refused by type, and left as it is.
func TestWhatCannotBeRead(t *testing.T) {
	notADatabase := func(t *testing.T, path string) {
		require.NoError(t, os.WriteFile(path, []byte("this is a text that is a little longer than the header of a database, which has a hundred bytes in all"), 0o644))
	}
	for name, tt := range map[string]struct {
		make func(t *testing.T, path string)
		is   error
		says string
	}{
		"nothing":        {func(*testing.T, string) {}, fs.ErrNotExist, "towline.db"},
		"a folder":       {func(t *testing.T, p string) { require.NoError(t, os.Mkdir(p, 0o755)) }, store.ErrFormat, "not a regular file"},
		"an empty file":  {func(t *testing.T, p string) { require.NoError(t, os.WriteFile(p, nil, 0o644)) }, store.ErrFormat, "no store yet"},
		"a short text":   {func(t *testing.T, p string) { require.NoError(t, os.WriteFile(p, []byte("hello"), 0o644)) }, store.ErrFormat, "not an SQLite database"},
		"no database":    {notADatabase, store.ErrFormat, "not an SQLite database"},
		"other database": {func(t *testing.T, p string) { execIn(t, p, "CREATE TABLE x (y)") }, store.ErrFormat, "not a store of Towline"},
		"other program": {func(t *testing.T, p string) {
			execIn(t, p, "PRAGMA application_id = 99; CREATE TABLE x (y)")
		}, store.ErrFormat, "belongs to another program"},
		"a newer level": {func(t *testing.T, p string) {
			copyFile(t, made(t), p)
			execIn(t, p, "PRAGMA user_version = 9")
		}, store.ErrFormat, "open it with a newer release"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "towline.db")
			tt.make(t, path)
			var before map[string][32]byte
			if name != "a folder" {
				before = lookAt(t, dir)
			}
			_, err := OpenReadOnly(context.Background(), path)
			require.ErrorIs(t, err, tt.is)
			require.ErrorContains(t, err, tt.says)
			if before != nil {
				require.Equal(t, before, lookAt(t, dir))
			}
		})
	}
}

// DUR-8: on a network file system a file at rest is read, for that needs no lock; one that is in use is refused.
func TestReadingOverANetwork(t *testing.T) {
	path := made(t)
	nfs := func(string) (string, error) { return "nfs", nil }
	s, err := openReadOnly(context.Background(), path, nfs)
	require.NoError(t, err)
	require.EqualValues(t, 3, headOf(t, s))
	open(t, path, Options{})
	err = s.Read(context.Background(), func(store.Reader) error { return nil })
	require.ErrorIs(t, err, store.ErrNetworkFS)
	require.NoError(t, s.Close())
	_, err = openReadOnly(context.Background(), path, nfs)
	require.ErrorIs(t, err, store.ErrNetworkFS)
}

func execIn(t *testing.T, path, statement string) {
	t.Helper()
	db, err := sql.Open(driverName, "file:"+path)
	require.NoError(t, err)
	_, err = db.Exec(statement)
	require.NoError(t, err)
	require.NoError(t, db.Close())
}

// folderForOthers is one that another user reaches.
func folderForOthers(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "towline-readers-") //nolint:usetesting // that of a test is closed to other users
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	require.NoError(t, os.Chmod(dir, 0o755))
	return dir
}

// startAs starts a child that may not write where its folder says so: as another user, if this one is root.
func startAs(t *testing.T, role, path string) *child {
	t.Helper()
	if os.Geteuid() != 0 {
		return start(t, role, path)
	}
	if runtime.GOOS != "linux" {
		t.Skip("as root only Linux is known to run a program as somebody else")
	}
	exe := filepath.Join(folderForOthers(t), "child")
	own, err := os.Executable()
	require.NoError(t, err)
	b, err := os.ReadFile(own)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(exe, b, 0o755))
	const nobody = 65534
	return startProgram(t, exe, role, path, &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}})
}

// readHead is a process that reads a store, says what it finds, and nothing else.
func readHead(path string) error {
	s, err := OpenReadOnly(context.Background(), path)
	if err != nil {
		return err
	}
	err = s.Read(context.Background(), func(r store.Reader) error {
		head, _, err := r.Head()
		if err == nil {
			fmt.Println("head", head)
		}
		return err
	})
	if err != nil {
		return err
	}
	return s.Close()
}

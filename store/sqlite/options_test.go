package sqlite

import (
	"context"
	"database/sql"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/store"
)

func pragmas(t *testing.T, query func(string, ...any) *sql.Row) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, name := range []string{"journal_mode", "synchronous", "foreign_keys", "busy_timeout", "wal_autocheckpoint", "query_only"} {
		var v string
		require.NoError(t, query("PRAGMA "+name).Scan(&v))
		out[name] = v
	}
	return out
}

// DUR-1, HC-10: every connection that writes is durable, waits for locks and begins immediate, those of the
// application, too, however many the pool opens; every other one cannot write.
func TestConnections(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "a b?#%c.db"), Options{})
	want := map[string]string{
		"journal_mode": "wal", "synchronous": "2", "foreign_keys": "1", "busy_timeout": "5000", "wal_autocheckpoint": "8000", "query_only": "0",
	}
	ctx := context.Background()
	for range 3 {
		conn, err := s.DB().Conn(ctx)
		require.NoError(t, err)
		defer conn.Close()
		require.Equal(t, want, pragmas(t, func(q string, args ...any) *sql.Row { return conn.QueryRowContext(ctx, q, args...) }))
	}
	require.Equal(t, want, pragmas(t, func(q string, args ...any) *sql.Row { return s.writer.s.conn.QueryRowContext(ctx, q, args...) }))

	require.NoError(t, s.Read(ctx, func(r store.Reader) error {
		return r.Query(func(row store.Row) error {
			var queryOnly int
			require.NoError(t, row.Scan(&queryOnly))
			require.Equal(t, 1, queryOnly)
			return nil
		}, "PRAGMA query_only")
	}))

	tx, err := s.DB().Begin()
	require.NoError(t, err)
	impatient, err := sql.Open(driverName, dsn{path: s.path}.build("rw"))
	require.NoError(t, err)
	defer impatient.Close()
	_, err = impatient.Exec("BEGIN IMMEDIATE")
	require.True(t, isBusy(err), "a transaction of the application has the lock from its beginning: %v", err)
	require.NoError(t, tx.Rollback())
}

func TestSynchronous(t *testing.T) {
	for value, want := range map[string]string{"": "2", "full": "2", "FULL": "2", "normal": "1", "Normal": "1"} {
		s := open(t, filepath.Join(t.TempDir(), "towline.db"), Options{Synchronous: value})
		require.Equal(t, want, pragmas(t, s.DB().QueryRow)["synchronous"])
		require.NoError(t, s.Close())
	}
	_, err := Open(context.Background(), filepath.Join(t.TempDir(), "towline.db"), Options{Synchronous: "off"})
	require.ErrorContains(t, err, `synchronous "off": want full or normal`)
}

// HC-36, DUR-3: a network file system is refused, unless it is asked for; then the store is exclusive and has no WAL.
func TestNetworkFileSystems(t *testing.T) {
	nfs := func(string) (string, error) { return "nfs", nil }
	path := filepath.Join(t.TempDir(), "towline.db")
	_, err := Open(context.Background(), path, Options{networkFS: nfs})
	require.ErrorContains(t, err, "network file system (nfs)")
	require.ErrorContains(t, err, "local disk")
	_, err = Open(context.Background(), path, Options{networkFS: nfs, AllowNetworkFS: true, Shared: true})
	require.ErrorContains(t, err, "cannot be shared")
	require.Empty(t, folder(t, filepath.Dir(path)), "nothing was touched")

	s := open(t, path, Options{networkFS: nfs, AllowNetworkFS: true})
	require.NoError(t, appendNext(s, 1))
	require.NoError(t, s.Read(context.Background(), func(r store.Reader) error {
		_, _, err := r.Head()
		return err
	}))
	require.NoError(t, appendNext(s, 2))
	require.Len(t, readAll(t, s), 2)
	got := pragmas(t, s.DB().QueryRow)
	require.Equal(t, "delete", got["journal_mode"])
	require.Equal(t, "2", got["synchronous"])
	for name := range folder(t, filepath.Dir(path)) {
		require.NotContains(t, name, "-wal")
	}
	require.NoError(t, s.Close())

	local := open(t, path, Options{}) // the file has moved to a local disk
	require.Len(t, readAll(t, local), 2)
	require.Equal(t, "wal", pragmas(t, local.DB().QueryRow)["journal_mode"])
}

// HC-36: the directory of a test is local, and a missing one is an error, not a local file system.
func TestNetworkFSOfADirectory(t *testing.T) {
	if runtime.GOOS != "linux" && runtime.GOOS != "darwin" {
		t.Skip("not known here")
	}
	name, err := networkFS(t.TempDir())
	require.NoError(t, err)
	require.Empty(t, name)
	_, err = networkFS(filepath.Join(t.TempDir(), "missing"))
	require.Error(t, err)
}

// HC-36: a journal mode that does not take effect stops the start; setting it answers with what is in force, and
// nobody would look.
func TestWALThatDoesNotTakeEffect(t *testing.T) {
	path := filepath.Join(t.TempDir(), "towline.db")
	s := open(t, path, Options{})
	require.NoError(t, s.Close())
	d := dsn{path: path, synchronous: syncFull, busyTimeout: busyTimeout}
	other, err := sql.Open(driverName, "file:"+path)
	require.NoError(t, err)
	defer other.Close()
	_, err = other.Exec("PRAGMA journal_mode = delete")
	require.NoError(t, err)
	d.journal = "wall" // which SQLite passes over in silence
	_, err = openWriter(d)
	require.ErrorContains(t, err, "journal mode delete")
}

// Inline runs a transaction in the goroutine of its caller.
func TestInline(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "towline.db"), Options{Inline: true, Now: func() events.Micros { return 7 }})
	here := goroutine()
	require.NoError(t, s.Write(context.Background(), func(tx store.Tx) error {
		require.Equal(t, here, goroutine())
		require.EqualValues(t, 7, tx.Now())
		return appendTo(unit(1), 0, renewed(1))(tx)
	}))
	require.PanicsWithValue(t, "bug", func() {
		_ = s.Write(context.Background(), func(tx store.Tx) error {
			require.NoError(t, appendTo(unit(2), 0, renewed(1))(tx))
			panic("bug")
		})
	})
	require.NoError(t, appendNext(s, 1))
	require.Len(t, readAll(t, s), 2)
}

// goroutine is the first line of a stack: "goroutine 7".
func goroutine() string {
	b := make([]byte, 64)
	name, _, _ := strings.Cut(string(b[:runtime.Stack(b, false)]), " [")
	return name
}

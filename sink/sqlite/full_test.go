package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/sink"
)

// attempt is attempt n at the readings of one source.
func attempt(t *testing.T, d *Destination, n int) *writer {
	t.Helper()
	w, err := d.Open(context.Background(), sink.Scope{
		Source: "harbour", Dataset: "readings", Window: events.NewWindow(time.Time{}, time.Unix(0, 0)),
		Fence: events.NewFence(1, events.Position(n)), Surfaces: []string{"readings"},
	})
	require.NoError(t, err)
	t.Cleanup(func() { _ = w.Abort() })
	return w.(*writer)
}

func newDestination(t *testing.T) *Destination {
	t.Helper()
	d := File(filepath.Join(t.TempDir(), "readings.db"))
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	return d
}

// fill lets a database of a connection grow by so many pages and no more, which SQLite reports as a full disk.
func fill(t *testing.T, conn *sql.Conn, database string, pages int) {
	t.Helper()
	var now int
	require.NoError(t, conn.QueryRowContext(context.Background(), `PRAGMA `+database+`.page_count`).Scan(&now))
	require.NoError(t, exec(conn, fmt.Sprintf(`PRAGMA %s.max_page_count = %d`, database, now+pages)))
}

func putMany(w *writer, prefix string, n int) (err error) {
	for i := 0; err == nil && i < n; i++ {
		err = w.Put(context.Background(), "readings", fmt.Sprint(prefix, i), map[string]string{"value": strings.Repeat("x", 1000)})
	}
	return err
}

func keys(t *testing.T, d *Destination) (n int) {
	t.Helper()
	db, err := d.DB(context.Background())
	require.NoError(t, err)
	require.NoError(t, db.QueryRow(`SELECT count(*) FROM readings`).Scan(&n))
	return n
}

// HU-5: a full disk under the rows that wait takes them all away. What the provider puts afterwards, having looked away
// from the error, is a part of the rows and must not replace the window.
func TestAFullDiskWhileStaging(t *testing.T) {
	d := newDestination(t)
	first := attempt(t, d, 1)
	require.NoError(t, putMany(first, "a", 100))
	require.NoError(t, first.Commit(context.Background()))

	w := attempt(t, d, 2)
	require.NoError(t, w.Put(context.Background(), "readings", "b", map[string]int{"value": 1}))
	fill(t, w.conn, "temp", 3)
	require.ErrorContains(t, putMany(w, "c", 1000), "full")
	fill(t, w.conn, "temp", 1000) // there is room again
	require.ErrorContains(t, w.Put(context.Background(), "readings", "d", map[string]int{"value": 1}), "rows that were put before are lost")
	for range 2 {
		require.ErrorContains(t, w.Commit(context.Background()), "rows that were put before are lost")
	}
	require.False(t, w.Committed())
	require.NoError(t, w.Abort())
	require.Equal(t, 100, keys(t, d))

	next := attempt(t, d, 3)
	require.NoError(t, putMany(next, "e", 100))
	require.NoError(t, next.Commit(context.Background()))
	require.Equal(t, 100, keys(t, d))
}

// HU-5: a full disk under the destination undoes the whole commit, which may be tried again when there is room.
func TestAFullDiskAtTheCommit(t *testing.T) {
	d := newDestination(t)
	first := attempt(t, d, 1)
	require.NoError(t, first.Put(context.Background(), "readings", "a", map[string]int{"value": 1}))
	require.NoError(t, first.Commit(context.Background()))

	w := attempt(t, d, 2)
	require.NoError(t, putMany(w, "b", 100))
	fill(t, w.conn, "main", 3)
	require.ErrorContains(t, w.Commit(context.Background()), "full")
	require.False(t, w.Committed())
	require.Equal(t, 1, keys(t, d))
	fill(t, w.conn, "main", 1000)
	require.NoError(t, w.Commit(context.Background()))
	require.Equal(t, 100, keys(t, d))
}

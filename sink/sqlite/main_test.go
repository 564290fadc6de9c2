package sqlite_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/sink"
	"github.com/towline-dev/towline/sink/sqlite"
)

// A test that kills a process starts this binary again, with the name of the part to play in this variable.
const childEnv = "SINK_SQLITE_TEST_CHILD"

func TestMain(m *testing.M) {
	if part := os.Getenv(childEnv); part != "" {
		children[part](os.Args[len(os.Args)-1])
		os.Exit(0)
	}
	os.Exit(m.Run())
}

var day = events.NewWindow(
	time.Date(2024, 3, 1, 0, 0, 0, 0, time.UTC), time.Date(2024, 3, 2, 0, 0, 0, 0, time.UTC))

var nextDay = events.NewWindow(day.To, day.To.AddDate(0, 0, 1))

// snapshot is the window of a unit that reads all there is.
var snapshot = events.NewWindow(time.Time{}, day.To)

// scope is attempt n at the readings of one station and day. A higher n has a higher fence.
func scope(n int, w events.Window) sink.Scope {
	return sink.Scope{
		Source: "harbour", Dataset: "readings", Window: w, Run: id[events.RunID](1), Unit: id[events.UnitID](2),
		Attempt: n, Fence: events.NewFence(1, events.Position(n)), Surfaces: []string{"readings"},
	}
}

// from is the scope as another store than the unknown one gives it.
func from(store string, s sink.Scope) sink.Scope {
	s.Store = store
	return s
}

func id[K events.RunID | events.UnitID](n byte) K { return K(ulid.ULID{15: n}) }

type reading struct {
	Value float64 `json:"value"`
}

func file(t testing.TB, opts ...sqlite.Option) *sqlite.Destination {
	t.Helper()
	return at(t, filepath.Join(t.TempDir(), "readings.db"), opts...)
}

func at(t testing.TB, path string, opts ...sqlite.Option) *sqlite.Destination {
	t.Helper()
	d := sqlite.File(path, opts...)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	return d
}

func open(t testing.TB, d *sqlite.Destination, s sink.Scope) sink.Writer {
	t.Helper()
	w, err := d.Open(context.Background(), s)
	require.NoError(t, err)
	t.Cleanup(func() { _ = w.Abort() })
	return w
}

// put stages keys with a value each.
func put(t testing.TB, w sink.Writer, value float64, keys ...string) {
	t.Helper()
	for _, k := range keys {
		require.NoError(t, w.Put(context.Background(), "readings", k, reading{value}))
	}
}

// commit is a whole attempt.
func commit(t testing.TB, d *sqlite.Destination, s sink.Scope, value float64, keys ...string) {
	t.Helper()
	w := open(t, d, s)
	put(t, w, value, keys...)
	require.NoError(t, w.Commit(context.Background()))
}

// query returns the rows as text, with | between the columns.
func query(t testing.TB, d *sqlite.Destination, q string, args ...any) []string {
	t.Helper()
	db, err := d.DB(context.Background())
	require.NoError(t, err)
	rows, err := db.Query(q, args...)
	require.NoError(t, err)
	defer rows.Close()
	columns, err := rows.Columns()
	require.NoError(t, err)
	out := []string{}
	for rows.Next() {
		values, dest := make([]*string, len(columns)), make([]any, len(columns))
		for i := range values {
			dest[i] = &values[i]
		}
		require.NoError(t, rows.Scan(dest...))
		line := ""
		for i, v := range values {
			if i > 0 {
				line += "|"
			}
			if v == nil {
				line += "NULL"
				continue
			}
			line += *v
		}
		out = append(out, line)
	}
	require.NoError(t, rows.Err())
	return out
}

const readings = `SELECT source, key, window, data ->> 'value' FROM readings ORDER BY source, key`

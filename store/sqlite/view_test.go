package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/store"
	"github.com/towline-dev/towline/store/storetest"
)

// L-12, E-4: the view log says in SQL what Go says of an event, for every type and every family of streams, and never
// shows a token.
func TestTheViewLogSaysWhatGoSays(t *testing.T) {
	path := filepath.Join(t.TempDir(), "towline.db")
	clock := events.Micros(1_700_000_000_000_001)
	s := open(t, path, Options{Now: func() events.Micros { clock += 1_000_003; return clock }})
	node := events.NodeID{0: 1, 1: 0x90, 15: 3}
	_, err := s.DB().Exec(`INSERT INTO events (position, tx, stream, version, at, type, schema, data) VALUES (1, 1, X'4078', 1, 1, 59999, 1, '{"token":"5ec2e7')`)
	require.NoError(t, err, "an event of a newer release, damaged")
	require.NoError(t, s.Write(context.Background(), func(tx store.Tx) error {
		_, err := tx.Append(events.NodeStream(node), 0, events.Meta{Node: node}, events.NodeStarted{StoreMode: events.StoreShared})
		return err
	}))
	samples, streams := storetest.Samples(), storetest.Streams()
	for i := range max(len(samples), len(streams)) {
		require.NoError(t, s.Write(context.Background(), func(tx store.Tx) error {
			id := streams[i%len(streams)]
			history, err := tx.Stream(id)
			require.NoError(t, err)
			m := events.Meta{Node: node, Actor: "ann", Command: "Try", Cause: 2}
			if i%2 == 0 {
				m = events.Meta{}
			}
			_, err = tx.Append(id, events.Version(len(history)), m, samples[i%len(samples)])
			return err
		}))
	}
	var want [][]string
	require.NoError(t, s.Read(context.Background(), func(r store.Reader) error {
		for e, err := range r.Log(context.Background(), 1) {
			require.NoError(t, err)
			want = append(want, rendered(t, e))
		}
		return nil
	}))

	const query = `SELECT position, tx, time, stream, version, type, schema, coalesce(actor, ''), coalesce(command, ''), coalesce(cause, ''), coalesce(node, ''), data FROM log WHERE position > 1 ORDER BY position`
	rows, err := s.DB().Query(query)
	require.NoError(t, err)
	require.Equal(t, want, textRows(t, rows))

	rows, err = s.DB().Query(`SELECT stream, time, type, data FROM log WHERE position = 1`)
	require.NoError(t, err)
	require.Equal(t, [][]string{{"app/x", "1970-01-01T00:00:00.000001Z", "unknown", "(unreadable)"}}, textRows(t, rows))

	rows, err = s.DB().Query(`SELECT * FROM log`)
	require.NoError(t, err)
	for _, row := range textRows(t, rows) {
		require.NotContains(t, strings.Join(row, " "), storetest.Secret)
	}

	t.Run("in a plain shell", func(t *testing.T) {
		shell, err := exec.LookPath("sqlite3")
		if err != nil && os.Getenv("TOWLINE_TEST_SERVICES") != "require" {
			t.Skip("sqlite3 is not installed")
		}
		require.NoError(t, err)
		out, err := exec.Command(shell, "-json", path, query).Output()
		require.NoError(t, err)
		var rows []struct {
			Stream, Type string
			Position     int
			Data         string
		}
		require.NoError(t, json.Unmarshal(out, &rows))
		require.Len(t, rows, len(want))
		for i, row := range rows {
			require.Equal(t, want[i][3], row.Stream)
			require.Equal(t, want[i][5], row.Type)
			require.Equal(t, want[i][11], row.Data)
		}
	})
}

// rendered is an event as Go writes it.
func rendered(t *testing.T, e events.Envelope) []string {
	t.Helper()
	record, err := events.Encode(e.Event)
	require.NoError(t, err)
	var cause, node string
	if e.Cause != 0 {
		cause = e.Cause.String()
	}
	if !e.Node.IsZero() {
		node = e.Node.String()
	}
	number := func(n int64) string { return events.Position(n).String() }
	return []string{
		e.Position.String(), e.Tx.String(), e.At.String(), e.Stream.String(), number(int64(e.Version)), e.Event.EventType().String(),
		number(int64(record.Schema)), e.Actor, e.Command, cause, node, strings.ReplaceAll(string(record.Data), storetest.Secret, "***"),
	}
}

func textRows(t *testing.T, rows *sql.Rows) (out [][]string) {
	t.Helper()
	defer rows.Close()
	columns, err := rows.Columns()
	require.NoError(t, err)
	for rows.Next() {
		row, dest := make([]sql.NullString, len(columns)), make([]any, len(columns))
		for i := range row {
			dest[i] = &row[i]
		}
		require.NoError(t, rows.Scan(dest...))
		text := make([]string, len(columns))
		for i := range row {
			text[i] = row[i].String
		}
		out = append(out, text)
	}
	require.NoError(t, rows.Err())
	return out
}

// L-12: the SQL that the readable views share writes any ULID as Go does.
func TestULIDText(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "towline.db"), Options{})
	stmt, err := s.DB().Prepare(`SELECT ` + ULIDText("id") + ` FROM (SELECT $1 AS id)`)
	require.NoError(t, err)
	defer stmt.Close()
	check := func(t require.TestingT, id events.RunID) {
		var got string
		require.NoError(t, stmt.QueryRow(id[:]).Scan(&got))
		require.Equal(t, id.String(), got)
	}
	check(t, events.RunID{})
	all := events.RunID{}
	for i := range all {
		all[i] = 0xff
	}
	check(t, all)
	rapid.Check(t, func(t *rapid.T) {
		check(t, events.RunID(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "id")))
	})
	var null sql.NullString
	require.NoError(t, stmt.QueryRow(nil).Scan(&null))
	require.False(t, null.Valid)
}

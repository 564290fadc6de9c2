package sqlite_test

import (
	"context"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/sink"
	"github.com/towline-dev/towline/sink/sinktest"
	"github.com/towline-dev/towline/sink/sqlite"
)

// HU-5, RW-6, W6, W-1, W-8, L-10, HU-4, I-29: the laws of every sink.
func TestLaws(t *testing.T) {
	sinktest.Run(t, func(t *testing.T) sinktest.Bench {
		path := filepath.Join(t.TempDir(), "readings.db")
		d := at(t, path)
		return sinktest.Bench{
			Open: func(takeOver bool) sink.Opener {
				if takeOver {
					return at(t, path, sqlite.TakeOver())
				}
				return at(t, path)
			},
			Rows:  func(surface string) []sinktest.Row { return rowsOf(t, d, surface) },
			State: func(source, dataset string) json.RawMessage { return stateOf(t, d, source, dataset) },
		}
	})
}

// rowsOf reads a table of the generic shape.
func rowsOf(t *testing.T, d *sqlite.Destination, surface string) (out []sinktest.Row) {
	t.Helper()
	if len(query(t, d, `SELECT 1 FROM sqlite_schema WHERE name = $1`, surface)) == 0 {
		return nil
	}
	db, err := d.DB(context.Background())
	require.NoError(t, err)
	rows, err := db.Query(`SELECT source, key, window, data FROM "` + strings.ReplaceAll(surface, `"`, `""`) + `"`)
	require.NoError(t, err)
	defer rows.Close()
	for rows.Next() {
		var r sinktest.Row
		require.NoError(t, rows.Scan(&r.Source, &r.Key, &r.Window, (*[]byte)(&r.Data)))
		out = append(out, r)
	}
	require.NoError(t, rows.Err())
	return out
}

func stateOf(t *testing.T, d *sqlite.Destination, source, dataset string) json.RawMessage {
	t.Helper()
	found := query(t, d, `SELECT state FROM _towline_state WHERE source = $1 AND dataset = $2`, source, dataset)
	if len(found) == 0 {
		return nil
	}
	return json.RawMessage(found[0])
}

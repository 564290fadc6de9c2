package jsonl

import (
	"bufio"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/sink"
	"github.com/towline-dev/towline/sink/sinktest"
)

var (
	_ sink.Opener = (*Destination)(nil)
	_ sink.Fenced = (*Destination)(nil)
)

// HU-5, RW-6, W-1, W-8, I-29: the laws of every sink.
func TestLaws(t *testing.T) {
	sinktest.Run(t, func(t *testing.T) sinktest.Bench {
		dir := filepath.Join(t.TempDir(), "out")
		return sinktest.Bench{
			Open: func(takeOver bool) sink.Opener {
				if takeOver {
					return Dir(dir, TakeOver())
				}
				return Dir(dir)
			},
			Rows: func(surface string) []sinktest.Row { return rowsOf(t, dir, surface) },
			State: func(source, dataset string) json.RawMessage {
				var r datasetRecord
				_, err := read(filepath.Join(Dir(dir).datasetFolder(sink.Scope{Source: source, Dataset: dataset}), datasetFile), &r)
				require.NoError(t, err)
				return r.State
			},
		}
	})
}

// rowsOf reads what a person would: every line of every file of a surface.
func rowsOf(t testing.TB, dir, surface string) []sinktest.Row {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(escapeGlob(filepath.Join(dir, fileName(surface))), "*", "*.jsonl"))
	require.NoError(t, err)
	var out []sinktest.Row
	for _, name := range files {
		out = append(out, linesOf(t, name)...)
	}
	return out
}

func linesOf(t testing.TB, name string) []sinktest.Row {
	t.Helper()
	f, err := os.Open(name)
	require.NoError(t, err)
	defer f.Close()
	var out []sinktest.Row
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var l line
		require.NoError(t, json.Unmarshal(lines.Bytes(), &l), "%s", lines.Bytes())
		out = append(out, sinktest.Row{Source: l.Source, Key: l.Key, Window: l.Window, Data: l.Data})
	}
	return out
}

// escapeGlob keeps what is special in a pattern from being so.
func escapeGlob(path string) string {
	out := ""
	for _, r := range path {
		if r == '\\' || r == '[' || r == '*' || r == '?' {
			out += "\\"
		}
		out += string(r)
	}
	return out
}

func scope(n int, w events.Window) sink.Scope {
	return sink.Scope{
		Source: "harbour", Dataset: "readings", Window: w, Run: events.RunID{15: 1}, Unit: events.UnitID{15: 2}, Attempt: n,
		Fence: events.NewFence(1, events.Position(n)), Surfaces: []string{"readings"}, Store: "store-1",
	}
}

type reading struct {
	Value int `json:"value"`
}

// commit is a whole attempt.
func commit(t testing.TB, d *Destination, s sink.Scope, n int, keys ...string) {
	t.Helper()
	w, err := d.Open(context.Background(), s)
	require.NoError(t, err)
	defer w.Abort()
	for _, k := range keys {
		require.NoError(t, w.Put(context.Background(), s.Surfaces[0], k, reading{n}))
	}
	require.NoError(t, w.Commit(context.Background()))
}

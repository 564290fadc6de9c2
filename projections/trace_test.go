package projections_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/internal/enginetest"
	"github.com/towline-dev/towline/projections"
	"github.com/towline-dev/towline/store"
)

// rows is a table as the changes of a trace make it: rows by key, columns by name.
type rows map[string]map[string]any

// replayed applies the changes of a trace to empty tables, and holds each to what it says was there before.
func replayed(t *testing.T, past *projections.Past, streams []events.StreamID, each func(projections.Traced)) map[string]rows {
	t.Helper()
	tables := map[string]rows{}
	for _, x := range projections.Tables() {
		tables[x.Name] = rows{}
	}
	var at events.Position
	for e, err := range past.Trace(t.Context(), streams) {
		require.NoError(t, err)
		require.Greater(t, e.Event.Position, at, "in the order of the log")
		at = e.Event.Position
		for _, c := range e.Changes {
			key := fmt.Sprint(c.Key...)
			row := tables[c.Table][key]
			require.Equal(t, c.Op == projections.RowNew, row == nil, "%d: %s %s", at, c.Table, c.Op)
			if row == nil {
				row = map[string]any{}
				tables[c.Table][key] = row
			}
			if c.Op == projections.RowChanged {
				require.NotEmpty(t, c.Columns)
			}
			for _, column := range c.Columns {
				require.Equal(t, row[column.Name], column.Before, "%d: %s.%s", at, c.Table, column.Name)
				require.NotEqual(t, column.Before, column.After, "%d: %s.%s", at, c.Table, column.Name)
				row[column.Name] = column.After
			}
			if c.Op == projections.RowGone {
				delete(tables[c.Table], key)
			}
		}
		if each != nil {
			each(e)
		}
	}
	return tables
}

// stored are the rows of the tables of a store, as replayed has them.
func stored(t *testing.T, s store.Store) map[string]rows {
	t.Helper()
	tables := map[string]rows{}
	require.NoError(t, s.Read(context.Background(), func(r store.Reader) error {
		for _, x := range projections.Tables() {
			tables[x.Name] = rows{}
			key := strings.Split(x.Key, ", ")
			var columns []string
			err := r.Query(func(row store.Row) error {
				var c string
				err := row.Scan(&c)
				columns = append(columns, c)
				return err
			}, `SELECT name FROM pragma_table_info($1) ORDER BY cid`, x.Name)
			if err != nil {
				return err
			}
			err = r.Query(func(row store.Row) error {
				values, into := make([]any, len(columns)), make([]any, len(columns))
				for i := range values {
					into[i] = &values[i]
				}
				if err := row.Scan(into...); err != nil {
					return err
				}
				keyed, held := make([]any, len(key)), map[string]any{}
				for i, c := range columns {
					if k := slices.Index(key, c); k >= 0 {
						keyed[k] = values[i]
					} else {
						held[c] = values[i]
					}
				}
				tables[x.Name][fmt.Sprint(keyed...)] = held
				return nil
			}, `SELECT `+strings.Join(columns, ", ")+` FROM `+x.Name)
			if err != nil {
				return err
			}
		}
		return nil
	}))
	return tables
}

// present takes the columns that are NULL out of tables: a trace does not speak of a column that was never set.
func present(tables map[string]rows) map[string]rows {
	for _, rows := range tables {
		for _, row := range rows {
			for column, value := range row {
				if value == nil {
					delete(row, column)
				}
			}
		}
	}
	return tables
}

// AS-5: the changes of a trace, applied to nothing, make the tables: every one is told, with what was there before, and
// nothing else is.
func TestATraceTellsEveryChange(t *testing.T) {
	for seed := range byte(enginetest.Fewer(3)) {
		seed += 31
		h := grown(t, seed, 500)
		log := enginetest.Since(t, h.e, 0)
		n := 0
		got := replayed(t, newPast(t, h.file, log[len(log)-1].Position), nil, func(e projections.Traced) {
			require.Equal(t, log[n], e.Event)
			n++
			for _, c := range e.Changes {
				require.False(t, c.Shared, "all streams are folded")
			}
		})
		require.Equal(t, len(log), n)
		require.Equal(t, present(stored(t, h.file)), present(got), "seed %d", seed)
	}
}

// AS-5: of some streams it tells their events and no others, and of the rows that are theirs alone the truth. The others
// say that they are shared.
func TestATraceOfARunTellsItsOwnRows(t *testing.T) {
	h := grown(t, 34, 700)
	a := h.asked()
	live := present(stored(t, h.file))
	shared := map[string]bool{}
	for _, run := range a.runs {
		past := newPast(t, h.file, a.head)
		var streams []events.StreamID
		require.NoError(t, past.View(t.Context(), func(v projections.View) (err error) {
			streams, err = v.StreamsOf(run)
			return err
		}))
		var want, got []events.Position
		for _, env := range enginetest.Since(t, h.e, 0) {
			if slices.Contains(streams, env.Stream) {
				want = append(want, env.Position)
			}
		}
		tables := replayed(t, past, streams, func(e projections.Traced) {
			got = append(got, e.Event.Position)
			for _, c := range e.Changes {
				if c.Shared {
					shared[c.Table] = true
				}
			}
		})
		require.Equal(t, want, got)
		for _, name := range []string{"runs", "units", "outbox", "jobs"} {
			for key, row := range present(tables)[name] {
				require.Equal(t, live[name][key], row, "%s of run %s", name, run)
			}
		}
		require.NoError(t, past.View(t.Context(), func(v projections.View) error { // the tables are its own again
			r, ok, err := v.Run(run)
			require.True(t, ok)
			require.Equal(t, run, r.Run)
			return err
		}))
	}
	require.NotEmpty(t, shared)
	for _, name := range []string{"runs", "units", "outbox", "jobs"} {
		require.NotContains(t, shared, name)
	}
}

// AS-5: while it goes on, the tables are the trace's; the log can be read. Behind a trace that was broken off they are
// free.
func TestATraceHasTheTablesToItself(t *testing.T) {
	h := grown(t, 35, 400)
	a := h.asked()
	past := newPast(t, h.file, a.head)
	steps := 0
	for e, err := range past.Trace(t.Context(), nil) {
		require.NoError(t, err)
		if steps++; steps < 250 { // in the second page
			continue
		}
		require.NoError(t, past.View(t.Context(), func(v projections.View) error { return second(v.Stream(e.Event.Stream)) }))
		require.ErrorContains(t, past.View(t.Context(), func(v projections.View) error { return second(v.Watermarks()) }), "being traced")
		for _, err := range past.Trace(t.Context(), nil) {
			require.ErrorContains(t, err, "being traced")
		}
		break
	}
	require.NoError(t, past.View(t.Context(), func(v projections.View) error { return second(v.Watermarks()) }))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	steps = 0
	var broken error
	for _, err := range past.Trace(ctx, nil) {
		if steps++; err != nil {
			broken = err
		}
		cancel()
	}
	require.ErrorIs(t, broken, context.Canceled)
	require.Less(t, steps, int(a.head))
}

// DUR-4: a trace reads a page at a time, whatever the streams hold.
func TestATraceReadsPages(t *testing.T) {
	h := told(t, 36, 1)
	p, err := h.e.Plan(t.Context(), planOf(h, 160))
	require.NoError(t, err)
	require.Greater(t, p.Units, 900)
	log := &counted{Log: h.file}
	past := newPast(t, log, enginetest.Head(t, h.e))
	var streams []events.StreamID
	require.NoError(t, past.View(t.Context(), func(v projections.View) (err error) {
		streams, err = v.StreamsOf(p.Run)
		return err
	}))
	log.pages, log.longest = nil, 0
	n := 0
	for e, err := range past.Trace(t.Context(), streams) {
		require.NoError(t, err)
		require.NotEmpty(t, e.Changes)
		n++
	}
	require.Equal(t, p.Units+4, n) // JobOpened, RunPlanned, OutboxArmed, JobLinked
	require.LessOrEqual(t, log.longest, 200)
}

// AS-5: an event of which an update changes nothing tells no change.
func TestATraceDoesNotTellWhatStaysTheSame(t *testing.T) {
	h := grown(t, 37, 700)
	seen := 0
	for e, err := range newPast(t, h.file, enginetest.Head(t, h.e)).Trace(t.Context(), nil) {
		require.NoError(t, err)
		if _, ok := e.Event.Event.(events.UnitLeaseExpired); ok {
			require.Empty(t, e.Changes, "the decision that follows writes the row")
			seen++
		}
		if _, ok := e.Event.Event.(events.UnitClaimed); ok {
			require.Len(t, e.Changes, 1)
			require.Equal(t, "status", e.Changes[0].Columns[0].Name, "in the order of the table")
			require.Equal(t, string(events.UnitIsDispatching), e.Changes[0].Columns[0].Before)
			require.Equal(t, string(events.UnitIsRunning), e.Changes[0].Columns[0].After)
		}
	}
	require.Positive(t, seen)
}

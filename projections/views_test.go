package projections_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/projections"
)

// plain is what a person sees in a plain SQL shell.
func (h *history) plain(query string, args ...any) (rows []map[string]any) {
	h.tb.Helper()
	r, err := h.file.DB().Query(query, args...)
	require.NoError(h.tb, err, query)
	defer r.Close()
	columns, err := r.Columns()
	require.NoError(h.tb, err)
	for r.Next() {
		values, into := make([]any, len(columns)), make([]any, len(columns))
		for i := range values {
			into[i] = &values[i]
		}
		require.NoError(h.tb, r.Scan(into...))
		row := map[string]any{}
		for i, c := range columns {
			row[c] = values[i]
		}
		rows = append(rows, row)
	}
	require.NoError(h.tb, r.Err())
	return rows
}

// D-22, L-12: every projection has a view of each of its tables, with as many rows, in which no column holds bytes: ids
// are ULIDs and times are RFC 3339.
func TestEveryTableHasAReadableView(t *testing.T) {
	h := toldUntil(t, 11, (*history).fillsTables)
	h.sql(`INSERT INTO begun (run_id, target, node, begun_at) VALUES (zeroblob(16), 'a', zeroblob(16), 1)`)
	ulid := regexp.MustCompile(`^[0-7][0-9A-HJKMNP-TV-Z]{25}$`)
	instant := regexp.MustCompile(`^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{6}Z$`)
	ids, times := 0, 0
	for _, p := range projections.All() {
		for _, table := range p.Tables() {
			rows := h.plain(`SELECT * FROM "` + table.Name + `_view"`)
			require.NotEmpty(t, rows, "%s: the history has none of it", table.Name)
			require.Len(t, rows, int(h.plain(`SELECT count(*) AS n FROM "` + table.Name + `"`)[0]["n"].(int64)))
			for _, row := range rows {
				for column, value := range row {
					_, isBytes := value.([]byte)
					require.False(t, isBytes, "%s.%s", table.Name, column)
					text, _ := value.(string)
					switch {
					case value == nil:
					case strings.HasSuffix(column,
						"_id") || column == "owner" || column == "incarnation" || strings.HasSuffix(column,
						"_node") || column == "closed_by":
						require.Regexp(t, ulid, text, "%s.%s", table.Name, column)
						ids++
					case strings.HasSuffix(column,
						"_at") || column == "at" || column == "window_from" || column == "window_to":
						require.Regexp(t, instant, text, "%s.%s", table.Name, column)
						times++
					}
				}
			}
		}
	}
	require.Greater(t, ids, 100)
	require.Greater(t, times, 100)
}

// D-22: the views say the same as the answers of the program.
func TestTheReadableViewsSayTheSame(t *testing.T) {
	h := told(t, 12, 300)
	h.view(func(v projections.View) {
		runs, err := v.Runs(events.RunID{}, 1000)
		require.NoError(t, err)
		require.NotEmpty(t, runs)
		for _, run := range runs {
			row := h.plain(`SELECT * FROM runs_view WHERE run_id = $1`, run.Run.String())
			require.Len(t, row, 1)
			require.Equal(t, run.Job.String(), row[0]["job_id"])
			require.Equal(t, events.MicrosOf(run.PlannedAt).String(), row[0]["planned_at"])
			units, err := v.Units(run.Run, 0, 1000)
			require.NoError(t, err)
			for _, u := range units {
				row := h.plain(`SELECT * FROM units_view WHERE unit_id = $1`, u.Unit.String())
				require.Len(t, row, 1)
				require.Equal(t, string(u.Status), row[0]["status"])
				require.Equal(t, u.Run.String(), row[0]["run_id"])
				if !u.LeaseExpiresAt.IsZero() {
					require.Equal(t, events.MicrosOf(u.LeaseExpiresAt).String(), row[0]["lease_expires_at"])
				}
				if u.Window.From.IsZero() {
					require.Nil(t, row[0]["window_from"])
				}
			}
		}
		nodes, err := v.Nodes(1000)
		require.NoError(t, err)
		for _, n := range nodes {
			require.Len(t, h.plain(`SELECT 1 FROM nodes_view WHERE incarnation = $1 AND gone = $2`,
				n.Incarnation.String(), n.Gone), 1)
		}
	})
}

// E-4, SC-346: the secret of a lease or a claim stands in the stored payloads and nowhere else: in no column of any
// table and of any view.
func TestNoTokenIsInAnyTableOrView(t *testing.T) {
	var tokens []string
	h := toldUntil(t, 13, func(h *history) bool {
		tokens = nil
		require.NoError(t, h.e.Log(t.Context(), 0, func(e events.Envelope) error {
			switch e := e.Event.(type) {
			case events.UnitClaimed:
				tokens = append(tokens, string(e.Token))
			case events.OutboxClaimed:
				tokens = append(tokens, string(e.Token))
			}
			return nil
		}))
		return len(tokens) > 50
	})
	names := h.plain(`SELECT name FROM sqlite_schema WHERE type IN ('table', 'view') AND name <> 'events' AND name NOT LIKE 'sqlite_%'`)
	require.Greater(t, len(names), 15)
	searched := 0
	for _, n := range names {
		for _, row := range h.plain(fmt.Sprintf(`SELECT * FROM "%s"`, n["name"])) {
			for column, value := range row {
				text, ok := value.(string)
				if !ok {
					continue
				}
				searched++
				for _, token := range tokens {
					require.NotContains(t, text, token, "%s.%s", n["name"], column)
				}
			}
		}
	}
	require.Greater(t, searched, 1000)
	require.NotEmpty(t, h.plain(`SELECT 1 FROM events WHERE data LIKE '%' || $1 || '%'`, tokens[0]),
		"the search would have found it")
}

// E-3: no secret of an error text reaches a table.
func TestNoSecretOfAnErrorTextIsStored(t *testing.T) {
	h := toldUntil(t, 22, func(h *history) bool {
		return len(h.plain(`SELECT 1 FROM units WHERE error_text = 'password=***'`)) > 0
	})
	require.NotEmpty(t, h.plain(`SELECT 1 FROM units WHERE error_text = 'password=***'`))
	require.Empty(t, h.plain(`SELECT 1 FROM units WHERE error_text LIKE '%hunter2%'`))
	require.Empty(t, h.plain(`SELECT 1 FROM events WHERE data LIKE '%hunter2%'`))
}

// HC-46, HC-55: paging by stable cursors: with seven rows a page and inserts going on, every row that was there at the
// start comes exactly once, in order, also where times are equal.
func TestPagesMissNothingAndRepeatNothing(t *testing.T) {
	h := told(t, 15, 1)
	plan := func() {
		for range 3 { // at one frozen instant
			_, err := h.e.Plan(t.Context(), towline.RunSpec{Sync: "plain", Mode: towline.Backfill,
				Since: start.AddDate(0, 0, -2), Before: start})
			require.NoError(t, err)
		}
	}
	for range 10 {
		plan()
	}
	var runs []events.RunID
	var jobs []events.JobID
	var units []events.UnitID
	h.view(func(v projections.View) {
		all, err := v.Runs(events.RunID{}, 1000)
		require.NoError(t, err)
		for _, r := range all {
			runs = append(runs, r.Run)
		}
		js, err := v.Jobs(events.JobID{}, 1000)
		require.NoError(t, err)
		for _, j := range js {
			jobs = append(jobs, j.Job)
		}
		us, err := v.Units(runs[0], 0, 1000)
		require.NoError(t, err)
		for _, u := range us {
			units = append(units, u.Unit)
		}
	})
	require.Len(t, runs, 30)
	require.True(t, slices.IsSortedFunc(runs, func(a, b events.RunID) int { return b.Compare(a) }), "newest first")

	page := func(v projections.View, after events.RunID) ([]events.RunID, error) {
		page, err := v.Runs(after, 7)
		return ids(page, func(r projections.SyncRun) events.RunID { return r.Run }), err
	}
	require.Equal(t, runs, paged(t, h, plan, page))
	require.Equal(t, jobs, paged(t, h, plan, func(v projections.View, after events.JobID) ([]events.JobID, error) {
		if after.IsZero() {
			after = successor(jobs[0]) // begin where the first reader began, not at what was planned since
		}
		page, err := v.Jobs(after, 7)
		return ids(page, func(j projections.JobRun) events.JobID { return j.Job }), err
	}))
	ordinal := 0
	require.Equal(t, units, paged(t, h, plan, func(v projections.View, _ events.UnitID) ([]events.UnitID, error) {
		page, err := v.Units(runs[0], ordinal, 7)
		if n := len(page); n > 0 {
			ordinal = page[n-1].Ordinal
		}
		return ids(page, func(u projections.SyncRunUnit) events.UnitID { return u.Unit }), err
	}))
}

// successor is the next id.
func successor(id events.JobID) events.JobID {
	for i := len(id) - 1; i >= 0; i-- {
		if id[i]++; id[i] != 0 {
			break
		}
	}
	return id
}

func ids[T, ID any](page []T, id func(T) ID) (out []ID) {
	for _, x := range page {
		out = append(out, id(x))
	}
	return out
}

// paged reads pages until there are no more, with something happening between two of them.
func paged[ID any](t *testing.T, h *history, between func(), page func(projections.View, ID) ([]ID, error)) (all []ID) {
	t.Helper()
	var after ID
	for {
		var got []ID
		h.view(func(v projections.View) {
			var err error
			got, err = page(v, after)
			require.NoError(t, err)
		})
		if len(got) == 0 {
			return all
		}
		require.LessOrEqual(t, len(got), 7)
		all = append(all, got...)
		after = got[len(got)-1]
		between()
	}
}

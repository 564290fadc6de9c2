package sqlite

import (
	"database/sql"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// HU-5: what a commit costs depends on its window, not on what the file holds. The plans say so.
func TestPlans(t *testing.T) {
	changes := Table{
		Name: "changes", Source: "repo", Window: "window", Key: []string{"repo", "sha", "path"},
		Columns: []Column{{"sha", "TEXT"}, {"path", "TEXT"}, {"added", "INTEGER"}},
	}
	refs := Table{Name: "refs", Source: "repo", Key: []string{"name", "repo"}, Columns: []Column{{"name", "TEXT"}}}
	for _, tc := range []struct {
		table   Table
		generic bool
		query   func(*table) string
		plan    []string
	}{
		{changes, false, func(t *table) string { return t.dropWindow }, []string{
			"SEARCH t USING INDEX changes_by_window (repo=? AND window=?)", "CORRELATED SCALAR SUBQUERY 1", "SEARCH s USING PRIMARY KEY (sha=? AND path=?)"}},
		{changes, false, func(t *table) string { return t.dropSource }, []string{
			"SEARCH t USING COVERING INDEX sqlite_autoindex_changes_1 (repo=?)", "CORRELATED SCALAR SUBQUERY 1", "SEARCH s USING PRIMARY KEY (sha=? AND path=?)"}},
		{changes, false, func(t *table) string { return t.merge }, []string{"SCAN temp._towline_stage_changes"}}, // in the order of the key
		{refs, false, func(t *table) string { return t.dropSource }, []string{
			"SEARCH t USING INDEX refs_by_source (repo=?)", "CORRELATED SCALAR SUBQUERY 1", "SEARCH s USING PRIMARY KEY (name=?)"}},
		{genericTable("readings"), true, func(t *table) string { return t.dropWindow }, []string{
			"SEARCH t USING INDEX readings_by_window (source=? AND window=?)", "CORRELATED SCALAR SUBQUERY 1", "SEARCH s USING PRIMARY KEY (key=?)"}},
	} {
		c, err := tc.table.compile(tc.generic)
		require.NoError(t, err)
		require.Equal(t, tc.plan, plan(t, c, tc.query(c)), tc.query(c))
	}
}

func plan(t *testing.T, c *table, query string) []string {
	t.Helper()
	db, err := sql.Open("sqlite", ":memory:")
	require.NoError(t, err)
	defer db.Close()
	db.SetMaxOpenConns(1)
	for _, ddl := range append(c.create, c.stage) {
		_, err := db.Exec(ddl)
		require.NoError(t, err)
	}
	rows, err := db.Query("EXPLAIN QUERY PLAN "+query, "x", "y")
	require.NoError(t, err)
	defer rows.Close()
	var out []string
	for rows.Next() {
		var id, parent, unused int
		var detail string
		require.NoError(t, rows.Scan(&id, &parent, &unused, &detail))
		out = append(out, strings.TrimSpace(detail))
	}
	require.NoError(t, rows.Err())
	return out
}

package projections_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/towline-dev/towline/projections"
	"github.com/towline-dev/towline/store"
)

// fillsTables: each table has a row, but for that of effects at work, which empties with every restart.
func (h *history) fillsTables() bool {
	return !slices.ContainsFunc(projections.Tables(), func(t projections.Table) bool {
		return t.Name != "begun" && len(h.plain(`SELECT 1 FROM "`+t.Name+`" LIMIT 1`)) == 0
	})
}

// toldOfAll is a history with rows in every table.
func toldOfAll(t *testing.T) *history {
	t.Helper()
	h := toldUntil(t, 18, (*history).fillsTables)
	h.sql(`INSERT INTO left_state (source, dataset, unit_id, state) VALUES ('o''clock', 'a', x'00', '1'), ('o''clock', 'b', x'00', '2'),
		('p', '', x'00', '3')`) // several rows, and odd names
	h.sql(`INSERT INTO begun (run_id, target, begun_at) VALUES (zeroblob(16), 'a', 1), (zeroblob(16), 'b', 2)`)
	return h
}

// pageOf is a page of rows that are held in memory.
func pageOf(rows []projections.HashedRow, after projections.RowKey, limit int) projections.Page {
	from := 0
	if after != nil {
		from = slices.IndexFunc(rows, func(r projections.HashedRow) bool { return r.Key[0].(int64) > after[0].(int64) })
		if from < 0 {
			from = len(rows)
		}
	}
	page := rows[from:min(from+limit, len(rows))]
	return projections.Page{Rows: page, More: len(page) == limit}
}

// I-26: whatever two tables hold and however large a page is, the pages together find each row in which they differ,
// once and in order.
func TestPagesFindEveryDifference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		table := func(name string) (rows []projections.HashedRow, hashes map[int64]uint64) {
			hashes = rapid.MapOf(rapid.Int64Range(0, 20), rapid.Uint64Range(0, 2)).Draw(t, name)
			for k := range int64(21) {
				if h, ok := hashes[k]; ok {
					rows = append(rows, projections.HashedRow{Key: projections.RowKey{k}, Hash: h})
				}
			}
			return rows, hashes
		}
		live, has := table("live")
		folded, wants := table("folded")
		limit := rapid.IntRange(1, 8).Draw(t, "limit")

		var want, got []projections.Difference
		for k := range int64(21) {
			a, x := has[k]
			b, y := wants[k]
			if x != y || a != b {
				want = append(want, projections.Difference{Key: projections.RowKey{k}, Has: x, Want: y})
			}
		}
		var after projections.RowKey
		for range len(live) + len(folded) + 1 {
			var found []projections.Difference
			found, after = projections.Compare(pageOf(live, after, limit), pageOf(folded, after, limit))
			got = append(got, found...)
			if after == nil {
				break
			}
		}
		require.Nil(t, after, "each round goes on by a row at least")
		require.Equal(t, want, got)
	})
}

// I-26: the pages of a table are the whole of it, each row once. They walk its primary key, so that none is sorted and
// no two rows share a place.
func TestPagesWalkThePrimaryKey(t *testing.T) {
	h := toldOfAll(t)
	for _, table := range projections.Tables() {
		h.read(func(r store.Reader) {
			rec := &recorder{ReadTx: r}
			whole, err := projections.ReadPage(rec, table, nil, 10_000)
			require.NoError(t, err)
			require.False(t, whole.More)
			require.NotEmpty(t, whole.Rows, table.Name)
			var rows []projections.HashedRow
			for page := (projections.Page{More: true}); page.More; {
				var after projections.RowKey
				if len(rows) > 0 {
					after = rows[len(rows)-1].Key
				}
				page, err = projections.ReadPage(rec, table, after, 2)
				require.NoError(t, err)
				rows = append(rows, page.Rows...)
			}
			require.Equal(t, whole.Rows, rows)
			for _, q := range rec.queries {
				if strings.Contains(q.query, "LIMIT") {
					require.NotContains(t, h.plan(q), "TEMP B-TREE", q.query)
				}
				if strings.Contains(q.query, ") > (") {
					require.Contains(t, h.plan(q), "SEARCH", q.query)
				}
			}
		})
		key := h.plain(`SELECT group_concat(name, ', ') AS key FROM (SELECT name FROM pragma_table_info($1) WHERE pk > 0 ORDER BY pk)`, table.Name)
		require.Equal(t, table.Key, key[0]["key"], table.Name)
	}
}

// I-26: a row that differs is named by its key, in a form that can be asked for, and by what the log says.
func TestADifferenceNamesItsRow(t *testing.T) {
	h := toldOfAll(t)
	explain := func(table projections.Table, d projections.Difference) (text string) {
		h.read(func(r store.Reader) {
			var err error
			text, err = d.Explain(r, table)
			require.NoError(t, err)
		})
		return text
	}
	for _, table := range projections.Tables() {
		var first projections.RowKey
		h.read(func(r store.Reader) {
			page, err := projections.ReadPage(r, table, nil, 1)
			require.NoError(t, err)
			first = page.Rows[0].Key
		})
		text := explain(table, projections.Difference{Key: first, Has: true, Want: true})
		name, row, ok := strings.Cut(text, " should be: ")
		require.True(t, ok, text)
		where, ok := strings.CutPrefix(name, "table "+table.Name+", row ")
		require.True(t, ok, text)
		require.Len(t, h.plain(`SELECT * FROM `+table.Name+` WHERE `+where), 1, where)
		require.Equal(t, name+" is missing; it should be: "+row, explain(table, projections.Difference{Key: first, Want: true}))
		require.Equal(t, name+" should not be there", explain(table, projections.Difference{Key: first, Has: true}))
	}
}

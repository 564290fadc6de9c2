package sqlite_test

import (
	"context"
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/sink"
	"github.com/towline-dev/towline/sink/sqlite"
)

var commits = sqlite.Table{
	Name: "commits", Source: "repo", Window: "window", Key: []string{"repo", "sha"},
	Columns: []sqlite.Column{{"sha", "TEXT"}, {"size", "INTEGER"}, {"score", "REAL"}, {"blob", "BLOB"}, {"extra", "ANY"}, {"repaired", "INTEGER"}},
}

func commitsScope(n int) sink.Scope {
	s := scope(n, day)
	s.Dataset, s.Surfaces = "commits", []string{"commits"}
	return s
}

type commitRow struct {
	SHA      string  `json:"sha"`
	Size     *int64  `json:"size"`
	Score    float64 `json:"score"`
	Blob     []byte  `json:"blob"`
	Extra    any     `json:"extra"`
	Repaired bool    `json:"repaired"`
}

// HU-5: a declared table has the columns that were declared, and no digit of a number changes on the way.
func TestADeclaredTableHoldsTheFields(t *testing.T) {
	d := file(t, sqlite.Tables(commits))
	w := open(t, d, commitsScope(1))
	size := int64(9007199254740993)
	ctx := context.Background()
	require.NoError(t, w.Put(ctx, "commits", "1", commitRow{SHA: "a\x00\"\\<é>\u2028", Size: &size, Score: 1, Blob: []byte{0, 255}, Extra: 7, Repaired: true}))
	require.NoError(t, w.Put(ctx, "commits", "2", map[string]any{"sha": "b", "size": nil, "score": 1e300, "blob": nil, "extra": "x", "repaired": 0}))
	require.NoError(t, w.Put(ctx, "commits", "3", json.RawMessage(` {"repaired":false, "extra": {"a": [1, "}"]}, "blob": "", "score": -2.5, "size": -9223372036854775808, "sha": "c"} `)))
	require.NoError(t, w.Commit(ctx))
	require.Equal(t, []string{
		"harbour|a\x00\"\\<é>\u2028|9007199254740993|1.0|00FF|7|integer|1|2024-03-01",
		"harbour|b|NULL|1.0e+300|NULL|x|text|0|2024-03-01",
		`harbour|c|-9223372036854775808|-2.5||{"a":[1,"}"]}|text|0|2024-03-01`,
	}, query(t, d, `SELECT repo, sha, size, CAST(score AS TEXT), CASE WHEN blob IS NOT NULL THEN hex(blob) END, extra, typeof(extra), repaired, window FROM commits ORDER BY sha`))
}

// HU-5: a row that does not fit its table is an error of the Put, which says why, and never a guess.
func TestARowMustFitItsTable(t *testing.T) {
	d := file(t, sqlite.Tables(commits))
	w := open(t, d, commitsScope(1))
	good := func(change string, v any) map[string]any {
		m := map[string]any{"sha": "a", "size": 1, "score": 1, "blob": nil, "extra": nil, "repaired": 0}
		m[change] = v
		return m
	}
	missing := good("sha", "a")
	delete(missing, "size")
	for _, tc := range []struct {
		row  any
		want string
	}{
		{good("colour", 1), `has a field colour, which the table does not declare`},
		{good("repo", "x"), `has a field repo, which the sink fills in`},
		{good("window", "x"), `has a field window, which the sink fills in`},
		{missing, `has no field size`},
		{good("sha", nil), `NOT NULL constraint failed`},
		{good("size", 1.5), `column size: 1.5 is no whole number`},
		{good("size", json.Number("9223372036854775808")), `is no whole number of 64 bits`},
		{good("size", "12"), `column size: a string is no INTEGER`},
		{good("score", json.Number("1e999")), `out of range`},
		{good("score", math.NaN()), `unsupported value: NaN`},
		{good("score", math.Inf(1)), `unsupported value: +Inf`},
		{good("extra", uint64(math.MaxUint64)), `column extra: 18446744073709551615 is no whole number of 64 bits`},
		{good("sha", "a\xff"), `column sha: the key is not valid UTF-8`},
		{json.RawMessage("{\"sha\":\"a\xff\",\"size\":1,\"score\":1,\"blob\":null,\"extra\":null,\"repaired\":0}"), `column sha: the key is not valid UTF-8`},
		{good("blob", 1), `a number is no BLOB`},
		{good("blob", "%"), `illegal base64`},
		{good("score", []int{1}), `is no REAL`},
		{json.RawMessage(`{"sha":"a","sha":"b"}`), `field sha is there twice`},
		{[]int{1}, `must encode as a JSON object, []int does not`},
		{nil, `must encode as a JSON object`},
		{(*commitRow)(nil), `must encode as a JSON object`},
		{make(chan int), `unsupported type`},
	} {
		require.ErrorContains(t, w.Put(context.Background(), "commits", "k", tc.row), tc.want)
	}
	require.Zero(t, w.Rows())
	require.NoError(t, w.Put(context.Background(), "commits", "k", good("sha", "b")))
	require.NoError(t, w.Commit(context.Background()))
	require.Equal(t, []string{"b"}, query(t, d, `SELECT sha FROM commits`))
}

// HU-5: whole numbers beyond 2^53 keep their digits, in JSON and in columns, and text stays text, whatever is in it.
func TestNoDigitAndNoByteChanges(t *testing.T) {
	ctx := context.Background()
	d := file(t, sqlite.Tables(commits))
	w := open(t, d, scope(1, day))
	for _, key := range []string{"a\x00b", "a\x00c", "a\xff", "a\xfe", "", "\ufffd"} {
		require.NoError(t, w.Put(ctx, "readings", key, map[string]any{"value": int64(9007199254740993), "id": uint64(math.MaxUint64), "text": "\x00\xff"}))
	}
	require.NoError(t, w.Commit(ctx))
	require.Equal(t, []string{"", "a\x00b", "a\x00c", "a\xfe", "a\xff", "\ufffd"}, query(t, d, `SELECT key FROM readings ORDER BY key`), "each is a row")
	require.Equal(t, []string{`{"id":18446744073709551615,"text":"\u0000\ufffd","value":9007199254740993}|9007199254740993`},
		query(t, d, `SELECT DISTINCT data, data ->> 'value' FROM readings`))
	raw := open(t, d, scope(2, day))
	require.NoError(t, raw.Put(ctx, "readings", "a", json.RawMessage("{\"value\":\"\xff\"}")))
	require.NoError(t, raw.Commit(ctx))
	require.Equal(t, []string{"harbour|a|2024-03-01|\ufffd"}, query(t, d, readings), "the row is valid JSON for any reader")

	w = open(t, d, commitsScope(1))
	row := func(sha string, extra any) map[string]any {
		return map[string]any{"sha": sha, "size": int64(math.MaxInt64), "score": 1e20, "blob": nil, "extra": extra, "repaired": 0}
	}
	for sha, extra := range map[string]any{`1\ufffd`: 1e20, "2\ufffd": int64(math.MinInt64), "3": 0.1, "4": "\xff"} {
		require.NoError(t, w.Put(ctx, "commits", "", row(sha, extra)))
	}
	require.NoError(t, w.Commit(ctx))
	require.Equal(t, []string{
		`1\ufffd|1.0e+20|real`, "2\ufffd|-9223372036854775808|integer", "3|0.1|real", "4|\ufffd|text",
	}, query(t, d, `SELECT sha, CAST(extra AS TEXT), typeof(extra) FROM commits WHERE size = 9223372036854775807 ORDER BY sha`))
}

// HU-5: a row of ten megabytes is a row.
func TestALargeRow(t *testing.T) {
	d := file(t)
	w := open(t, d, scope(1, day))
	require.NoError(t, w.Put(context.Background(), "readings", "a", map[string]string{"value": strings.Repeat("é", 5<<20)}))
	require.NoError(t, w.Put(context.Background(), "readings", "b", reading{1}))
	require.NoError(t, w.Commit(context.Background()))
	require.Equal(t, []string{"a|5242880", "b|1"}, query(t, d, `SELECT key, length(data ->> 'value') FROM readings ORDER BY key`))
}

// W-8: a table without a window column is replaced as a whole, by units without a window only.
func TestATableWithoutWindowsHoldsASnapshot(t *testing.T) {
	refs := sqlite.Table{Name: "refs", Source: "repo", Key: []string{"name", "repo"}, Columns: []sqlite.Column{{"name", "TEXT"}, {"target", "TEXT"}}}
	s := scope(1, snapshot)
	s.Dataset, s.Surfaces = "refs", []string{"refs"}
	d := file(t, sqlite.Tables(refs))
	row := func(name, target string) map[string]string { return map[string]string{"name": name, "target": target} }
	w := open(t, d, s)
	require.NoError(t, w.Put(context.Background(), "refs", "main", row("main", "1")))
	require.NoError(t, w.Put(context.Background(), "refs", "old", row("old", "1")))
	require.NoError(t, w.Commit(context.Background()))
	w = open(t, d, s)
	require.NoError(t, w.Put(context.Background(), "refs", "main", row("main", "2")))
	require.NoError(t, w.Commit(context.Background()))
	require.Equal(t, []string{"harbour|main|2"}, query(t, d, `SELECT * FROM refs`))

	s.Window = day
	_, err := d.Open(context.Background(), s)
	require.ErrorContains(t, err, `keeps no window, so it cannot replace the window 2024-03-01`)
}

// HU-5: a row may be nothing but its key.
func TestATableOfKeysOnly(t *testing.T) {
	tags := sqlite.Table{Name: "tags", Source: "repo", Window: "window", Key: []string{"repo", "window", "tag"}, Columns: []sqlite.Column{{"tag", "TEXT"}}}
	d := file(t, sqlite.Tables(tags))
	for n, w := range []sink.Scope{scope(1, day), scope(2, day), scope(1, nextDay)} {
		w.Dataset, w.Surfaces = "tags", []string{"tags"}
		a := open(t, d, w)
		for _, tag := range []string{"x", "y"}[:2-n%2] {
			require.NoError(t, a.Put(context.Background(), "tags", tag, map[string]string{"tag": tag}))
		}
		require.NoError(t, a.Commit(context.Background()))
	}
	// The window is part of the key here, so the same tag is a row in each.
	require.Equal(t, []string{"harbour|x|2024-03-01", "harbour|x|2024-03-02", "harbour|y|2024-03-02"}, query(t, d, `SELECT * FROM tags ORDER BY window, tag`))
}

// CFG: a mistake in the declaration is one clear sentence, at the first use.
func TestMistakesInADeclaration(t *testing.T) {
	with := func(change func(*sqlite.Table)) sqlite.Option {
		t := commits
		change(&t)
		return sqlite.Tables(t)
	}
	for want, option := range map[string]sqlite.Option{
		"must hold the source column":             with(func(t *sqlite.Table) { t.Key = []string{"sha"} }),
		"must hold a column of the row":           with(func(t *sqlite.Table) { t.Key = []string{"repo"} }),
		`key column path is none of`:              with(func(t *sqlite.Table) { t.Key = []string{"repo", "path"} }),
		`has type "VARCHAR": use one of`:          with(func(t *sqlite.Table) { t.Columns = []sqlite.Column{{"sha", "VARCHAR"}} }),
		`column "SHA" is empty or named twice`:    with(func(t *sqlite.Table) { t.Columns = []sqlite.Column{{"sha", "TEXT"}, {"SHA", "TEXT"}} }),
		`column "" is empty`:                      with(func(t *sqlite.Table) { t.Source = "" }),
		`mode "append" is not known`:              with(func(t *sqlite.Table) { t.Mode = "append" }),
		`mode "merge" is not known`:               sqlite.Write("merge"),
		`surface "_towline_x" cannot be a table:`: with(func(t *sqlite.Table) { t.Name = "_towline_x" }),
		`table commits is declared twice`:         sqlite.Tables(commits, commits),
	} {
		d := file(t, option)
		_, err := d.Open(context.Background(), commitsScope(1))
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, d.Script(context.Background(), `SELECT 1`), want)
		_, err = d.DB(context.Background())
		require.ErrorContains(t, err, want)
	}
}

// HU-5: a table that is there in another shape is never written to, and never changed.
func TestATableOfAnotherShapeIsRefused(t *testing.T) {
	for _, ddl := range []string{
		`CREATE TABLE commits (repo TEXT, sha TEXT)`,
		`CREATE TABLE commits (repo TEXT, sha TEXT, size TEXT, score REAL, blob BLOB, extra ANY, repaired INTEGER, window TEXT, PRIMARY KEY (repo, sha))`,
		`CREATE TABLE commits (repo TEXT, sha TEXT, size INTEGER, score REAL, blob BLOB, extra ANY, repaired INTEGER, window TEXT, PRIMARY KEY (sha))`,
		`CREATE VIEW commits AS SELECT 1 AS repo`,
	} {
		d := file(t, sqlite.Tables(commits))
		require.NoError(t, d.Script(context.Background(), ddl))
		_, err := d.Open(context.Background(), commitsScope(1))
		require.ErrorContains(t, err, "has another shape than (repo, sha, size, score, blob, extra, repaired, window) with key (repo, sha)")
	}

	d := file(t, sqlite.Tables(commits))
	require.NoError(t, d.Script(context.Background(),
		`CREATE TABLE commits (note TEXT DEFAULT 'mine', repo TEXT, sha TEXT, size INTEGER, score REAL, blob BLOB, extra ANY, repaired INTEGER, window TEXT, PRIMARY KEY (repo, sha))`))
	w := open(t, d, commitsScope(1))
	require.NoError(t, w.Put(context.Background(), "commits", "a", commitRow{SHA: "a"}))
	require.NoError(t, w.Commit(context.Background()))
	require.Equal(t, []string{"mine|a"}, query(t, d, `SELECT note, sha FROM commits`), "columns of one's own are allowed")
}

package docs_test

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/node"
	"github.com/towline-dev/towline/transport"
)

// operating is the document for whoever runs a program that embeds Towline.
const operating = "OPERATING.md"

// noticeBlock is the payload of a post_sync message, as it is sent.
func noticeBlock(t testing.TB) string {
	t.Helper()
	run, err := events.ParseRunID("01M8MJC5BMDV35NZ6QZ8JQQP1X")
	require.NoError(t, err)
	day := func(d int) time.Time { return time.Date(2026, time.March, d, 0, 0, 0, 0, time.UTC) }
	m, err := transport.Notice{
		Kind: events.KindPostSync, Run: run, Wakeup: 1, Target: "index",
		Post: &transport.PostNotice{
			Generation: decider.Generation(run), Provider: "readings", Sources: []string{"harbour", "ridge"},
			Datasets: []string{"readings"}, From: day(1), To: day(4),
		},
	}.Message(decider.TargetMessageID(run, 1, "index"))
	require.NoError(t, err)
	var b bytes.Buffer
	require.NoError(t, json.Indent(&b, m.Payload, "", "  "))
	return "```json\n" + b.String() + "\n```\n"
}

// column is one column of a readable view, with its type as people see it: id, time, number or text.
type column struct{ view, name, kind string }

// rendered are the columns of the views that are made of more than one column of a table, or of one of another name.
var rendered = map[string]string{
	"log.time": "time", "log.stream": "text", "log.type": "text", "log.node": "id", "log.data": "text",
	"schedules_view.status": "text", "schedules_view.max": "number", "schedules_view.auto_pause_after": "number",
	"controls_view.what": "text", "controls_view.status": "text", "controls_view.source": "text",
	"jobs_view.status": "text", "runs_view.posts": "text", "runs_view.unconfirmed": "text", "units_view.duration_ms": "number",
	"clock_view.behind_ms": "number", "restored_view.status": "text", "restores_view.at": "time",
	"feed_groups_view.lag": "number", "feed_groups_view.waiting_since": "time",
	"messages_view.state": "text", "messages_view.payload": "text", "messages_view.encoding": "text", "messages_view.metadata": "text",
	"messages_view.submitted_at": "time", "messages_view.available_at": "time", "messages_view.attempts": "number", "messages_view.lost": "number",
	"messages_view.last_dispatched_at": "time", "messages_view.error_category": "text", "messages_view.error_text": "text",
	"messages_view.settled_at": "time",
}

// viewColumns are the columns of every readable view, in the order in which the release has them. The type of a column
// that is not passed on as it is follows from that of the table: bytes are ids, and integers are times.
func viewColumns(t testing.TB) []column {
	t.Helper()
	n, err := node.Open(t.Context(), node.Config{Store: filepath.Join(t.TempDir(), "views.db")})
	require.NoError(t, err)
	defer func() { require.NoError(t, n.Close()) }()
	rows, err := n.DB().QueryContext(t.Context(), `
		SELECT v.name, c.name, c.type, b.type
		FROM sqlite_schema AS v
		JOIN pragma_table_info(v.name) AS c
		LEFT JOIN pragma_table_info(replace(v.name, '_view', '')) AS b ON b.name = c.name
		WHERE v.type = 'view'
		ORDER BY v.rowid, c.cid`)
	require.NoError(t, err)
	defer rows.Close()
	shown := map[string]string{"TEXT": "text", "INTEGER": "number"}
	made := map[string]string{"BLOB": "id", "INTEGER": "time"}
	var out []column
	for rows.Next() {
		var c column
		var declared, below sql.NullString
		require.NoError(t, rows.Scan(&c.view, &c.name, &declared, &below))
		switch whole := c.view + "." + c.name; {
		case rendered[whole] != "":
			c.kind = rendered[whole]
		case declared.String != "":
			c.kind = shown[declared.String]
		default:
			c.kind = made[below.String]
		}
		require.NotEmpty(t, c.kind, "%s.%s has no type: name it in rendered", c.view, c.name)
		out = append(out, c)
	}
	require.NoError(t, rows.Err())
	require.NotEmpty(t, out)
	return out
}

func viewTable(t testing.TB) string {
	var rows [][]string
	for _, c := range viewColumns(t) {
		if len(rows) == 0 || rows[len(rows)-1][0] != code(c.view) {
			rows = append(rows, []string{code(c.view), ""})
		}
		last := rows[len(rows)-1]
		if last[1] != "" {
			last[1] += ", "
		}
		last[1] += code(c.name)
		if c.kind != "text" {
			last[1] += " " + c.kind
		}
	}
	return table([]string{"view", "columns"}, rows)
}

// logLine is one place that writes to the log.
type logLine struct{ level, text, fields, where string }

// levels are the methods of a logger, the gravest first.
var levels = []string{"Error", "Warn", "Info", "Debug"}

// logLines are the lines that a program which embeds the engine may find in its log. Those of Watermill's own parts are
// details.
func logLines(t testing.TB) []logLine {
	t.Helper()
	logger := regexp.MustCompile(`(?i)logger(\(\))?$`)
	var out []logLine
	for _, dir := range packageDirs(t) {
		name := strings.TrimPrefix(strings.TrimPrefix(filepath.ToSlash(dir), ".."), "/")
		if name == "" {
			name = "towline"
		}
		if top, _, _ := strings.Cut(name, "/"); slices.Contains([]string{"cmd", "sim", "internal"}, top) {
			continue
		}
		entries, err := os.ReadDir(dir)
		require.NoError(t, err)
		for _, e := range entries {
			if !strings.HasSuffix(e.Name(), ".go") || strings.HasSuffix(e.Name(), "_test.go") {
				continue
			}
			files := token.NewFileSet()
			f, err := parser.ParseFile(files, filepath.Join(dir, e.Name()), nil, parser.SkipObjectResolution)
			require.NoError(t, err)
			ast.Inspect(f, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok {
					return true
				}
				method, ok := call.Fun.(*ast.SelectorExpr)
				if ok && slices.Contains(levels, method.Sel.Name) && logger.MatchString(expression(method.X)) {
					out = append(out, lineOf(t, files, call, method.Sel.Name, name))
				}
				return true
			})
		}
	}
	require.NotEmpty(t, out)
	slices.SortFunc(out, func(a, b logLine) int {
		if a.level != b.level {
			return slices.Index(levels, a.level) - slices.Index(levels, b.level)
		}
		return strings.Compare(a.text+a.where+a.fields, b.text+b.where+b.fields)
	})
	return slices.Compact(out)
}

// expression is who a method is called on, as far as it is made of names and calls.
func expression(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	case *ast.CallExpr:
		return expression(e.Fun) + "()"
	}
	return ""
}

func lineOf(t testing.TB, files *token.FileSet, call *ast.CallExpr, level, where string) logLine {
	t.Helper()
	var texts []string
	for i, arg := range call.Args {
		text, ok := arg.(*ast.BasicLit)
		switch {
		case ok && (i == 0 || i%2 == 1):
			s, err := strconv.Unquote(text.Value)
			require.NoError(t, err)
			texts = append(texts, s)
		case i == 0:
			t.Fatalf("%s: a line of the log without a fixed text", files.Position(call.Pos()))
		}
	}
	return logLine{level, texts[0], strings.Join(texts[1:], ", "), where}
}

func logTable(t testing.TB) string {
	var rows [][]string
	for _, l := range logLines(t) {
		if l.level != "Debug" {
			rows = append(rows, []string{l.level, l.text, l.fields, code(l.where)})
		}
	}
	return table([]string{"level", "line", "fields", "from"}, rows)
}

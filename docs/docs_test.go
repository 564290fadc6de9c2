// Package docs_test holds the documents to the code. What stands between the lines "<!-- begin NAME -->" and
// "<!-- end NAME -->" of a document is printed from the code; a test compares the two, and -rewrite writes it anew.
package docs_test

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var rewrite = flag.Bool("rewrite", false, "write the printed parts of the documents anew")

// printed are the parts that documents may hold, by name. "file PATH" and "func PATH NAME" need no entry: they are that
// file, or that function of it, as a code block.
var printed = map[string]func(testing.TB) string{
	"deliveries":       deliveryTable,
	"crash windows":    windowTable,
	"recovery":         recoveryTable,
	"retry policies":   policyTable,
	"categories":       categoryTable,
	"knobs":            knobTable,
	"package layering": layerTable,
	"log lines":        logTable,
	"notice":           noticeBlock,
	"views":            viewTable,
	"invariants":       invariantTable,
	"handbook":         handbookTable,
}

var begin = regexp.MustCompile(`(?m)^<!-- begin `)

var region = regexp.MustCompile(`(?ms)^<!-- begin (.+?) -->\n(.*?)^<!-- end (.+?) -->$`)

func documents(t testing.TB) []string {
	t.Helper()
	var out []string
	for _, pattern := range []string{"../*.md", "*.md", "decisions/*.md", "handbook/*.md"} {
		found, err := filepath.Glob(pattern)
		require.NoError(t, err)
		out = append(out, found...)
	}
	require.NotEmpty(t, out)
	return out
}

func TestPrintedPartsAreTrue(t *testing.T) {
	used := map[string]bool{}
	for _, doc := range documents(t) {
		old, err := os.ReadFile(doc)
		require.NoError(t, err)
		require.Equal(t, len(begin.FindAll(old, -1)), len(region.FindAll(old, -1)), "%s: a printed part has no end", doc)
		fresh := region.ReplaceAllStringFunc(string(old), func(part string) string {
			m := region.FindStringSubmatch(part)
			require.Equal(t, m[1], m[3], "%s: begin and end differ", doc)
			used[m[1]] = true
			return fmt.Sprintf("<!-- begin %s -->\n%s<!-- end %s -->", m[1], print(t, m[1]), m[1])
		})
		if *rewrite {
			require.NoError(t, os.WriteFile(doc, []byte(fresh), 0o644))
			continue
		}
		if line, was, is, differ := firstDifference(string(old), fresh); differ {
			t.Errorf("%s:%d: the code says\n  %s\nand the document\n  %s\nRun go test ./docs -rewrite, and read what changed.", doc, line, is, was)
		}
	}
	for name := range printed {
		require.True(t, used[name], "no document has the part %q", name)
	}
}

// firstDifference is the first line, counted from 1, at which two texts differ.
func firstDifference(a, b string) (line int, inA, inB string, differ bool) {
	x, y := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := range min(len(x), len(y)) {
		if x[i] != y[i] {
			return i + 1, x[i], y[i], true
		}
	}
	return min(len(x), len(y)) + 1, "(its end)", "(its end)", len(x) != len(y)
}

func print(t testing.TB, name string) string {
	t.Helper()
	if path, ok := strings.CutPrefix(name, "file "); ok {
		return codeBlock(t, path)
	}
	if place, ok := strings.CutPrefix(name, "func "); ok {
		path, function, _ := strings.Cut(place, " ")
		return functionBlock(t, path, function)
	}
	require.Contains(t, printed, name)
	return "\n" + printed[name](t) + "\n"
}

func codeBlock(t testing.TB, path string) string {
	t.Helper()
	code, err := os.ReadFile(filepath.Join("..", path))
	require.NoError(t, err)
	return "```" + strings.TrimPrefix(filepath.Ext(path), ".") + "\n" + string(code) + "```\n"
}

// functionBlock is one function of a file, with its comment.
func functionBlock(t testing.TB, path, name string) string {
	t.Helper()
	source, err := os.ReadFile(filepath.Join("..", path))
	require.NoError(t, err)
	files := token.NewFileSet()
	f, err := parser.ParseFile(files, path, source, parser.ParseComments|parser.SkipObjectResolution)
	require.NoError(t, err)
	for _, d := range f.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok && fn.Name.Name == name {
			return "```go\n" + string(source[files.Position(fn.Doc.Pos()).Offset:files.Position(fn.End()).Offset]) + "\n```\n"
		}
	}
	t.Fatalf("%s has no function %s", path, name)
	return ""
}

var fence = regexp.MustCompile("(?ms)^```([a-z]*)\n(.*?)^```$")

// An example that nobody runs is a promise that nobody keeps. Go examples are files or functions that a test builds and
// runs, commands are those of .ci/run, those of towline are in a script of it, and questions to the store are asked of one (TestTheEmbeddedEngineIsKilledAndGoesOn).
// Commands and questions of OPERATING.md have tests of their own beside it. Blocks of plain text are pictures.
func TestEveryExampleIsRun(t *testing.T) {
	ci, err := os.ReadFile("../.ci/run")
	require.NoError(t, err)
	script, err := os.ReadFile("../cmd/towline/testdata/script/readme.txt")
	require.NoError(t, err)
	for _, doc := range documents(t) {
		text, err := os.ReadFile(doc)
		require.NoError(t, err)
		elsewhere := region.ReplaceAllString(string(text), "")
		for _, block := range fence.FindAllStringSubmatch(elsewhere, -1) {
			switch block[1] {
			case "sh":
				if doc == operating || doc == "TOUR.md" {
					break // TestTheCommandsOfAnOperatorWork; TestScripts/tour, in cmd/towline
				}
				for line := range strings.Lines(block[2]) {
					command, _, _ := strings.Cut(line, " #")
					command = strings.TrimSpace(command)
					if args, is := strings.CutPrefix(command, "towline "); is {
						require.Contains(t, string(script), args, "%s: readme.txt does not run this", doc)
						continue
					}
					require.Contains(t, string(ci), command, "%s: .ci/run does not run this", doc)
				}
			case "sql", "text":
			default:
				t.Errorf("%s: a block of %q that is not printed from a file: nobody runs it\n%s", doc, block[1], block[2])
			}
		}
	}
}

var link = regexp.MustCompile(`\]\(([^)#\s]+)(?:#[^)]*)?\)`)

func TestLinksLeadSomewhere(t *testing.T) {
	for _, doc := range documents(t) {
		text, err := os.ReadFile(doc)
		require.NoError(t, err)
		for _, m := range link.FindAllStringSubmatch(string(text), -1) {
			if !strings.Contains(m[1], "://") {
				require.FileExists(t, filepath.Join(filepath.Dir(doc), m[1]), "%s: a link leads nowhere", doc)
			}
		}
	}
}

// table prints rows as a Markdown table.
func table(head []string, rows [][]string) string {
	var b strings.Builder
	line := func(cells []string) { fmt.Fprintf(&b, "| %s |\n", strings.Join(cells, " | ")) }
	line(head)
	line(slices.Repeat([]string{"---"}, len(head)))
	for _, r := range rows {
		line(r)
	}
	return b.String()
}

func code(s string) string { return "`" + s + "`" }

func codes[S ~string](list []S) string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = code(string(s))
	}
	return strings.Join(out, ", ")
}

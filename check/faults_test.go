package check

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
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/events"
)

var rewrite = flag.Bool("rewrite", false, "write what the checker says of every planted fault anew; read the diff")

// fault is one planted fault and all that the checker says of it.
type fault struct {
	rule, name string
	by         string          // what finds it: Log, or a method
	at         events.Position // where it shows
	found      []Violation
}

// naming are the violations that name the fault: its invariant, at its position.
func (f fault) naming() (out []Violation) {
	for _, v := range f.found {
		if v.Rule == f.rule && v.Position == f.at {
			out = append(out, v)
		}
	}
	return out
}

func requireNamed(t testing.TB, f fault) {
	t.Helper()
	require.NotEmpty(t, f.naming(), "want %s at %d, got:\n%s", f.rule, f.at, lines(f.found))
}

func lines(vs []Violation) (s string) {
	for _, v := range vs {
		s += fmt.Sprintln(" ", v)
	}
	return s
}

// everyFault plants all faults of the suite, in the logs and in what a checker is handed beside the log.
func everyFault(t testing.TB) (out []fault) {
	t.Helper()
	for _, c := range corruptions {
		log, at := c.inject(t)
		out = append(out, fault{c.rule, c.name, ByLog, at, checkLog(log, Options{}).Violations()})
	}
	for _, c := range placeCorruptions {
		log, at := c.inject(t)
		out = append(out, fault{c.rule, c.name, ByLog, at, checkLog(log, Options{}).Violations()})
	}
	for _, c := range brokerCorruptions {
		out = append(out, c.inject(t))
	}
	for _, c := range providerCorruptions {
		out = append(out, c.inject(t))
	}
	for _, c := range standstills {
		out = append(out, c.inject(t))
	}
	slices.SortStableFunc(out, func(a, b fault) int { return number(a.rule) - number(b.rule) })
	return out
}

// number of an invariant.
func number(rule string) int {
	n, _ := strconv.Atoi(strings.TrimPrefix(rule, "I-"))
	return n
}

// report is one place in the sources of this package that reports a violation: an invariant, and the sentence of which
// the text of the violation is made.
type report struct {
	place, rule, format string
	sentence            *regexp.Regexp
}

var verb = regexp.MustCompile(`%(\\\+)?[a-zT]`) // quoted

// reports reads them out of the sources.
func reports(t testing.TB) (out []report) {
	t.Helper()
	sources, err := filepath.Glob("*.go")
	require.NoError(t, err)
	for _, source := range sources {
		if strings.HasSuffix(source, "_test.go") {
			continue
		}
		files := token.NewFileSet()
		f, err := parser.ParseFile(files, source, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Name.Name == "wrong" || fn.Name.Name == "stray" { // they hand on what they are given
				continue
			}
			ast.Inspect(fn, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok {
					return true
				}
				method, ok := call.Fun.(*ast.SelectorExpr)
				if !ok {
					return true
				}
				rule, format := "I-2", 1
				switch method.Sel.Name {
				case "report":
					rule, format = literal(call.Args[0]), 3
				case "wrong":
					rule, format = literal(call.Args[0]), 2
				case "stray":
				default:
					return true
				}
				r := report{place: files.Position(call.Pos()).String(), rule: rule, format: literal(call.Args[format])}
				require.NotEmpty(t, r.rule, "%s: no literal names the invariant", r.place)
				require.NotEmpty(t, r.format, "%s: the sentence is no literal", r.place)
				r.sentence = regexp.MustCompile("(?s)^" + verb.ReplaceAllString(regexp.QuoteMeta(r.format), ".*") + "$")
				out = append(out, r)
				return true
			})
		}
	}
	return out
}

func literal(e ast.Expr) string {
	if l, ok := e.(*ast.BasicLit); ok {
		s, _ := strconv.Unquote(l.Value)
		return s
	}
	return ""
}

// Section 23: the checker says nothing that no planted fault needs it to say. For each place that reports a violation there
// is a fault that is named by this place alone, so it would go unnamed without it.
func TestEveryReportIsNeeded(t *testing.T) {
	all := reports(t)
	of := func(v Violation) string {
		var places []string
		for _, r := range all {
			if r.rule == v.Rule && r.sentence.MatchString(v.Text) {
				places = append(places, r.place)
			}
		}
		require.Len(t, places, 1, "one place says: %s", v)
		return places[0]
	}
	needed, seen := map[string]bool{}, map[string]bool{}
	for _, f := range everyFault(t) {
		places := map[string]bool{}
		for _, v := range f.naming() {
			places[of(v)] = true
		}
		for place := range places {
			seen[place] = true
			needed[place] = needed[place] || len(places) == 1
		}
	}
	for _, r := range all {
		switch {
		case !seen[r.place]:
			t.Errorf("%s: no planted fault is named by %s: %s", r.place, r.rule, r.format)
		case !needed[r.place]:
			t.Errorf("%s: every fault named by it is named by another place too, %s: %s", r.place, r.rule, r.format)
		}
	}
}

// Section 23: what the checker says of every planted fault: the invariant, the position, the stream and the evidence.
// go test ./check -rewrite writes it.
func TestFaultsAreNamedByTheirEvidence(t *testing.T) {
	const golden = "../testfixtures/check/faults.txt"
	var b strings.Builder
	for _, f := range everyFault(t) {
		fmt.Fprintf(&b, "%s %s\n", f.rule, f.name)
		for _, v := range f.naming() {
			require.NotContains(t, v.Text, "%!", "a verb of the sentence has no value")
			fmt.Fprintf(&b, "\t%s\n", v)
		}
	}
	if *rewrite {
		require.NoError(t, os.MkdirAll(filepath.Dir(golden), 0o755))
		require.NoError(t, os.WriteFile(golden, []byte(b.String()), 0o644))
		return
	}
	want, err := os.ReadFile(golden)
	require.NoError(t, err, "run the test with -rewrite")
	require.Equal(t, string(want), b.String(), "read the difference, and run the test with -rewrite if it is meant")
}

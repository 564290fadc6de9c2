package decider

import (
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// impure is what a rule must not touch, by package; a * is the whole package. Each would make a replay decide otherwise
// than the log did.
var impure = map[string]string{
	"math/rand": "*", "math/rand/v2": "*", "crypto/rand": "*", // no entropy: it is a field of the command
	"os": "*", "os/exec": "*", "syscall": "*", "net": "*", "net/http": "*", "database/sql": "*", "log": "*", "log/slog": "*", // no world
	"context": "*", "sync": "*", "sync/atomic": "*", "runtime": "*", "unsafe": "*", // nobody to wait for, nothing to share
	"maps":                     "*", // its iterators have the order of a map
	"time":                     "Now Since Until Sleep After AfterFunc Tick NewTimer NewTicker Local LoadLocation",
	"github.com/oklog/ulid/v2": "Make Now New MustNew DefaultEntropy Monotonic",
}

// L-4: rules, and the facts they are made of, have no clock, no randomness, no I/O and no order that a run chooses.
func TestRulesAndFactsArePure(t *testing.T) {
	for path, dir := range map[string]string{
		"github.com/towline-dev/towline/events": "../events", "github.com/towline-dev/towline/decider": ".",
	} {
		fset := token.NewFileSet()
		var files []*ast.File
		sources, err := filepath.Glob(filepath.Join(dir, "*.go"))
		require.NoError(t, err)
		for _, name := range sources {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			f, err := parser.ParseFile(fset, name, nil, 0)
			require.NoError(t, err)
			files = append(files, f)
		}
		require.NotEmpty(t, files, dir)
		require.Empty(t, impurities(t, fset, path, files))
	}
}

// L-4: the check above bites.
func TestImpurityIsFound(t *testing.T) {
	const source = `package p
import (
	"math/rand/v2"
	clock "time"
)
type order map[string]int
var now = clock.Now
func f(m order, in chan int) (sum int) {
	for _, v := range m { sum += v }
	for v := range in { sum += v }
	go f(nil, nil)
	in <- <-in
	select {}
	return sum + rand.Int() + int(clock.Since(clock.Time{}))
}`
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, "p.go", source, 0)
	require.NoError(t, err)
	found := strings.Join(impurities(t, fset, "p", []*ast.File{f}), "\n")
	for _, want := range []string{
		"p.go:3: import of math/rand/v2", "p.go:7: time.Now", "p.go:8: channel", "p.go:9: range over a map", "p.go:11: go statement",
		"p.go:12: channel", "p.go:13: channel", "p.go:14: time.Since",
	} {
		require.Contains(t, found, want)
	}
}

func impurities(t testing.TB, fset *token.FileSet, path string, files []*ast.File) (found []string) {
	t.Helper()
	report := func(n ast.Node, what string) {
		at := fset.Position(n.Pos())
		found = append(found, fmt.Sprintf("%s:%d: %s", at.Filename, at.Line, what))
	}
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}, Types: map[ast.Expr]types.TypeAndValue{}}
	conf := types.Config{Importer: importer.ForCompiler(fset, "source", nil)}
	_, err := conf.Check(path, fset, files, info)
	require.NoError(t, err)
	for _, f := range files {
		for _, i := range f.Imports {
			if p := strings.Trim(i.Path.Value, `"`); impure[p] == "*" {
				report(i, "import of "+p)
			}
		}
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.Ident:
				if o := info.Uses[n]; o != nil && o.Pkg() != nil && o.Parent() == o.Pkg().Scope() && isOneOf(impure[o.Pkg().Path()], o.Name()) {
					report(n, o.Pkg().Path()+"."+o.Name())
				}
			case *ast.RangeStmt:
				if tv, ok := info.Types[n.X]; ok {
					if _, isMap := tv.Type.Underlying().(*types.Map); isMap {
						report(n, "range over a map")
					}
				}
			case *ast.GoStmt:
				report(n, "go statement")
			case *ast.ChanType, *ast.SendStmt, *ast.SelectStmt:
				report(n, "channel")
			case *ast.UnaryExpr:
				if n.Op == token.ARROW {
					report(n, "channel")
				}
			}
			return true
		})
	}
	return found
}

func isOneOf(names, name string) bool {
	return slices.Contains(strings.Fields(names), name)
}

package towline_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const module = "github.com/towline-dev/towline"

// layer says whom a package may know, and why. The standard library is free but for pure packages.
type layer struct {
	why   string
	uses  []string            // packages of this module, relative to its root; "." is the root
	third []string            // packages of other modules
	files map[string][]string // packages of other modules that single files may import
	// pure: no clock, no randomness, no world. The same input gives the same output on every machine, for ever (L-4).
	pure bool
	// kit: a test suite for others to import. It may use what only tests may use, and nothing but tests may use it.
	kit bool
	// any: it wires the parts together, so it may import all of them.
	any bool
}

const (
	watermillRoot = "github.com/ThreeDotsLabs/watermill"
	message       = "github.com/ThreeDotsLabs/watermill/message"
	watermillSQL  = "github.com/ThreeDotsLabs/watermill-sql/v4/pkg/sql"
	forwarder     = "github.com/ThreeDotsLabs/watermill/components/forwarder"
	simpleLRU     = "github.com/hashicorp/golang-lru/v2/simplelru"
	modernc       = "modernc.org/sqlite"
	moderncCodes  = "modernc.org/sqlite/lib"
	huma          = "github.com/danielgtaylor/huma/v2"
	humago        = "github.com/danielgtaylor/huma/v2/adapters/humago"
	ulidModule    = "github.com/oklog/ulid/v2"
)

// layers is the direction of dependencies, from below to above. A package that is not in it fails the test: whoever adds
// one says here whom it may know.
var layers = map[string]layer{
	"events": {
		why: "the vocabulary of the log knows nobody, so that everybody may know it", pure: true,
		third: []string{ulidModule},
	},
	"docs": {
		why: "pages that programs show themselves; they know nobody",
	},
	"decider": {
		why: "rules are pure: what they need is a field of the command", pure: true,
		uses: []string{"events"},
	},
	"check": {
		why:  "the checker folds by itself; a fault that it shared with the rules would be invisible (I-26)",
		uses: []string{"events"},
	},
	"schedule": {
		why:   "when a schedule is due is pure, and knows nobody of this module; only the parser of the library is used",
		files: map[string][]string{"parse.go": {"github.com/netresearch/go-cron"}},
	},
	"store": {
		why:  "the port to the log knows neither SQL nor rules",
		uses: []string{"events"},
	},
	"store/sqlite": {
		why:  "one driver behind the port; the migrations are goose's, and only the outbox and the feed may know watermill-sql",
		uses: []string{"events", "feed", "internal/turn", "store"}, third: []string{modernc, moderncCodes},
		files: map[string][]string{
			"migrate.go": {"github.com/pressly/goose/v3"},
			"outbox.go":  {message, watermillRoot, watermillSQL},

			"feed.go":            {message, watermillRoot, watermillSQL},
			"feed_adapters.go":   {watermillSQL},
			"feed_follower.go":   {message, watermillRoot, watermillSQL},
			"feed_statements.go": {watermillSQL},
		},
	},
	"feed": {
		why:  "the form in which an event travels to a consumer; a store makes the topic, a node hands it out",
		uses: []string{"events"}, third: []string{message},
	},
	"store/storetest": {
		why: "the laws that every store passes", kit: true,
		uses: []string{"events", "store"},
	},
	"projections": {
		why:  "a row is the folded state of a stream, so the views use the fold of the rules",
		uses: []string{"events", "decider", "store"}, third: []string{simpleLRU},
	},
	".": {
		why:  "the engine: load, decide, append, project, react. It reaches no port but the store",
		uses: []string{"events", "decider", "check", "schedule", "store", "projections", "internal/exactjson", "internal/redact", "internal/sqldialect"}, third: []string{ulidModule, simpleLRU},
	},
	"sink": {
		why:  "a port: interfaces, and the fence for tables of one's own, which knows database/sql and no driver",
		uses: []string{"events", "internal/sqldialect"},
	},
	"sink/jsonl": {
		why:  "one destination behind the port; files need no library",
		uses: []string{"events", "sink"},
	},
	"sink/sinktest": {
		why: "the laws that every fenced sink passes", kit: true,
		uses: []string{"events", "sink"},
	},
	"sink/sqlite": {
		why:  "one destination behind the port, with its driver",
		uses: []string{"events", "sink"}, third: []string{modernc},
	},
	"provider": {
		why:  "a port: interfaces and typed errors",
		uses: []string{"events", "sink"},
	},
	"provider/git": {
		why:  "one source behind the port; it runs the git command and needs no library",
		uses: []string{"events", "provider", "sink", "internal/subprocess"},
	},
	"provider/exec": {
		why:  "one source behind the port: any program; it needs no library",
		uses: []string{"events", "provider", "sink", "internal/redact", "internal/subprocess"},
	},
	"provider/providertest": {
		why: "the laws that a provider passes", kit: true,
		uses: []string{"events", "provider", "sink"},
	},
	"transport": {
		why:  "a port: three outcomes around Watermill's message",
		uses: []string{"events", "internal/foreign"}, third: []string{watermillRoot, message},
	},
	"transport/local": {
		why:  "the in-process transport",
		uses: []string{"events", "transport"}, third: []string{message},
	},
	"transport/pull": {
		why:  "the transport of those who ask: it sends nothing",
		uses: []string{"transport"}, third: []string{message},
	},
	"transport/sqlbus": {
		why:  "one broker behind the port: a file; only its publishing half may know watermill-sql",
		uses: []string{"events", "internal/turn", "transport"}, third: []string{message, modernc, moderncCodes},
		files: map[string][]string{
			"bus.go":     {watermillSQL},
			"publish.go": {watermillRoot, watermillSQL},
		},
	},
	"transport/transporttest": {
		why: "the laws that every transport passes", kit: true,
		uses: []string{"events", "transport"}, third: []string{watermillRoot, message},
	},
	"relay": {
		why:  "a shell around the engine and the publisher; it may not know handlers, nor a driver",
		uses: []string{".", "events", "decider", "projections", "transport"}, third: []string{watermillRoot, message, forwarder},
	},
	"handlers": {
		why: "a shell around the engine, the provider and its sink; it may not know the relay, nor a driver",
		uses: []string{
			".", "events", "decider", "projections", "provider", "sink", "transport", "internal/foreign", "internal/redact",
			"internal/subprocess",
		},
		third: []string{message},
	},
	"node": {
		why: "one process: it ties the parts together and holds no rule. Brokers come to it as publishers",
		uses: []string{
			".", "events", "decider", "feed", "handlers", "provider", "relay", "sink", "store", "store/sqlite", "transport", "transport/local",
		},
		third: []string{message, "golang.org/x/sync/errgroup"},
	},
	"config": {
		why:   "the file and what node.Open needs of it: it names every provider and sink, and is named by programs only",
		uses:  []string{".", "events", "node", "provider", "provider/exec", "provider/git", "sink", "sink/jsonl", "sink/sqlite", "transport", "transport/pull"},
		third: []string{"go.yaml.in/yaml/v3"},
	},
	"internal/exactjson": {
		why: "which JSON comes out of every reader as it went in; it knows nobody of this module",
	},
	"internal/foreign": {
		why: "how code of somebody else is called; it knows nobody of this module",
	},
	"internal/turn": {
		why: "whose turn it is to write to a SQLite file; it knows nobody of this module",
	},
	"internal/redact": {
		why: "what makes a text of the world fit to be kept; it knows nobody of this module",
	},
	"internal/sqldialect": {
		why: "which SQL a database of the caller's understands; it knows database/sql and no driver",
	},
	"internal/subprocess": {
		why: "how another program is run and ended; it knows nobody of this module",
	},
	"internal/dbtest": {
		why: "real databases for tests of any package; it knows nobody of this module", kit: true,
		third: []string{"github.com/go-sql-driver/mysql", "github.com/jackc/pgx/v5/stdlib"},
	},
	"internal/enginetest": {
		why: "what tests of an engine share", kit: true,
		uses: []string{".", "events", "projections", "store/sqlite"},
	},
	"ident": {
		why:  "the names by which people call things, for every surface alike; it looks them up in a view and nowhere else",
		uses: []string{"events", "projections"},
	},
	"query": {
		why:  "the grammar of every search; what its words mean of a row, and the SQL for it, is said where the views are",
		uses: []string{"events", "decider", "ident", "projections"},
	},
	"httpapi": {
		why:  "the HTTP surface of one node: it reads views and calls the engine, and holds no rule",
		uses: []string{".", "docs", "events", "decider", "feed", "ident", "internal/exactjson", "node", "projections", "query", "relay", "store", "transport/pull", "wire"}, third: []string{huma, humago},
	},
	"wire": {
		why:  "the forms of the API, for those who serve it and those who use it: neither brings the library of the other",
		uses: []string{"events", "decider", "projections"},
	},
	"client": {
		why:  "the API from outside: it knows its forms, and nothing of who serves it",
		uses: []string{"events", "wire"},
	},
	"worker": {
		why:  "attempts at units of an engine that is asked over its API: it knows what a process does with a unit, and nothing of a store",
		uses: []string{".", "client", "events", "handlers", "node", "projections", "provider", "sink", "wire"},
	},
	"metrics": {
		why:  "a reader of one node for Prometheus: it follows the log and reads views, and nothing of the engine knows of it",
		uses: []string{"docs", "events", "node", "projections", "store/sqlite"}, third: []string{"github.com/VictoriaMetrics/metrics"},
	},
	"replay": {
		why:  "a reader of the engine's past: it has no port and no store, so it can change nothing",
		uses: []string{".", "events", "decider", "projections"}, third: []string{ulidModule},
	},
	"sim":       {why: "the world in one goroutine: it wires everything, and users import it, so it imports no test library", any: true},
	"sim/model": {why: "the rules once more, from the specification: what it shared with the engine, no comparison of the two could find"},
	"crash":     {why: "it starts the engine on the log of a real run, in the simulator; users import it, so it imports no test library", any: true},
	"sim/script": {
		why: "scenario files on a world; tests are one of its users, so it imports no test library",
		uses: []string{
			".", "events", "decider", "check", "projections", "handlers", "provider", "sim", "sink", "store/sqlite",
		},
		third: []string{message},
	},
	"towlinetest": {
		why: "the simulator for tests of one's own providers; users import it, so it brings no test library of others", kit: true,
		uses: []string{".", "events", "provider", "sim", "sink", "store/sqlite"},
	},
	"cmd/demo":    {why: "a program", any: true},
	"cmd/towline": {why: "the program: it parses, calls and prints", any: true},
}

// testOnly never reaches a production import.
var testOnly = []string{
	"testing", "github.com/stretchr/testify", "pgregory.net/rapid", "go.uber.org/goleak", "github.com/google/go-cmp",
	"github.com/getkin/kin-openapi",
}

// nameless packages say nothing of what they provide.
var nameless = []string{"util", "utils", "common", "helper", "helpers", "model", "models", "types", "misc"}

// source is one parsed production file.
type source struct {
	dir, name string
	file      *ast.File
}

func (s source) imports() []string {
	var out []string
	for _, i := range s.file.Imports {
		p, err := strconv.Unquote(i.Path.Value)
		if err != nil {
			panic(fmt.Sprintf("import %s: %v", i.Path.Value, err)) // the parser has read it
		}
		out = append(out, p)
	}
	return out
}

func TestDependenciesPointDown(t *testing.T) {
	for _, s := range sources(t) {
		l, known := layers[s.dir]
		if !known {
			t.Errorf("package %s is in no layer: say in layering_test.go whom it may know, and why", s.dir)
			continue
		}
		for _, imported := range s.imports() {
			if problem := l.forbids(s, imported); problem != "" {
				t.Errorf("%s imports %s: %s. %s: %s", path.Join(s.dir, s.name), imported, problem, s.dir, l.why)
			}
		}
	}
}

// forbids says why a file may not import a package, or "" if it may.
func (l layer) forbids(s source, imported string) string {
	if !l.kit && slices.ContainsFunc(testOnly, func(p string) bool { return within(imported, p) }) {
		return "only tests may use it"
	}
	if own, ok := ownPackage(imported); ok {
		switch {
		case layers[own].kit && !l.kit:
			return "it is a kit for tests"
		case !l.any && !slices.Contains(l.uses, own):
			return "the layer does not know it"
		}
		return ""
	}
	if isStandard(imported) {
		if l.pure && slices.ContainsFunc(world, func(p string) bool { return within(imported, p) }) {
			return "a pure package cannot reach the world"
		}
		return ""
	}
	if l.any || l.kit && slices.ContainsFunc(testOnly, func(p string) bool { return within(imported, p) }) {
		return ""
	}
	if !slices.Contains(l.third, imported) && !slices.Contains(l.files[s.name], imported) {
		return "the layer names no such library"
	}
	return ""
}

// world is what a pure package may not touch.
var world = []string{
	"context", "crypto/rand", "database", "log", "math/rand", "net", "os", "io/fs", "path/filepath", "runtime", "sync", "syscall",
	"testing", "time/tzdata", "unsafe",
}

// Rules and events have no clock, start nothing and walk no map: their order would differ from run to run (L-4, I-31).
func TestRulesArePure(t *testing.T) {
	clocks := []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker", "Local"}
	for _, s := range sources(t) {
		if !layers[s.dir].pure {
			continue
		}
		maps := mapNames(s.file)
		ast.Inspect(s.file, func(n ast.Node) bool {
			at := path.Join(s.dir, s.name)
			switch n := n.(type) {
			case *ast.GoStmt:
				t.Errorf("%s starts a goroutine", at)
			case *ast.SelectorExpr:
				if x, ok := n.X.(*ast.Ident); ok && x.Name == "time" && slices.Contains(clocks, n.Sel.Name) {
					t.Errorf("%s uses time.%s: the time is a field of the command", at, n.Sel.Name)
				}
			case *ast.RangeStmt:
				if name := lastName(n.X); maps[name] {
					t.Errorf("%s walks the map %s, which has no order", at, name)
				}
			}
			return true
		})
	}
}

// lastName is x of both x and s.x.
func lastName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	}
	return ""
}

// mapNames are the variables and fields of a file that are declared as maps, by their form alone.
func mapNames(f *ast.File) map[string]bool {
	names := map[string]bool{}
	isMap := func(e ast.Expr) bool {
		switch e := e.(type) {
		case *ast.MapType:
			return true
		case *ast.CompositeLit:
			_, ok := e.Type.(*ast.MapType)
			return ok
		case *ast.CallExpr:
			if f, ok := e.Fun.(*ast.Ident); ok && f.Name == "make" {
				_, ok := e.Args[0].(*ast.MapType)
				return ok
			}
		}
		return false
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			for i, rhs := range n.Rhs {
				if x, ok := n.Lhs[min(i, len(n.Lhs)-1)].(*ast.Ident); ok && isMap(rhs) {
					names[x.Name] = true
				}
			}
		case *ast.ValueSpec:
			for i, x := range n.Names {
				names[x.Name] = names[x.Name] || isMap(n.Type) || i < len(n.Values) && isMap(n.Values[i])
			}
		case *ast.Field:
			for _, x := range n.Names {
				names[x.Name] = names[x.Name] || isMap(n.Type)
			}
		}
		return true
	})
	return names
}

// A program that executes a template keeps every exported method of every type, for the template may name it: the binary of
// towline was 3 MiB larger (decision 0023).
func TestNoTemplateIsExecuted(t *testing.T) {
	for _, s := range sources(t) {
		for _, imported := range s.imports() {
			require.NotContains(t, []string{"text/template", "html/template"}, imported,
				"%s: write the text, see httpapi/markup.go and replay/markup.go", path.Join(s.dir, s.name))
		}
	}
}

func TestPackagesAreNamedForWhatTheyProvide(t *testing.T) {
	for _, s := range sources(t) {
		if s.dir == "sim/model" {
			continue // it is one, of the specification, and holds nobody's types
		}
		for _, name := range append(strings.Split(s.dir, "/"), s.file.Name.Name) {
			require.NotContains(t, nameless, name, "package %s: the name does not say what it provides", s.dir)
		}
	}
}

// sources parses every production file of the module, whatever its build constraints are.
func sources(t *testing.T) []source {
	t.Helper()
	var out []source
	set := token.NewFileSet()
	err := filepath.WalkDir(".", func(file string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && file != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" || isModule(file)):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go"):
			return nil
		}
		f, err := parser.ParseFile(set, file, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		out = append(out, source{dir: filepath.ToSlash(filepath.Dir(file)), name: filepath.Base(file), file: f})
		return nil
	})
	require.NoError(t, err)
	require.NotEmpty(t, out)
	return out
}

// ownPackage is the place of a package of this module, relative to its root.
func ownPackage(imported string) (string, bool) {
	if imported == module {
		return ".", true
	}
	return strings.CutPrefix(imported, module+"/")
}

// isStandard: only paths of other modules have a dot in their first part.
func isStandard(imported string) bool {
	first, _, _ := strings.Cut(imported, "/")
	return !strings.Contains(first, ".")
}

func within(imported, p string) bool { return imported == p || strings.HasPrefix(imported, p+"/") }

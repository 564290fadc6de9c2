package sim_test

import (
	"bufio"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/check"
	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/sim"
)

// reached is what has occurred in any world of this package: event types, every word of the vocabulary that an event holds,
// states, refusals, faults, and rows of the crash table. What is never reached was never tested, whatever the coverage says.
var reached = struct {
	sync.Mutex
	n map[string]int
}{n: map[string]int{}}

func reach(format string, args ...any) {
	reached.Lock()
	defer reached.Unlock()
	reached.n[fmt.Sprintf(format, args...)]++
}

// reachLog takes in a log: its events, and their words.
func reachLog(log []events.Envelope) {
	words := map[string]bool{}
	for _, env := range log {
		words["event "+env.Event.EventType().String()] = true
		reachWords(words, reflect.ValueOf(env.Event))
	}
	for w := range words {
		reach("%s", w)
	}
}

// reachStates takes in the states in which the transactions of a log have left things.
func reachStates(log []events.Envelope) {
	states := map[string]bool{}
	fold := check.New(check.Options{Keep: true})
	for i, env := range log {
		fold.Apply(env)
		if i+1 < len(log) && log[i+1].Tx == env.Tx {
			continue
		}
		fold.EndTx()
		for _, run := range fold.Runs() {
			states["RunStatus "+string(run.Status)] = true
			for _, u := range fold.Units(run.ID) {
				states["UnitStatus "+string(u.Status)] = true
			}
		}
	}
	for s := range states {
		reach("%s", s)
	}
}

// noDeath are the rows of the crash table that are no death of a node, and the words that a log must hold to show one.
var noDeath = map[string]string{
	"C-17": "event UnitLeaseExpired", "C-18": "event UnitLeaseExpired", "C-32": "event UnitCancelled", "C-39": "event BreakerOpened",
	"C-40": "event OutboxParked", "C-41": "Category never_started", "C-45": "event ClockStepped",
}

// reachFile takes in the rows of the crash table that a scenario file shows: it says so in its first lines, and what it has
// played must hold what the row is about. broken: somebody has died, or a call has failed.
func reachFile(t testing.TB, file string, log []events.Envelope, broken bool) {
	words := map[string]bool{}
	for _, env := range log {
		words["event "+env.Event.EventType().String()] = true
		reachWords(words, reflect.ValueOf(env.Event))
	}
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	head, _, _ := strings.Cut(string(text), "\n\n")
	for _, row := range regexp.MustCompile(`\bC-\d+\b`).FindAllString(head, -1) {
		word, alive := noDeath[row]
		require.True(t, alive && words[word] || !alive && broken, "%s says that it shows %s, and nothing of the kind has happened", file, row)
		reach("crash %s", row)
	}
}

// reachWords looks for the words of the vocabulary in whatever an event holds.
func reachWords(into map[string]bool, v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				reachWords(into, v.Field(i))
			}
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			reachWords(into, v.Index(i))
		}
	case reflect.Pointer:
		if !v.IsNil() {
			reachWords(into, v.Elem())
		}
	case reflect.String:
		if v.Type().PkgPath() != "" && v.String() != "" {
			into[v.Type().Name()+" "+v.String()] = true
		}
	}
}

// refusals are the errors by which the engine refuses.
var refusals = map[string]error{
	"ErrLeaseLost": decider.ErrLeaseLost, "ErrClaimLost": decider.ErrClaimLost, "ErrNotClaimable": decider.ErrNotClaimable,
	"ErrTooEarly": decider.ErrTooEarly, "ErrConflict": decider.ErrConflict, "ErrInvalid": decider.ErrInvalid,
}

// reachEntry takes in what has happened beside the log.
func reachEntry(e sim.Entry) {
	switch {
	case e.Fault.How == "":
	case e.Crash != nil:
		reach("fault %s %s", e.Crash.Port, e.Fault.How)
	default:
		reach("fault %s %s", e.Call.Port, e.Fault.How)
	}
	for name, err := range refusals {
		if errors.Is(e.Refused, err) {
			reach("refusal %s", name)
		}
	}
}

// reachable is all that could be reached, by what the code and the specification say.
func reachable() (all []string, err error) {
	for _, t := range events.Types() {
		all = append(all, "event "+t.String())
	}
	words, err := vocabulary()
	if err != nil {
		return nil, err
	}
	all = append(all, words...)
	for _, p := range []sim.Port{sim.PortPublish, sim.PortCommit, sim.PortProvider} {
		for _, how := range sim.FaultKinds(p) {
			all = append(all, fmt.Sprintf("fault %s %s", p, how))
		}
	}
	for name := range refusals {
		all = append(all, "refusal "+name)
	}
	spec, err := os.ReadFile(filepath.Join("..", "docs", "SPEC.md"))
	if err != nil {
		return nil, err
	}
	for _, row := range regexp.MustCompile(`(?m)^\| (C-\d+) \|`).FindAllStringSubmatch(string(spec), -1) {
		all = append(all, "crash "+row[1])
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

// vocabulary lists the words that events/vocabulary.go gives to its types.
func vocabulary() (words []string, err error) {
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join("..", "events", "vocabulary.go"), nil, 0)
	if err != nil {
		return nil, err
	}
	for _, d := range file.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.CONST {
			continue
		}
		for _, s := range g.Specs {
			v := s.(*ast.ValueSpec)
			typ, ok := v.Type.(*ast.Ident)
			if !ok {
				continue
			}
			for _, value := range v.Values {
				if lit, ok := value.(*ast.BasicLit); ok && lit.Kind == token.STRING {
					word, err := strconv.Unquote(lit.Value)
					if err != nil {
						return nil, err
					}
					words = append(words, typ.Name+" "+word)
				}
			}
		}
	}
	return words, nil
}

// unreached holds what was reached against what could be, and the list of what is owed: a line of it names a thing and why no
// world of this package reaches it. The list may not name what is reached.
func unreached() (problems []string, err error) {
	all, err := reachable()
	if err != nil {
		return nil, err
	}
	owed, err := owedReach()
	if err != nil {
		return nil, err
	}
	for _, what := range all {
		_, owes := owed[what]
		switch {
		case reached.n[what] == 0 && !owes:
			problems = append(problems, what+": no world has reached it, and testfixtures/reach/owed.txt does not say why")
		case reached.n[what] > 0 && owes:
			problems = append(problems, what+": it is reached; take it out of testfixtures/reach/owed.txt")
		}
		delete(owed, what)
	}
	for _, what := range slices.Sorted(maps.Keys(owed)) {
		problems = append(problems, what+": testfixtures/reach/owed.txt names it, and there is no such thing")
	}
	return problems, nil
}

func owedReach() (map[string]string, error) {
	f, err := os.Open(filepath.Join("..", "testfixtures", "reach", "owed.txt"))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	owed := map[string]string{}
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		what, why, ok := strings.Cut(line, ": ")
		if !ok {
			return nil, fmt.Errorf("testfixtures/reach/owed.txt: %q says no reason", line)
		}
		owed[what] = why
	}
	return owed, lines.Err()
}

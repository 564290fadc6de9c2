package sim_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The list of bugs is testfixtures/mutants/*.txt, a file for each area. A bug is a paragraph:
//
//	its name, a sentence that says what the program does wrong
//	breaks O-6, I-11                 the rules that it breaks; the first is the one of the table
//	finds I-11                       (optional) a word that the failed test must say
//	below ./relay: why               (optional) no world can show it: the tests of that package must find it
//	sample                           (optional) it is one of the few that run with every change
//	decider/register.go              where it is
//	  a line of context
//	- the line that is right
//	+ the line that is wrong
//
// It is one line; where two places hold the same rule it is one line in each, and the file is named again. White space at
// the ends of a line does not matter. Every text must occur in its file once.

var (
	oneMutant    = flag.String("mutant", "", "of the one-line bugs, only those whose names contain this")
	mutantSample = flag.Bool("mutant-sample", false, "of the one-line bugs, only those of the sample; it takes about a minute")
)

// mutant is a bug.
type mutant struct {
	at      string // where it stands in the list
	name    string
	breaks  []string
	finds   string
	below   string // a package; empty: the simulator
	sample  bool
	changes []change
}

// change is one line of a mutant, with its context.
type change struct {
	file       string
	old, new   []string
	out, added int // lines of it that are no context
}

// stage is a part of the suite. Those that tell most in the shortest time come first.
type stage struct{ pkg, run, skip string }

const (
	// short are the tests that run a scenario once, and say what it must do.
	short = `^(TestTheActsHappen|TestTheScenarioDoesEverything|TestADeadNodeHasNoEffect|TestScenarios|TestSwarm)$`
	// blunt are those that see any change, and those that take long.
	blunt = `^(TestTheBudgetOfAUnit|TestTheSameSeedGivesTheSameLog|TestRecoveryIsReplayOfTheLog)$`
	// listed are the tests of this file.
	listed = `^(TestMutants|TestTheMutantsAreInTheTree)$`
)

func (m mutant) stages() []stage {
	if m.below != "" {
		return []stage{{pkg: m.below}}
	}
	return []stage{
		{pkg: "./sim", run: short},
		{pkg: "./sim", skip: short + "|" + blunt + "|" + listed},
		{pkg: "./sim", run: blunt},
	}
}

// SC-372, design 10, style 33: the suite is held against bugs of one line, each in a copy of the tree. It must find every one.
func TestMutants(t *testing.T) {
	if !*mutants && !*mutantSample && *oneMutant == "" {
		t.Skip("it compiles and runs the suite once per bug: run with -mutants -v -timeout 0")
	}
	if *mutants {
		requireSound(t)
	}
	table := [][]string{{"bug", "rule", "found by", "seconds"}}
	survived := 0
	began := time.Now()
	for _, m := range readMutants(t) {
		if *mutantSample && !m.sample || !strings.Contains(m.name, *oneMutant) {
			continue
		}
		if end, bounded := t.Deadline(); bounded && time.Until(end) < time.Minute {
			t.Errorf("the time of go test is up before %q: run with -timeout 0", m.name)
			break
		}
		t.Run(m.name, func(t *testing.T) {
			f := found{}
			// What stops the run of a bug (it does not compile, or is found for another reason) is a bug that was not found.
			defer func() {
				t.Logf("%s, %.1f s", cmp.Or(f.by, "survived"), f.after.Seconds())
				if f.by == "" {
					survived++
				}
				table = append(table, []string{m.name, m.breaks[0], cmp.Or(f.by, "-"), fmt.Sprintf("%.1f", f.after.Seconds())})
			}()
			f = m.run(t)
			if f.by == "" {
				t.Error("it survives: no test fails with it")
			}
		})
	}
	ran := len(table) - 1
	require.Positive(t, ran, "the list has no such bug")
	t.Logf("%d of %d bugs were found, in %s\n%s", ran-survived, ran, time.Since(began).Round(time.Second), strings.Join(aligned(table), "\n"))
}

// requireSound runs the suite without a bug. One that fails anyway would find everything.
func requireSound(t *testing.T) {
	t.Helper()
	sound := map[string]bool{}
	for _, m := range readMutants(t) {
		if sound[m.below] {
			continue
		}
		sound[m.below] = true
		f := mutant{at: "no bug", below: m.below}.run(t)
		require.Empty(t, f.by, "the suite fails without a bug")
	}
}

// The list does not rot: every bug is where it says, breaks a rule that exists, and has a name of its own.
func TestTheMutantsAreInTheTree(t *testing.T) {
	const atLeast = 40
	spec, err := os.ReadFile(filepath.Join("..", "docs", "SPEC.md"))
	require.NoError(t, err)
	rules := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^(?: *(?:-|\d+\.) \*\*|\| )([A-Z]+-S?\d+[a-z]?)\b`).FindAllStringSubmatch(string(spec), -1) {
		rules[m[1]] = true
	}
	seen := map[string]bool{}
	sampled := 0
	list := readMutants(t)
	for _, m := range list {
		require.False(t, seen[m.name], "%s: there are two of this name", m.at)
		seen[m.name] = true
		require.NotEmpty(t, m.breaks, "%s breaks no rule", m.at)
		for _, rule := range m.breaks {
			require.True(t, rules[rule], "%s: SPEC.md has no rule %s", m.at, rule)
		}
		require.NotEmpty(t, m.sources(t), m.at)
		for _, c := range m.changes {
			require.True(t, c.out <= 1 && c.added <= 1 && c.out+c.added > 0, "%s: it is a bug of one line", m.at)
		}
		if m.sample {
			sampled++
		}
	}
	require.GreaterOrEqual(t, len(list), atLeast)
	require.Positive(t, sampled)
}

func readMutants(t *testing.T) (list []mutant) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", "testfixtures", "mutants", "*.txt"))
	require.NoError(t, err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		var paragraph []string
		for n, line := range append(strings.Split(string(text), "\n"), "") {
			switch {
			case strings.HasPrefix(line, "#"):
			case line != "":
				paragraph = append(paragraph, line)
			case len(paragraph) > 0:
				at := fmt.Sprintf("%s:%d", filepath.Base(file), n-len(paragraph)+1)
				list = append(list, parseMutant(t, at, paragraph))
				paragraph = nil
			}
		}
	}
	return list
}

func parseMutant(t *testing.T, at string, lines []string) mutant {
	t.Helper()
	m := mutant{at: at, name: lines[0]}
	for _, line := range lines[1:] {
		key, rest, _ := strings.Cut(line, " ")
		last := len(m.changes) - 1
		switch {
		case strings.HasSuffix(line, ".go"):
			m.changes = append(m.changes, change{file: line})
		case last < 0 && key == "breaks":
			m.breaks = strings.Split(rest, ", ")
		case last < 0 && key == "finds":
			m.finds = rest
		case last < 0 && key == "below":
			m.below, _, _ = strings.Cut(rest, ":")
		case last < 0 && key == "sample":
			m.sample = true
		case last >= 0 && (key == "-" || key == "+" || key == ""):
			c := &m.changes[last]
			if key != "+" {
				c.old = append(c.old, strings.TrimSpace(rest))
			}
			if key != "-" {
				c.new = append(c.new, strings.TrimSpace(rest))
			}
			switch key {
			case "-":
				c.out++
			case "+":
				c.added++
			}
		default:
			t.Fatalf("%s: what is %q?", at, line)
		}
	}
	return m
}

// sources are the files of a mutant, by their names in the tree, with the bug in them.
func (m mutant) sources(t *testing.T) map[string]string {
	t.Helper()
	sources := map[string]string{}
	for _, c := range m.changes {
		text, ok := sources[c.file]
		if !ok {
			data, err := os.ReadFile(filepath.Join("..", filepath.FromSlash(c.file)))
			require.NoError(t, err, m.at)
			text = string(data)
		}
		lines := strings.Split(text, "\n")
		var places []int
		for i := range len(lines) - len(c.old) + 1 {
			if slices.EqualFunc(lines[i:i+len(c.old)], c.old, func(a, b string) bool { return strings.TrimSpace(a) == b }) {
				places = append(places, i)
			}
		}
		require.Len(t, places, 1, "%s: %s has changed: where is this now?\n%s", m.at, c.file, strings.Join(c.old, "\n"))
		lines = slices.Replace(lines, places[0], places[0]+len(c.old), c.new...)
		sources[c.file] = strings.Join(lines, "\n")
	}
	return sources
}

// found says which test has found a bug, with the invariant that it names, and how long the suite ran until then; by is
// empty if none did.
type found struct {
	by    string
	after time.Duration
}

// run compiles the suite with the bug in it, by an overlay: the tree is not touched. It runs its stages until a test fails.
func (m mutant) run(t *testing.T) (f found) {
	t.Helper()
	const hung = 10 * time.Minute
	dir := t.TempDir()
	defer os.RemoveAll(dir) // a test binary is large, and there are many
	overlay := m.overlay(t, dir)
	tests := ""
	for _, s := range m.stages() {
		if tests == "" {
			tests = filepath.Join(dir, "tests")
			build := exec.CommandContext(context.Background(), "go", "test", "-c", "-ldflags=-s -w", "-overlay", overlay, "-o", tests, s.pkg)
			build.Dir = ".."
			out, err := build.CombinedOutput()
			require.NoError(t, err, "%s: it does not compile:\n%s", m.at, out)
		}
		suite := exec.CommandContext(context.Background(), tests, "-test.v", "-test.failfast", "-test.timeout", hung.String(),
			"-test.run", s.run, "-test.skip", s.skip)
		suite.Dir = filepath.Join("..", filepath.FromSlash(s.pkg))
		began := time.Now()
		out, err := suite.CombinedOutput()
		f.after += time.Since(began)
		var failed *exec.ExitError
		if errors.As(err, &failed) {
			require.Contains(t, failure(string(out)), m.finds, "%s: it is found for another reason", m.at)
			f.by = finder(string(out))
			return f
		}
		require.NoError(t, err, m.at)
		require.Contains(t, string(out), "\n--- PASS: ", "%s: no test of %s ran in the stage %q", m.at, s.pkg, s.run)
	}
	return f
}

func (m mutant) overlay(t *testing.T, dir string) string {
	t.Helper()
	replace := map[string]string{}
	for file, text := range m.sources(t) {
		path, err := filepath.Abs(filepath.Join("..", filepath.FromSlash(file)))
		require.NoError(t, err)
		replace[path] = filepath.Join(dir, fmt.Sprintf("%d.go", len(replace)))
		require.NoError(t, os.WriteFile(replace[path], []byte(text), 0o644))
	}
	data, err := json.Marshal(map[string]map[string]string{"Replace": replace})
	require.NoError(t, err)
	path := filepath.Join(dir, "overlay.json")
	require.NoError(t, os.WriteFile(path, data, 0o644))
	return path
}

var (
	testFailed = regexp.MustCompile(`(?m)^ *--- FAIL: (\S+)`)
	testBegan  = regexp.MustCompile(`(?m)^=== RUN +(\S+)`)
	invariant  = regexp.MustCompile(`\b[IG]-\d+\b`)
)

// finder reads the output of a suite that has failed: the innermost test that did, and the first invariant that it names.
func finder(out string) string {
	if strings.Contains(out, "panic: test timed out") {
		return "hung in " + last(testBegan, out)
	}
	all := testFailed.FindAllStringSubmatch(out, -1)
	if len(all) == 0 {
		return "panic in " + last(testBegan, out) // of another goroutine than the test's
	}
	by := all[0][1]
	for _, m := range all {
		if strings.HasPrefix(m[1], by+"/") {
			by = m[1]
		}
	}
	if names := invariant.FindString(failure(out)); names != "" {
		by += ": " + names
	}
	return by
}

// failure is what a suite says from the start of the test on that failed: those before it may name invariants, too.
func failure(out string) string {
	all := testFailed.FindStringSubmatch(out)
	if all == nil {
		return out
	}
	if at := strings.Index(out, "=== RUN   "+all[1]+"\n"); at >= 0 {
		return out[at:]
	}
	return out
}

func last(what *regexp.Regexp, out string) string {
	all := what.FindAllStringSubmatch(out, -1)
	if len(all) == 0 {
		return "the start of the tests"
	}
	return all[len(all)-1][1]
}

// aligned pads the cells of a table.
func aligned(rows [][]string) (lines []string) {
	widths := map[int]int{}
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], len(cell))
		}
	}
	for _, row := range rows {
		padded := make([]string, len(row))
		for _, i := range slices.Sorted(maps.Keys(widths)) {
			padded[i] = fmt.Sprintf("%-*s", widths[i], row[i])
		}
		lines = append(lines, strings.TrimRight(strings.Join(padded, " | "), " "))
	}
	return lines
}

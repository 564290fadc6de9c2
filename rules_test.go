package towline_test

import (
	"bufio"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The specification numbers its rules so that tests can cite them. This test holds the two together: a rule that no
// test cites is either owed, by an area that is not built yet, or a gap. The same holds for the scenarios with a star.

const (
	specFile     = "docs/SPEC.md"
	scenarioFile = "docs/SCENARIOS.md"
	caseFile     = "docs/CASES.md"
	owedFile     = "testfixtures/rules/owed.txt"
)

// areas are what a later release adds. A rule may be owed by one of them and by nothing else.
var areas = []string{
	"archive", "network surfaces", "restore", "size budget", "transports",
}

// released are the sections of the specification that this release keeps. A rule of them is owed only by one of the
// areas above, never because its test is missing.
var released = []int{3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23}

// answered is the section whose rows name a defect and the rules that answer it. Its rules are cited or owed
// themselves; the row must name one.
const answered = 24

// rule is one numbered statement of the specification.
type rule struct {
	id      string
	section int
	line    int
	names   []string // rules that its text names
}

const ruleID = `[A-Z]+-S?[0-9]+[a-z]?`

var (
	heading      = regexp.MustCompile(`^## (\d+)\.`)
	ruleInList   = regexp.MustCompile(`^ *(?:-|\d+\.) \*\*(` + ruleID + `)\b`)
	ruleInTable  = regexp.MustCompile(`^\| (` + ruleID + `) \|`)
	scenario     = regexp.MustCompile(`^- \*\*(SC-[0-9]+)\*\*( ★)?`)
	userCase     = regexp.MustCompile(`^### (HC-[0-9]+) `)
	citation     = regexp.MustCompile(`\b` + ruleID + `\b`)
	citedAsRange = regexp.MustCompile(`\b([A-Z]+)-(\d+) to ([A-Z]+)-(\d+)\b`)
)

func TestEveryRuleIsCitedOrOwed(t *testing.T) {
	rules := readRules(t)
	for id, starred := range readScenarios(t) {
		if starred {
			rules[id] = rule{id: id}
		}
	}
	cited := readCitations(t, rules)
	owed := readOwed(t)

	var gaps []string
	for _, r := range slices.SortedFunc(maps.Values(rules), func(a, b rule) int { return a.line - b.line }) {
		area, isOwed := owed[r.id]
		where, isCited := cited[r.id]
		switch {
		case r.section == answered && !isCited && !isOwed:
			if !slices.ContainsFunc(r.names, func(id string) bool { a, ok := rules[id]; return ok && a.section != answered }) {
				t.Errorf("%s (%s:%d) names no rule that answers it", r.id, specFile, r.line)
			}
		case isCited && isOwed:
			t.Errorf("%s is cited by %s: take it off %s", r.id, where, owedFile)
		case !isCited && !isOwed && slices.Contains(released, r.section):
			gaps = append(gaps, fmt.Sprintf("%s (%s:%d)", r.id, specFile, r.line))
		case !isCited && !isOwed:
			t.Errorf("%s is cited by no test: name the area that owes it in %s", r.id, owedFile)
		case isOwed && !slices.Contains(areas, area):
			t.Errorf("%s: %s is owed by %q, which is no area", owedFile, r.id, area)
		}
	}
	for id := range owed {
		if _, known := rules[id]; !known {
			t.Errorf("%s: %s is neither a rule of %s nor a starred scenario of %s", owedFile, id, specFile, scenarioFile)
		}
	}
	if len(gaps) > 0 {
		t.Errorf("%d rules of this release are cited by no test:\n  %s", len(gaps), strings.Join(gaps, "\n  "))
	}
}

// A citation of what does not exist protects nothing.
func TestEveryCitationIsARule(t *testing.T) {
	known := map[string]bool{}
	for id := range readRules(t) {
		known[id] = true
	}
	for id := range readScenarios(t) {
		known[id] = true
	}
	for _, id := range readCases(t) {
		known[id] = true
	}
	families := map[string]bool{}
	for id := range known {
		families[family(id)] = true
	}
	eachCitation(t, func(file, id string) {
		if families[family(id)] && !known[id] {
			t.Errorf("%s cites %s, which is in none of %s, %s and %s", file, id, specFile, scenarioFile, caseFile)
		}
	})
}

// family is what stands before the number: X for X-1, O-S for O-S1.
func family(id string) string { return strings.TrimRight(id, "0123456789abcdefghijklmnopqrstuvwxyz") }

func readRules(t *testing.T) map[string]rule {
	t.Helper()
	rules := map[string]rule{}
	section := 0
	for n, line := range readLines(t, specFile) {
		if m := heading.FindStringSubmatch(line); m != nil {
			section, _ = strconv.Atoi(m[1])
		}
		m := ruleInList.FindStringSubmatch(line)
		if m == nil {
			m = ruleInTable.FindStringSubmatch(line)
		}
		if m == nil {
			continue
		}
		r := rule{id: m[1], section: section, line: n + 1}
		r.names = citation.FindAllString(strings.TrimPrefix(line, m[0]), -1)
		if first, twice := rules[r.id]; twice {
			t.Errorf("%s: %s stands in lines %d and %d: a number is never used for two rules", specFile, r.id, first.line, r.line)
		}
		rules[r.id] = r
	}
	require.Greater(t, len(rules), 300, "the form of %s has changed: its rules are not found", specFile)
	return rules
}

// readScenarios says of every scenario whether it has a star.
func readScenarios(t *testing.T) map[string]bool {
	t.Helper()
	scenarios := map[string]bool{}
	for _, line := range readLines(t, scenarioFile) {
		if m := scenario.FindStringSubmatch(line); m != nil {
			scenarios[m[1]] = m[2] != ""
		}
	}
	require.Greater(t, len(scenarios), 300, "the form of %s has changed", scenarioFile)
	return scenarios
}

func readCases(t *testing.T) (ids []string) {
	t.Helper()
	for _, line := range readLines(t, caseFile) {
		if m := userCase.FindStringSubmatch(line); m != nil {
			ids = append(ids, m[1])
		}
	}
	require.Greater(t, len(ids), 30, "the form of %s has changed", caseFile)
	return ids
}

func readCitations(t *testing.T, rules map[string]rule) map[string]string {
	t.Helper()
	cited := map[string]string{}
	eachCitation(t, func(file, id string) {
		if _, known := rules[id]; known && cited[id] == "" {
			cited[id] = file
		}
	})
	return cited
}

// eachCitation reads every test of the module, and the comments at the head of every fixture. "X-1 to X-3" cites what
// lies between.
func eachCitation(t *testing.T, cite func(file, id string)) {
	t.Helper()
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != "." && (strings.HasPrefix(d.Name(), ".") || isModule(path)):
			return filepath.SkipDir
		case d.IsDir() || path == "rules_test.go" || path == filepath.FromSlash(owedFile):
			return nil
		case strings.HasSuffix(path, "_test.go"):
			for _, line := range readLines(t, path) {
				citeLine(line, func(id string) { cite(path, id) })
			}
		case strings.HasPrefix(path, "testfixtures"+string(filepath.Separator)) && strings.HasSuffix(path, ".txt"):
			for _, line := range readLines(t, path) {
				if strings.HasPrefix(line, "#") {
					citeLine(line, func(id string) { cite(path, id) })
				}
			}
		}
		return nil
	})
	require.NoError(t, err)
}

func citeLine(line string, cite func(id string)) {
	for _, id := range citation.FindAllString(line, -1) {
		cite(id)
	}
	for _, m := range citedAsRange.FindAllStringSubmatch(line, -1) {
		from, _ := strconv.Atoi(m[2])
		to, _ := strconv.Atoi(m[4])
		for n := from + 1; m[1] == m[3] && n < to; n++ {
			cite(fmt.Sprintf("%s-%0*d", m[1], len(m[2]), n)) // SC-004 keeps its noughts
		}
	}
}

// isModule reports a folder that is a module of its own: its tests are run apart.
func isModule(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "go.mod"))
	return err == nil
}

// readOwed reads lines of a rule and the area that owes it. Lines that begin with # are comments.
func readOwed(t *testing.T) map[string]string {
	t.Helper()
	owed := map[string]string{}
	for n, line := range readLines(t, owedFile) {
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		id, area, ok := strings.Cut(line, " ")
		require.True(t, ok, "%s:%d: want a rule and an area, got %q", owedFile, n+1, line)
		require.NotContains(t, owed, id, "%s:%d: %s stands twice", owedFile, n+1, id)
		owed[id] = strings.TrimSpace(area)
	}
	return owed
}

func readLines(t *testing.T, path string) []string {
	t.Helper()
	f, err := os.Open(filepath.FromSlash(path))
	require.NoError(t, err)
	defer f.Close()
	var lines []string
	s := bufio.NewScanner(f)
	s.Buffer(nil, 1<<20)
	for s.Scan() {
		lines = append(lines, s.Text())
	}
	require.NoError(t, s.Err())
	return lines
}

package docs_test

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/check"
)

var statement = regexp.MustCompile(`(?m)^- \*\*(I-\d+)\*\* \(([LBT])\) `)

// invariantTable is section 23 of the specification: what finds a breach, and how many planted faults it has named.
func invariantTable(t testing.TB) string {
	spec, err := os.ReadFile("SPEC.md")
	require.NoError(t, err)
	faults, err := os.ReadFile("../testfixtures/check/faults.txt")
	require.NoError(t, err)
	planted := map[string]int{}
	for line := range strings.Lines(string(faults)) {
		if number, _, ok := strings.Cut(line, " "); ok && !strings.HasPrefix(line, "\t") {
			planted[number]++
		}
	}
	var rows [][]string
	for _, m := range statement.FindAllStringSubmatch(string(spec), -1) {
		row := []string{m[1], m[2], testsThatCite(t, m[1]), "–"}
		i := slices.IndexFunc(check.Invariants[:], func(i check.Invariant) bool { return i.Number == m[1] })
		if i >= 0 {
			row[2] = code("Checker."+check.Invariants[i].By) + ": " + check.Invariants[i].Statement
			if check.Invariants[i].By == check.ByLog {
				row[2] = check.Invariants[i].Statement
			}
			row[3] = strconv.Itoa(planted[m[1]])
		}
		rows = append(rows, row)
	}
	require.Len(t, rows, 31, "the form of section 23 has changed")
	return table([]string{"", "shown by", "what is checked", "planted faults"}, rows)
}

// testsThatCite are the packages with a test whose comment names an invariant.
func testsThatCite(t testing.TB, number string) string {
	t.Helper()
	cites := regexp.MustCompile(`(?m)^// .*\b` + number + `\b`)
	var packages []string
	err := filepath.WalkDir("..", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && name != ".." && (strings.HasPrefix(d.Name(), ".") || isModule(name)):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(name, "_test.go"):
			return nil
		}
		source, err := os.ReadFile(name)
		if cites.Match(source) {
			packages = append(packages, path.Join("towline", strings.TrimPrefix(filepath.ToSlash(filepath.Dir(name)), "..")))
		}
		return err
	})
	require.NoError(t, err)
	slices.Sort(packages)
	return "by tests of " + codes(slices.Compact(packages))
}

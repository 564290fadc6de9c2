package towline_test

import (
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The files of testfixtures/scenarios show rules to people. Each rule of these sections, each row of the crash table and each
// scenario with a star has such a file, or stands on a list with the reason why it has none. The list only gets shorter: what
// has a file must leave it.
const scenarioOwedFile = "testfixtures/scenarios/owed.txt"

// shown are the sections whose rules a scenario can show: state machines, kinds, registers, messages, handlers, reconciler,
// crash table, lost workers, triggers, backpressure, rate limits and operators.
var shown = []int{6, 7, 8, 9, 10, 11, 12, 14, 15, 16, 17, 18}

// reasons are why a rule has no file.
var reasons = []string{
	"restore", "network surfaces", "transports", "configuration file", // areas that are not built
	"decider",   // a table of the rule says more: it is pure
	"elsewhere", // a test of another package shows it, where a world cannot: real processes, real programs, a whole enumeration
	"to do",
}

func TestEveryRuleHasAScenarioFileOrOwesIt(t *testing.T) {
	want := map[string]bool{}
	for id, r := range readRules(t) {
		if slices.Contains(shown, r.section) {
			want[id] = true
		}
	}
	for id, starred := range readScenarios(t) {
		if starred {
			want[id] = true
		}
	}
	has := scenarioFiles(t)
	owed := map[string]string{}
	for n, line := range readLines(t, scenarioOwedFile) {
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		id, reason, _ := strings.Cut(line, " ")
		reason, _, _ = strings.Cut(strings.TrimSpace(reason), ":")
		require.Contains(t, reasons, reason, "%s:%d", scenarioOwedFile, n+1)
		require.NotContains(t, owed, id, "%s:%d: %s stands twice", scenarioOwedFile, n+1, id)
		require.True(t, want[id], "%s:%d: %s is no rule that a scenario shows", scenarioOwedFile, n+1, id)
		owed[id] = reason
	}
	var missing []string
	for _, id := range slices.Sorted(maps.Keys(want)) {
		file, isShown := has[id]
		_, isOwed := owed[id]
		switch {
		case isShown && isOwed:
			t.Errorf("%s is shown by %s: take it off %s", id, file, scenarioOwedFile)
		case !isShown && !isOwed:
			missing = append(missing, id)
		}
	}
	if len(missing) > 0 {
		t.Errorf("%d rules have no scenario file:\n%s", len(missing), strings.Join(missing, "\n"))
	}
	left := map[string]int{}
	for _, reason := range owed {
		left[reason]++
	}
	t.Logf("%d of %d are shown by a file; owed: %v", len(want)-len(owed)-len(missing), len(want), left)
}

var cites = regexp.MustCompile(`^# (?:` + ruleID + `(?:, |: ))+`)

// scenarioFiles says of what is cited in the first line of a file which file it is.
func scenarioFiles(t *testing.T) map[string]string {
	t.Helper()
	has := map[string]string{}
	files, err := filepath.Glob("testfixtures/scenarios/*/*.txt")
	require.NoError(t, err)
	for _, file := range files {
		first := readLines(t, file)[0]
		head := cites.FindString(first)
		require.NotEmpty(t, head, "%s: its first line cites nothing: %s", file, first)
		for _, id := range citation.FindAllString(head, -1) {
			if has[id] == "" {
				has[id] = file
			}
		}
	}
	return has
}

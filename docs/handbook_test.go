package docs_test

import (
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/docs"
	"github.com/towline-dev/towline/httpapi"
)

// Surfaces 10: each problem code and each reason of /readyz has a page, and each page has what somebody needs who was woken by
// it. TestAlerts, in package metrics, says the same of the alerts.
func TestTheHandbookIsWhole(t *testing.T) {
	source, err := os.ReadFile("../httpapi/problem.go")
	require.NoError(t, err)
	var codes, reasons []string
	for _, m := range regexp.MustCompile(`(?m)^\tCode\w+ += "(\w+)"$`).FindAllStringSubmatch(string(source), -1) {
		codes = append(codes, m[1])
	}
	require.Greater(t, len(codes), 20)
	what, ok := reflect.TypeFor[httpapi.Reason]().FieldByName("What")
	require.True(t, ok)
	reasons = strings.Split(what.Tag.Get("enum"), ",")
	require.Greater(t, len(reasons), 8)

	var ofCodes, ofReasons []string
	for _, p := range docs.Handbook() {
		if p.Status != 0 {
			ofCodes = append(ofCodes, p.Name)
		}
		if p.Ready != "" {
			ofReasons = append(ofReasons, p.Ready)
			require.Equal(t, p.Name, p.Ready, "a page has the name of its reason")
		}
		require.True(t, p.Status != 0 || p.Ready != "" || p.Alert != "", "%s: nothing leads there", p.Name)
		at := -1
		for _, part := range []string{"\n## What to look at\n\n", "\n## What to do\n\n", "\n## When it goes away by itself\n\n"} {
			i := strings.Index(p.Text, part)
			require.Greater(t, i, at, "%s:%s", p.Name, part)
			require.NotEqual(t, byte('#'), p.Text[i+len(part)], "%s: an empty part", p.Name)
			at = i
		}
	}
	require.ElementsMatch(t, codes, ofCodes)
	require.ElementsMatch(t, reasons, ofReasons)
}

// first are what needs a person, in the order in which somebody on call should know them. The others follow by name.
var first = []string{"unresolved", "parked", "held", "restored_hold", "store_unavailable", "disk_budget", "loop_stalled", "overdue", "breaker_open"}

// handbookTable is the list of the pages: first what wakes people, then answers of the API.
func handbookTable(testing.TB) string {
	var woken, answers [][]string
	pages := slices.SortedStableFunc(slices.Values(docs.Handbook()), func(a, b docs.Page) int { return rank(a) - rank(b) })
	for _, p := range pages {
		name := "[" + p.Title + "](" + p.Name + ".md)"
		if p.Ready == "" && p.Alert == "" {
			answers = append(answers, []string{code(p.Name), name, p.Fix})
			continue
		}
		woken = append(woken, []string{name, orNone(p.Ready), orNone(p.Alert), p.Fix})
	}
	return table([]string{"it says", "`/readyz`", "alert", "in one sentence"}, woken) + "\nAnswers of the API, by the `code` of the problem:\n\n" +
		table([]string{"code", "it says", "in one sentence"}, answers)
}

func rank(p docs.Page) int {
	if i := slices.Index(first, p.Name); i >= 0 {
		return i
	}
	return len(first)
}

func orNone(name string) string {
	if name == "" {
		return "–"
	}
	return code(name)
}

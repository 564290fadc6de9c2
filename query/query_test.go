package query_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/projections"
	"github.com/towline-dev/towline/query"
)

var now = time.Date(2026, 3, 14, 9, 0, 0, 0, time.UTC)

func month(y, m int) events.Window {
	from := time.Date(y, time.Month(m), 1, 0, 0, 0, 0, time.UTC)
	return events.NewWindow(from, from.AddDate(0, 1, 0))
}

func ago(d time.Duration) int64 { return int64(events.MicrosOf(now.Add(-d))) }

// Surfaces 4.1: comma is or, blank is and, minus is not; the words are the same on every surface.
func TestTheGrammar(t *testing.T) {
	is := func(field string, values ...any) projections.Term {
		return projections.Term{Field: field, Op: projections.Is, Values: values}
	}
	not := func(x projections.Term) projections.Term { x.Not = true; return x }
	cmp := func(field string, op projections.Op, value any) projections.Term {
		return projections.Term{Field: field, Op: op, Values: []any{value}}
	}
	for text, want := range map[string][]projections.Term{
		"":                            nil,
		" \t\n":                       nil,
		"sync:code":                   {is("sync", "code")},
		"sync=code":                   {is("sync", "code")},
		"sync:code  source:orders":    {is("sync", "code"), is("source", "orders")},
		"state:pending,claimed":       nil, // of units it is no state
		"state:retrying,failed":       {is("state", "retrying", "failed")},
		"-error:timeout":              {not(is("error", "timeout"))},
		`source:"my repo",b`:          {is("source", "my repo", "b")},
		`source:"a,b" -source:"x\"y"`: {is("source", "a,b"), not(is("source", `x"y`))},
		`worker:""`:                   {is("worker", "")},
		"source:http://x/y":           {is("source", "http://x/y")},
		"window>=2025-01":             {cmp("window", projections.AtLeast, month(2025, 1))},
		"window:2025-02,2025-03":      {is("window", month(2025, 2), month(2025, 3))},
		"window:<2025-01":             {cmp("window", projections.Less, month(2025, 1))},
		"window:2024-12-30..2025-01-06": {is("window", events.NewWindow(
			time.Date(2024, 12, 30, 0, 0, 0, 0, time.UTC), time.Date(2025, 1, 6, 0, 0, 0, 0, time.UTC)))},
		"window:w2024-12-30": {is("window", events.NewWindow(
			time.Date(2024, 12, 30, 0, 0, 0, 0, time.UTC), time.Date(2025, 1, 6, 0, 0, 0, 0, time.UTC)))},
		"age>10m":    {cmp("since", projections.Less, ago(10*time.Minute))},
		"age<=7d":    {cmp("since", projections.AtLeast, ago(7*24*time.Hour))},
		"run:7q4zkd": {is("run", "7Q4ZKD")},
	} {
		if want == nil && strings.TrimSpace(text) != "" {
			continue
		}
		f, err := query.Parse(query.Units, text, now)
		require.NoError(t, err, text)
		require.Equal(t, want, f.Terms(), text)
	}
}

// Errors name the term and the fix.
func TestAWrongQueryNamesItsTermAndTheFix(t *testing.T) {
	for text, want := range map[string]string{
		"7Q4ZKD":                                 `query "7Q4ZKD": it has no field; write field:value, with a field of`,
		":x":                                     `query ":x": it has no field`,
		"sync:code colour:red":                   `query "colour:red": units have no field "colour"; use one of unit, run, sync, source,`,
		"state:pending":                          `query "state:pending": state has no value "pending"; use one of planned, dispatching,`,
		"sync:":                                  `query "sync:": a value is missing`,
		"sync:a,,b":                              `query "sync:a,,b": a value is missing`,
		"sync>a":                                 `query "sync>a": sync has no order; write sync:value`,
		`source:"a`:                              `query "source:\"a": a quote is not closed`,
		"window:soon":                            `query "window:soon": "soon" is no period; write 2025, 2025-01,`,
		"window:w2025-01-28":                     `is no period`, // a Tuesday
		"window:2025-02..2025-01":                `is no period`,
		"age:10m":                                `query "age:10m": nothing has exactly an age; write age>10m or age<10m`,
		"age>soon":                               `query "age>soon": "soon" is no duration; write 90s, 10m, 2h or 7d`,
		"age>-1m":                                `is no duration`,
		"run:12345":                              `query "run:12345": "12345" is neither a ULID nor the end of one`,
		"\xff":                                   `it is too long, or no UTF-8`,
		strings.Repeat("sync:a ", 21):            `there are too many terms; write at most 20`,
		"sync:" + strings.Repeat("a,", 60) + "b": `it has 61 values; write at most 50`,
		strings.Repeat("x", 3000):                `it is too long`,
	} {
		_, err := query.Parse(query.Units, text, now)
		var e *query.Error
		require.ErrorAs(t, err, &e, text)
		require.ErrorContains(t, err, want, text)
		require.Less(t, len(err.Error()), 400, text)
	}
}

// Whatever Window.Name writes, Period reads: a person copies what a table shows.
func TestAPeriodIsReadAsItIsWritten(t *testing.T) {
	for _, name := range []string{"2025", "2025-01", "2024-02-29", "w2025-01-27", "2025-01-01..2025-01-03", "2025-01-01T10:00:00Z..2025-01-03"} {
		w, ok := query.Period(name)
		require.True(t, ok, name)
		require.Equal(t, name, w.Name())
	}
}

func TestEveryFieldHasHelpAndCanBeAsked(t *testing.T) {
	for _, s := range []query.Subject{query.Runs, query.Units, query.Outbox, query.Jobs, query.Events} {
		require.NotEmpty(t, query.Fields(s))
		for _, f := range query.Fields(s) {
			require.NotEmpty(t, f.Help, "%s: %s", s, f.Name)
			_, err := query.Parse(s, f.Name+sample(f), now)
			require.NoError(t, err)
		}
	}
}

// sample is a comparison that a field takes.
func sample(f query.Field) string {
	switch {
	case f.Name == "age":
		return "<1m"
	case f.Name == "window":
		return ":2025"
	case len(f.Words) > 0:
		return ":" + f.Words[0]
	}
	return ":7Q4ZKD"
}

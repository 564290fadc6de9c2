package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/client"
	"github.com/towline-dev/towline/httpapi"
)

// Surfaces 4.4: a period is taken whole, an instant as it is, both in UTC as windows are.
func TestPeriods(t *testing.T) {
	for text, want := range map[string][2]string{
		"2024":                      {"2024-01-01T00:00:00Z", "2025-01-01T00:00:00Z"},
		"2024-12":                   {"2024-12-01T00:00:00Z", "2025-01-01T00:00:00Z"},
		"2024-02-29":                {"2024-02-29T00:00:00Z", "2024-03-01T00:00:00Z"},
		"2024-12-24T18:00:00+01:00": {"2024-12-24T17:00:00Z", "2024-12-24T17:00:00Z"},
	} {
		from, to, err := parsePeriod(text)
		require.NoError(t, err, text)
		require.Equal(t, want, [2]string{from.UTC().Format(time.RFC3339), to.UTC().Format(time.RFC3339)}, text)
	}
	for _, text := range []string{"", "2024-13", "24", "2023-02-29", "2024-12-24 18:00", "yesterday"} {
		_, _, err := parsePeriod(text)
		require.ErrorContains(t, err, "is no period", text)
	}
}

// Surfaces 4.1: people write local times, of today where they name no day; tables show them so.
func TestTimesOfPeople(t *testing.T) {
	was := time.Local
	time.Local = time.FixedZone("east", 2*3600)
	t.Cleanup(func() { time.Local = was })
	now := time.Date(2026, 11, 30, 14, 0, 0, 0, time.Local)
	for text, want := range map[string]string{
		"14:03":                "2026-11-30T12:03:00Z",
		"14:03:09":             "2026-11-30T12:03:09Z",
		"2026-11-29":           "2026-11-28T22:00:00Z",
		"2026-11-29 14:03":     "2026-11-29T12:03:00Z",
		"2026-11-30T14:03:00Z": "2026-11-30T14:03:00Z",
	} {
		got, err := parseTime(text, now)
		require.NoError(t, err, text)
		require.Equal(t, want, got.UTC().Format(time.RFC3339), text)
	}
	_, err := parseTime("tomorrow", now)
	require.ErrorContains(t, err, `"tomorrow" is no time`)
	require.Equal(t, "14:03:00", clock(now.Add(3*time.Minute).UTC(), now))
	require.Equal(t, "2026-11-29 14:00", clock(now.AddDate(0, 0, -1).UTC(), now))
	require.Equal(t, none, clock(time.Time{}, now))
}

func TestSpans(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "00:00", 0: "00:00", 61 * time.Second: "01:01", 3599 * time.Second: "59:59", time.Hour: "1h00m", 25*time.Hour + time.Minute: "1d1h",
	} {
		require.Equal(t, want, span(d))
	}
	for n, want := range map[int64]string{0: "0", 999: "999", 1204: "1 204", 1234567: "1 234 567"} {
		require.Equal(t, want, grouped(n))
	}
}

// Surfaces 4.4: an action on many says the exact list first, and wants a word for more than 25; a dry run does nothing; one that
// is refused keeps none of the others from being done, and its code is that of the whole.
func TestActionsOnMany(t *testing.T) {
	many := func(n int) (out []target) {
		for i := range n {
			out = append(out, target{id: fmt.Sprintf("R%02d", i)})
		}
		return out
	}
	conflict := &client.Error{Code: client.CodeAlreadyEnded, Detail: "it has ended", Fix: "leave it"}
	for name, tt := range map[string]struct {
		a      action
		n      int
		refuse string
		done   int
		code   exitCode
		says   string
	}{
		"one":                {action{}, 1, "", 1, exitOK, ""},
		"as many as allowed": {action{}, 25, "", 25, exitOK, "do R24"},
		"too many":           {action{}, 26, "", 0, exitUsage, "do R25"},
		"too many, and yes":  {action{yes: true}, 26, "", 26, exitOK, "do R25"},
		"dry":                {action{dry: true}, 2, "", 0, exitOK, "nothing was done: 2 targets"},
		"one is refused":     {action{}, 3, "R01", 2, exitConflict, "towline: R01: it has ended\nfix: leave it"},
		"the only one":       {action{}, 1, "R00", 0, exitConflict, ""},
		"with a rate":        {action{rate: "1000/s"}, 3, "", 3, exitOK, ""},
		"with no rate":       {action{rate: "0"}, 2, "", 0, exitUsage, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var stderr bytes.Buffer
			done := 0
			err := tt.a.each(context.Background(), &program{stderr: &stderr}, "do", many(tt.n), func(_ context.Context, x target) error {
				if x.id == tt.refuse {
					return conflict
				}
				done++
				return nil
			})
			require.Equal(t, tt.done, done)
			require.Equal(t, tt.code, codeOf(err), "%v", err)
			require.Contains(t, stderr.String(), tt.says)
		})
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	done := 0
	err := (&action{rate: "0.001/s"}).each(ctx, &program{stderr: &bytes.Buffer{}}, "do", many(3), func(context.Context, target) error {
		done++
		cancel(errInterrupted)
		return nil
	})
	require.Equal(t, 1, done)
	require.Equal(t, exitInterrupted, codeOf(err))
	require.ErrorContains(t, err, "1 of 3 done")
}

// Surfaces 4.2, 5.3: each code of a problem has an exit code, and none has two.
func TestExitCodesOfProblems(t *testing.T) {
	generic := map[string]bool{httpapi.CodeUnauthenticated: true, httpapi.CodeForbidden: true, httpapi.CodeMethodNotAllowed: true, httpapi.CodeInternal: true}
	for _, page := range httpapi.ProblemPages() {
		n := 0
		for code, names := range codesOfProblems {
			for _, name := range names {
				if name == page.Code {
					n++
					require.Equal(t, code, codeOf(fmt.Errorf("while: %w", &client.Error{Code: name})), name)
				}
			}
		}
		if generic[page.Code] {
			require.Zero(t, n, page.Code)
			require.Equal(t, exitFailed, codeOf(&client.Error{Code: page.Code}))
			continue
		}
		require.Equal(t, 1, n, "problem %s has no exit code, or two", page.Code)
	}
	require.Equal(t, exitUnreachable, codeOf(fmt.Errorf("x: %w", client.ErrUnreachable)))
	require.Equal(t, exitInterrupted, codeOf(errInterrupted))
}

// What was refused is told with what to do about it, once.
func TestRefusalsInWords(t *testing.T) {
	e := &client.Error{Detail: "it may mean two", Fix: "say more of it", Candidates: []string{"run/1", "run/2"}}
	require.Equal(t, "it may mean two\nrun/1\nrun/2\nfix: say more of it", inWords(e))
	require.Equal(t, "while: it may mean two\nrun/1\nrun/2\nfix: say more of it", inWords(fmt.Errorf("while: %w", e)))
	require.Equal(t, "other", inWords(errors.New("other")))
	require.False(t, strings.Contains(inWords(&client.Error{Detail: "do this", Fix: "do this"}), "fix:"))
}

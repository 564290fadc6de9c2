package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/store"
)

// Every command has help with an example, and stands in a script.
func TestEveryCommandHasHelpAndAScript(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("testdata", "script", "*.txt"))
	require.NoError(t, err)
	var scripts strings.Builder
	for _, f := range files {
		b, err := os.ReadFile(f)
		require.NoError(t, err)
		scripts.Write(b)
	}
	p := &program{stdout: io.Discard, stderr: io.Discard, out: &answer{to: io.Discard}}
	var walk func(*cobra.Command)
	walk = func(c *cobra.Command) {
		require.NotEmpty(t, c.Short, c.CommandPath())
		require.False(t, strings.HasSuffix(c.Short, "."), c.CommandPath())
		if c.Runnable() {
			require.Contains(t, c.Example, "towline", c.CommandPath())
			words := strings.TrimPrefix(c.CommandPath(), "towline ")
			require.Contains(t, scripts.String(), words, "%s stands in no script", c.CommandPath())
		}
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(p.root())
}

// Surfaces 4.2: each error has its code, wherever it is wrapped.
func TestExitCodes(t *testing.T) {
	for code, errs := range map[exitCode][]error{
		exitOK:          {nil},
		exitFailed:      {errors.New("any other")},
		exitUsage:       {&usageError{err: io.EOF}, &configError{io.EOF}, towline.ErrInvalid, &towline.PlanTooLargeError{}},
		exitNotFound:    {towline.ErrNotFound},
		exitConflict:    {towline.ErrConflict, store.ErrLocked, &towline.RunExistsError{}, towline.ErrSourcePaused, &towline.DiskBudgetError{}},
		exitUnreachable: {store.ErrUnavailable, store.ErrMoved},
		exitFormat:      {store.ErrFormat, store.ErrNetworkFS},
		exitTimeout:     {&exitError{code: exitTimeout}},
		exitInterrupted: {syscall.EPIPE},
	} {
		for _, err := range errs {
			require.Equal(t, code, codeOf(err), "%v", err)
			if err != nil {
				require.Equal(t, code, codeOf(fmt.Errorf("while: %w", err)))
			}
		}
	}
	seen := map[exitCode]bool{}
	for _, c := range exitCodes {
		require.False(t, seen[c.Code])
		seen[c.Code] = true
		require.NotEmpty(t, c.Meaning)
	}
	require.Len(t, seen, 12)
}

// CLK-7: check sees a clock that stands behind the newest event of the store.
func TestAClockBehindTheStoreIsSeen(t *testing.T) {
	newest := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	for behind, state := range map[time.Duration]string{-time.Hour: fine, 0: fine, time.Minute: fine, time.Hour: failed} {
		f := checkClock(events.MicrosOf(newest), newest.Add(-behind))
		require.Equal(t, state, f.State, behind)
	}
	require.Equal(t, "it is 1h0m0s behind the newest event of the store", checkClock(events.MicrosOf(newest), newest.Add(-time.Hour)).Text)
}

// A path is found again by the pattern that init writes for it, and YAML reads the quotes.
func TestQuoted(t *testing.T) {
	for text, want := range map[string]string{"code": "code", "true": `"true"`, "a b": `"a b"`, "2024": `"2024"`, "~/src/*": `"~/src/*"`, `a"b`: `"a\"b"`} {
		require.Equal(t, want, quoted(text))
	}
	require.Equal(t, `/x/a\[1]\*`, portable("/x/a[1]*"))
}

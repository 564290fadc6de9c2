package sim_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/sim"
	"github.com/towline-dev/towline/sim/script"
)

const scenarioFolder = "../testfixtures/scenarios"

// Every scenario file is played in a world of its own, and checked behind its last command. What it protects stands in its
// first line; its golden trace shows it. -rewrite writes the traces anew.
func TestScenarios(t *testing.T) {
	template := emptyStore(t)
	for _, file := range scenarioFiles(t) {
		name, err := filepath.Rel(scenarioFolder, file)
		require.NoError(t, err)
		t.Run(strings.TrimSuffix(filepath.ToSlash(name), ".txt"), func(t *testing.T) {
			t.Parallel()
			play(t, file, template)
		})
	}
}

func scenarioFiles(t *testing.T) (files []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(scenarioFolder, "*", "*.txt"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	return files
}

// play runs one file.
func play(t *testing.T, file, template string) {
	t.Helper()
	ctx := context.Background()
	p := script.New(t.TempDir())
	broken := false
	p.Listen = func(e sim.Entry) {
		broken = broken || e.Crash != nil || e.Fault.How != ""
		reachEntry(e)
	}
	p.Template = template
	defer func() { require.NoError(t, p.Close()) }()
	datadriven.RunTest(t, file, func(t *testing.T, d *datadriven.TestData) string {
		lines, err := commandsOf(d)
		if err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		for _, line := range lines {
			_, purged := line.Command.(script.Purge)
			broken = broken || purged
			said, err := p.Play(ctx, line)
			out.WriteString(said)
			if err != nil {
				t.Fatalf("%v\nit said:\n%s", err, out.String())
			}
		}
		return out.String()
	})
	require.NoError(t, p.Finish(ctx), "behind the last command")
	if p.World() == nil {
		return
	}
	log, err := p.World().Log(ctx)
	require.NoError(t, err)
	reachLog(log)
	reachStates(log)
	reachFile(t, file, log, broken)
}

// commandsOf are those of a block, as they stand in its file: d has cut the first of them into arguments, and the others free of
// empty lines.
func commandsOf(d *datadriven.TestData) ([]script.Line, error) {
	file, at, _ := strings.Cut(d.Pos, ".txt:")
	file += ".txt"
	first, err := strconv.Atoi(at)
	if err != nil {
		return nil, fmt.Errorf("a block stands at %q: %w", d.Pos, err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	lines := strings.SplitAfter(string(text), "\n")[first-1:]
	if end := slices.Index(lines, "----\n"); end >= 0 {
		lines = lines[:end]
	}
	return script.ParseFile(file, first, strings.Join(lines, ""))
}

// The document of the language explains every command. What it shows is printed from a file.
func TestTheDocumentIsTrue(t *testing.T) {
	doc, err := os.ReadFile("../docs/SCENARIO_FILES.md")
	require.NoError(t, err)
	for _, words := range script.Words() {
		require.Contains(t, string(doc), "`"+words, "the command is not explained")
	}
}

// A file says first what it protects: numbers, and a sentence.
func TestEveryFileBeginsWithItsGuarantee(t *testing.T) {
	guarantee := regexp.MustCompile(`^# [A-Z]+-S?\d+[a-z]?(, [A-Z]+-S?\d+[a-z]?)*: [A-Za-z]`)
	for _, file := range scenarioFiles(t) {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		require.Regexp(t, guarantee, string(text), file)
	}
}

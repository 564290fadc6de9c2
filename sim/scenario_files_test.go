package sim_test

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
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
		commands, err := script.ParseAll(text(d))
		if err != nil {
			d.Fatalf(t, "%v", err)
		}
		var out strings.Builder
		for _, c := range commands {
			_, purged := c.(script.Purge)
			broken = broken || purged
			said, err := p.Play(ctx, c)
			out.WriteString(said)
			if err != nil {
				d.Fatalf(t, "%v\nit said:\n%s", err, out.String())
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

// text is a directive as it stands in its file.
func text(d *datadriven.TestData) string {
	var line strings.Builder
	line.WriteString(d.Cmd)
	for _, a := range d.CmdArgs {
		line.WriteString(" " + a.String())
	}
	return line.String() + "\n" + d.Input
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

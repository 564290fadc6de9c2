package script_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/sim/script"
)

// A scenario file is read without what it says has happened, whichever rules are around that.
func TestAScenarioIsItsCommands(t *testing.T) {
	const text = "# G-1: a sentence\n\npass\nboot\n----\n0s  run\n\npurge\n----\n----\nboot\n\nwake\n----\n----\n\ncalm\n----\n\nrun"
	lines, err := script.ReadScenario("a.txt", strings.NewReader(text))
	require.NoError(t, err)
	require.Equal(t, []script.Line{
		{At: "a.txt:3", Command: script.Pass{}}, {At: "a.txt:4", Command: script.Boot{}}, {At: "a.txt:8", Command: script.Purge{}},
		{At: "a.txt:17", Command: script.Calm{}}, {At: "a.txt:20", Command: script.Run{}},
	}, lines)
	_, err = script.ReadScenario("a.txt", strings.NewReader("pass\n\npasss\n"))
	require.ErrorContains(t, err, "a.txt:3: ")
	files, err := filepath.Glob("../../testfixtures/scenarios/*/*.txt")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, name := range files {
		f, err := os.Open(name)
		require.NoError(t, err)
		lines, err := script.ReadScenario(name, f)
		require.NoError(t, err)
		require.NotEmpty(t, lines, name)
		require.NoError(t, f.Close())
	}
}

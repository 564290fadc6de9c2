package model

import (
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var mutants = flag.Bool("mutants", false, "walk beside a decider with a bug of one line, which the walk must find; it compiles once per bug")

// What only one of the two has, the walk finds, and names the transition at which they part.
func TestTheWalkFindsBugsOfTheDecider(t *testing.T) {
	if !*mutants {
		t.Skip("it compiles the decider once per bug: run with -mutants")
	}
	for _, m := range []struct {
		name, file, old, new string
		parts                string // at this transition
	}{
		{
			name: "a mark drops the waiting number", file: "register.go",
			old: "(O-12)\n\t}\n\treturn r.advanced()", new: "(O-12)\n\t}\n\tr.Next, r.NextAt = 0, 0\n\treturn r.advanced()",
			parts: "records what it has published",
		},
		{
			name: "every lost lease makes a suspect", file: "unit_expire.go",
			old: "expired.Cause == events.LeaseIncarnationGone &&", new: "expired.Cause != events.LeaseReleased &&",
			parts: "the lease of unit",
		},
		{
			name: "an effect that is lost stays accepted", file: "outbox_lose.go",
			old: "!c.Begun || !c.NodeGone ||", new: "c.Begun ||",
			parts: "the process that had begun target",
		},
	} {
		t.Run(m.name, func(t *testing.T) {
			out, err := runMutant(t, m.file, m.old, m.new)
			var failed *exec.ExitError
			require.ErrorAs(t, err, &failed, "the walk agrees with the bug in it:\n%s", out)
			_, at, found := strings.Cut(out, "part at: ")
			require.True(t, found, "it fails for another reason:\n%s", out)
			at, _, _ = strings.Cut(at, "\n")
			require.Contains(t, at, m.parts)
			t.Log("parts at:", at)
		})
	}
}

// runMutant runs the walk with one text of one file of the decider replaced, by an overlay: the tree is not touched.
func runMutant(t *testing.T, file, old, replacement string) (string, error) {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("..", "..", "decider", file))
	require.NoError(t, err)
	source, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, 1, strings.Count(string(source), old), "%s has changed: where is %q now?", file, old)

	dir := t.TempDir()
	mutant := filepath.Join(dir, "mutant.go")
	require.NoError(t, os.WriteFile(mutant, []byte(strings.Replace(string(source), old, replacement, 1)), 0o644))
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {path: mutant}})
	require.NoError(t, err)
	overlayFile := filepath.Join(dir, "overlay.json")
	require.NoError(t, os.WriteFile(overlayFile, overlay, 0o644))

	cmd := exec.Command("go", "test", "-overlay", overlayFile, "-count=1", "-run", "^TestTheDeciderAgrees$", ".", "-seed", "1")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

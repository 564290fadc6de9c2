package sim_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// SC-372, design 10: the harness is held against bugs of one line. Each must make the enumeration fail and name what it
// breaks. The checker finds a forgotten wakeup by its own fold, also where materialization would have repaired it.
func TestTheHarnessFindsPlantedBugs(t *testing.T) {
	if !*mutants {
		t.Skip("it compiles and runs the harness once per bug: run with -mutants")
	}
	for _, m := range []struct {
		name, file, old, new string
		finds                string
	}{
		{
			name: "a mark drops the waiting number", file: "decider/register.go",
			old:   "(O-12)\n\t}\n\treturn r.advanced()",
			new:   "(O-12)\n\t}\n\tr.Next, r.NextAt = 0, 0\n\treturn r.advanced()",
			finds: "I-11",
		},
		{
			name: "the settle of the last open unit does not arm finalize", file: "decider/react.go",
			old: "if f.OpenUnits(run) > 0 {", new: "if f.OpenUnits(run) >= 0 {",
			finds: "I-9",
		},
		{
			name: "post_sync is published before it is marked", file: "decider/kind.go",
			old: "Order: events.MarkFirst,", new: "Order: events.PublishFirst,",
			finds: "I-14",
		},
		{
			name: "the claim of a gone incarnation is not released", file: "recover.go",
			old: "gone := t.Gone(r.Claim.Node)", new: "gone := false",
			finds: "waited behind the restart",
		},
	} {
		t.Run(m.name, func(t *testing.T) {
			out, err := runMutant(t, m.file, m.old, m.new)
			var failed *exec.ExitError
			require.ErrorAs(t, err, &failed, "the harness passes with the bug in it:\n%s", out)
			require.Contains(t, out, "--- FAIL: TestCrashAtEveryBoundary", "it did not come to its end")
			require.Contains(t, out, m.finds, "it fails for another reason")
		})
	}
}

// runMutant runs the enumeration with one text of one file replaced, by an overlay: the tree is not touched.
func runMutant(t *testing.T, file, old, replacement string) (string, error) {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("..", filepath.FromSlash(file)))
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

	cmd := exec.Command("go", "test", "-overlay", overlayFile, "-count=1", "-run", "^TestCrashAtEveryBoundary$", ".")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

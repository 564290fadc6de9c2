package crash

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/events"
)

// caseOf makes the case of one crash of a newspaper: the one that fits.
func caseOf(t *testing.T, path string, o Options, fits func(Row) bool) Case {
	t.Helper()
	o.Store = path
	m, err := MakeMatrix(context.Background(), o)
	require.NoError(t, err)
	for _, r := range m.Rows {
		if fits(r) {
			c, err := MakeCase(context.Background(), o, r)
			require.NoError(t, err)
			return c
		}
	}
	t.Fatal("no crash of the matrix fits")
	return Case{}
}

func written(t *testing.T, c Case) string {
	t.Helper()
	var text strings.Builder
	require.NoError(t, c.Write(&text))
	return text.String()
}

// G-18: a case plays alike wherever it is played, byte for byte, also behind its way through a file.
func TestACasePlaysAlikeEverywhere(t *testing.T) {
	path := newspaper{kills: []int{40}}.print(t)
	o := Options{Most: 30, Seed: 3}
	c := caseOf(t, path, o, func(r Row) bool { return r.Verdict == Absorbed && r.Events > 20 })
	read, err := ReadCase(strings.NewReader(written(t, c)))
	require.NoError(t, err)
	require.Equal(t, written(t, c), written(t, read))

	for _, again := range []Case{c, read} {
		dir := t.TempDir()
		p, err := again.Play(context.Background(), dir)
		require.NoError(t, err)
		require.NoError(t, again.Reproduces(p))
		require.Equal(t, Absorbed, p.Verdict)
		left, err := os.ReadDir(dir)
		require.NoError(t, err)
		require.Empty(t, left)
	}
	read.scene.seed++
	p, err := read.Play(context.Background(), t.TempDir())
	require.NoError(t, err)
	require.ErrorContains(t, read.Reproduces(p), "has taken another way", "another seed is another log")
}

// C-12: the process dies when a unit was claimed, and the unit is tried again.
func TestADeathInAUnit(t *testing.T) {
	ctx := context.Background()
	path := newspaper{plain: true}.print(t)
	log, err := readLog(ctx, path, t.TempDir())
	require.NoError(t, err)
	for i, b := range boundariesOf(log) {
		if _, ok := b.tx[0].Event.(events.UnitClaimed); !ok {
			continue
		}
		c, err := MakeCase(ctx, Options{Store: path}, Row{Position: b.position(), Verdict: Recovered, crash: i})
		require.NoError(t, err)
		require.Empty(t, c.Problems)
		return
	}
	t.Fatal("no unit was claimed")
}

// A slice holds what a recovery can depend on: runs that were over are left out, and nothing has a gap.
func TestASliceLeavesOutWhatIsOver(t *testing.T) {
	ctx := context.Background()
	path := newspaper{plain: true}.print(t)
	log, err := readLog(ctx, path, t.TempDir())
	require.NoError(t, err)
	h := newHistory()
	for _, b := range boundariesOf(log) {
		h.add(b.tx)
	}
	part := slice(log, h)
	require.Less(t, len(part), len(log)/4)
	for i, env := range part {
		require.EqualValues(t, i+1, env.Position)
		require.LessOrEqual(t, env.Tx, env.Position)
		require.Less(t, env.Cause, env.Position)
	}
	half := newHistory()
	for _, b := range boundariesOf(log[:len(log)/2]) {
		half.add(b.tx)
	}
	require.Len(t, slice(log[:len(log)/2], half), len(log)/2, "an open run is kept whole")
}

// A case becomes a Go test, which fails with its verdict as long as there is a defect.
func TestACaseBecomesAGoTest(t *testing.T) {
	if testing.Short() {
		t.Skip("it runs the go command")
	}
	path := newspaper{plain: true}.print(t)
	good := caseOf(t, path, Options{Most: 3}, func(r Row) bool { return r.Verdict.Good() && r.Events > 10 })
	bad := caseOf(t, path, Options{Most: 3, damage: func(m *moment) { m.syncs = nil }}, func(r Row) bool { return r.Verdict == Stranded })
	for name, c := range map[string]Case{"good": good, "bad": bad} {
		var source bytes.Buffer
		require.NoError(t, c.GoTest(&source, "played"))
		file := filepath.Join(t.TempDir(), "case_test.go")
		require.NoError(t, os.WriteFile(file, source.Bytes(), 0o644))
		at, err := filepath.Abs(filepath.Join("played", "case_test.go"))
		require.NoError(t, err)
		program := filepath.Join(t.TempDir(), "played.test")
		out, err := goWith(t, map[string]string{at: file}, "test", "-vet=off", "-c", "-o", program, "./played") // the folder is only in the overlay
		require.NoError(t, err, "%s: %s", name, out)
		played, err := exec.CommandContext(t.Context(), program).CombinedOutput()
		out = string(played)
		if c.Verdict.Good() {
			require.NoError(t, err, "%s: %s", name, out)
			continue
		}
		require.Error(t, err, name)
		require.Contains(t, out, "--- FAIL: TestCrashCase")
		require.Contains(t, out, "stranded: ")
	}
	require.ErrorContains(t, good.GoTest(&bytes.Buffer{}, "no package"), "no name of a Go package")
	require.Equal(t, "\"a`\\n\" +\n\t\"b\"", literal("a`\nb"))
}

// A stranger's file ends in one sentence that names the line, whatever is in it.
func TestFilesThatAreNoCase(t *testing.T) {
	id := events.UnitID{1}.String()
	event := `event {"tx":1,"at":5,"stream":"control/engine","type":"EnginePaused","schema":1,"data":{"actor":"ada"}}`
	for text, says := range map[string]string{
		"":                                     "line 1: the file is empty",
		"towline case 9":                       "line 1: \"towline case 9\": want \"towline case 1\"",
		caseHead:                               "line 1: the file ends here, without its line end",
		caseHead + "\nfoo":                     "line 2: \"foo\" is no word of a case",
		caseHead + "\nend 0":                   "line 2: it has no events",
		caseHead + "\nend 3":                   "line 2: end \"3\": there were 0 events",
		caseHead + "\nverdict fine":            "line 2: verdict \"fine\": want one of",
		caseHead + "\nseed -1":                 "line 2: seed \"-1\": want a whole number",
		caseHead + "\nkill x":                  "line 2: kill \"x\"",
		caseHead + "\nconfig {\"cap.run\":-1}": "line 2: recorded configuration: cap.run is -1",
		caseHead + "\nsync {\"name\":\"x\",\"exec\":\"rm\"}":                    "line 2: json: unknown field \"exec\"",
		caseHead + "\nsync {} {}":                                               "line 2: there is something behind the JSON",
		caseHead + "\nunit x []":                                                "line 2: unit id \"x\"",
		caseHead + "\nunit " + id + " [{\"attempt\":1,\"took_us\":-1}]":         "line 2: a number is negative",
		caseHead + "\ncall {\"port\":1}":                                        "line 2: json: cannot unmarshal number",
		caseHead + "\nevent {\"type\":\"Nothing\"}":                             "line 2: \"Nothing\" is no type of an event",
		caseHead + "\n" + strings.Replace(event, "engine", "nothing", 1):        "line 2: stream \"control/nothing\"",
		caseHead + "\n" + strings.Replace(event, `"tx":1`, `"tx":7`, 1):         "line 2: tx 7: want that of the event before, or 1",
		caseHead + "\n" + strings.Replace(event, `"at":5`, `"at":-5`, 1):        "line 2: at -5: want microseconds",
		caseHead + "\n" + strings.Replace(event, `"schema":1`, `"schema":9`, 1): "newer than this release",
		caseHead + "\nverdict recovered\n" + event + "\nend 1\nmore":            "line 5: there is something behind the end",
		caseHead + "\n# " + strings.Repeat("x", maxCaseLine):                    fmt.Sprintf("line 2: it is longer than %d bytes", maxCaseLine),
	} {
		_, err := ReadCase(strings.NewReader(text))
		require.ErrorContains(t, err, says, "%.80q", text)
		require.NotContains(t, err.Error(), "\n")
	}
}

// A history that contradicts itself is an error, or played and said to be one. It is no panic.
func TestAHistoryThatContradictsItself(t *testing.T) {
	const lead = caseHead + "\nverdict recovered\n"
	for line, says := range map[string]string{
		`event {"tx":1,"at":5,"stream":"unit/` + events.UnitID{1}.String() + `","type":"UnitSucceeded","schema":1,"data":{"attempt":1,"token":"x"}}`:                                       "",
		`event {"tx":1,"at":5,"stream":"control/engine","type":"EnginePaused","schema":1,"node":"` + events.NodeID{2}.String() + `","data":{"actor":"ada"}}`:                               "has not started (N-1)",
		`event {"tx":1,"at":5,"stream":"outbox/` + events.RunID{3}.String() + `/post_sync","type":"OutboxClaimed","schema":1,"data":{"n":4,"token":"x","claim_expires_at":9,"attempt":1}}`: "",
	} {
		c, err := ReadCase(strings.NewReader(lead + line + "\nend 1\n"))
		require.NoError(t, err)
		p, err := c.Play(context.Background(), t.TempDir())
		if says != "" {
			require.ErrorContains(t, err, "the history of the case contradicts itself")
			require.ErrorContains(t, err, says)
			continue
		}
		require.NoError(t, err)
		require.Contains(t, strings.Join(p.Notes, "\n"), "the history of the case itself holds")
	}
}

// No file makes a reader panic, and what it accepts it writes again.
func FuzzReadCase(f *testing.F) {
	f.Add(caseHead + "\nseed 1\nverdict recovered\nend 0\n")
	f.Add(caseHead + "\nverdict stranded\nproblem x\n" + `event {"tx":1,"at":5,"stream":"control/engine","type":"EnginePaused","schema":1,"data":{"actor":"ada"}}` + "\nend 1\n")
	f.Add(caseHead + "\n" + `sync {"name":"x","provider":"p","sources":["a"],"datasets":[]}` + "\n" + `call {"port":"sink"}` + "\nend 0\n")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := ReadCase(strings.NewReader(text))
		if err != nil {
			return
		}
		again, err := ReadCase(strings.NewReader(written(t, c)))
		require.NoError(t, err)
		require.Equal(t, written(t, c), written(t, again))
	})
}

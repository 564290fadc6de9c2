//go:build linux

package docs_test

import (
	"compress/gzip"
	"context"
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	_ "modernc.org/sqlite" // to look into the sink
)

// bench is a folder in which the program of examples/exec runs, with its scripts.
type bench struct {
	t        *testing.T
	dir, bin string
	env      []string
}

// The program of examples/exec, with its scripts.
func TestProgramsAsProviders(t *testing.T) {
	bin := filepath.Join(t.TempDir(), "exec")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", bin, ".")
	build.Dir = "../examples/exec"
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	for name, test := range map[string]func(*testing.T, bench){
		"killed and started again": theScriptsAreProviders, "something is missing": aScriptSaysWhatIsMissing,
		"the log of this machine": thePackageLogOfThisMachine,
	} {
		t.Run(name, func(t *testing.T) { test(t, newBench(t, bin)) })
	}
}

func newBench(t *testing.T, bin string) bench {
	t.Helper()
	b := bench{t: t, dir: t.TempDir(), bin: bin}
	for _, script := range []string{"disk/usage.sh", "packages/log.sh"} {
		text, err := os.ReadFile(filepath.Join("../examples/exec", script))
		require.NoError(t, err)
		require.NoError(t, os.MkdirAll(filepath.Join(b.dir, filepath.Dir(script)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(b.dir, script), text, 0o755)) //nolint:gosec // it is a program
	}
	return b
}

func (b bench) command() *exec.Cmd {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	b.t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, b.bin)
	cmd.Dir, cmd.Env = b.dir, append(os.Environ(), b.env...)
	return cmd
}

// run is what the program says.
func (b bench) run() string {
	b.t.Helper()
	out, err := b.command().Output()
	require.NoError(b.t, err)
	return string(out)
}

// rows are the columns of a query of the sink, as text.
func (b bench) rows(query string) (rows []string) {
	b.t.Helper()
	db, err := sql.Open("sqlite", filepath.Join(b.dir, "facts.db"))
	require.NoError(b.t, err)
	defer func() { require.NoError(b.t, db.Close()) }()
	found, err := db.Query(query)
	require.NoError(b.t, err)
	defer func() { require.NoError(b.t, found.Close()) }()
	for found.Next() {
		var text string
		require.NoError(b.t, found.Scan(&text))
		rows = append(rows, text)
	}
	require.NoError(b.t, found.Err())
	return rows
}

// dpkgLog writes a log as dpkg and logrotate leave it: so many changes on each of the last days, in three files, between lines
// of other kinds.
func (b bench) dpkgLog(days, perDay int) string {
	b.t.Helper()
	dir := b.t.TempDir()
	var parts [3]strings.Builder
	for back := days; back >= 0; back-- {
		day := time.Now().AddDate(0, 0, -back)
		part := &parts[back*2/days] // the newest in the first
		for n := range perDay {
			at := time.Date(day.Year(), day.Month(), day.Day(), 0, 0, n, 0, time.Local).Format(time.DateTime)
			fmt.Fprintf(part, "%s startup archives unpack\n%s %s p%d:amd64 1.%d 2.0\n%s status installed p%d:amd64 2.0\n",
				at, at, []string{"install", "upgrade", "remove"}[n%3], n, back, at, n)
		}
	}
	log := filepath.Join(dir, "dpkg.log")
	require.NoError(b.t, os.WriteFile(log, []byte(parts[0].String()), 0o600))
	require.NoError(b.t, os.WriteFile(log+".1", []byte(parts[1].String()), 0o600))
	f, err := os.Create(log + ".2.gz")
	require.NoError(b.t, err)
	z := gzip.NewWriter(f)
	_, err = z.Write([]byte(parts[2].String()))
	require.NoError(b.t, err)
	require.NoError(b.t, z.Close())
	require.NoError(b.t, f.Close())
	return log
}

// EX-1, EX-7, HU-5, N-3: the scripts of examples/exec, run by its program that is killed with SIGKILL while they work, and started
// again: what du says is in the sink, and each line of the log once; and a third run reads what has changed.
func theScriptsAreProviders(t *testing.T, b bench) {
	folder := filepath.Join(b.dir, "folder")
	for _, name := range []string{"plain", `with "quotes" and \`, "ümlaut", "no\xffutf", "gone"} {
		require.NoError(t, os.MkdirAll(filepath.Join(folder, name), 0o755))
	}
	const days, perDay = 20, 30
	b.env = []string{"FOLDER=" + folder, "LOG=" + b.dpkgLog(days, perDay)}

	first := b.command()
	require.NoError(t, first.Start())
	require.Eventually(t, func() bool {
		at, err := filepath.Glob(filepath.Join(b.dir, "exec.db-attempts", "*-1-*"))
		return err == nil && len(at) > 0
	}, time.Minute, time.Millisecond, "a script is at work")
	require.NoError(t, first.Process.Kill())
	require.Error(t, first.Wait())

	out := b.run()
	require.Contains(t, out, "disk: succeeded, 1 of 1 units\n")
	require.Contains(t, out, "packages: succeeded, 31 of 31 units\n")
	require.Equal(t, []string{folder, folder + "/gone", folder + "/noutf", folder + "/plain", folder + `/with "quotes" and \`, folder + "/ümlaut"},
		b.rows(`SELECT data ->> 'path' FROM usage ORDER BY 1`))
	require.NotContains(t, b.rows(`SELECT data ->> 'kib' FROM usage`), "0")
	require.Equal(t, []string{fmt.Sprint((days + 1) * perDay)}, b.rows(`SELECT count(*) FROM packages`))
	require.Equal(t, []string{fmt.Sprint((days + 1) * perDay / 3)}, b.rows(`SELECT count(*) FROM packages WHERE data ->> 'action' = 'upgrade'`))

	require.NoError(t, os.Remove(filepath.Join(folder, "gone")))
	require.Contains(t, b.run(), "packages: succeeded, 1 of 1 units\n", "the day that is not over")
	require.Len(t, b.rows(`SELECT 1 FROM usage`), 5)
	left, err := filepath.Glob(filepath.Join(b.dir, "exec.db-attempts", "*-*"))
	require.NoError(t, err)
	require.Empty(t, left)
}

// EX-4, E-1: a script that cannot do its work says why, and that it is no use to try again.
func aScriptSaysWhatIsMissing(t *testing.T, b bench) {
	b.env = []string{"FOLDER=" + filepath.Join(b.dir, "none"), "LOG=" + filepath.Join(b.dir, "none.log")}
	out := b.run()
	require.Contains(t, out, "disk: failed, 0 of 1 units\nconfiguration exec disk/usage.sh: configuration: exit status 78: ")
	require.Contains(t, out, "is no folder on this machine: set FOLDER to one")
	require.Contains(t, out, "packages: failed, 0 of 31 units\n")
	require.Contains(t, out, "there is no log of dpkg at "+filepath.Join(b.dir, "none.log")+": this machine has another package manager")
}

// EX-2: the package log of this machine, as it is. A machine without one has the reason above, and nothing to compare.
func thePackageLogOfThisMachine(t *testing.T, b bench) {
	const log = "/var/log/dpkg.log"
	text, err := os.ReadFile(log)
	if err != nil {
		t.Skipf("this machine has no log of dpkg that can be read: %v", err)
	}
	b.env = []string{"FOLDER=" + b.dir, "LOG=" + log, "TZ=UTC"}
	require.Contains(t, b.run(), "packages: succeeded, 31 of 31 units\n")
	want, oldest := 0, time.Now().UTC().AddDate(0, 0, -30).Format(time.DateOnly)
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) > 2 && f[0] >= oldest && (f[2] == "install" || f[2] == "upgrade" || f[2] == "remove" || f[2] == "purge") {
			want++
		}
	}
	got := b.rows(`SELECT count(*) FROM packages`)
	if rotated, _ := filepath.Glob(log + ".*"); len(rotated) == 0 {
		require.Equal(t, []string{fmt.Sprint(want)}, got)
	}
	t.Logf("%s: %d changes since %s, rows %s", log, want, oldest, got[0])
}

package jsonl

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/sink"
	"github.com/towline-dev/towline/sink/sinktest"
)

// A test that kills a process starts this binary again, with the part to play in this variable.
const childEnv = "SINK_JSONL_TEST_CHILD"

func TestMain(m *testing.M) {
	part, ok := os.LookupEnv(childEnv)
	if !ok {
		os.Exit(m.Run())
	}
	role, arg, _ := strings.Cut(part, " ")
	if err := children[role](os.Args[len(os.Args)-1], arg); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

var children = map[string]func(dir, arg string) error{
	// die commits the second attempt, and kills itself before the change of the disk with that number.
	"die": func(dir, arg string) error {
		left, err := strconv.Atoi(arg)
		if err != nil {
			return err
		}
		d := Dir(dir)
		w, err := d.open(context.Background(), twoSurfaces(2))
		if err != nil {
			return err
		}
		if err := putTwo(w, 2); err != nil {
			return err
		}
		d.step = func(change string) {
			if left == 0 {
				fmt.Println(change)
				if self, err := os.FindProcess(os.Getpid()); err == nil {
					_ = self.Kill()
				}
				select {}
			}
			left--
		}
		return w.Commit(context.Background())
	},
	// stage puts rows and waits to be killed.
	"stage": func(dir, _ string) error {
		w, err := Dir(dir).open(context.Background(), scope(2, day))
		if err != nil {
			return err
		}
		for i := range 20_000 {
			if err := w.Put(context.Background(), "readings", fmt.Sprint(i), reading{2}); err != nil {
				return err
			}
		}
		fmt.Println("staged")
		_, err = io.ReadAll(os.Stdin)
		return err
	},
	// race commits every other attempt at one scope, and goes on when it was overtaken.
	"race": func(dir, arg string) error {
		first, err := strconv.Atoi(arg)
		if err != nil {
			return err
		}
		d := Dir(dir)
		for n := first; n <= raceUntil; n += 2 {
			if err := attempt(d, n); err != nil && !errors.Is(err, sink.ErrFenced) {
				return err
			}
		}
		return nil
	},
	// commit says a number when that attempt is committed, for ever.
	"commit": func(dir, _ string) error {
		d := Dir(dir)
		for n := 1; ; n++ {
			if err := attempt(d, n); err != nil {
				return err
			}
			fmt.Println(n)
		}
	},
}

const raceUntil = 60

// attempt commits 20 rows with the value n.
func attempt(d *Destination, n int) error {
	w, err := d.Open(context.Background(), scope(n, day))
	if err != nil {
		return err
	}
	defer w.Abort()
	for k := range 20 {
		if err := w.Put(context.Background(), "readings", fmt.Sprint(n%3, "-", k), reading{n}); err != nil {
			return err
		}
	}
	return w.Commit(context.Background())
}

// twoSurfaces is an attempt at a month, in two surfaces.
func twoSurfaces(n int) sink.Scope {
	s := scope(n, month)
	s.Surfaces = []string{"gauges", "readings"}
	return s
}

func putTwo(w *writer, n int) error {
	w.State(json.RawMessage(strconv.Itoa(n)))
	for _, surface := range w.scope.Surfaces {
		for k := range 3 {
			if err := w.Put(context.Background(), surface, fmt.Sprint(n, "-", k), reading{n}); err != nil {
				return err
			}
		}
	}
	return nil
}

// child starts this binary in a part. lines are what it says.
func child(t *testing.T, part, dir string) (lines *bufio.Scanner, kill func()) {
	t.Helper()
	cmd := exec.Command(os.Args[0], dir)
	cmd.Env = append(os.Environ(), childEnv+"="+part)
	cmd.Stderr = os.Stderr
	_, err := cmd.StdinPipe() // stays open: the child waits at it
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	kill = sync.OnceFunc(func() {
		_ = cmd.Process.Kill()
		_, _ = cmd.Process.Wait()
	})
	t.Cleanup(kill)
	return bufio.NewScanner(out), kill
}

// C-15, HU-5: a process is killed before each change of the disk that a commit makes. Every file is whole at any time. The
// next process finds the one attempt or the other: all of its surfaces, its state and its fence. Behind the journal it is
// the newer.
func TestKilledAtEachChangeOfACommit(t *testing.T) {
	committed := false
	for n := 0; ; n++ {
		dir := filepath.Join(t.TempDir(), "out")
		commit(t, Dir(dir), scope(1, day), 1, "inside")
		first, err := Dir(dir).open(context.Background(), twoSurfaces(1))
		require.NoError(t, err)
		require.NoError(t, putTwo(first, 1))
		require.NoError(t, first.Commit(context.Background()))
		require.NoFileExists(t, filepath.Join(dir, "readings", "harbour", "2024-03-01.jsonl"), "it lies inside of the month")

		lines, _ := child(t, "die "+strconv.Itoa(n), dir)
		if !lines.Scan() { // it was not killed any more
			require.Greater(t, n, 15)
			require.True(t, committed)
			return
		}
		change := lines.Text()
		require.False(t, lines.Scan())
		for _, surface := range []string{"gauges", "readings"} {
			requireOneAttempt(t, change, rowsOf(t, dir, surface))
		}
		begun := exists(filepath.Join(dir, ownFolder, journalFile))
		committed = committed || begun

		next := Dir(dir)
		var changes []string
		next.step = func(change string) { changes = append(changes, change) }
		_, err = next.Open(context.Background(), scope(1, nextMonth)) // anybody
		require.NoError(t, err)
		if begun {
			requireSynced(t, change, changes)
		}
		found := requireOneAttempt(t, change, append(rowsOf(t, dir, "gauges"), rowsOf(t, dir, "readings")...))
		if committed {
			require.Equal(t, 2, found, "before %s", change)
		}
		require.Equal(t, strconv.Itoa(found), stateOf(t, dir), change)
		_, err = Dir(dir).Open(context.Background(), twoSurfaces(1))
		require.Equal(t, found == 2, errors.Is(err, sink.ErrFenced), "before %s", change)
		requireRecords(t, dir)
		commit(t, Dir(dir), scope(3, month), 3, "next")
		require.Empty(t, names(t, filepath.Join(dir, ownFolder, newFolder)), change)
	}
}

// requireSynced: what a killed process has changed and not synced is on disk before the journal, which says it, goes: a
// power cut behind the end of its commit finds all of it. The journal itself is, before anything is done by it.
func requireSynced(t *testing.T, killed string, changes []string) {
	t.Helper()
	end := slices.Index(changes, "remove out/_towline/pending.json")
	require.Positive(t, end, "before %s: %q", killed, changes)
	require.Equal(t, "sync out/_towline", changes[0], "before %s", killed)
	for _, folder := range []string{
		"out/readings/harbour", "out/readings", "out/gauges/harbour", "out/gauges", "out", "out/_towline/surfaces",
		"out/_towline/datasets/readings/harbour", "out/_towline/datasets/readings", "out/_towline/datasets",
	} {
		require.Contains(t, changes[:end], "sync "+folder, "killed before %s", killed)
	}
}

// requireOneAttempt: the rows are those of one attempt, all of them.
func requireOneAttempt(t *testing.T, change string, rows []sinktest.Row) int {
	t.Helper()
	var values []string
	for _, r := range rows {
		n, _, _ := strings.Cut(r.Key, "-")
		values = append(values, n)
	}
	require.NotEmpty(t, values, change)
	require.Len(t, slices.Compact(slices.Clone(values)), 1, "before %s: %v", change, values)
	require.Zero(t, len(values)%3, "before %s: %v", change, values)
	n, err := strconv.Atoi(values[0])
	require.NoError(t, err)
	return n
}

func stateOf(t *testing.T, dir string) string {
	t.Helper()
	var r datasetRecord
	_, err := read(filepath.Join(Dir(dir).datasetFolder(scope(1, day)), datasetFile), &r)
	require.NoError(t, err)
	return string(r.State)
}

// requireRecords: every data file is in one record, with its rows and its sum, and every file of a record is there.
func requireRecords(t *testing.T, dir string) {
	t.Helper()
	recorded := map[string]dataFile{}
	require.NoError(t, filepath.WalkDir(filepath.Join(dir, ownFolder, datasetsFolder), func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || e.Name() == datasetFile {
			return err
		}
		var r windowRecord
		_, err = read(path, &r)
		for _, f := range r.Files {
			recorded[f.File] = f
		}
		return err
	}))
	files, err := filepath.Glob(filepath.Join(dir, "*", "*", "*.jsonl"))
	require.NoError(t, err)
	require.Len(t, files, len(recorded))
	for _, name := range files {
		f := recorded[Dir(dir).relative(name)]
		require.Len(t, linesOf(t, name), f.Rows)
		require.Equal(t, sumOf(t, name), f.SHA256)
	}
}

func names(t *testing.T, dir string) (out []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

// C-15, DUR-1: whatever a commit renames was synced before, and the folder that has the name behind it, so a power cut
// finds what a kill finds.
func TestACommitSyncsBeforeItRenames(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "out")
	d := Dir(dir)
	commit(t, d, scope(1, day), 1, "inside")
	w, err := d.open(context.Background(), twoSurfaces(2))
	require.NoError(t, err)
	require.NoError(t, putTwo(w, 2))
	var changes []string
	d.step = func(change string) { changes = append(changes, change) }
	require.NoError(t, w.Commit(context.Background()))
	renames := 0
	for i, change := range changes {
		switch words := strings.Fields(change); words[0] {
		case "rename":
			renames++
			require.Contains(t, changes[:i], "sync "+words[1], change)
			require.Equal(t, "sync "+filepath.ToSlash(filepath.Dir(words[2])), changes[i+1])
		case "remove", "mkdir":
			require.Equal(t, "sync "+filepath.ToSlash(filepath.Dir(words[1])), changes[i+1])
		}
	}
	require.Equal(t, 2+1+1+2, renames, "data, journal, the new surface, dataset and window: %q", changes)
	begin := slices.Index(changes, "rename out/_towline/new/record out/_towline/pending.json")
	require.Contains(t, changes[:begin], "sync out/_towline/new", "the names of the new files are on disk, too")
	for _, change := range changes[:begin] {
		require.NotContains(t, change, "out/readings", "nothing that is visible changes before the journal")
	}
	require.Equal(t, "remove out/_towline/pending.json", changes[len(changes)-2])
}

// C-15, W6: whenever a process is killed, the folder holds one whole attempt, and none older than it has reported.
func TestKilledAroundCommits(t *testing.T) {
	for acknowledged := 1; acknowledged <= 8; acknowledged++ {
		dir := filepath.Join(t.TempDir(), "out")
		lines, kill := child(t, "commit", dir)
		for n := range acknowledged {
			require.True(t, lines.Scan())
			require.Equal(t, strconv.Itoa(n+1), lines.Text())
		}
		kill()
		_, err := Dir(dir).Open(context.Background(), scope(1, nextMonth))
		require.NoError(t, err)
		requireRecords(t, dir)
		rows := rowsOf(t, dir, "readings")
		require.Len(t, rows, 20)
		for _, r := range rows {
			require.Equal(t, string(rows[0].Data), string(r.Data))
		}
		var v reading
		require.NoError(t, json.Unmarshal(rows[0].Data, &v))
		require.GreaterOrEqual(t, v.Value, acknowledged)
	}
}

// HU-5: of two processes that race at one scope, in a folder that is new to both, the newest attempt stays, whole.
func TestTwoProcessesRaceAtOneScope(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "out")
	var ends []*bufio.Scanner
	for _, first := range []string{"1", "2"} {
		lines, _ := child(t, "race "+first, dir)
		ends = append(ends, lines)
	}
	for _, lines := range ends {
		require.False(t, lines.Scan(), "the child says nothing but its error")
	}
	rows := rowsOf(t, dir, "readings")
	require.Len(t, rows, 20)
	for _, r := range rows {
		require.JSONEq(t, fmt.Sprintf(`{"value": %d}`, raceUntil), string(r.Data))
	}
	requireRecords(t, dir)
}

// C-15: a process killed while it stages leaves the folder as it was, and no file.
func TestKilledWhileStaging(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "out")
	commit(t, Dir(dir), scope(1, day), 1, "a")
	lines, kill := child(t, "stage", dir)
	require.True(t, lines.Scan())
	require.Empty(t, names(t, filepath.Join(dir, ownFolder, newFolder)))
	kill()
	require.Len(t, rowsOf(t, dir, "readings"), 1)
	commit(t, Dir(dir), scope(2, day), 2, "b") // the fence is free
	requireRecords(t, dir)
}

package sqlite_test

import (
	"bufio"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	driverpkg "modernc.org/sqlite"

	"github.com/towline-dev/towline/sink"
	"github.com/towline-dev/towline/sink/sqlite"
)

// children are the parts that this binary plays when a test starts it again. What they print is how far they are;
// each then waits to be killed.
var children = map[string]func(path string){
	"stage":  stageAndWait,
	"merge":  mergeAndWait,
	"commit": commitForEver,
	"sum":    commitHundred,
	"odd":    func(path string) { race(path, 1) },
	"even":   func(path string) { race(path, 2) },
}

// More bytes than the page cache holds, so that the temporary table is in its file.
const manyRows, wideRow = 20_000, 500

func stageAndWait(path string) {
	w := must(sqlite.File(path).Open(context.Background(), scope(2, day)))
	for i := range manyRows {
		check(w.Put(context.Background(), "readings", fmt.Sprint(i), map[string]string{"value": strings.Repeat("x", wideRow)}))
	}
	fmt.Println("staged")
	_, _ = io.ReadAll(os.Stdin)
}

// mergeAndWait stops inside the transaction of the commit: a trigger of the file calls a function that never returns.
func mergeAndWait(path string) {
	driverpkg.MustRegisterScalarFunction("wait", 0, func(*driverpkg.FunctionContext, []driver.Value) (driver.Value, error) {
		fmt.Println("merging")
		_, err := io.ReadAll(os.Stdin)
		return nil, err
	})
	w := must(sqlite.File(path).Open(context.Background(), scope(2, day)))
	check(w.Put(context.Background(), "readings", "a", reading{2}))
	check(w.Put(context.Background(), "readings", "b", reading{2}))
	check(w.Commit(context.Background()))
}

// commitForEver says a number when that attempt is committed. Every row of attempt n has the value n.
func commitForEver(path string) {
	d := sqlite.File(path)
	for n := 1; ; n++ {
		w := must(d.Open(context.Background(), scope(n, day)))
		for k := range 50 {
			check(w.Put(context.Background(), "readings", fmt.Sprint(n%2, "-", k), reading{float64(n)}))
		}
		check(w.Commit(context.Background()))
		fmt.Println(n)
	}
}

// commitHundred commits a hundred scopes of its own.
func commitHundred(path string) {
	d := sqlite.File(path)
	for n := range 100 {
		s := scope(n+1, day)
		s.Source = fmt.Sprint("process-", os.Getpid(), "-", n)
		w := must(d.Open(context.Background(), s))
		check(w.Put(context.Background(), "readings", "a", reading{1}))
		check(w.Commit(context.Background()))
	}
	check(d.Close())
}

// race commits every other attempt at one scope, from the first one on, and goes on when it was overtaken.
func race(path string, first int) {
	d := sqlite.File(path)
	for n := first; n <= raceUntil; n += 2 {
		w, err := d.Open(context.Background(), scope(n, day))
		if errors.Is(err, sink.ErrFenced) {
			continue
		}
		check(err)
		for k := range 20 {
			check(w.Put(context.Background(), "readings", fmt.Sprint(n%3, "-", k), reading{float64(n)}))
		}
		if err := w.Commit(context.Background()); !errors.Is(err, sink.ErrFenced) {
			check(err)
		}
		check(w.Abort())
	}
	check(d.Close())
}

const raceUntil = 80

func must[T any](v T, err error) T {
	check(err)
	return v
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

// child starts this binary in a part. lines are what it says. Its temporary files go to tmp.
func child(t *testing.T, part, path, tmp string) (lines *bufio.Scanner, kill func()) {
	t.Helper()
	cmd := exec.Command(os.Args[0], path)
	cmd.Env = append(os.Environ(), childEnv+"="+part, "SQLITE_TMPDIR="+tmp, "TMPDIR="+tmp)
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

func say(t *testing.T, lines *bufio.Scanner, want string) {
	t.Helper()
	require.True(t, lines.Scan(), "the child died")
	require.Equal(t, want, lines.Text())
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	out := []string{}
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

// C-15, HU-5: a process killed while it stages leaves the file as it was, and no staging file anywhere.
func TestKilledWhileStaging(t *testing.T) {
	dir, tmp := t.TempDir(), t.TempDir()
	path := filepath.Join(dir, "readings.db")
	d := at(t, path)
	commit(t, d, scope(1, day), 1, "a")
	lines, kill := child(t, "stage", path, tmp)
	say(t, lines, "staged")
	if runtime.GOOS == "linux" {
		require.True(t, holdsUnnamedFile(t, tmp), "the rows are in memory")
	}
	kill()

	require.Empty(t, names(t, tmp))
	require.Equal(t, []string{"readings.db", "readings.db-shm", "readings.db-wal"}, names(t, dir))
	require.Equal(t, []string{"harbour|a|2024-03-01|1"}, query(t, d, readings))
	commit(t, d, scope(2, day), 2, "b") // the fence is free
	require.Equal(t, []string{"harbour|b|2024-03-01|2"}, query(t, d, readings))
}

// holdsUnnamedFile reports that some process has a file open that once was in dir and has no name any more.
func holdsUnnamedFile(t *testing.T, dir string) bool {
	t.Helper()
	links, err := filepath.Glob("/proc/[0-9]*/fd/*")
	require.NoError(t, err)
	return slices.ContainsFunc(links, func(link string) bool {
		target, err := os.Readlink(link)
		return err == nil && strings.HasPrefix(target, dir+"/") && strings.HasSuffix(target, " (deleted)")
	})
}

// C-15, HU-5: a process killed inside the transaction of its commit has committed nothing.
func TestKilledInsideTheCommit(t *testing.T) {
	path := filepath.Join(t.TempDir(), "readings.db")
	d := at(t, path)
	commit(t, d, scope(1, day), 1, "a", "gone")
	require.NoError(t, d.Script(context.Background(),
		`CREATE TRIGGER slow AFTER INSERT ON readings BEGIN SELECT wait(); END`))
	lines, kill := child(t, "merge", path, t.TempDir())
	say(t, lines, "merging") // a and gone are removed or changed already, b is being written
	kill()

	require.Equal(t, []string{"harbour|a|2024-03-01|1", "harbour|gone|2024-03-01|1"}, query(t, d, readings))
	require.Equal(t, []string{"00000001.0000000000000001"}, query(t, d, `SELECT fence FROM _towline_fence`))
	require.NoError(t, d.Script(context.Background(), `DROP TRIGGER slow`))
	commit(t, d, scope(2, day), 2, "a", "b")
	require.Equal(t, []string{"harbour|a|2024-03-01|2", "harbour|b|2024-03-01|2"}, query(t, d, readings))
}

// C-15, W6: whenever a process is killed, the file holds one whole attempt, and none older than it has reported.
func TestKilledAroundCommits(t *testing.T) {
	for acknowledged := 1; acknowledged <= 12; acknowledged++ {
		path := filepath.Join(t.TempDir(), "readings.db")
		lines, kill := child(t, "commit", path, t.TempDir())
		for n := range acknowledged {
			say(t, lines, strconv.Itoa(n+1))
		}
		kill()

		d := at(t, path)
		require.Equal(t, []string{"ok"}, query(t, d, `PRAGMA integrity_check`))
		found := query(t, d, `
SELECT count(*), count(DISTINCT data), min(data ->> 'value'), CAST(substr(fence, 10) AS INTEGER)
FROM readings, _towline_fence`)
		var rows, distinct, value, fence int
		_, err := fmt.Sscanf(found[0], "%d|%d|%d|%d", &rows, &distinct, &value, &fence)
		require.NoError(t, err, found)
		require.Equal(t, 50, rows)
		require.Equal(t, 1, distinct)
		require.Equal(t, fence, value)
		require.GreaterOrEqual(t, fence, acknowledged)
	}
}

// HU-5: two processes that start together and commit to one new file lose nothing.
func TestTwoProcessesCommitToOneFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "readings.db")
	var ends []*bufio.Scanner
	for range 2 {
		lines, _ := child(t, "sum", path, t.TempDir())
		ends = append(ends, lines)
	}
	for _, lines := range ends {
		require.False(t, lines.Scan(), "the child says nothing but its panic")
	}
	d := at(t, path)
	require.Equal(t, []string{"200"}, query(t, d, `SELECT count(*) FROM readings`))
	require.Equal(t, []string{"200"}, query(t, d, `SELECT count(*) FROM _towline_fence`))
}

// HU-5: of two processes that race at one scope the newest attempt stays, whole.
func TestTwoProcessesRaceAtOneScope(t *testing.T) {
	path := filepath.Join(t.TempDir(), "readings.db")
	var ends []*bufio.Scanner
	for _, part := range []string{"odd", "even"} {
		lines, _ := child(t, part, path, t.TempDir())
		ends = append(ends, lines)
	}
	for _, lines := range ends {
		require.False(t, lines.Scan(), "the child says nothing but its panic")
	}
	require.Equal(t, []string{fmt.Sprintf("20|%d|%d|%d", raceUntil, raceUntil, raceUntil)}, query(t, at(t, path), `
SELECT count(*), min(data ->> 'value'), max(data ->> 'value'), CAST(substr(fence, 10) AS INTEGER)
FROM readings, _towline_fence`))
}

// hold takes the write lock of a file, as another program would.
func hold(t testing.TB, path string) (release func()) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	conn, err := db.Conn(context.Background())
	require.NoError(t, err)
	_, err = conn.ExecContext(context.Background(), `BEGIN IMMEDIATE`)
	require.NoError(t, err)
	return func() {
		_, err := conn.ExecContext(context.Background(), `ROLLBACK`)
		require.NoError(t, err)
		require.NoError(t, conn.Close())
	}
}

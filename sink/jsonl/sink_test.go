package jsonl

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/sink"
)

var (
	day       = events.NewWindow(time.Date(2024, 3, 1, 0, 0, 0, 0, time.UTC), time.Date(2024, 3, 2, 0, 0, 0, 0, time.UTC))
	nextDay   = events.NewWindow(day.To, day.To.AddDate(0, 0, 1))
	month     = events.NewWindow(day.From, day.From.AddDate(0, 1, 0))
	nextMonth = events.NewWindow(month.To, month.To.AddDate(0, 1, 0))
)

func sumOf(t testing.TB, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	require.NoError(t, err)
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// HU-5: a commit is a file of rows and a record, which are a file format.
func TestTheFilesOfACommit(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "out")
	now := time.Date(2026, 11, 29, 12, 0, 0, 5000, time.FixedZone("", 3600))
	d := Dir(dir, Now(func() time.Time { return now }))
	w, err := d.Open(context.Background(), scope(7, day))
	require.NoError(t, err)
	require.NoError(t, w.Put(context.Background(), "readings", "00:10", map[string]any{"tide_cm": 312, "by": "<Ann>"}))
	require.NoError(t, w.Put(context.Background(), "readings", "00:20", json.RawMessage(`{ "tide_cm": 9007199254740993 }`)))
	w.State(json.RawMessage(`{"cursor":9007199254740993}`))
	require.NoError(t, w.Commit(context.Background()))

	data := filepath.Join(dir, "readings", "harbour", "2024-03-01.jsonl")
	require.Equal(t, `{"source":"harbour","key":"00:10","window":"2024-03-01","data":{"by":"<Ann>","tide_cm":312}}
{"source":"harbour","key":"00:20","window":"2024-03-01","data":{"tide_cm":9007199254740993}}
`, text(t, data))
	records := filepath.Join(dir, "_towline", "datasets", "readings", "harbour")
	require.Equal(t, strings.ReplaceAll(`{
  "source": "harbour",
  "dataset": "readings",
  "window": "2024-03-01",
  "fence": "00000001.0000000000000007",
  "store": "store-1",
  "run": "00000000000000000000000001",
  "unit": "00000000000000000000000002",
  "attempt": 7,
  "committed_at": "2026-11-29T11:00:00.000005Z",
  "files": [
    {
      "surface": "readings",
      "file": "readings/harbour/2024-03-01.jsonl",
      "rows": 2,
      "sha256": "SUM"
    }
  ]
}
`, "SUM", sumOf(t, data)), text(t, filepath.Join(records, "1709251200000000_1709337600000000.json")))
	require.JSONEq(t, `{"source": "harbour", "dataset": "readings", "store": "store-1", "state": {"cursor": 9007199254740993},
		"state_fence": "00000001.0000000000000007", "state_store": "store-1", "committed_at": "2026-11-29T11:00:00.000005Z"}`,
		text(t, filepath.Join(records, "dataset.json")))
	require.JSONEq(t, `{"surface": "readings", "dataset": "readings"}`, text(t, filepath.Join(dir, "_towline", "surfaces", "readings.json")))
	require.Equal(t, []string{"datasets", "lock", "new", "surfaces"}, names(t, filepath.Join(dir, "_towline")))
}

func text(t testing.TB, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	require.NoError(t, err)
	return string(b)
}

// HU-5, W-8: a commit at a window takes the place of what lies inside of it, but for what a newer attempt has written there;
// and an attempt inside of a window that a newer one has read is refused, for what it read is older.
func TestAWindowInsideOfAnother(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "out")
	d := Dir(dir)
	days := filepath.Join(dir, "readings", "harbour")
	commit(t, d, scope(1, day), 1, "a")
	commit(t, d, scope(9, nextDay), 9, "b")
	commit(t, d, scope(5, month), 5, "a", "b")
	require.Equal(t, []string{"2024-03-02.jsonl", "2024-03.jsonl"}, names(t, days))
	_, err := d.Open(context.Background(), scope(4, day))
	require.ErrorIs(t, err, sink.ErrFenced)
	require.ErrorContains(t, err, "window 2024-03,")

	commit(t, d, scope(6, day), 6, "a")
	require.Equal(t, []string{"2024-03-01.jsonl", "2024-03-02.jsonl", "2024-03.jsonl"}, names(t, days))
	commit(t, d, scope(10, events.Window{To: month.To}), 10, "a")
	require.Equal(t, []string{"-.jsonl"}, names(t, days))
	_, err = d.Open(context.Background(), scope(9, nextMonth))
	require.ErrorIs(t, err, sink.ErrFenced, "the whole source is around every window")
	requireRecords(t, dir)
}

// HU-5: behind a take-over what the other store has left counts for nothing: its fences refuse nobody, its state is
// replaced by one with a lower fence, and its files go when their windows are read anew.
func TestBehindATakeOver(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "out")
	lost := Dir(dir)
	w, err := lost.Open(context.Background(), scope(9, nextDay))
	require.NoError(t, err)
	w.State(json.RawMessage(`"lost"`))
	require.NoError(t, w.Put(context.Background(), "readings", "b", reading{9}))
	require.NoError(t, w.Commit(context.Background()))

	heir := func(n int, w events.Window) sink.Scope {
		s := scope(n, w)
		s.Store = "heir"
		return s
	}
	commit(t, Dir(dir, TakeOver()), heir(1, day), 1, "a")
	require.Equal(t, `"lost"`, stateOf(t, dir), "it left none yet")
	commit(t, Dir(dir), heir(2, month), 2, "c")
	require.Equal(t, []string{"2024-03.jsonl"}, names(t, filepath.Join(dir, "readings", "harbour")))
	w, err = Dir(dir).Open(context.Background(), heir(3, nextDay))
	require.NoError(t, err)
	w.State(json.RawMessage(`"heir"`))
	require.NoError(t, w.Commit(context.Background()))
	require.Equal(t, `"heir"`, stateOf(t, dir))

	_, err = Dir(dir, TakeOver()).Open(context.Background(), sink.Scope{Source: "s", Dataset: "d", Fence: "f"})
	require.ErrorContains(t, err, "TakeOver needs a scope that names its store")
}

// HU-5, U-16: where not even the first file of a commit can be put in its place, nothing of it was written, and whoever
// writes elsewhere goes on.
func TestACommitThatCannotBegin(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "out")
	d := Dir(dir)
	commit(t, d, scope(1, nextDay), 1, "a")
	w, err := d.Open(context.Background(), scope(2, day))
	require.NoError(t, err)
	require.NoError(t, w.Put(context.Background(), "readings", "a", reading{2}))
	inTheWay := filepath.Join(dir, "readings", "harbour", "2024-03-01.jsonl", "x")
	require.NoError(t, os.MkdirAll(inTheWay, 0o755))
	require.ErrorContains(t, w.Commit(context.Background()), "2024-03-01.jsonl")
	require.False(t, w.Committed())
	commit(t, Dir(dir), scope(3, nextDay), 3, "a", "b")
	require.NoError(t, os.RemoveAll(filepath.Dir(inTheWay)))
	require.NoError(t, w.Commit(context.Background()), "the same attempt may try again")
	require.Len(t, rowsOf(t, dir, "readings"), 3)
	requireRecords(t, dir)
}

// HU-5, U-16: when the disk fails between the files of a commit, the attempt counts as committed, and the next process
// ends it.
func TestACommitThatCannotEnd(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "out")
	d := Dir(dir)
	s := scope(1, day)
	s.Surfaces = []string{"gauges", "readings"}
	w, err := d.Open(context.Background(), s)
	require.NoError(t, err)
	require.NoError(t, w.Put(context.Background(), "gauges", "a", reading{1}))
	require.NoError(t, w.Put(context.Background(), "readings", "a", reading{1}))
	inTheWay := filepath.Join(dir, "readings", "harbour", "2024-03-01.jsonl", "x")
	require.NoError(t, os.MkdirAll(inTheWay, 0o755))
	require.Error(t, w.Commit(context.Background()))
	require.True(t, w.Committed())
	_, err = Dir(dir).Open(context.Background(), scope(2, nextDay))
	require.ErrorContains(t, err, "end the commit of a process that died")
	require.NoError(t, os.RemoveAll(filepath.Dir(inTheWay)))
	require.NoError(t, w.Commit(context.Background()), "the same attempt may try again")
	require.Len(t, rowsOf(t, dir, "readings"), 1)
	requireRecords(t, dir)
}

// HU-5: a disk that fails under the rows that wait takes them away. What is put afterwards, by a provider that looked away
// from the error, is a part of the rows and must not replace the window.
func TestADiskThatFailsWhileStaging(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "out")
	d := Dir(dir)
	commit(t, d, scope(1, day), 1, "a")
	w, err := d.open(context.Background(), scope(2, day))
	require.NoError(t, err)
	require.NoError(t, w.Put(context.Background(), "readings", "b", reading{2}))
	require.NoError(t, w.stage.file.Close())
	put := func() error {
		return w.Put(context.Background(), "readings", "c", map[string]string{"value": strings.Repeat("x", 100_000)})
	}
	require.Error(t, put())
	require.ErrorContains(t, put(), "rows that were put before are lost")
	require.ErrorContains(t, w.Commit(context.Background()), "rows that were put before are lost")
	require.False(t, w.Committed())
	require.Len(t, rowsOf(t, dir, "readings"), 1)
}

// HU-5: a commit waits for another process that is committing, for a bounded time and under the caller's context.
func TestAFolderThatIsLocked(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "out")
	d, patient := Dir(dir, Wait(time.Millisecond)), Dir(dir, Wait(time.Hour))
	commit(t, d, scope(1, day), 1, "a")
	w, err := d.Open(context.Background(), scope(2, day))
	require.NoError(t, err)
	p, err := patient.Open(context.Background(), scope(1, nextDay))
	require.NoError(t, err)
	f, err := Dir(dir).lock(context.Background())
	require.NoError(t, err)
	require.ErrorContains(t, w.Commit(context.Background()), "held by another process")
	require.False(t, w.Committed())
	soon, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	require.ErrorIs(t, p.Commit(soon), context.DeadlineExceeded)
	require.NoError(t, f.Close())
	require.NoError(t, w.Commit(context.Background()))
	require.NoError(t, p.Commit(context.Background()))

	patient.turn <- struct{}{} // somebody of this process has its turn
	again, err := patient.Open(context.Background(), scope(2, nextDay))
	require.NoError(t, err)
	require.ErrorIs(t, again.Commit(soon), context.DeadlineExceeded)
}

// HU-5: two names that a file system takes for one are refused rather than mixed. Here the records are made as such a file
// system would show them.
func TestNamesThatAreOneFile(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "out")
	d := Dir(dir)
	s := scope(1, day)
	s.Surfaces = []string{"Readings"}
	commit(t, d, s, 1, "a")
	require.NoError(t, os.Rename(d.surfacePath("Readings"), d.surfacePath("readings")))
	w, err := d.Open(context.Background(), scope(2, day))
	require.NoError(t, err)
	require.ErrorContains(t, w.Commit(context.Background()), `surfaces "Readings" and "readings" are one file`)

	harbour := d.datasetFolder(s)
	require.NoError(t, os.Rename(harbour, filepath.Join(filepath.Dir(harbour), "HARBOUR")))
	s.Source = "HARBOUR"
	_, err = d.Open(context.Background(), s)
	require.ErrorContains(t, err, "are those of harbour/readings")
}

// CFG: what cannot be a file is refused at the begin, and a folder is made only in one that is there.
func TestScopesThatAreRefused(t *testing.T) {
	dir := t.TempDir()
	for problem, change := range map[string]func(*sink.Scope){
		"must all be given": func(s *sink.Scope) { s.Fence = "" },
		"name is empty":     func(s *sink.Scope) { s.Surfaces = []string{""} },
		"not valid UTF-8":   func(s *sink.Scope) { s.Source = "a\xff" },
		"is too long":       func(s *sink.Scope) { s.Dataset = strings.Repeat("é", 101) },
		"source \"\"":       func(s *sink.Scope) { s.Source = "" },
	} {
		s := scope(1, day)
		change(&s)
		_, err := Dir(filepath.Join(dir, "out")).Open(context.Background(), s)
		require.ErrorContains(t, err, problem)
	}
	require.NoFileExists(t, filepath.Join(dir, "out"))
	_, err := Dir(filepath.Join(dir, "no", "out")).Open(context.Background(), scope(1, day))
	require.ErrorContains(t, err, "there is no folder "+filepath.Join(dir, "no"))
	w, err := Dir(filepath.Join(dir, "out")).Open(context.Background(), scope(1, day))
	require.NoError(t, err)
	require.ErrorContains(t, w.Put(context.Background(), "readings", "a\xff", reading{}), "not valid UTF-8")
}

// CFG: any name is a file name of its own, and none is one of the sink or leads out of the folder.
func TestFileNames(t *testing.T) {
	for name, want := range map[string]string{
		"harbour": "harbour", "..": "%2E.", ".hidden": "%2Ehidden", "_towline": "%5Ftowline", "a/b": "a%2Fb", `a\b`: "a%5Cb",
		"50%": "50%25", "a\nb": "a%0Ab", "é": "é", "-": "-", "2024-03-01T10:00:00Z..2024-03-02": "2024-03-01T10:00:00Z..2024-03-02",
	} {
		require.Equal(t, want, fileName(name))
	}
}

// HU-5: a hundred thousand rows are one commit, whatever the order of their keys.
func TestAHundredThousandRows(t *testing.T) {
	const n = 100_000
	dir := filepath.Join(t.TempDir(), "out")
	w, err := Dir(dir).Open(context.Background(), scope(1, day))
	require.NoError(t, err)
	for i := range n + n/10 { // a tenth comes twice
		require.NoError(t, w.Put(context.Background(), "readings", fmt.Sprintf("%06d", (i*7919)%n), reading{i}))
	}
	require.NoError(t, w.Commit(context.Background()))
	require.Len(t, rowsOf(t, dir, "readings"), n)
	requireRecords(t, dir)
}

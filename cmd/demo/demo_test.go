//go:build unix

package main

import (
	"bufio"
	"bytes"
	"database/sql"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	dying "github.com/towline-dev/towline/crash"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/projections"
	"github.com/towline-dev/towline/replay"
	"github.com/towline-dev/towline/store"
	"github.com/towline-dev/towline/store/sqlite"
)

// program is the demo as a process of its own. Its temporary files go to a folder of the test, which it returns.
func program(t *testing.T, args ...string) (*exec.Cmd, string) {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	scratch := t.TempDir()
	cmd := exec.CommandContext(t.Context(), self, args...)
	cmd.Env = append(os.Environ(), mainVariable+"=1", "TMPDIR="+scratch)
	cmd.Dir = scratch
	return cmd, scratch
}

// document is -json as a stranger reads it.
type document struct {
	OK       bool
	Problems []string
	Seed     uint64
	Cases    []struct {
		Name, Row, Window, Outcome string
		Killed                     bool
		RecoveredMS                int64 `json:"recovered_ms"`
		Left, Recovery             []string
	}
	Runs []struct {
		Status   string
		Applied  int
		PostSync string `json:"post_sync"`
	}
	Oracle     struct{ Git, Rows, Lost, Doubled, Unexpected int }
	Verify     string
	Stranded   *int
	Unresolved []string
}

// The five crash cases, the strand C-3 and the duplicate C-4, each by a real SIGKILL: every one ends as the crash table
// says, and in the end nothing is lost, doubled or stranded. What is claimed is checked from outside, with git and a
// SQLite client.
func TestEveryCrashRecovers(t *testing.T) {
	t.Parallel()
	repo, keep := newRepository(t), filepath.Join(t.TempDir(), "kept")
	cmd, scratch := program(t, "-json", "-repo", repo, "-keep", keep, "-seed", "7")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, "%s%s", out, stderr.String())
	require.Empty(t, stderr.String(), "stderr is for a terminal")
	require.Empty(t, entries(t, scratch))

	var d document
	require.NoError(t, json.Unmarshal(out, &d), "%s", out)
	require.True(t, d.OK)
	require.Empty(t, d.Problems)
	require.EqualValues(t, 7, d.Seed)
	want := map[string][2]string{
		"C-2": {"W0", "recovered"}, "C-3": {"W2", "recovered"}, "C-13": {"W5", "recovered"}, "C-16": {"W7", "recovered"},
		"C-22": {"W8", "lost_by_contract"}, "C-4": {"W3", "duplicate_absorbed"}, "C-10": {"W1", "recovered"},
	}
	require.Len(t, d.Cases, len(want))
	for _, c := range d.Cases {
		require.Equal(t, want[c.Row], [2]string{c.Window, c.Outcome}, c.Name)
		require.True(t, c.Killed, c.Name)
		require.Positive(t, c.RecoveredMS, c.Name)
		require.NotEmpty(t, c.Left, c.Name)
		require.NotEmpty(t, c.Recovery, c.Name)
	}
	require.Equal(t, "ok", d.Verify)
	require.NotNil(t, d.Stranded)
	require.Zero(t, *d.Stranded)
	require.Len(t, d.Unresolved, 1, "the lost post_sync waits for a person")
	require.Len(t, d.Runs, 3)
	require.Equal(t, []int{0, 1, 1}, []int{d.Runs[0].Applied, d.Runs[1].Applied, d.Runs[2].Applied})

	commits, err := strconv.Atoi(mustGit(t, repo, "rev-list", "--count", "--all"))
	require.NoError(t, err)
	require.Equal(t, commits, d.Oracle.Git)
	require.Equal(t, commits, d.Oracle.Rows)
	require.Zero(t, d.Oracle.Lost+d.Oracle.Doubled+d.Oracle.Unexpected)
	require.Equal(t, commits, number(t, historyPath(keep), `SELECT count(*) FROM commits`))
	require.Equal(t, commits, number(t, historyPath(keep), `SELECT count(DISTINCT sha) FROM commits`))
	require.Equal(t, 2*commits, number(t, historyPath(keep), `SELECT sum(commits) FROM activity`), "two post_syncs, each once")
	require.Equal(t, mustGit(t, repo, "rev-list", "--count", "--all", "--no-merges"),
		strconv.Itoa(number(t, historyPath(keep), `SELECT count(DISTINCT sha) FROM changes`)))
	require.Equal(t, 8, number(t, storePath(keep), `SELECT count(*) FROM log WHERE type = 'NodeStarted'`)-len(d.Runs)+1,
		"seven that died, and the one that came after")
	requireReplay(t, storePath(keep), len(d.Runs))
	dieEverywhere(t, storePath(keep))
}

// requireReplay tells every run of a store that no process has open, as text and as a page, from its head, and the
// first one from positions between: the deaths were real ones here, and so are the windows in which a reader stops.
func requireReplay(t *testing.T, path string, runs int) {
	t.Helper()
	s, err := sqlite.Open(t.Context(), path, sqlite.Options{})
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	var list []projections.SyncRun
	var head events.Position
	require.NoError(t, s.Read(t.Context(), func(r store.Reader) (err error) {
		if head, _, err = r.Head(); err != nil {
			return err
		}
		list, err = projections.NewView(r).Runs(events.RunID{}, 10)
		return err
	}))
	require.Len(t, list, runs)
	died := 0
	for _, run := range list {
		text, page := replayed(t, s, head, run.Run)
		require.Contains(t, text, string(run.Status)+fmt.Sprintf(", %d of %d unit", run.Succeeded, run.Total))
		require.Contains(t, page, run.Run.String())
		deaths := strings.Count(text, " died, its last sign of life is ")
		died += deaths
		require.Equal(t, deaths, strings.Count(page, `<li class="death died"`))
	}
	require.GreaterOrEqual(t, died, len(crashes))
	first := list[len(list)-1].Run
	for p := range head {
		if p%30 == 20 { // at the first there is no run yet
			text, _ := replayed(t, s, p, first)
			require.Contains(t, text, fmt.Sprintf("as of %d, ", p))
		}
	}
}

func replayed(t *testing.T, s *sqlite.Store, p events.Position, run events.RunID) (string, string) {
	t.Helper()
	scratch, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "scratch.db"), sqlite.Options{Synchronous: "normal", Inline: true})
	require.NoError(t, err)
	past, err := projections.NewPast(t.Context(), s, scratch, p)
	require.NoError(t, err)
	defer func() { require.NoError(t, past.Close()) }()
	h, err := replay.Open(t.Context(), past, run)
	require.NoError(t, err)
	var text, page bytes.Buffer
	require.NoError(t, replay.Text(t.Context(), &text, h, replay.TextOptions{Width: 400}))
	require.NoError(t, replay.HTML(t.Context(), &page, h, replay.HTMLOptions{}))
	return text.String(), page.String()
}

var everywhere = flag.Bool("everywhere", false, "die at every boundary of what a demo has left, where the usual run takes a sample; it takes minutes")

// Of what a demo has left, every durable boundary is a crash that recovers, and the file is only read.
func dieEverywhere(t *testing.T, store string) {
	t.Helper()
	before, err := os.ReadFile(store)
	require.NoError(t, err)
	most := 50 // most of these worlds play the whole run again
	switch {
	case testing.Short():
		most = 20
	case *everywhere:
		most = 0
	}
	m, err := dying.MakeMatrix(t.Context(), dying.Options{Store: store, Most: most})
	require.NoError(t, err)
	var text strings.Builder
	require.NoError(t, m.Text(&text))
	require.True(t, m.Good(), text.String())
	require.Zero(t, m.Count(dying.Stranded))
	require.Zero(t, m.Violations())
	require.Empty(t, m.Log)
	if most == 0 {
		require.Positive(t, m.Count(dying.Absorbed), text.String())
		require.Positive(t, m.Count(dying.Lost), text.String())
		require.Equal(t, number(t, store, `SELECT count(DISTINCT tx) FROM log`), m.Boundaries)
		at := map[events.Position]bool{}
		for _, r := range m.Rows {
			at[r.Position] = true
		}
		require.Len(t, at, m.Boundaries, "each boundary has its row")
	}
	after, err := os.ReadFile(store)
	require.NoError(t, err)
	require.Equal(t, before, after)
}

// What earlier demos left in a folder is replaced, and that is said; the folder explains itself, and holds nothing empty.
// What is proposed to look at can be looked at.
func TestAKeptFolder(t *testing.T) {
	t.Parallel()
	keep := filepath.Join(t.TempDir(), "kept here")
	for _, again := range []bool{false, true} {
		cmd, _ := program(t, "-keep", keep)
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		require.Equal(t, again, strings.Contains(string(out), "What an earlier demo had left there is removed."), "%s", out)
		require.Contains(t, string(out), "  cd '"+keep+"'\n")
	}
	about, err := os.ReadFile(filepath.Join(keep, markName))
	require.NoError(t, err)
	for _, name := range entries(t, keep) {
		require.Contains(t, string(about), name)
	}
	require.NoFileExists(t, childLogPath(keep), "it would be empty")
	for _, view := range []string{"log", "runs_view", "units_view WHERE attempt > 1"} {
		require.Positive(t, number(t, storePath(keep), `SELECT count(*) FROM `+view), view)
	}
}

func number(t *testing.T, path, query string) (n int) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path+"?mode=ro")
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	require.NoError(t, db.QueryRow(query).Scan(&n))
	return n
}

func entries(t *testing.T, dir string) []string {
	t.Helper()
	list, err := os.ReadDir(dir)
	require.NoError(t, err)
	var names []string
	for _, e := range list {
		names = append(names, e.Name())
	}
	return names
}

// Where there is no repository one is made, and says so. What is printed for a person has no colours and no bar without
// a terminal, stays within the width, and nothing is left behind.
func TestAPersonIsTold(t *testing.T) {
	t.Parallel()
	cmd, scratch := program(t)
	cmd.Env = append(cmd.Env, "COLUMNS=70")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	text := string(out)
	require.Contains(t, text, "Made for this demo, because")
	require.NotContains(t, text, "\x1b")
	require.NotContains(t, text, "\r")
	for _, c := range crashes {
		require.Contains(t, text, c.row+":")
	}
	require.Contains(t, text, "All of it holds")
	require.NotContains(t, text, "OutboxArmed", "events are for -v")
	for line := range strings.Lines(text) {
		require.LessOrEqual(t, len([]rune(strings.TrimSuffix(line, "\n"))), 70, line)
	}
	require.Empty(t, entries(t, scratch))
}

// Ctrl-C, a polite kill and a closed terminal each kill the child, remove what was made, and are exit code 130.
func TestAnInterruptLeavesNothing(t *testing.T) {
	t.Parallel()
	for _, s := range []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP} {
		t.Run(s.String(), func(t *testing.T) {
			if signal.Ignored(s) {
				t.Skip("whoever runs this test has it ignored, as nohup does, and its children inherit that")
			}
			interrupted(t, s)
		})
	}
}

func interrupted(t *testing.T, s os.Signal) {
	cmd, scratch := program(t, "-v")
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	require.NoError(t, cmd.Start())
	lines := bufio.NewScanner(out)
	child := 0
	for lines.Scan() {
		_, rest, ok := strings.Cut(lines.Text(), " by process ")
		if !ok {
			continue
		}
		pid, _, _ := strings.Cut(rest, ":")
		child, err = strconv.Atoi(pid) // the one that lives
		require.NoError(t, err)
		require.NoError(t, cmd.Process.Signal(s))
		break
	}
	for lines.Scan() { // to the end, so that nothing blocks
	}
	require.Error(t, cmd.Wait())
	require.Equal(t, exitInterrupted, cmd.ProcessState.ExitCode(), stderr.String())
	require.NotZero(t, child)
	require.ErrorIs(t, syscall.Kill(child, 0), syscall.ESRCH, "the child lives")
	require.Empty(t, entries(t, scratch))
}

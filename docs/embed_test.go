//go:build unix

package docs_test

import (
	"bufio"
	"context"
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	_ "modernc.org/sqlite" // to look into the two files
)

// stations are the readings that the program of examples/embed has to copy. One of its files is a pipe at first, into
// which nobody writes: whoever reads it waits, so the program is surely killed in the middle of its work.
type stations struct {
	dir   string
	pipe  string
	lines map[string]string // file → content
}

const (
	daysBack = 30 // plan.depth
	perDay   = 20
)

func newStations(t *testing.T, today time.Time) stations {
	t.Helper()
	s := stations{dir: t.TempDir(), lines: map[string]string{}}
	for _, station := range []string{"harbour", "ridge"} {
		require.NoError(t, os.MkdirAll(filepath.Join(s.dir, "stations", station), 0o755))
		for back := range daysBack + 1 {
			day := today.AddDate(0, 0, -back).Format(time.DateOnly)
			var content strings.Builder
			for n := range perDay {
				fmt.Fprintf(&content, "%02d:00,%d.%d\n", n, n, back) // as docs/OPERATING.md has it: the same times every day
			}
			file := filepath.Join(s.dir, "stations", station, day+".csv")
			s.lines[file] = content.String()
			require.NoError(t, os.WriteFile(file, []byte(content.String()), 0o644))
			if station == "ridge" && back == daysBack/2 {
				s.pipe = file
			}
		}
	}
	require.NoError(t, os.Remove(s.pipe))
	require.NoError(t, syscall.Mkfifo(s.pipe, 0o644))
	return s
}

// unblock makes the pipe a file like the others.
func (s stations) unblock(t *testing.T) {
	t.Helper()
	require.NoError(t, os.Remove(s.pipe))
	require.NoError(t, os.WriteFile(s.pipe, []byte(s.lines[s.pipe]), 0o644))
}

// rows are what the sink must hold in the end, in the form of the query in copied.
func (s stations) rows() map[string]string {
	out := map[string]string{}
	for file, content := range s.lines {
		station, day := filepath.Base(filepath.Dir(file)), strings.TrimSuffix(filepath.Base(file), ".csv")
		for line := range strings.Lines(content) {
			at, value, _ := strings.Cut(strings.TrimSpace(line), ",")
			out[station+"/"+day+" "+at] = value
		}
	}
	return out
}

// program is a started process of examples/embed.
type program struct {
	cmd *exec.Cmd
	out *bufio.Scanner
}

func (s stations) start(ctx context.Context, t *testing.T, bin string) program {
	t.Helper()
	cmd := exec.CommandContext(ctx, bin)
	cmd.Dir, cmd.Stderr = s.dir, os.Stderr
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	return program{cmd, bufio.NewScanner(out)}
}

// lines reads n lines of output, or all that come until the process ends if n is 0.
func (p program) lines(n int) []string {
	var out []string
	for (n == 0 || len(out) < n) && p.out.Scan() {
		out = append(out, p.out.Text())
	}
	return out
}

// N-3, HU-5, RW-4: the program of the README, killed with SIGKILL in the middle of its work and started again, has every
// reading in its sink once, and a third start does nothing.
func TestTheEmbeddedEngineIsKilledAndGoesOn(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	bin := filepath.Join(t.TempDir(), "embed")
	build := exec.CommandContext(ctx, "go", "build", "-o", bin, ".")
	build.Dir = "../examples/embed"
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)

	today := time.Now().UTC()
	s := newStations(t, today)
	first := s.start(ctx, t, bin)
	require.Len(t, first.lines(5), 5, "more days were read than the workers hold, so one at least has been committed")
	require.NoError(t, first.cmd.Process.Signal(syscall.SIGKILL))
	require.Error(t, first.cmd.Wait())
	if time.Now().UTC().Format(time.DateOnly) != today.Format(time.DateOnly) {
		t.Skip("midnight has passed: the days of the plan are not those of the stations")
	}
	before := s.copied(t)
	require.NotEmpty(t, before)
	require.Less(t, len(before), len(s.rows()))
	require.Subset(t, s.rows(), before)

	s.unblock(t)
	second := s.start(ctx, t, bin)
	lines := second.lines(0)
	require.NoError(t, second.cmd.Wait())
	require.Equal(t, "succeeded: 62 of 62 days", lines[len(lines)-1])
	require.Equal(t, s.rows(), s.copied(t))

	third := s.start(ctx, t, bin)
	require.Equal(t, []string{"succeeded: 62 of 62 days"}, third.lines(0), "the key is known, and nothing is read again")
	require.NoError(t, third.cmd.Wait())
	require.Equal(t, s.rows(), s.copied(t))

	t.Run("questions have answers", func(t *testing.T) { s.answer(t) })
}

// copied is what the sink holds. Two rows of one key would be an error of the map, so the number of rows is compared too.
func (s stations) copied(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	n := 0
	for _, row := range query(t, filepath.Join(s.dir, "readings.db"), `
		SELECT source || '/' || key, json_extract(data, '$.value')
		FROM readings`) {
		out[row[0]] = row[1]
		n++
	}
	require.Len(t, out, n)
	return out
}

// answer asks the store of the program every question that a document asks in SQL. Each must have an answer. Those of an
// operator are about what went wrong, which nothing has here: TestTheQuestionsOfAnOperatorHaveAnswers.
func (s stations) answer(t *testing.T) {
	for _, doc := range documents(t) {
		if doc != operating {
			requireAnswers(t, doc, filepath.Join(s.dir, "station.db"))
		}
	}
}

// requireAnswers asks a store every question of a document.
func requireAnswers(t *testing.T, doc, store string) {
	t.Helper()
	for _, q := range blocks(t, doc, "sql") {
		require.NotEmpty(t, query(t, store, q), "%s: nothing answers\n%s", doc, q)
	}
}

// blocks are the code blocks of a language in a document.
func blocks(t *testing.T, doc, language string) (out []string) {
	t.Helper()
	text, err := os.ReadFile(doc)
	require.NoError(t, err)
	for _, block := range fence.FindAllStringSubmatch(string(text), -1) {
		if block[1] == language {
			out = append(out, block[2])
		}
	}
	return out
}

func query(t *testing.T, file, q string) [][]string {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+file+"?mode=ro&_pragma=busy_timeout(5000)")
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	rows, err := db.QueryContext(t.Context(), q)
	require.NoError(t, err)
	defer rows.Close()
	columns, err := rows.Columns()
	require.NoError(t, err)
	var out [][]string
	for rows.Next() {
		texts := make([]sql.NullString, len(columns))
		cells := make([]any, len(columns))
		for i := range texts {
			cells[i] = &texts[i]
		}
		require.NoError(t, rows.Scan(cells...))
		row := make([]string, len(columns))
		for i, c := range texts {
			row[i] = c.String
		}
		out = append(out, row)
	}
	require.NoError(t, rows.Err())
	return out
}

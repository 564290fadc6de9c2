package git_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/provider"
	"github.com/towline-dev/towline/provider/git"
	"github.com/towline-dev/towline/provider/providertest"
)

// identity makes commits that are the same on every machine. The configuration of whoever runs the tests is left out,
// for the provider too.
var identity = map[string]string{
	"GIT_CONFIG_GLOBAL": os.DevNull, "GIT_CONFIG_NOSYSTEM": "1",
	"GIT_AUTHOR_NAME": "Ada", "GIT_AUTHOR_EMAIL": "ada@example.org",
	"GIT_COMMITTER_NAME": "Cem", "GIT_COMMITTER_EMAIL": "cem@example.org",
}

func TestMain(m *testing.M) {
	for k, v := range identity {
		_ = os.Setenv(k, v)
	}
	os.Exit(m.Run())
}

// repo is a real repository.
type repo struct {
	t   testing.TB
	dir string
}

func newRepo(t testing.TB, args ...string) repo {
	t.Helper()
	return repoAt(t, filepath.Join(t.TempDir(), "project"), args...)
}

func repoAt(t testing.TB, dir string, args ...string) repo {
	t.Helper()
	r := repo{t, dir}
	r.run(nil, "", append(append([]string{"init", "-q", "-b", "main"}, args...), dir)...)
	return r
}

// git runs git in the repository and returns what it says.
func (r repo) git(args ...string) string {
	r.t.Helper()
	return r.run(nil, "", append([]string{"-C", r.dir}, args...)...)
}

func (r repo) run(env []string, stdin string, args ...string) string {
	r.t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdin = strings.NewReader(stdin)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(r.t, err, "git %q: %s", args, stderr.String())
	return strings.TrimSpace(string(out))
}

// commit makes a commit of everything in the worktree, at a date, and returns its id.
func (r repo) commit(at, message string, args ...string) string {
	r.t.Helper()
	r.git("add", "-A")
	r.run([]string{"GIT_AUTHOR_DATE=" + at, "GIT_COMMITTER_DATE=" + at}, message,
		append([]string{"-C", r.dir, "commit", "-q", "--allow-empty", "--allow-empty-message", "--cleanup=verbatim", "-F", "-"}, args...)...)
	return r.git("rev-parse", "HEAD")
}

func (r repo) write(path, content string) {
	r.t.Helper()
	full := filepath.Join(r.dir, path)
	require.NoError(r.t, os.MkdirAll(filepath.Dir(full), 0o755))
	require.NoError(r.t, os.WriteFile(full, []byte(content), 0o644))
}

// raw stores a commit object as it is, which git commit would refuse to make, and gives it a branch.
func (r repo) raw(object string) string {
	r.t.Helper()
	tree := r.run(nil, "", "-C", r.dir, "hash-object", "-t", "tree", "-w", os.DevNull)
	id := r.run(nil, strings.ReplaceAll(object, "TREE", tree), "-C", r.dir, "hash-object", "-t", "commit", "-w", "--stdin", "--literally")
	r.git("update-ref", "refs/heads/raw-"+id, id)
	return id
}

// fastImport makes n commits on main from January 2016 on, a day apart, each with a change of so many files.
func (r repo) fastImport(n, files int, config ...string) {
	r.t.Helper()
	var b strings.Builder
	for i := range n {
		at := month(2016, 1).From.AddDate(0, 0, i).Unix()
		fmt.Fprintf(&b, "commit refs/heads/main\ncommitter Cem <cem@example.org> %d +0000\ndata 8\nnr %05d\n", at, i)
		content := fmt.Sprintf("content %d\n", i)
		for f := range files {
			fmt.Fprintf(&b, "M 100644 inline dir/file-%d.txt\ndata %d\n%s\n", f, len(content), content)
		}
	}
	r.run(nil, b.String(), append(append([]string{"-C", r.dir}, config...), "fast-import", "--quiet")...)
}

// ids are the commits that rev-list knows, sorted.
func (r repo) ids(args ...string) []string {
	r.t.Helper()
	return sorted(strings.Fields(r.git(append([]string{"rev-list", "--all"}, args...)...)))
}

func sorted(s []string) []string {
	slices.Sort(s)
	return append([]string{}, s...)
}

// provide is a provider of one source, project.
func provide(t testing.TB, r repo, change ...func(*git.Options)) *git.Provider {
	t.Helper()
	o := git.Options{Repos: map[string]string{"project": r.dir}}
	for _, c := range change {
		c(&o)
	}
	p, err := git.New(o)
	require.NoError(t, err)
	return p
}

func unit(dataset string, w events.Window) provider.Unit {
	return provider.Unit{Source: "project", Dataset: dataset, Window: w, Surfaces: []string{dataset}}
}

var everything = events.NewWindow(time.Time{}, time.Date(2600, 1, 1, 0, 0, 0, 0, time.UTC))

func month(year int, m time.Month) events.Window {
	from := time.Date(year, m, 1, 0, 0, 0, 0, time.UTC)
	return events.NewWindow(from, from.AddDate(0, 1, 0))
}

// sync does a unit and returns its rows.
func sync(t testing.TB, p *git.Provider, u provider.Unit) ([]row, provider.Result) {
	t.Helper()
	s := providertest.NewSink(u)
	result, err := p.Sync(context.Background(), u, s)
	require.NoError(t, err)
	rows := []row{}
	for _, put := range s.Rows() {
		var r row
		require.NoError(t, json.Unmarshal([]byte(put.JSON), &r))
		rows = append(rows, r)
	}
	require.Equal(t, len(rows), result.Rows)
	return rows, result
}

// row is the row of any surface.
type row map[string]any

func (r row) text(name string) string { return fmt.Sprint(r[name]) }

func column(rows []row, name string) []string {
	out := []string{}
	for _, r := range rows {
		out = append(out, r.text(name))
	}
	return out
}

func periods(t testing.TB, p *git.Provider, c events.Calendar) []provider.Period {
	t.Helper()
	list, err := p.Periods(context.Background(), "project", git.Commits, c, nil)
	require.NoError(t, err)
	return list
}

// listed is the periods as text: name=fingerprint.
func listed(t testing.TB, p *git.Provider) map[string]string {
	t.Helper()
	out := make(map[string]string)
	for _, period := range periods(t, p, events.Month) {
		out[period.Window.Name()] = period.Fingerprint
	}
	return out
}

func digest(t testing.TB, ids ...string) string {
	t.Helper()
	var d git.Digest
	for _, id := range ids {
		require.NoError(t, d.Add(id))
	}
	return d.String()
}

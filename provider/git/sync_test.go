package git_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	stdsync "sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/provider"
	"github.com/towline-dev/towline/provider/git"
	"github.com/towline-dev/towline/provider/providertest"
)

// Surfaces 1.2.10: a merge is one commit and no change; renames are two real paths; a binary has no line counts; the
// root commit counts; a submodule is a path.
func TestChangesAreRealPaths(t *testing.T) {
	r := newRepo(t)
	r.write("a.txt", "1\n2\n3\n")
	r.write("bin", "\x00\x01")
	root := r.commit("2024-03-01T00:00:00Z", "root")
	r.git("checkout", "-q", "-b", "side")
	r.git("mv", "a.txt", "b.txt")
	rename := r.commit("2024-03-02T00:00:00Z", "rename")
	r.git("checkout", "-q", "main")
	r.write("c.txt", "1\n")
	side := r.commit("2024-03-03T00:00:00Z", "other side")
	r.git("merge", "-q", "--no-ff", "--no-commit", "side")
	merge := r.commit("2024-03-04T00:00:00Z", "merge")
	r.git("update-index", "--add", "--cacheinfo", "160000,"+root+",sub")
	module := r.run([]string{"GIT_COMMITTER_DATE=2024-03-05T00:00:00Z"}, "", "-C", r.dir, "commit-tree", "-p", merge, "-m", "submodule", r.git("write-tree"))
	r.git("update-ref", "refs/heads/main", module)

	p := provide(t, r)
	u := unit(git.Changes, month(2024, 3))
	rows, result := sync(t, p, u)
	got := map[string]string{}
	for _, row := range rows {
		got[row.text("sha")+" "+row.text("path")] = fmt.Sprint(row["added"], "/", row["deleted"])
	}
	require.Equal(t, map[string]string{
		root + " a.txt": "3/0", root + " bin": "<nil>/<nil>",
		rename + " a.txt": "0/3", rename + " b.txt": "3/0",
		side + " c.txt": "1/0",
		module + " sub": "1/0",
	}, got)
	require.Equal(t, digest(t, root, rename, side, merge, module), result.Fingerprint)

	commits, result := sync(t, p, unit(git.Commits, month(2024, 3)))
	require.Len(t, commits, 5)
	require.Equal(t, digest(t, root, rename, side, merge, module), result.Fingerprint)
	for _, row := range commits {
		if row.text("sha") == merge {
			require.Equal(t, side+" "+rename, row["parents"])
		}
	}
	r.git("checkout", "-q", "-f", "main")
	files, _ := sync(t, p, unit(git.Files, everything))
	sizes := map[string]any{}
	for _, row := range files {
		sizes[row.text("path")] = row["size"]
	}
	require.Equal(t, map[string]any{"b.txt": 6.0, "bin": 2.0, "c.txt": 2.0, "sub": nil}, sizes)
}

// Surfaces 1.2.1: whatever reaches a commit counts: tags, notes, remotes, stashes, a detached worktree.
func TestEveryRefCounts(t *testing.T) {
	r := newRepo(t)
	r.commit("2024-03-01T00:00:00Z", "base")
	base := r.git("rev-parse", "HEAD")
	loose := func(message string) string {
		return r.run([]string{"GIT_COMMITTER_DATE=2024-03-02T00:00:00Z"}, "", "-C", r.dir, "commit-tree", "-p", base, "-m", message, base+"^{tree}")
	}
	r.git("tag", "light", loose("light tag"))
	r.git("tag", "-a", "-m", "x", "annotated", loose("annotated tag"))
	r.git("update-ref", "refs/remotes/origin/x", loose("remote"))
	r.git("update-ref", "refs/original/odd", loose("odd namespace"))
	r.git("worktree", "add", "-q", "--detach", filepath.Join(t.TempDir(), "linked"), loose("only a worktree's HEAD"))
	r.git("notes", "add", "-m", "note")
	r.write("dirty", "x")
	r.git("add", "-A")
	r.git("stash")
	r.git("update-ref", "-d", "refs/heads/main") // HEAD is not born now

	p := provide(t, r)
	rows, _ := sync(t, p, unit(git.Commits, events.Window{}))
	require.Equal(t, r.ids(), sorted(column(rows, "sha")))
	n, err := p.CountAll(context.Background(), "project")
	require.NoError(t, err)
	require.Len(t, rows, n)

	refs, _ := sync(t, p, unit(git.Refs, everything))
	require.Equal(t, []string{"refs/notes/commits", "refs/original/odd", "refs/remotes/origin/x", "refs/stash", "refs/tags/annotated", "refs/tags/light"},
		column(refs, "name"))
	for _, ref := range refs {
		require.Equal(t, r.git("rev-parse", ref.text("name")), ref["target"])
	}
}

// Surfaces 1.2.12: one ref selection holds for listing, reading and the oracle.
func TestARefSelection(t *testing.T) {
	r := newRepo(t)
	main := r.commit("2024-03-01T00:00:00Z", "main")
	r.git("checkout", "-q", "-b", "topic")
	r.commit("2024-03-02T00:00:00Z", "topic")
	r.git("checkout", "-q", "--orphan", "wip")
	r.commit("2024-03-03T00:00:00Z", "wip")
	p := provide(t, r, func(o *git.Options) { o.Refs = []string{"--exclude=wip", "--exclude=topic", "--branches"} })
	rows, _ := sync(t, p, unit(git.Commits, everything))
	require.Equal(t, []string{main}, column(rows, "sha"))
	require.Equal(t, map[string]string{"2024-03": digest(t, main)}, listed(t, p))
	n, err := p.CountAll(context.Background(), "project")
	require.NoError(t, err)
	require.Equal(t, 1, n)

	for _, bad := range []string{"", "main", "--output=x", "--all=x", "--glob", "--exclude=", "-n1"} {
		_, err := git.New(git.Options{Refs: []string{bad}})
		require.ErrorContains(t, err, "selects no refs", bad)
	}
	for _, bad := range [][]string{{"--exclude=wip"}, {"--exclude=wip", "--exclude=topic"}, {"--branches", "--exclude=wip"}} {
		_, err := git.New(git.Options{Refs: bad})
		require.ErrorContains(t, err, `excludes from nothing: put --all, --branches, --tags, --remotes or --glob=PATTERN behind it`, bad)
	}
}

// Surfaces 1.2.7: names are those of the commits, unless the mailmap is asked for.
func TestMailmap(t *testing.T) {
	r := newRepo(t)
	r.write(".mailmap", "Ada Lovelace <ada@work.example> <ada@example.org>\n")
	r.commit("2024-03-01T00:00:00Z", "x")
	rows, _ := sync(t, provide(t, r), unit(git.Commits, everything))
	require.Equal(t, "Ada ada@example.org", rows[0].text("author_name")+" "+rows[0].text("author_email"))
	mapped := provide(t, r, func(o *git.Options) { o.Mailmap = true })
	rows, _ = sync(t, mapped, unit(git.Commits, everything))
	require.Equal(t, "Ada Lovelace ada@work.example", rows[0].text("author_name")+" "+rows[0].text("author_email"))

	config, others := filepath.Join(t.TempDir(), "config"), filepath.Join(t.TempDir(), "others")
	require.NoError(t, os.WriteFile(others, []byte("Someone Else <ada@example.org>\n"), 0o600))
	require.NoError(t, os.WriteFile(config, []byte("[mailmap]\n\tfile = "+others+"\n"), 0o600))
	rows, _ = sync(t, provide(t, r, func(o *git.Options) { o.Mailmap = true }).WithEnv("GIT_CONFIG_GLOBAL="+config), unit(git.Commits, everything))
	require.Equal(t, "Ada Lovelace", rows[0]["author_name"], "no one's configuration counts")

	without := newRepo(t)
	without.commit("2024-03-01T00:00:00Z", "no mailmap")
	rows, _ = sync(t, provide(t, without, func(o *git.Options) { o.Mailmap = true }), unit(git.Commits, everything))
	require.Equal(t, "Ada", rows[0]["author_name"])
}

// Surfaces 1.2.10: nothing is success.
func TestAnEmptyRepository(t *testing.T) {
	for _, args := range [][]string{nil, {"--bare"}} {
		p := provide(t, newRepo(t, args...))
		require.Empty(t, listed(t, p))
		for _, dataset := range []string{git.Refs, git.Files, git.Commits, git.Changes} {
			rows, result := sync(t, p, unit(dataset, everything))
			require.Empty(t, rows)
			require.Empty(t, result.Fingerprint)
		}
		n, err := p.CountAll(context.Background(), "project")
		require.NoError(t, err)
		require.Zero(t, n)
	}
}

// Surfaces 1.2.10: a bare repository, and one with SHA-256 ids, read like any other.
func TestOtherKindsOfRepository(t *testing.T) {
	r := newRepo(t, "--object-format=sha256")
	r.write("a", "1\n")
	id := r.commit("2024-03-01T00:00:00Z", "x")
	require.Len(t, id, 64)
	bare := repo{t, filepath.Join(t.TempDir(), "bare.git")}
	bare.run(nil, "", "clone", "-q", "--bare", r.dir, bare.dir)
	for _, r := range []repo{r, bare} {
		p := provide(t, r)
		require.Equal(t, map[string]string{"2024-03": "1:" + id}, listed(t, p))
		for _, dataset := range []string{git.Refs, git.Files, git.Commits, git.Changes} {
			rows, _ := sync(t, p, unit(dataset, everything))
			require.Len(t, rows, 1, dataset)
		}
	}
}

// Surfaces 1.2.11: progress comes once a second at most, by the clock, and says what was planned.
func TestProgressIsBounded(t *testing.T) {
	r := newRepo(t)
	r.fastImport(100, 1)
	now := time.Date(2026, 11, 29, 0, 0, 0, 0, time.UTC)
	p := provide(t, r, func(o *git.Options) {
		o.Now = func() time.Time { now = now.Add(300 * time.Millisecond); return now }
	})
	for _, dataset := range []string{git.Commits, git.Changes} {
		u := unit(dataset, everything)
		u.Fingerprint = "100:00"
		s := providertest.NewSink(u)
		_, err := p.Sync(context.Background(), u, s)
		require.NoError(t, err)
		reports := s.Reports()
		require.Len(t, reports, 25) // one in four steps of 0.3 s
		require.Equal(t, providertest.Progress{Done: 4, Total: 100}, reports[0])
		require.Equal(t, providertest.Progress{Done: 100, Total: 100}, reports[24])
	}
}

// Surfaces 1.2.11: memory does not grow with the history.
func TestMemoryIsFlat(t *testing.T) {
	r := newRepo(t)
	r.fastImport(3000, 1)
	p := provide(t, r)
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	for _, dataset := range []string{git.Commits, git.Changes} {
		n, first, most := 0, uint64(0), uint64(0)
		_, err := p.Sync(context.Background(), unit(dataset, everything), counting(func() {
			if n++; n%500 != 100 {
				return
			}
			h := heap()
			if first == 0 {
				first = h
			}
			most = max(most, h)
		}))
		require.NoError(t, err)
		require.Equal(t, 3000, n)
		require.Less(t, most, first+256<<10)
	}
}

// counting is a sink that keeps nothing.
type counting func()

func (c counting) Put(context.Context, string, string, any) error { c(); return nil }
func (c counting) Progress(int64, int64)                          {}
func (c counting) State(json.RawMessage)                          {}

// RW-6: a provider that writes elsewhere is stopped by the sink, and reports it as that.
func TestAnUndeclaredSurfaceIsReported(t *testing.T) {
	r := newRepo(t)
	r.commit("2024-03-01T00:00:00Z", "x")
	u := unit(git.Commits, everything)
	u.Surfaces = []string{git.Refs}
	_, err := provide(t, r).Sync(context.Background(), u, providertest.NewSink(u))
	require.Equal(t, events.UndeclaredSurface, provider.CategoryOf(err))
	u.Dataset = "stars"
	_, err = provide(t, r).Sync(context.Background(), u, providertest.NewSink(u))
	require.Equal(t, provider.Configuration, provider.CategoryOf(err))
}

// Surfaces 1.2.2: one walk serves the plan and all its units, and the next begins when a ref has moved.
func TestTheHistoryIsWalkedOnce(t *testing.T) {
	tmp, calls := t.TempDir(), filepath.Join(t.TempDir(), "calls")
	t.Setenv("TMPDIR", tmp)
	r := newRepo(t)
	r.fastImport(100, 1)
	p := provide(t, r, func(o *git.Options) { o.Program = script(t, `echo "$*" >> `+calls+`; exec git "$@"`) })
	walks := func() int {
		b, err := os.ReadFile(calls)
		require.NoError(t, err)
		return strings.Count(string(b), "--timestamp")
	}
	run := func() {
		for _, period := range periods(t, p, events.Month) {
			sync(t, p, unit(git.Commits, period.Window))
			sync(t, p, unit(git.Changes, period.Window))
		}
	}
	run()
	run()
	require.Equal(t, 1, walks())
	r.git("update-ref", "refs/tags/new", r.run(nil, "", "-C", r.dir, "commit-tree", "-m", "new", "main^{tree}"))
	run()
	require.Equal(t, 2, walks())
	r.git("update-ref", "-d", "refs/tags/new")
	run()
	require.Equal(t, 3, walks())
	r.git("tag", "same", "main~3") // another way to commits that are known
	run()
	require.LessOrEqual(t, walks(), 4)
	if runtime.GOOS != "windows" {
		entries, err := os.ReadDir(tmp)
		require.NoError(t, err)
		require.Empty(t, entries, "the listing has no name")
	}
}

// HU-5: a window that git did not show as a whole is an error, and never a smaller window.
func TestAWindowThatIsNotWholeFails(t *testing.T) {
	r := newRepo(t)
	r.commit("2024-03-01T00:00:00Z", "one")
	r.commit("2024-03-02T00:00:00Z", "two")
	p := provide(t, r, func(o *git.Options) {
		o.Program = script(t, `case "$*" in *" log "*) head -n 1 | git "$@" ;; *) exec git "$@" ;; esac`)
	})
	for _, dataset := range []string{git.Commits, git.Changes} {
		u := unit(dataset, month(2024, 3))
		_, err := p.Sync(context.Background(), u, providertest.NewSink(u))
		require.ErrorContains(t, err, "not whole")
		require.Equal(t, provider.OtherError, provider.CategoryOf(err))
	}
}

// HU-5: an output that ends inside a record is an error, although git says that all is well.
func TestAnOutputThatIsCutOffFails(t *testing.T) {
	r := newRepo(t)
	r.write("a", "1\n")
	r.commit("2024-03-01T00:00:00Z", "x")
	p := provide(t, r, func(o *git.Options) {
		o.Program = script(t, `case "$*" in *" log "*|*ls-tree*|*for-each-ref*) git "$@" | head -c 40 ;; *) exec git "$@" ;; esac`)
	})
	for _, d := range git.Datasets() {
		u := unit(d.Name, everything)
		_, err := p.Sync(context.Background(), u, providertest.NewSink(u))
		require.ErrorContains(t, err, "in the middle of a record", d.Name)
	}
}

// P-10: any number of sources and units may be read at once.
func TestManySourcesAtOnce(t *testing.T) {
	r := newRepo(t)
	r.fastImport(50, 1)
	repos := map[string]string{}
	for i := range 80 {
		repos[fmt.Sprint(i)] = r.dir
	}
	p := provide(t, r, func(o *git.Options) { o.Repos = repos })
	var group stdsync.WaitGroup
	errs := make(chan error, len(repos))
	for source := range repos {
		group.Go(func() {
			u := unit(git.Commits, everything)
			u.Source = source
			s := providertest.NewSink(u)
			_, err := p.Sync(context.Background(), u, s)
			if err == nil && len(s.Rows()) != 50 {
				err = fmt.Errorf("%d rows", len(s.Rows()))
			}
			errs <- err
		})
	}
	group.Wait()
	close(errs)
	for err := range errs {
		require.NoError(t, err)
	}
}

// script is an executable that runs the shell text.
func script(t testing.TB, text string) string {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("needs a shell")
	}
	path := filepath.Join(t.TempDir(), "git")
	require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\n"+text+"\n"), 0o700))
	return path
}

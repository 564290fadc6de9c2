package git_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/provider"
	"github.com/towline-dev/towline/provider/git"
	"github.com/towline-dev/towline/provider/providertest"
)

// refused is the category and text with which both a listing and a unit end.
func refused(t *testing.T, p *git.Provider, dataset string, want provider.Category, text string) {
	t.Helper()
	u := unit(dataset, everything)
	s := providertest.NewSink(u)
	_, err := p.Sync(context.Background(), u, s)
	require.ErrorContains(t, err, text)
	require.Equal(t, want, provider.CategoryOf(err))
	require.Empty(t, s.Rows())
}

func refusedWhenListed(t *testing.T, p *git.Provider, want provider.Category, text string) {
	t.Helper()
	_, err := p.Periods(context.Background(), "project", git.Commits, events.Month, nil)
	require.ErrorContains(t, err, text)
	require.Equal(t, want, provider.CategoryOf(err))
}

// Surfaces 1.2.8: a shallow clone is refused with the fix; after the fix it is read.
func TestAShallowCloneIsRefused(t *testing.T) {
	r := newRepo(t)
	r.commit("2024-03-01T00:00:00Z", "one")
	r.commit("2024-03-02T00:00:00Z", "two")
	shallow := repo{t, filepath.Join(t.TempDir(), "shallow")}
	shallow.run(nil, "", "clone", "-q", "--depth=1", "file://"+r.dir, shallow.dir)
	p := provide(t, shallow)
	fix := "run git -C " + shallow.dir + " fetch --unshallow"
	refusedWhenListed(t, p, provider.Configuration, fix)
	for _, d := range git.Datasets() {
		refused(t, p, d.Name, provider.Configuration, fix)
	}
	shallow.git("fetch", "-q", "--unshallow")
	rows, _ := sync(t, p, unit(git.Commits, everything))
	require.Len(t, rows, 2)
}

// Surfaces 1.2.8: a partial clone is refused where reading it would fetch, and only there. Nothing is ever fetched.
func TestAPartialCloneIsNotFetchedInto(t *testing.T) {
	r := newRepo(t)
	r.git("config", "uploadpack.allowFilter", "true")
	r.write("a.txt", "1\n")
	r.commit("2024-03-01T00:00:00Z", "one")
	partial := repo{t, filepath.Join(t.TempDir(), "partial")}
	partial.run(nil, "", "clone", "-q", "--bare", "--filter=blob:none", "file://"+r.dir, partial.dir)
	before := partial.git("count-objects", "-v")
	p := provide(t, partial)
	refused(t, p, git.Changes, provider.Configuration, "clone it without --filter")
	for _, dataset := range []string{git.Refs, git.Files, git.Commits} {
		rows, _ := sync(t, p, unit(dataset, everything))
		require.Len(t, rows, 1, dataset)
		require.Nil(t, rows[0]["size"])
	}
	require.Equal(t, before, partial.git("count-objects", "-v"))

	// A repository that lacks objects and does not say so fails. It neither fetches nor passes for a whole one.
	partial.git("config", "--unset", "remote.origin.promisor")
	partial.git("config", "--unset", "remote.origin.partialclonefilter")
	u := unit(git.Changes, everything)
	_, err := p.Sync(context.Background(), u, providertest.NewSink(u))
	require.Equal(t, provider.OtherError, provider.CategoryOf(err))
	require.Equal(t, before, partial.git("count-objects", "-v"))
}

// Surfaces 1.2.8: a clone without trees is refused for what needs them, with the fix, and only for that.
func TestACloneWithoutTreesIsNotFetchedInto(t *testing.T) {
	r := newRepo(t)
	r.git("config", "uploadpack.allowFilter", "true")
	r.write("a.txt", "1\n")
	r.commit("2024-03-01T00:00:00Z", "one")
	treeless := repo{t, filepath.Join(t.TempDir(), "treeless")}
	treeless.run(nil, "", "clone", "-q", "--bare", "--filter=tree:0", "file://"+r.dir, treeless.dir)
	before := treeless.git("count-objects", "-v")
	p := provide(t, treeless)
	partial, err := p.Partial(context.Background(), "project")
	require.NoError(t, err)
	require.True(t, partial)
	refused(t, p, git.Changes, provider.Configuration, "clone it without --filter, or leave the dataset changes out")
	refused(t, p, git.Files, provider.Configuration, "clone it without --filter, or leave the dataset files out: git ls-tree: ")
	for _, dataset := range []string{git.Refs, git.Commits} {
		rows, _ := sync(t, p, unit(dataset, everything))
		require.Len(t, rows, 1, dataset)
	}
	require.Equal(t, before, treeless.git("count-objects", "-v"))
}

// Surfaces 1.2.8: a git without --since-as-filter, no git, and something else of that name are refused.
func TestTheProgramIsChecked(t *testing.T) {
	r := newRepo(t)
	for program, want := range map[string]string{
		script(t, `echo "git version 2.36.6"`): "git 2.36 is too old: install git 2.37 or newer",
		script(t, `echo "git version 1.99.1"`): "git 1.99 is too old",
		script(t, `echo "hello"`):              "is no git",
		filepath.Join(t.TempDir(), "missing"):  "was not found: install git 2.37 or newer",
		"no-such-program-as-this":              "was not found: install git 2.37 or newer",
	} {
		p := provide(t, r, func(o *git.Options) { o.Program = program })
		refusedWhenListed(t, p, provider.Configuration, want)
		refused(t, p, git.Commits, provider.Configuration, want)
	}
	for _, version := range []string{"2.37.0", "2.50.1 (Apple Git-155)", "2.40.0.windows.1", "3.0.0"} {
		p := provide(t, r, func(o *git.Options) {
			o.Program = script(t, `if [ "$1" = version ]; then echo "git version `+version+`"; else exec git "$@"; fi`)
		})
		require.Empty(t, listed(t, p), version)
	}
}

// Surfaces 1.2.8: a repository of another user is refused with the line that allows it, and read if its owner is
// trusted.
func TestAnotherOwnerIsRefused(t *testing.T) {
	r := newRepo(t)
	r.commit("2024-03-01T00:00:00Z", "x")
	stranger := "GIT_TEST_ASSUME_DIFFERENT_OWNER=1" // git's own switch for its tests
	p := provide(t, r).WithEnv(stranger)
	fix := "run git config --global --add safe.directory " + r.dir + ", or set trust_owner: true"
	refusedWhenListed(t, p, provider.Configuration, fix)
	refused(t, p, git.Commits, provider.Configuration, fix)

	trusting := provide(t, r, func(o *git.Options) { o.TrustOwner = true }).WithEnv(stranger)
	rows, _ := sync(t, trusting, unit(git.Commits, everything))
	require.Len(t, rows, 1)

	config := filepath.Join(t.TempDir(), "gitconfig")
	require.NoError(t, os.WriteFile(config, []byte("[safe]\n\tdirectory = "+r.dir+"\n"), 0o600))
	obedient := provide(t, r).WithEnv(stranger, "GIT_CONFIG_GLOBAL="+config)
	rows, _ = sync(t, obedient, unit(git.Commits, everything))
	require.Len(t, rows, 1, "the line that is printed is enough")
}

// P-12, E-1: a repository that is gone is not_found, before a run and inside it. A repository around it is not taken
// for it.
func TestAVanishedRepositoryIsNotFound(t *testing.T) {
	around := newRepo(t)
	around.commit("2024-03-01T00:00:00Z", "the repository around it")
	r := repoAt(t, filepath.Join(around.dir, "inner"))
	r.commit("2024-03-01T00:00:00Z", "inner")
	p := provide(t, r)
	require.Len(t, listed(t, p), 1)

	require.NoError(t, os.RemoveAll(filepath.Join(r.dir, ".git")))
	refusedWhenListed(t, p, provider.NotFound, "there is no git repository at "+r.dir)
	refused(t, p, git.Commits, provider.NotFound, "there is no git repository at "+r.dir)
	require.NoError(t, os.RemoveAll(r.dir))
	refusedWhenListed(t, p, provider.NotFound, r.dir)
	refused(t, p, git.Refs, provider.NotFound, r.dir)
	_, err := p.CountAll(context.Background(), "project")
	require.Equal(t, provider.NotFound, provider.CategoryOf(err))
	require.NoError(t, os.RemoveAll(around.dir))
	refused(t, p, git.Commits, provider.NotFound, r.dir)

	main := newRepo(t)
	main.commit("2024-03-01T00:00:00Z", "x")
	linked := filepath.Join(t.TempDir(), "linked")
	main.git("worktree", "add", "-q", linked)
	orphan := provide(t, repo{t, linked})
	require.Len(t, listed(t, orphan), 1)
	require.NoError(t, os.RemoveAll(main.dir))
	refused(t, orphan, git.Commits, provider.NotFound, linked)
}

// Surfaces 1.1: a linked worktree is the same repository, looked at from there: the files are those of its own HEAD.
func TestALinkedWorktreeHasItsOwnHead(t *testing.T) {
	bare := newRepo(t, "--bare") // HEAD names main, which will not exist
	seed := newRepo(t)
	seed.write("a", "1\n")
	seed.commit("2024-03-01T00:00:00Z", "x")
	seed.git("push", "-q", bare.dir, "main:refs/heads/side")
	linked := repo{t, filepath.Join(t.TempDir(), "linked")}
	bare.git("worktree", "add", "-q", linked.dir, "side")
	linked.write("b", "1\n")
	linked.commit("2024-03-02T00:00:00Z", "y")

	p := provide(t, linked)
	files, _ := sync(t, p, unit(git.Files, everything))
	require.Equal(t, []string{"a", "b"}, column(files, "path"))
	refused(t, provide(t, bare), git.Files, provider.Configuration, "names refs/heads/main")
	for _, dataset := range []string{git.Refs, git.Commits, git.Changes} {
		there, _ := sync(t, p, unit(dataset, everything))
		here, _ := sync(t, provide(t, bare), unit(dataset, everything))
		require.NotEmpty(t, there)
		require.Equal(t, here, there, dataset)
	}
	require.Equal(t, listed(t, provide(t, bare)), listed(t, p))

	u := unit(git.Files, everything)
	s := providertest.NewSink(u)
	p = provide(t, linked, func(o *git.Options) {
		o.Program = script(t, `case "$*" in *ls-tree*) rm -rf `+filepath.Join(bare.dir, "worktrees")+` ;; esac; exec git "$@"`)
	})
	_, err := p.Sync(context.Background(), u, s)
	require.Equal(t, provider.NotFound, provider.CategoryOf(err), "it was removed while it was read")
	refused(t, p, git.Files, provider.NotFound, linked.dir)
}

// E-1: a repository that is deleted while it is read is not_found too, whatever git says of it.
func TestARepositoryThatVanishesWhileItIsRead(t *testing.T) {
	r := newRepo(t)
	// Loose objects, which are opened one by one, and more output than the pipe holds.
	r.fastImport(300, 100, "-c", "fastimport.unpackLimit=100000", "-c", "core.fsync=none")
	u := unit(git.Changes, everything)
	s := providertest.NewSink(u)
	s.Fail = func(providertest.Row) error { return os.RemoveAll(r.dir) }
	_, err := provide(t, r).Sync(context.Background(), u, s)
	require.Equal(t, provider.NotFound, provider.CategoryOf(err))
}

// E-1: a repository that is there and broken is an error of git, in git's words.
func TestABrokenRepository(t *testing.T) {
	r := newRepo(t)
	r.commit("2024-03-01T00:00:00Z", "x")
	require.NoError(t, os.WriteFile(filepath.Join(r.dir, ".git", "refs", "heads", "bad"), []byte("1111111111111111111111111111111111111111\n"), 0o600))
	refused(t, provide(t, r), git.Commits, provider.OtherError, "bad")
	refusedWhenListed(t, provide(t, r), provider.OtherError, "bad")

	require.NoError(t, os.WriteFile(filepath.Join(r.dir, ".git", "config"), []byte("[core"), 0o600))
	refused(t, provide(t, r), git.Commits, provider.OtherError, "bad config")
}

// Surfaces 1.1: worktrees, symlinks and repeats are one source; names are stable and unique.
func TestDiscover(t *testing.T) {
	dir := t.TempDir()
	api := repoAt(t, filepath.Join(dir, "client", "api"))
	api.commit("2024-03-01T00:00:00Z", "x")
	repoAt(t, filepath.Join(dir, "server", "api"))
	repoAt(t, filepath.Join(dir, "site"))
	repoAt(t, filepath.Join(dir, "tools.git"), "--bare")
	repoAt(t, filepath.Join(dir, "spread", ".bare"), "--bare")
	api.git("worktree", "add", "-q", filepath.Join(dir, "api-hotfix"))
	require.NoError(t, os.Symlink(filepath.Join(dir, "site"), filepath.Join(dir, "site-link")))
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "site", "docs"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "notes.txt"), nil, 0o600))
	paths, err := filepath.Glob(filepath.Join(dir, "*"))
	require.NoError(t, err)
	more, err := filepath.Glob(filepath.Join(dir, "*", "*"))
	require.NoError(t, err)
	paths = append(append(paths, more...), filepath.Join(dir, "site", "docs"), filepath.Join(dir, "missing"), filepath.Join(dir, "spread", ".bare"))

	found, err := git.Discover(context.Background(), paths...)

	require.NoError(t, err)
	real, err := filepath.EvalSymlinks(dir)
	require.NoError(t, err)
	require.Equal(t, map[string]string{
		"client-api": filepath.Join(real, "client", "api"),
		"server-api": filepath.Join(real, "server", "api"),
		"site":       filepath.Join(real, "site"),
		"tools":      filepath.Join(real, "tools.git"),
		"spread":     filepath.Join(real, "spread", ".bare"),
	}, found)
	p, err := git.New(git.Options{Repos: found})
	require.NoError(t, err)
	n, err := p.CountAll(context.Background(), "client-api")
	require.NoError(t, err)
	require.Equal(t, 1, n)

	fromWorktree, err := git.Discover(context.Background(), filepath.Join(dir, "api-hotfix"))
	require.NoError(t, err)
	require.Equal(t, map[string]string{"api": filepath.Join(real, "client", "api")}, fromWorktree)
}

// Surfaces 1.1: names that would still collide end in a number made from the path, the same every time.
func TestNamesThatCollide(t *testing.T) {
	tops := map[string]string{
		"/a/team/api/.git": "1", "/b/team/api/.git": "2", "/c/team-api/.git": "3", "/d/x y:z/.git": "4", "/e/.../.git": "5",
	}
	names := git.Named(tops)
	require.Len(t, names, 5)
	require.Equal(t, names, git.Named(tops))
	require.Equal(t, "3", names["team-api"])
	require.Equal(t, "4", names["x-y-z"])
	require.Equal(t, "5", names["repository"])
	for name, path := range names {
		if path == "1" || path == "2" {
			require.Regexp(t, `^team-api-[0-9a-f]{8}$`, name)
		}
	}
}

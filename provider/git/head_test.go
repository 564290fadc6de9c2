package git_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/provider"
	"github.com/towline-dev/towline/provider/git"
)

// HU-5, surfaces 1.2.10: a snapshot without rows takes every row away, so it is a success in an empty repository only. A
// HEAD or a ref that leads nowhere is an error, and which one says who can help.
func TestASnapshotIsNeverEmptiedByABrokenRef(t *testing.T) {
	const main = ".git/refs/heads/main"
	holding := func(path, content string) func(repo) {
		return func(r repo) { r.write(path, content) }
	}
	lose := func(r repo, id string) {
		require.NoError(r.t, os.Remove(filepath.Join(r.dir, ".git", "objects", id[:2], id[2:])))
	}
	const unreadable = "leads to nothing that can be read: restore or delete the one that git names: git rev-list: "
	for name, c := range map[string]struct {
		harm        func(repo)
		files, refs provider.Category // empty: success
		text        string
	}{
		"an empty ref file":     {holding(main, ""), provider.OtherError, provider.OtherError, unreadable},
		"garbage in a ref":      {holding(main, "garbage\n"), provider.OtherError, provider.OtherError, unreadable},
		"a ref full of NUL":     {holding(main, strings.Repeat("\x00", 41)), provider.OtherError, provider.OtherError, unreadable},
		"the null id":           {holding(main, strings.Repeat("0", 40)+"\n"), provider.OtherError, provider.OtherError, unreadable},
		"a branch of a tree":    {func(r repo) { r.write(main, r.git("rev-parse", "HEAD^{tree}")+"\n") }, provider.OtherError, "", "leads to no commit: run git -C "},
		"a commit that is gone": {func(r repo) { lose(r, r.git("rev-parse", "HEAD")) }, provider.OtherError, provider.OtherError, unreadable},
		"a detached HEAD whose commit is gone": {func(r repo) {
			r.git("checkout", "-q", "--detach")
			lose(r, r.commit("2024-03-03T00:00:00Z", "lost"))
		}, provider.OtherError, provider.OtherError, unreadable},
		"another ref is broken": {holding(".git/refs/tags/v1", "garbage\n"), "", provider.OtherError, unreadable},
		"a ref's name is broken": {func(r repo) {
			r.write(".git/refs/heads/main (copy)", r.git("rev-parse", "HEAD")+"\n")
		}, "", provider.OtherError, unreadable},
		"HEAD's branch is not born": {func(r repo) {
			r.git("checkout", "-q", "--orphan", "pages")
		}, provider.Configuration, "", "names refs/heads/pages, which does not exist: run git -C "},
		"nothing": {func(repo) {}, "", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRepo(t)
			r.write("a", "1\n")
			r.commit("2024-03-01T00:00:00Z", "x")
			c.harm(r)
			for dataset, want := range map[string]provider.Category{git.Files: c.files, git.Refs: c.refs} {
				if want != "" {
					refused(t, provide(t, r), dataset, want, c.text)
					continue
				}
				rows, _ := sync(t, provide(t, r), unit(dataset, everything))
				require.NotEmpty(t, rows, dataset)
			}
		})
	}
}

// Surfaces 1.2.8: the line that is printed for a mirror whose default branch was renamed is enough.
func TestAMirrorWhoseDefaultBranchWasRenamed(t *testing.T) {
	r := newRepo(t)
	r.write("a", "1\n")
	r.commit("2024-03-01T00:00:00Z", "x")
	mirror := repo{t, filepath.Join(t.TempDir(), "mirror.git")}
	mirror.run(nil, "", "clone", "-q", "--mirror", r.dir, mirror.dir)
	mirror.git("update-ref", "refs/heads/trunk", "HEAD") // what git fetch --prune does there, but a new git moves HEAD too
	mirror.git("update-ref", "-d", "refs/heads/main")
	p := provide(t, mirror)
	refused(t, p, git.Files, provider.Configuration, "run git -C "+mirror.dir+" symbolic-ref HEAD refs/heads/NAME with the branch")
	mirror.git("symbolic-ref", "HEAD", "refs/heads/trunk")
	rows, _ := sync(t, p, unit(git.Files, everything))
	require.Equal(t, []string{"a"}, column(rows, "path"))
}

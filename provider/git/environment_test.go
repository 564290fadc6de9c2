package git_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/provider"
	"github.com/towline-dev/towline/provider/git"
)

// HU-4, D-8: two attempts write the same rows, whatever configuration and checkout say, and run no one's programs.
func TestConfigurationChangesNothing(t *testing.T) {
	r := newRepo(t)
	r.write("a.txt", "a\nb\nc\n")
	r.write("sub/b.txt", strings.Join(strings.Split("bxacaddd", ""), "\n")+"\n")
	root := r.commit("2024-03-01T00:00:00Z", "root")
	r.git("mv", "a.txt", "moved.txt")
	r.write("sub/b.txt", strings.Join(strings.Split("dbadaddx", ""), "\n")+"\n") // 3/3, and 6/6 if diffed by patience
	r.commit("2024-03-02T00:00:00Z", "rename")
	r.git("update-index", "--add", "--cacheinfo", "160000,"+root+",module")
	r.git("commit", "-q", "-m", "submodule")
	r.git("checkout", "-q", "-f", "-b", "side", "HEAD~1")
	r.write("sub/b.txt", "z\n")
	r.commit("2024-03-03T00:00:00Z", "side, à côté")
	r.git("merge", "-q", "--no-ff", "-m", "merge", "main")
	r.write(".gitattributes", "* -diff\n")
	r.commit("2024-03-04T00:00:00Z", "attributes")
	r.git("notes", "add", "-m", "a note")
	r.raw("tree TREE\nauthor A <a@b> 1709251200 +0000\ncommitter C <c@d> 1709251200 +0000\n" +
		"gpgsig -----BEGIN PGP SIGNATURE-----\n \n -----END PGP SIGNATURE-----\n\nsigned\n")
	units := []provider.Unit{unit(git.Commits, everything), unit(git.Changes, everything), unit(git.Refs, everything), unit(git.Files, everything)}
	plain := make([][]row, len(units))
	for i, u := range units {
		plain[i], _ = sync(t, provide(t, r), u)
	}

	touched := filepath.Join(t.TempDir(), "ran")
	evil := script(t, "touch "+touched)
	attributes := filepath.Join(t.TempDir(), "attributes")
	require.NoError(t, os.WriteFile(attributes, []byte("* -diff\n"), 0o600))
	r.write(".gitattributes", "* -diff\nmoved.txt diff=evil\n")
	r.write(".git/info/attributes", "moved.txt diff=evil\n") // git lets nobody overrule these, but for numbers it runs no program
	for key, value := range map[string]string{
		"log.showRoot": "false", "log.showSignature": "true", "log.diffMerges": "first-parent", "log.follow": "true",
		"log.mailmap": "true", "log.date": "relative", "log.decorate": "full", "log.abbrevCommit": "true", "core.abbrev": "5",
		"diff.renames": "copies", "diff.orderFile": "missing", "diff.relative": "true", "diff.algorithm": "patience",
		"diff.ignoreSubmodules": "all", "diff.submodule": "log", "diff.noprefix": "true", "diff.external": evil,
		"diff.evil.textconv": evil, "diff.evil.command": evil, "color.ui": "always", "format.pretty": "oneline", "format.notes": "true",
		"i18n.logOutputEncoding": "ISO-8859-1", "core.quotePath": "true", "core.pager": evil, "core.fsmonitor": evil,
		"core.worktree": r.dir, "core.attributesFile": attributes, "core.bigFileThreshold": "1",
		"attr.tree": "HEAD", "diff.default.binary": "true", "diff.default.textconv": evil, "diff.default.command": evil,
		"gpg.program": evil, "pager.log": "true", "notes.displayRef": "*",
	} {
		r.git("config", key, value)
	}
	p := provide(t, r)
	for i, u := range units {
		again, _ := sync(t, p, u)
		require.Equal(t, plain[i], again, u.Dataset)
	}
	require.NoFileExists(t, touched)
}

// W-8: git replace, grafts and a shallow file put other objects or parents in place of those that the ids name. They
// change no row and no count, since the fingerprint is of the ids.
func TestWhatStandsInForObjectsChangesNothing(t *testing.T) {
	for name, harm := range map[string]func(r repo, ids []string){
		"a replaced commit": func(r repo, ids []string) {
			tree := r.git("rev-parse", "HEAD^{tree}")
			r.git("replace", ids[2], r.git("commit-tree", "-m", "another subject, and no parent", tree))
		},
		"a replaced blob": func(r repo, _ []string) {
			r.git("replace", r.git("rev-parse", "HEAD:a"), r.run(nil, "other\ntext\nof more\nlines\n", "-C", r.dir, "hash-object", "-w", "--stdin"))
		},
		"a graft": func(r repo, ids []string) { r.write(".git/info/grafts", ids[2]+"\n") },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRepo(t)
			var ids []string
			for _, at := range []string{"2024-01-01", "2024-02-01", "2024-03-01"} {
				r.write("a", strings.Repeat(at+"\n", len(ids)+1))
				ids = append(ids, r.commit(at+"T00:00:00Z", "of "+at))
			}
			fresh := func() *git.Provider {
				return provide(t, r, func(o *git.Options) { o.Refs = []string{"--branches"} })
			}
			units := []provider.Unit{unit(git.Commits, everything), unit(git.Changes, everything), unit(git.Files, everything)}
			plain := make([][]row, len(units))
			for i, u := range units {
				plain[i], _ = sync(t, fresh(), u)
			}
			months := listed(t, fresh())
			harm(r, ids)
			for i, u := range units {
				again, _ := sync(t, fresh(), u)
				require.Equal(t, plain[i], again, u.Dataset)
			}
			require.Equal(t, months, listed(t, fresh()))
			n, err := fresh().CountAll(context.Background(), "project")
			require.NoError(t, err)
			require.Equal(t, len(ids), n)
		})
	}
}

// W-8: a clone that becomes shallow between the look at it and the walk is not taken for a shorter history.
func TestACloneThatBecomesShallow(t *testing.T) {
	r := newRepo(t)
	r.commit("2024-03-01T00:00:00Z", "one")
	tip := r.commit("2024-03-02T00:00:00Z", "two")
	p := provide(t, r, func(o *git.Options) {
		o.Program = script(t, `case "$*" in *--timestamp*) echo `+tip+` > `+filepath.Join(r.dir, ".git", "shallow")+` ;; esac; exec git "$@"`)
	})
	rows, _ := sync(t, p, unit(git.Commits, everything))
	require.Len(t, rows, 2)
	refused(t, p, git.Commits, provider.Configuration, "fetch --unshallow")
}

// HU-4: a hook's environment names another repository. Ours is read all the same.
func TestTheEnvironmentOfAHookIsIgnored(t *testing.T) {
	other, r := newRepo(t), newRepo(t)
	other.commit("2024-03-01T00:00:00Z", "other")
	mine := r.commit("2024-03-01T00:00:00Z", "mine")
	t.Setenv("GIT_DIR", filepath.Join(other.dir, ".git"))
	t.Setenv("GIT_WORK_TREE", other.dir)
	t.Setenv("GIT_OBJECT_DIRECTORY", filepath.Join(other.dir, ".git", "objects"))
	t.Setenv("GIT_CONFIG_PARAMETERS", "'log.showroot=false'")
	rows, _ := sync(t, provide(t, r), unit(git.Commits, everything))
	require.Equal(t, []string{mine}, column(rows, "sha"))
}

// Surfaces 1.2.7: every command runs without locks, questions, translations and fetches, and without the attributes of
// the machine, which a test cannot write.
func TestTheEnvironmentOfEveryCommand(t *testing.T) {
	r := newRepo(t)
	r.write("a", "1\n")
	r.commit("2024-03-01T00:00:00Z", "x")
	calls := filepath.Join(t.TempDir(), "calls")
	p := provide(t, r, func(o *git.Options) {
		o.Program = script(t, `echo "$LC_ALL $GIT_OPTIONAL_LOCKS $GIT_TERMINAL_PROMPT $GIT_ALLOW_PROTOCOL $GIT_NO_LAZY_FETCH ${GIT_DIR:+attributes $GIT_ATTR_NOSYSTEM}" >> `+calls+`; exec git "$@"`)
	})
	for _, d := range git.Datasets() {
		sync(t, p, unit(d.Name, everything))
	}
	b, err := os.ReadFile(calls)
	require.NoError(t, err)
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	require.Greater(t, len(lines), 10)
	for _, line := range lines {
		require.Contains(t, []string{"C 0 0 none 1 ", "C 0 0 none 1 attributes 1"}, line)
	}
	require.Contains(t, lines, "C 0 0 none 1 attributes 1")
}

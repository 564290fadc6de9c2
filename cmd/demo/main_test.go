package main

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// mainVariable makes the test binary behave as the demo, so that tests run the real program as a real process.
const mainVariable = "TOWLINE_DEMO_TEST_MAIN"

func TestMain(m *testing.M) {
	_, isChild := os.LookupEnv(childVariable)
	_, isDemo := os.LookupEnv(mainVariable)
	if isChild || isDemo {
		main()
	}
	os.Exit(m.Run())
}

// newRepository is the repository that the demo makes where there is none.
func newRepository(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "harbour")
	require.NoError(t, create(t.Context(), dir))
	return dir
}

func mustGit(t *testing.T, dir string, args ...string) string {
	t.Helper()
	out, err := runGit(t.Context(), dir, nil, args...)
	require.NoError(t, err)
	return strings.TrimSpace(string(out))
}

// A mistake in the arguments is one sentence that names the fix, exit code 2, and nothing is done.
func TestWrongArgumentsAreOneSentence(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"towline.db", "history.db", "towline-demo"} {
		require.NoError(t, os.Mkdir(filepath.Join(dir, name), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name, name), []byte("mine"), 0o600))
	}
	shallow := newRepository(t)
	require.NoError(t, os.WriteFile(filepath.Join(shallow, ".git", "shallow"), []byte(mustGit(t, shallow, "rev-parse", "HEAD")+"\n"), 0o600))
	unborn := newRepository(t)
	mustGit(t, unborn, "symbolic-ref", "HEAD", "refs/heads/pages")
	empty := t.TempDir()
	mustGit(t, empty, "init", "--quiet")
	busy := t.TempDir()
	at, err := enter(busy)
	require.NoError(t, err)
	defer func() { require.NoError(t, at.leave()) }()

	for name, tt := range map[string]struct {
		args []string
		want string
	}{
		"unknown flag":     {[]string{"-fast"}, "demo: flag provided but not defined: -fast: see demo -h\n"},
		"no number":        {[]string{"-seed", "x"}, "demo: -seed: \"x\" is no whole number from 0 to 18446744073709551615: name one, as in -seed 7\n"},
		"empty number":     {[]string{"-seed", ""}, "demo: -seed: \"\" is no whole number from 0 to 18446744073709551615: name one, as in -seed 7\n"},
		"empty folder":     {[]string{"-keep", ""}, "demo: -keep is empty: name a folder, or leave the flag out\n"},
		"empty repo":       {[]string{"-repo", ""}, "demo: -repo is empty: name a folder, or leave the flag out\n"},
		"busy folder":      {[]string{"-keep", busy}, "demo: another demo is at work in " + busy + ": wait for it, or name another folder with -keep\n"},
		"a bare word":      {[]string{"repo"}, "demo: \"repo\" is no flag: a repository is named with -repo repo\n"},
		"no repository":    {[]string{"-repo", dir}, "demo: -repo: " + dir + " is in no git repository: name one\n"},
		"shallow":          {[]string{"-repo", shallow}, "demo: -repo: " + shallow + " is a shallow clone, which lacks history: run git -C " + shallow + " fetch --unshallow\n"},
		"no branch":        {[]string{"-repo", unborn}, "demo: -repo: HEAD of " + unborn + " names refs/heads/pages, which does not exist: run git -C " + unborn + " symbolic-ref HEAD refs/heads/NAME with the branch whose files are wanted\n"},
		"empty repository": {[]string{"-repo", empty}, "demo: -repo: " + empty + " has no commits: commit something, or name another repository\n"},
		"foreign store":    {[]string{"-keep", filepath.Join(dir, "towline.db")}, "demo: -keep: " + filepath.Join(dir, "towline.db") + " already holds a towline.db that no demo has made: name another folder\n"},
		"foreign program":  {[]string{"-keep", filepath.Join(dir, "towline-demo")}, "demo: -keep: " + filepath.Join(dir, "towline-demo") + " already holds a towline-demo that no demo has made: name another folder\n"},
		"foreign history":  {[]string{"-keep", filepath.Join(dir, "history.db")}, "demo: -keep: " + filepath.Join(dir, "history.db") + " already holds a history.db that no demo has made: name another folder\n"},
	} {
		t.Run(name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			require.Equal(t, exitUsage, run(tt.args, &stdout, &stderr))
			require.Empty(t, stdout.String())
			require.Equal(t, tt.want, stderr.String())
		})
	}
}

// What the demo needs around it and does not find is one sentence that names the fix, exit code 2.
func TestWhatIsMissingIsOneSentence(t *testing.T) {
	for name, tt := range map[string]struct{ variable, value, want string }{
		"no git":              {"PATH", "/nope", "demo: there is no git in the folders of PATH: install git 2.37 or newer\n"},
		"no temporary folder": {"TMPDIR", "/nope", "demo: no folder for the files can be made in /nope: no such file or directory: set TMPDIR to a folder that can be written, or name one with -keep\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(tt.variable, tt.value)
			var stdout, stderr bytes.Buffer
			require.Equal(t, exitUsage, run(nil, &stdout, &stderr))
			require.Empty(t, stdout.String())
			require.Equal(t, tt.want, stderr.String())
		})
	}
}

// The repository of another user is refused with a line that helps, and that line is enough.
func TestTheRepositoryOfAnotherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root gives files away")
	}
	repo := newRepository(t)
	const somebody = 12345
	require.NoError(t, filepath.WalkDir(repo, func(path string, _ fs.DirEntry, err error) error {
		return errors.Join(err, os.Lchown(path, somebody, somebody))
	}))
	t.Setenv("SUDO_UID", "")
	config := filepath.Join(t.TempDir(), "gitconfig")
	t.Setenv("GIT_CONFIG_GLOBAL", config)
	var stdout, stderr bytes.Buffer
	require.Equal(t, exitUsage, run([]string{"-repo", repo}, &stdout, &stderr))
	fix := "git config --global --add safe.directory " + repo
	require.Equal(t, "demo: -repo: "+repo+" belongs to another user, and git refuses to read it: run "+fix+"\n", stderr.String())

	require.NoError(t, exec.CommandContext(t.Context(), "sh", "-c", fix).Run())
	r, err := find(t.Context(), repo, t.TempDir())
	require.NoError(t, err)
	ids, err := commitsOf(t.Context(), r.path)
	require.NoError(t, err)
	require.Len(t, ids, r.commits)
}

type fullDisk struct{}

var errFullDisk = errors.New("no space left")

func (fullDisk) Write([]byte) (int, error) { return 0, errFullDisk }

// What cannot be printed is no success, and nothing is left of it.
func TestOutputThatCannotBeWritten(t *testing.T) {
	scratch := t.TempDir()
	t.Setenv("TMPDIR", scratch)
	for _, args := range [][]string{{"-h"}, {}, {"-json"}} {
		var stderr bytes.Buffer
		require.Equal(t, exitFailed, run(args, fullDisk{}, &stderr), args)
		require.Equal(t, "demo: no space left: nothing more can be printed there, name another place\n", stderr.String())
	}
	left, err := os.ReadDir(scratch)
	require.NoError(t, err)
	require.Empty(t, left)
}

// -h is an answer, not a mistake.
func TestHelpIsAnAnswer(t *testing.T) {
	var stdout, stderr bytes.Buffer
	require.Equal(t, exitOK, run([]string{"-h"}, &stdout, &stderr))
	require.Contains(t, stdout.String(), "-keep DIR")
	require.Empty(t, stderr.String())
}

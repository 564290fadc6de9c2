package main

import (
	"bytes"
	"os"
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
	for _, name := range []string{"towline.db", "history.db"} {
		require.NoError(t, os.Mkdir(filepath.Join(dir, name), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name, name), nil, 0o600))
	}
	repo := newRepository(t)
	shallow := filepath.Join(t.TempDir(), "shallow")
	mustGit(t, repo, "clone", "--quiet", "--depth", "1", "file://"+repo, shallow)
	empty := t.TempDir()
	mustGit(t, empty, "init", "--quiet")

	for name, tt := range map[string]struct {
		args []string
		want string
	}{
		"unknown flag":     {[]string{"-fast"}, "demo: flag provided but not defined: -fast: see demo -h\n"},
		"no number":        {[]string{"-seed", "x"}, "demo: invalid value \"x\" for flag -seed: parse error: see demo -h\n"},
		"a bare word":      {[]string{"repo"}, "demo: \"repo\" is no flag: a repository is named with -repo repo\n"},
		"no repository":    {[]string{"-repo", dir}, "demo: -repo: " + dir + " is in no git repository: name one\n"},
		"shallow":          {[]string{"-repo", shallow}, "demo: -repo: " + shallow + " is a shallow clone, which lacks history: run git -C " + shallow + " fetch --unshallow\n"},
		"empty repository": {[]string{"-repo", empty}, "demo: -repo: " + empty + " has no commits: commit something, or name another repository\n"},
		"foreign store":    {[]string{"-keep", filepath.Join(dir, "towline.db")}, "demo: -keep: " + filepath.Join(dir, "towline.db") + " already holds a towline.db that no demo has made: name another folder\n"},
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

// -h is an answer, not a mistake.
func TestHelpIsAnAnswer(t *testing.T) {
	var stdout, stderr bytes.Buffer
	require.Equal(t, exitOK, run([]string{"-h"}, &stdout, &stderr))
	require.Contains(t, stdout.String(), "-keep DIR")
	require.Empty(t, stderr.String())
}

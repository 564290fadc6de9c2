package sim_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// requireGolden compares lines with a file of testfixtures.
func requireGolden(t *testing.T, name string, lines []string) {
	t.Helper()
	path := filepath.Join("..", "testfixtures", filepath.FromSlash(name))
	got := strings.Join(lines, "\n") + "\n"
	if rewriting() {
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
		return
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err, "run with -rewrite to make it")
	require.Equal(t, string(want), got, "%s: run with -rewrite, and read the diff", name)
}

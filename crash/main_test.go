package crash

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	rewrite = flag.Bool("rewrite", false, "write the golden files anew; read the diff")
	mutants = flag.Bool("mutants", false, "make matrices with one-line bugs in the engine, each of which must be seen; it takes minutes")
)

// requireGolden compares a text with a file of testfixtures.
func requireGolden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("..", "testfixtures", "crash", name)
	if *rewrite {
		require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
		return
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err, "run with -rewrite to make it")
	require.Equal(t, string(want), got, "%s: run with -rewrite, and read the diff", name)
}

package ident_test

import (
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/ident"
)

// A name in a suggested command is what a shell gives to it, whatever it holds; one that needs no quotes has none.
func TestANameInACommandIsReadByAShellAsItIs(t *testing.T) {
	for _, name := range []string{
		"orders", "7Q4ZKD:orders/commits/2024-03", "7Q4ZKD/post_sync#1", "zürich", "a b", "it's", "$HOME", "`id`", "a;b", "a\\b", "*", "~", "",
		"-x", "#1", "a\nb", "\"", "a&b", "(x)", "a=b", "x!y", "ünï cödé",
	} {
		out, err := exec.Command("sh", "-c", "printf %s "+ident.Shell(name)).CombinedOutput()
		require.NoError(t, err, "%q", name)
		if name == "-x" { // which printf takes for its own, quoted or not
			out, err = exec.Command("sh", "-c", "printf -- "+ident.Shell(name)).CombinedOutput()
			require.NoError(t, err)
		}
		require.Equal(t, name, string(out))
	}
	for _, name := range []string{"orders", "7Q4ZKD:orders/commits/2024-03", "7Q4ZKD/post_sync#1", "zürich"} {
		require.Equal(t, name, ident.Shell(name))
	}
	require.Equal(t, `'a b'`, ident.Shell("a b"))
	require.Equal(t, `'it'\''s'`, ident.Shell("it's"))
}

package docs_test

import (
	"go/doc"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// packageDirs are the folders of the module that hold production code.
func packageDirs(t testing.TB) []string {
	t.Helper()
	seen := map[string]bool{}
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != ".." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" || isModule(path)):
			return filepath.SkipDir
		case !d.IsDir() && strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go"):
			seen[filepath.Dir(path)] = true
		}
		return nil
	})
	require.NoError(t, err)
	var out []string
	for dir := range seen {
		out = append(out, dir)
	}
	return out
}

func isModule(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "go.mod"))
	return err == nil
}

// packageDoc is the comment of a package; "" if none of its files has one.
func packageDoc(t testing.TB, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".go") || strings.HasSuffix(e.Name(), "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(dir, e.Name()), nil, parser.ParseComments|parser.PackageClauseOnly)
		require.NoError(t, err)
		if f.Doc != nil {
			return f.Doc.Text()
		}
	}
	return ""
}

// firstSentence without its "Package x" or "Package x is", so that a table reads well.
func firstSentence(text string) string {
	s := strings.TrimRight(new(doc.Package).Synopsis(text), ".:")
	words := strings.SplitN(s, " ", 3) // Package x …, Command x …
	return strings.TrimPrefix(words[len(words)-1], "is ")
}

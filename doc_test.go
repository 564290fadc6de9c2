package towline_test

import (
	"os"
	"reflect"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline"
)

// whoever reads the package finds every action of an operator at its beginning, by a link: each of them says who acts.
func TestThePackageNamesWhatAnOperatorCalls(t *testing.T) {
	doc, err := os.ReadFile("doc.go")
	require.NoError(t, err)
	says := []reflect.Type{reflect.TypeFor[towline.Actor](), reflect.TypeFor[towline.RunSpec](), reflect.TypeFor[towline.RetrySpec]()}
	named := 0
	for m := range reflect.TypeFor[*towline.Engine]().Methods() {
		for in := range m.Type.Ins() {
			if slices.Contains(says, in) && m.Name != "Import" { // Node.Import calls it
				require.Contains(t, string(doc), "[Engine."+m.Name+"]")
				named++
			}
		}
	}
	require.Greater(t, named, 10)
}

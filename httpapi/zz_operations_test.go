package httpapi_test

import (
	"flag"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// answered are the operations whose answers some test has held against the document.
var answered sync.Map

// Surfaces 5: every operation of the document was answered by some test, and fitted it. The file is the last of the package,
// so this is the last of its tests.
func TestEveryOperationWasHeldAgainstTheDocument(t *testing.T) {
	if flag.Lookup("test.run").Value.String() != "" {
		t.Skip("some tests have not run")
	}
	w := start(t, func(c *setup) { c.idle = true })
	require.Greater(t, w.document.Paths.Len(), 25)
	for path, item := range w.document.Paths.Map() {
		for method := range item.Operations() {
			if path == "/v1/events/stream" {
				continue // it is no JSON
			}
			_, ok := answered.Load(method + " " + path)
			require.True(t, ok, "no test has asked %s %s", method, path)
		}
	}
}

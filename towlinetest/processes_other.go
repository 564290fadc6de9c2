//go:build !unix

package towlinetest

import "testing"

// Run skips the test: it is about SIGKILL.
func (p Processes) Run(t testing.TB) {
	t.Helper()
	t.Skip("towlinetest: processes are killed with SIGKILL, which this system does not have")
}

// Dir is t.TempDir.
func Dir(t testing.TB) string { return t.TempDir() }

func killAtPoint(string) {}

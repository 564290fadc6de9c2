//go:build unix

package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

var shellBlock = regexp.MustCompile("(?ms)^```sh\n(.*?)^```$")

// page NAME FILE writes the commands of a page of the documents as a script, which ends with the first that fails and leaves
// nothing running.
func page(ts *testscript.TestScript, _ bool, args []string) {
	text, err := os.ReadFile(filepath.Join(documents, args[0]))
	ts.Check(err)
	blocks := shellBlock.FindAllStringSubmatch(string(text), -1)
	if len(blocks) == 0 {
		ts.Fatalf("%s has no commands", args[0])
	}
	var script strings.Builder
	script.WriteString("set -euo pipefail\ntrap 'kill -9 $(jobs -p) 2>/dev/null || true' EXIT\n")
	for _, b := range blocks {
		script.WriteString(b[1])
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), []byte(script.String()), 0o600))
}

// documents is the folder of the pages, from that of the test.
var documents = func() string {
	dir, err := filepath.Abs(filepath.Join("..", "..", "docs"))
	if err != nil {
		panic(err) // the process has no folder to be in
	}
	return dir
}()

package crash

import (
	"fmt"
	"go/token"
	"io"
	"strconv"
	"strings"
)

// GoTest writes a test file of a package that plays the case. It fails as long as the verdict is no good one, and with that
// verdict: so it shows a defect until it is mended, and stays as its guard.
//
// Errors: that pkg is no name of a package; those of w.
func (c Case) GoTest(w io.Writer, pkg string) error {
	if !token.IsIdentifier(pkg) {
		return fmt.Errorf("%q is no name of a Go package", pkg)
	}
	var text strings.Builder
	if err := c.Write(&text); err != nil {
		return err
	}
	short := c.Log
	if len(short) > 8 {
		short = short[:8]
	}
	_, err := fmt.Fprintf(w, goTest, pkg, oneLine(c.From), c.Verdict, identifier(short), literal(text.String()))
	return err
}

const goTest = `package %s

import (
	"strings"
	"testing"

	"github.com/towline-dev/towline/crash"
)

// Of a real run: %s.
// It was %s when this was written.
func TestCrashCase%[4]s(t *testing.T) {
	c, err := crash.ReadCase(strings.NewReader(crashCase%[4]s))
	if err != nil {
		t.Fatal(err)
	}
	played, err := c.Play(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if !played.Verdict.Good() {
		t.Errorf("%%s: %%s", played.Verdict, strings.Join(played.Problems, "; "))
	}
}

const crashCase%[4]s = %[5]s
`

// identifier keeps what may be a part of one.
func identifier(text string) string {
	return strings.Map(func(r rune) rune {
		if '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' {
			return r
		}
		return -1
	}, text)
}

// literal is a text as Go source, readable if it can be.
func literal(text string) string {
	if strconv.CanBackquote(strings.ReplaceAll(text, "\n", "")) {
		return "`" + text + "`"
	}
	lines := strings.SplitAfter(text, "\n")
	for i, l := range lines {
		lines[i] = strconv.Quote(l)
	}
	return strings.Join(lines, " +\n\t")
}

package git

import (
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"
)

// repair makes text valid UTF-8. Each byte that is not becomes \xNN: the row stays readable. true: it did something.
func repair(s string) (string, bool) {
	if utf8.ValidString(s) {
		return s, false
	}
	var b strings.Builder
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		if r == utf8.RuneError && n == 1 {
			fmt.Fprintf(&b, `\x%02x`, s[0])
		} else {
			b.WriteString(s[:n])
		}
		s = s[n:]
	}
	return b.String(), true
}

// looksRepaired is text that repair could have written.
var looksRepaired = regexp.MustCompile(`\\(x[0-9a-f]{2})`)

// repairPath is repair for a path, which is a key: two that differ stay two. A backslash that stands where it reads as
// such a byte becomes \x5c, so every \xNN in the result is one byte of the path, and the path can be had back. Free text
// is not treated so: \x1b in a subject is more often meant than mistaken.
func repairPath(s string) (string, bool) {
	text, _ := repair(looksRepaired.ReplaceAllString(s, `\x5c$1`))
	return text, text != s
}

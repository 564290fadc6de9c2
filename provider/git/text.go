package git

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// repair makes text valid UTF-8. Each byte that is not becomes \xNN: the row stays readable, nothing is lost, and two
// paths that differ in such a byte stay two. true: it did something.
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

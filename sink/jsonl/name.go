package jsonl

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// maxName bounds what a name becomes, so that there is room for what is added to it: file systems take 255 bytes.
const maxName = 200

// fileName is a name as one of a file: what a path could take for something else is written as % and two digits. A dot or
// an underscore in front is, too: those names are the sink's, or are hidden.
func fileName(name string) string {
	var b strings.Builder
	for i, r := range name {
		switch {
		case r < ' ' || r == 0x7f || strings.ContainsRune(`%/\`, r), i == 0 && (r == '.' || r == '_'):
			fmt.Fprintf(&b, "%%%02X", r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

func checkName(name string) error {
	switch {
	case name == "":
		return fmt.Errorf("a name is empty")
	case !utf8.ValidString(name):
		return fmt.Errorf("name %q is not valid UTF-8", name)
	case len(fileName(name)) > maxName:
		return fmt.Errorf("name %.40q… is too long for a file: it may have %d bytes", name, maxName)
	}
	return nil
}

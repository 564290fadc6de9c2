// Package subprocess is how Towline runs another program: in a process group of its own, so that its end reaches all that it
// has started, and with no more of its output kept than its end.
package subprocess

import (
	"strings"
	"time"
	"unicode"
)

// WaitDelay bounds the wait for a process that holds the output open after the program has ended.
const WaitDelay = 5 * time.Second

// Tail keeps the end of what is written to it: at most Limit bytes.
type Tail struct {
	Limit int
	kept  []byte
	cut   bool
}

func (t *Tail) Write(b []byte) (int, error) {
	t.kept = append(t.kept, b...)
	if extra := len(t.kept) - t.Limit; extra > 0 {
		t.kept = append(t.kept[:0], t.kept[extra:]...)
		t.cut = true
	}
	return len(b), nil
}

// String is one line. It begins between two words where it can, for half a secret might not be known as one.
func (t *Tail) String() string {
	text := string(t.kept)
	if t.cut {
		if i := strings.IndexFunc(text, unicode.IsSpace); i >= 0 {
			text = text[i:]
		}
	}
	return strings.Join(strings.Fields(text), " ")
}

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
	kept  []byte // up to twice as much, so that a flood is not moved with every write
	cut   bool
}

func (t *Tail) Write(b []byte) (int, error) {
	t.kept = append(t.kept, b[max(len(b)-t.Limit, 0):]...)
	t.cut = t.cut || len(b) > t.Limit
	if len(t.kept) > 2*t.Limit {
		t.trim()
	}
	return len(b), nil
}

func (t *Tail) trim() {
	if extra := len(t.kept) - t.Limit; extra > 0 {
		t.kept = append(t.kept[:0], t.kept[extra:]...)
		t.cut = true
	}
}

// Cut reports that more was written than is kept.
func (t *Tail) Cut() bool {
	t.trim()
	return t.cut
}

// Text begins between two words where it can, for half a secret might not be known as one.
func (t *Tail) Text() string {
	t.trim()
	text := string(t.kept)
	if t.cut {
		if i := strings.IndexFunc(text, unicode.IsSpace); i >= 0 && strings.TrimSpace(text[i:]) != "" {
			text = text[i+1:]
		}
	}
	return text
}

// String is Text as one line.
func (t *Tail) String() string { return strings.Join(strings.Fields(t.Text()), " ") }

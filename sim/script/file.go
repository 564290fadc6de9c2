package script

import (
	"fmt"
	"strings"
)

// Line is a command of a file, and where it stands. It is played as the command is; its errors begin with the place.
type Line struct {
	At string // post_sync/once.txt:12; line 12 of text that is in no file
	Command
}

// ParseFile reads lines of a file, of which the text begins at its line first, from 1. Empty ones, and those that begin with #,
// say nothing. An error begins with the file and the line: once.txt:12.
func ParseFile(file string, first int, text string) (out []Line, err error) {
	for line := range strings.Lines(text) {
		at := fmt.Sprintf("%s:%d", file, first)
		if file == "" {
			at = fmt.Sprintf("line %d", first)
		}
		first++
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		c, err := Parse(line)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", at, err)
		}
		out = append(out, Line{at, c})
	}
	return out, nil
}

// ParseAll is ParseFile for text that is in no file. Its errors begin with the line alone: line 12.
func ParseAll(text string) (out []Command, err error) {
	lines, err := ParseFile("", 1, text)
	for _, l := range lines {
		out = append(out, l.Command)
	}
	return out, err
}

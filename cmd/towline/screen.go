package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
)

// screen is standard error: lines, the lines of the log, and on a terminal one bar below them. It is safe for concurrent
// use.
type screen struct {
	to       io.Writer
	terminal bool
	width    int
	colour   bool

	mu  sync.Mutex
	bar string // that stands; empty: none
}

func newScreen(to io.Writer, noColor bool) *screen {
	s := &screen{to: to, width: 80}
	f, ok := to.(*os.File)
	if !ok || os.Getenv("TERM") == "dumb" {
		return s
	}
	if width, ok := terminalWidth(f); ok {
		s.terminal, s.colour = true, !noColor && os.Getenv("NO_COLOR") == ""
		if width > 0 {
			s.width = width
		}
	}
	return s
}

const (
	clearLine = "\r\x1b[K"
	green     = "\x1b[32m"
	red       = "\x1b[31m"
	plain     = "\x1b[0m"
)

// Write is for the log: whole lines, above the bar.
func (s *screen) Write(lines []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clear()
	n, err := s.to.Write(lines)
	s.redraw()
	return n, err
}

func (s *screen) line(text string) {
	_, _ = fmt.Fprintln(s, text) // standard error has nobody to tell
}

// draw puts a bar below the lines; where there is no terminal it does nothing.
func (s *screen) draw(bar string) {
	if !s.terminal {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clear()
	s.bar = bar
	s.redraw()
}

func (s *screen) clear() {
	if s.bar != "" {
		fmt.Fprint(s.to, clearLine)
	}
}

func (s *screen) redraw() {
	if s.bar != "" {
		fmt.Fprint(s.to, s.bar)
	}
}

// paint colours a word, which says the same without.
func (s *screen) paint(colour, text string) string {
	if !s.colour {
		return text
	}
	return colour + text + plain
}

// barOf is a bar of so many of all, with words beside it.
func (s *screen) barOf(done, all int, words string) string {
	const least, most = 10, 40
	room := min(max(s.width-len(words)-8, least), most)
	filled := room
	if all > 0 {
		filled = room * done / all
	}
	return "▕" + strings.Repeat("█", filled) + strings.Repeat(" ", room-filled) + "▏ " + words
}

// eta is how long the rest takes at the pace so far; empty: nobody can tell yet.
func eta(done, all int, took time.Duration) string {
	const few = 3
	if done < few || done >= all {
		return ""
	}
	rest := took / time.Duration(done) * time.Duration(all-done)
	return " · eta " + rest.Round(time.Second).String()
}

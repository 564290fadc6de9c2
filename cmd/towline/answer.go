package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

// forms are those of -o.
var forms = []string{"table", "json", "jsonl"}

// answer is standard output: it carries the answer and nothing else. A reader that has gone ends the command.
type answer struct {
	to   io.Writer
	form string
	err  error
}

func (a *answer) Write(text []byte) (int, error) {
	if a.err != nil {
		return 0, a.err
	}
	n, err := a.to.Write(text)
	a.err = err
	return n, err
}

func (a *answer) as(form string) error {
	if !slices.Contains(forms, form) {
		return fmt.Errorf("-o %s: want table, json or jsonl", form)
	}
	a.form = form
	return nil
}

// list answers with rows: one JSON array, one JSON object a line, or a table.
func list[T any](a *answer, rows []T, columns []string, cells func(T) []string) error {
	switch a.form {
	case "json":
		if rows == nil {
			rows = []T{} // a list without rows is a list
		}
		return a.json(rows, "  ")
	case "jsonl":
		for _, r := range rows {
			if err := a.json(r, ""); err != nil {
				return err
			}
		}
		return nil
	}
	lines := [][]string{columns}
	for _, r := range rows {
		lines = append(lines, cells(r))
	}
	return a.table(lines)
}

// one answers with a single thing: JSON in one line or many, or what text writes.
func (a *answer) one(v any, text func(io.Writer)) error {
	switch a.form {
	case "json":
		return a.json(v, "  ")
	case "jsonl":
		return a.json(v, "")
	}
	text(a)
	return a.err
}

func (a *answer) json(v any, indent string) error {
	e := json.NewEncoder(a)
	e.SetEscapeHTML(false)
	e.SetIndent("", indent)
	return e.Encode(v)
}

// table aligns columns with two blanks between them. The last one is not padded.
func (a *answer) table(lines [][]string) error {
	widths := make([]int, len(lines[0]))
	for _, line := range lines {
		for i, cell := range line {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for _, line := range lines {
		var text strings.Builder
		for i, cell := range line {
			text.WriteString(cell)
			if i < len(line)-1 {
				text.WriteString(strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)+2))
			}
		}
		if _, err := fmt.Fprintln(a, strings.TrimRight(text.String(), " ")); err != nil {
			return err
		}
	}
	return nil
}

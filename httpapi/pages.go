package httpapi

import (
	"embed"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"sync"
)

//go:embed problems/*.md
var problemFiles embed.FS

// ProblemPage is what is said about a problem code: at /problems/{code}, in the handbook, and on the command line.
type ProblemPage struct {
	Code   string
	Status int    // of the answer
	Title  string // short, for people
	Fix    string // one sentence, the fix of a problem that names none of its own
	Text   string // Markdown, the whole file
}

// ProblemPages are those of all codes, by code. A file begins with its title as a heading, and a line each of status and fix:
//
//	# Lease lost
//
//	status: 410
//	fix: stop, and write nothing more
//
//	What it means …
var ProblemPages = sync.OnceValue(func() []ProblemPage {
	files, err := fs.Glob(problemFiles, "problems/*.md")
	if err != nil {
		panic(fmt.Sprintf("httpapi: problem pages: %v", err))
	}
	var out []ProblemPage
	for _, f := range files {
		data, err := problemFiles.ReadFile(f)
		if err != nil {
			panic(fmt.Sprintf("httpapi: problem pages: %v", err))
		}
		p, err := parsePage(strings.TrimSuffix(strings.TrimPrefix(f, "problems/"), ".md"), string(data))
		if err != nil {
			panic(fmt.Sprintf("httpapi: problem pages: %v", err))
		}
		out = append(out, p)
	}
	return out
})

func parsePage(code, text string) (ProblemPage, error) {
	p := ProblemPage{Code: code, Text: text}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if title, ok := strings.CutPrefix(line, "# "); ok && p.Title == "" {
			p.Title = title
		}
		if status, ok := strings.CutPrefix(line, "status: "); ok && p.Status == 0 {
			n, err := strconv.Atoi(status)
			if err != nil {
				return p, fmt.Errorf("%s: status: %w", code, err)
			}
			p.Status = n
		}
		if fix, ok := strings.CutPrefix(line, "fix: "); ok && p.Fix == "" {
			p.Fix = fix
		}
	}
	if p.Title == "" || p.Status == 0 || p.Fix == "" {
		return p, fmt.Errorf("%s: title, status or fix is missing", code)
	}
	return p, nil
}

// ProblemPageOf is the page of a code, and false if there is no such code.
func ProblemPageOf(code string) (ProblemPage, bool) {
	pages := ProblemPages()
	i := slices.IndexFunc(pages, func(p ProblemPage) bool { return p.Code == code })
	if i < 0 {
		return ProblemPage{}, false
	}
	return pages[i], true
}

func mustPage(code string) ProblemPage {
	p, ok := ProblemPageOf(code)
	if !ok {
		panic(fmt.Sprintf("httpapi: problem %q has no page", code))
	}
	return p
}

package docs

import (
	"embed"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"sync"
)

//go:embed handbook/[a-z]*.md
var handbook embed.FS

// Page is one page of the handbook for those on call.
type Page struct {
	Name   string // of its file: a problem code, a reason of /readyz, or what an alert is about
	Title  string // short, for people
	Fix    string // one sentence, for where there is no room for more
	Status int    // of the answer of the API; 0: it is no problem code
	Ready  string // the reason of /readyz that leads here; empty: none
	Alert  string // the alert of alerts.yml that leads here; empty: none
	Text   string // Markdown, the whole file
}

// Handbook are all pages, by name. A file begins with its title as a heading, and a line for each field that it has:
//
//	# Lease lost
//
//	status: 410
//
//	fix: stop, and write nothing more
//
//	What it means …
var Handbook = sync.OnceValue(func() []Page {
	files, err := fs.Glob(handbook, "handbook/*.md")
	if err != nil {
		panic(fmt.Sprintf("docs: handbook: %v", err)) // the pattern is a constant
	}
	var out []Page
	for _, f := range files {
		text, err := handbook.ReadFile(f)
		if err != nil {
			panic(fmt.Sprintf("docs: handbook: %v", err)) // it was listed
		}
		p, err := parsePage(strings.TrimSuffix(strings.TrimPrefix(f, "handbook/"), ".md"), string(text))
		if err != nil {
			panic(fmt.Sprintf("docs: handbook: %v", err))
		}
		out = append(out, p)
	}
	return out
})

// HandbookPage is the page of a name, and false if there is none.
func HandbookPage(name string) (Page, bool) {
	pages := Handbook()
	i := slices.IndexFunc(pages, func(p Page) bool { return p.Name == name })
	if i < 0 {
		return Page{}, false
	}
	return pages[i], true
}

func parsePage(name, text string) (Page, error) {
	p := Page{Name: name, Text: text}
	head, _, _ := strings.Cut(text, "\n## ")
	for line := range strings.Lines(head) {
		line = strings.TrimSpace(line)
		if title, ok := strings.CutPrefix(line, "# "); ok && p.Title == "" {
			p.Title = title
		}
		key, value, _ := strings.Cut(line, ": ")
		switch key {
		case "status":
			n, err := strconv.Atoi(value)
			if err != nil {
				return p, fmt.Errorf("%s: status: %w", name, err)
			}
			p.Status = n
		case "fix":
			p.Fix = value
		case "ready":
			p.Ready = value
		case "alert":
			p.Alert = value
		}
	}
	if p.Title == "" || p.Fix == "" {
		return p, fmt.Errorf("%s: title or fix is missing", name)
	}
	return p, nil
}

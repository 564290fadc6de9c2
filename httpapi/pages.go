package httpapi

import (
	"fmt"
	"slices"
	"sync"

	"github.com/towline-dev/towline/docs"
)

// ProblemPage is what is said about a problem code: at /problems/{code}, in the handbook, and on the command line.
type ProblemPage struct {
	Code   string
	Status int    // of the answer
	Title  string // short, for people
	Fix    string // one sentence, the fix of a problem that names none of its own
	Text   string // Markdown, the whole file
}

// ProblemPages are those of all codes, by code: the pages of the handbook that have a status.
var ProblemPages = sync.OnceValue(func() (out []ProblemPage) {
	for _, p := range docs.Handbook() {
		if p.Status != 0 {
			out = append(out, ProblemPage{Code: p.Name, Status: p.Status, Title: p.Title, Fix: p.Fix, Text: p.Text})
		}
	}
	return out
})

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

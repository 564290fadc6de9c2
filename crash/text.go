package crash

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode/utf8"
)

// Text writes the matrix for people: a row for each crash, and what they come to. A terminal gets colours, unless NO_COLOR is
// set or TERM is dumb. Errors are those of w.
func (m Matrix) Text(w io.Writer) error {
	buffered := bufio.NewWriter(w)
	p := &printer{w: buffered, colour: isTerminal(w) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"}
	p.head(m)
	p.table(m.Rows)
	p.tail(m)
	return buffered.Flush()
}

// isTerminal is good enough for colours: what is no file is none.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

type printer struct {
	w      io.Writer
	colour bool
}

func (p *printer) line(text string) { fmt.Fprintln(p.w, strings.TrimRight(text, " ")) }

// styles stand beside the word that says the same.
var styles = map[Verdict]string{Recovered: "32", Absorbed: "32", Lost: "33", Violated: "31", Stranded: "31"}

func (p *printer) paint(v Verdict, text string) string {
	if !p.colour {
		return text
	}
	return "\x1b[" + styles[v] + "m" + text + "\x1b[0m"
}

func (p *printer) head(m Matrix) {
	p.line(fmt.Sprintf("%s, %s, %s", several(m.Events, "event", "events"), several(m.Boundaries, "durable boundary", "durable boundaries"),
		several(len(m.Rows), "crash", "crashes")))
	if m.Left > 0 {
		p.line(fmt.Sprintf("%s more are left out", grouped(m.Left)))
	}
	p.line("")
}

func several(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return grouped(n) + " " + many
}

// longest is how wide the column of the transaction may be.
const longest = 96

// table is aligned by its widest cells. The verdict is a column of its own, so that its colour does not count.
func (p *printer) table(rows []Row) {
	header := []string{"at", "since", "window", "verdict", "waited", "of", "rows", "died behind"}
	cells := [][]string{header}
	for _, r := range rows {
		cells = append(cells, r.cells())
	}
	width := make([]int, len(header))
	for _, c := range cells {
		for i, text := range c {
			width[i] = max(width[i], utf8.RuneCountInString(text))
		}
	}
	for i, c := range cells {
		var out strings.Builder
		for col, text := range c {
			pad := strings.Repeat(" ", width[col]-utf8.RuneCountInString(text))
			switch {
			case col == len(c)-1:
				pad = ""
			case col == 0, col == 1, col == 4, col == 5:
				text, pad = pad+text, ""
			}
			if i > 0 && header[col] == "verdict" {
				text = p.paint(rows[i-1].Verdict, text)
			}
			out.WriteString(text + pad + "  ")
		}
		p.line(out.String())
		if i > 0 {
			p.below(rows[i-1], width)
		}
	}
}

func (r Row) cells() []string {
	what := cut(r.What)
	if r.Called != "" {
		what = cut("… and " + r.Called + ", not on record")
	}
	return []string{
		r.Position.String(), length(r.Since), cmp.Or(r.Window, "–"), string(r.Verdict), length(r.Waited), length(r.Bound),
		cmp.Or(strings.Join(r.Rows, " "), "–"), what,
	}
}

func cut(text string) string {
	if utf8.RuneCountInString(text) <= longest {
		return text
	}
	return string([]rune(text)[:longest-1]) + "…"
}

// below are the sentences that belong to a row.
func (p *printer) below(r Row, width []int) {
	indent := strings.Repeat(" ", width[0]+width[1]+width[2]+6)
	for _, text := range r.Notes {
		p.line(indent + text)
	}
	for _, text := range r.Problems {
		p.line(indent + p.paint(r.Verdict, string(r.Verdict)+": ") + text)
	}
}

func (p *printer) tail(m Matrix) {
	p.line("")
	var parts []string
	for _, v := range Verdicts {
		n := m.Count(v)
		text := fmt.Sprintf("%s %s", grouped(n), v)
		if n > 0 {
			text = p.paint(v, text)
		}
		parts = append(parts, text)
	}
	p.line(strings.Join(parts, ", ") + ", " + several(m.Violations(), "invariant", "invariants") + " violated")
	if longest, ok := m.longest(); ok {
		p.line(fmt.Sprintf("longest wait %s of %s allowed, behind %d", length(longest.Waited), length(longest.Bound), longest.Position))
	}
	if n := len(m.Log); n > 0 {
		p.line(fmt.Sprintf("the log itself holds %s, which no recovery is to blame for; the first: %s", several(n, "contradiction", "contradictions"), m.Log[0]))
	}
}

// longest is the crash that took the most time without work.
func (m Matrix) longest() (out Row, ok bool) {
	for _, r := range m.Rows {
		if r.Waited > out.Waited {
			out, ok = r, true
		}
	}
	return out, ok
}

// length is a time, to the millisecond where it is long.
func length(d time.Duration) string {
	switch {
	case d == 0:
		return "0"
	case d >= time.Second:
		d = d.Round(time.Millisecond)
	case d >= time.Millisecond:
		d = d.Round(time.Microsecond * 10)
	}
	return d.String()
}

func grouped(n int) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

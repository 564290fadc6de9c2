package main

import (
	"fmt"
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/towline-dev/towline/events"
)

// narrator speaks to a person. Sentences are short, every colour has its word, and a bar is drawn on a terminal only.
type narrator struct {
	out    io.Writer // of sentences; io.Discard with -json
	bar    io.Writer // nil: no terminal
	width  int
	colour bool

	drawn   bool // a bar stands in the last line
	drawnAt time.Time
	run     events.RunID // whose progress was told last
	began   time.Time    // when the first of it was
	told    int          // quarters of it that were told without a terminal
}

const (
	narrowest = 40
	widest    = 110
	usual     = 80 // where there is no terminal to ask
)

func newNarrator(json bool, stdout, stderr io.Writer) *narrator {
	n := &narrator{out: stdout, width: usual}
	screen := stdout
	if json {
		n.out, screen = io.Discard, stderr
	}
	dumb := os.Getenv("TERM") == "dumb"
	columns, isTerminal := 0, false
	if f, ok := screen.(*os.File); ok {
		columns, isTerminal = terminalWidth(f)
	}
	if wish, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && !isTerminal {
		columns = wish
	}
	if columns > 0 {
		n.width = min(max(columns, narrowest), widest)
	}
	if isTerminal && !dumb {
		n.bar = screen
	}
	n.colour = isTerminal && !dumb && os.Getenv("NO_COLOR") == ""
	return n
}

// Styles. Each is next to a word that says the same.
const (
	bold   = "1"
	dim    = "2"
	red    = "31"
	green  = "32"
	yellow = "33"
)

func (n *narrator) paint(style, text string) string {
	if !n.colour || style == "" || text == "" {
		return text
	}
	return "\x1b[" + style + "m" + text + "\x1b[0m"
}

// line prints one line as it is.
func (n *narrator) line(text string) {
	n.clearBar()
	fmt.Fprintln(n.out, strings.TrimRight(text, " "))
}

func (n *narrator) blank() { n.line("") }

// say prints a paragraph.
func (n *narrator) say(text string) {
	for _, l := range wrap(text, n.width) {
		n.line(l)
	}
}

// label is the width of the words in the margin.
const label = 13

// fact prints a word in the margin and a text beside it.
func (n *narrator) fact(style, name, text string) {
	for i, l := range wrap(text, n.width-label) {
		margin := strings.Repeat(" ", label)
		if i == 0 {
			margin = n.paint(style, fmt.Sprintf("  %-*s", label-2, name))
		}
		n.line(margin + l)
	}
}

// events prints a piece of the log, stream by stream.
func (n *narrator) events(t trail, s *stage) {
	var stream events.StreamID
	for _, env := range t {
		if env.Stream != stream {
			stream = env.Stream
			n.line(n.paint(dim, strings.Repeat(" ", label)+s.streamName(stream)))
		}
		margin := fmt.Sprintf("%*s  ", label-2, "#"+env.Position.String())
		for _, l := range wrapFields(shortIDs(events.Describe(env.Event)), n.width-label-2) {
			n.line(n.paint(dim, margin+l))
			margin = strings.Repeat(" ", label+2)
		}
	}
}

// streamName is a stream as people know it.
func (s *stage) streamName(id events.StreamID) string {
	if unit, ok := id.Unit(); ok {
		return "unit " + s.alias(unit)
	}
	return shortIDs(id.String())
}

// wrap breaks a text at blanks. A word that is longer than the line is broken where it must be.
func wrap(text string, width int) []string {
	width = max(width, 10)
	var out []string
	line := ""
	for _, word := range strings.Fields(text) {
		for utf8.RuneCountInString(word) > width {
			if line != "" {
				out, line = append(out, line), ""
			}
			cut := string([]rune(word)[:width])
			out, word = append(out, cut), word[len(cut):]
		}
		switch {
		case line == "":
			line = word
		case utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) <= width:
			line += " " + word
		default:
			out, line = append(out, line), word
		}
	}
	return append(out, line)
}

// wrapFields breaks a description between its fields, where they fit.
func wrapFields(text string, width int) []string {
	const glue = "\x00" // no blank, so no place to break
	parts := strings.SplitAfter(text, ", ")
	for i, p := range parts {
		if utf8.RuneCountInString(p) <= width {
			parts[i] = strings.ReplaceAll(strings.TrimSuffix(p, " "), " ", glue)
		}
	}
	out := wrap(strings.Join(parts, " "), width)
	for i, l := range out {
		out[i] = strings.ReplaceAll(l, glue, " ")
	}
	return out
}

var (
	ulids = regexp.MustCompile(`\b[0-7][0-9A-HJKMNP-TV-Z]{19}([0-9A-HJKMNP-TV-Z]{6})\b`)
	times = regexp.MustCompile(`\b\d{4}-\d\d-\d\dT(\d\d:\d\d:\d\d\.\d{3})\d{3}Z`)
)

// shortIDs writes ids by their last six characters, and times of today without the day.
func shortIDs(text string) string {
	return times.ReplaceAllString(ulids.ReplaceAllString(text, "$1"), "${1}Z")
}

// amount is a number with its noun.
func amount(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return grouped(n) + " " + noun + "s"
}

// amountIs is the same with its verb.
func amountIs(n int, noun string) string {
	if n == 1 {
		return amount(n, noun) + " was"
	}
	return amount(n, noun) + " were each"
}

// grouped writes 12,345.
func grouped(n int) string {
	text := strconv.Itoa(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// length is a time as people read it: three digits at most.
func length(d time.Duration) string {
	switch {
	case d < 10*time.Millisecond:
		return fmt.Sprintf("%.1f ms", float64(d)/float64(time.Millisecond))
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < 10*time.Second:
		return fmt.Sprintf("%.2f s", d.Seconds())
	case d < 100*time.Second:
		return fmt.Sprintf("%.1f s", d.Seconds())
	}
	return fmt.Sprintf("%d min %02d s", int(d.Minutes()), int(d.Seconds())%60)
}

// The chapters.

func (n *narrator) opening(s *stage, o options) {
	n.say(n.paint(bold, "Towline demo"))
	n.blank()
	n.say(fmt.Sprintf("The history of a git repository goes into one SQLite file, %s by %s. The process that does it is killed %d times with SIGKILL, at a chosen window each time, and the next one goes on from the log. Lines with a # are events, as they stand there. W0 to W8 name the places in which a process can die, C-2 and the like the rows of the crash table.",
		s.repo.layout.Calendar, s.repo.layout.Calendar, len(crashes)))
	n.blank()
	n.fact("", "repository", fmt.Sprintf("%s: %s in %s", s.repo.path, amount(s.repo.commits, "commit"), amount(len(s.repo.periods), string(s.repo.layout.Calendar))))
	for _, note := range s.repo.notes {
		n.fact("", "", note)
	}
	files := s.dir + ", removed in the end; -keep DIR keeps them"
	if o.keep != "" {
		files = s.dir
	}
	n.fact("", "files", files)
	n.fact("", "seed", fmt.Sprintf("%d; -seed %d makes the same choices again", o.seed, o.seed))
	n.fact("", "knobs", fmt.Sprintf("dispatch.countdown %s instead of 1m, retry backoff %s; all else is the default", countdown, retryBackoff))
}

func (n *narrator) killed(i int, c *crash, r *caseReport, s *stage) {
	n.blank()
	head := fmt.Sprintf("%d of %d  %s: %s", i+1, len(crashes), c.row, c.title)
	for j, l := range wrap(head, n.width) {
		if j > 0 {
			l = "        " + l
		}
		n.line(n.paint(bold, l))
	}
	n.fact(red, "killed", fmt.Sprintf("process %d by SIGKILL, at %s: %s", r.PID, c.window, c.where))
	n.events(r.left, s)
	if r.autopsy != "" {
		n.fact("", "", r.autopsy)
	}
}

func (n *narrator) recovered(c *crash, r *caseReport, s *stage, took time.Duration) {
	style, name := green, "recovered"
	switch r.Outcome {
	case absorbed:
		name = "absorbed"
	case lostByContract:
		style, name = yellow, "on record"
	case recovered:
	}
	n.fact(style, name, fmt.Sprintf("%s after process %d was started", length(took), s.child.pid()))
	n.events(r.after, s)
	n.fact("", "", c.why)
	if r.proof != "" {
		n.fact("", "", r.proof)
	}
}

// ended tells of a run that nobody has killed to its end.
func (n *narrator) ended(i int, s *stage) {
	run := s.log.run(i)
	t := s.log.tallies[run]
	_, end, _ := newest[events.RunFinalized](s.log.streams[events.RunStream(run)])
	name, what := "third run", fmt.Sprintf("as a schedule would start it: %s, what has changed and what is always read", amount(t.total, "unit"))
	if i == 1 {
		n.blank()
		n.say(n.paint(bold, "The rest"))
		name, what = "second run", "the capped one, with all of its "+amount(t.total, "unit")
	}
	n.fact("", name, fmt.Sprintf("%s; %s, and its post_sync was delivered", what, end.Status))
}

// progress shows how far the newest run is: as a bar on a terminal, else at every quarter.
func (n *narrator) progress(l *logbook) {
	if len(l.runs) == 0 {
		return
	}
	id := l.runs[len(l.runs)-1]
	t := l.tallies[id]
	if id != n.run {
		n.run, n.began, n.told = id, time.Now(), 0
	}
	if n.bar == nil {
		n.quarters(id, *t)
		return
	}
	const often = 100 * time.Millisecond
	if now := time.Now(); now.Sub(n.drawnAt) >= often {
		n.drawnAt, n.drawn = now, true
		fmt.Fprint(n.bar, "\r\x1b[K"+barLine(n.width, id.Short(), *t, now.Sub(n.began)))
	}
}

func (n *narrator) quarters(id events.RunID, t tally) {
	const few = 20 // units: they end before anybody waits
	quarter := 0
	if t.total > few {
		quarter = t.ended * 4 / t.total
	}
	if quarter > n.told {
		n.told = quarter
		n.fact(dim, "progress", fmt.Sprintf("run %s: %s of %s, %s", id.Short(), grouped(t.ended), amount(t.total, "unit"), amount(t.rows, "row")))
	}
}

// barLine is one line, whatever the width.
func barLine(width int, run string, t tally, since time.Duration) string {
	text := fmt.Sprintf("%s of %s units, %s", grouped(t.ended), grouped(t.total), amount(t.rows, "row"))
	if t.ended > 0 && t.ended < t.total {
		left := since / time.Duration(t.ended) * time.Duration(t.total-t.ended)
		text += ", " + roughly(left) + " left"
	}
	head := "  run " + run + "  "
	room := width - 1 - len(head) - 2 - utf8.RuneCountInString(text)
	if room < 8 {
		line := []rune(head + text)
		return string(line[:min(len(line), width-1)])
	}
	room = min(room, 30)
	full := 0
	if t.total > 0 {
		full = room * t.ended / t.total
	}
	return head + strings.Repeat("█", full) + strings.Repeat("░", room-full) + "  " + text
}

// status says on a terminal what is going on, until the next sentence.
func (n *narrator) status(text string) {
	if n.bar != nil {
		n.drawn = true
		fmt.Fprint(n.bar, "\r\x1b[K  "+text+" …")
	}
}

// roughly is a time that is guessed.
func roughly(d time.Duration) string {
	if s := int(d.Round(time.Second).Seconds()); s < 100 {
		return fmt.Sprintf("%d s", s)
	}
	return fmt.Sprintf("%d min", int(d.Round(time.Minute).Minutes()))
}

// clearBar makes room for a sentence.
func (n *narrator) clearBar() {
	if n.drawn {
		n.drawn = false
		fmt.Fprint(n.bar, "\r\x1b[K")
	}
}

func (n *narrator) timeline(s *stage) {
	picture, name := s.timeline(n.width)
	if picture == nil {
		return
	}
	n.blank()
	n.say(n.paint(bold, "The unit that lost its worker: "+name))
	for _, l := range picture {
		n.line(l)
	}
}

func (n *narrator) oracle(s *stage) {
	o := s.report.Oracle
	n.blank()
	n.say(n.paint(bold, "What git says"))
	n.fact("", "git", fmt.Sprintf("%s by git rev-list --all", amount(o.Git, "commit")))
	n.fact("", "history.db", amount(o.Rows, "row")+" in the table commits")
	style, word := green, "equal"
	if !o.holds() {
		style, word = red, "not equal"
	}
	n.fact(style, word, fmt.Sprintf("%d lost, %d doubled, %d unexpected; compared id by id", o.Lost, o.Doubled, o.Unexpected))
	for _, e := range o.Examples {
		n.fact("", "", e)
	}
}

func (n *narrator) ending(s *stage, o options) {
	r := s.report
	if r.Events > 0 {
		n.blank()
		n.say(n.paint(bold, "What the log says"))
		style := green
		if r.Verify != "ok" {
			style = red
		}
		n.fact(style, "verify "+r.Verify, fmt.Sprintf("%s folded anew, and compared with every view and every invariant", amount(r.Events, "event")))
		n.fact("", "stranded", fmt.Sprintf("%d; no run is open, and no wakeup is overdue, claimed or parked", r.Stranded))
		for _, run := range r.Runs {
			post := run.PostSync
			if run.Cause != "" {
				post += " (" + spaced(run.Cause) + ")"
			}
			n.fact("", "run "+run.Run[len(run.Run)-6:], fmt.Sprintf("%s, %s, %d of %s; post_sync %s, and its action %s",
				run.Mode, run.Status, run.Succeeded, amount(run.Units, "unit"), post, timesWord(run.Applied)))
		}
		for _, u := range r.Unresolved {
			n.fact(yellow, "unresolved", u+" waits for a person to say delivered or lost; Towline never sends it again by itself")
		}
	}
	n.blank()
	if len(r.Cases) > 0 {
		n.say(n.paint(bold, "The crashes"))
		for _, c := range r.Cases {
			what := strings.ReplaceAll(string(c.Outcome), "_", " ")
			took := length(time.Duration(c.RecoveredMS) * time.Millisecond)
			if what == "" {
				what, took = "not recovered", "-"
			}
			const longest = 18 // duplicate absorbed
			line := fmt.Sprintf("  %-5s %-3s %8s  ", c.Row, c.Window, took)
			padding := ""
			if rest := utf8.RuneCountInString(line) + longest + 2 + len(c.Title); rest <= n.width {
				padding = strings.Repeat(" ", longest-len(what)+2) + c.Title
			}
			n.line(line + n.paint(styleOf(c.Outcome), what) + padding)
		}
		n.blank()
	}
	if r.OK {
		n.say(n.paint(green, "All of it holds") + ", after " + amount(len(r.Cases), "kill") + ", in " + length(time.Duration(r.TookMS)*time.Millisecond) + ".")
	} else {
		n.say(n.paint(red, "It does not hold") + ":")
		for _, p := range r.Problems {
			n.say("- " + p)
		}
	}
	if o.keep != "" {
		n.blank()
		n.say("Look for yourself:")
		n.line(fmt.Sprintf("  sqlite3 %s 'SELECT count(*) FROM commits'", quoted(historyPath(s.dir))))
		n.line(fmt.Sprintf("  git -C %s rev-list --count --all", quoted(s.repo.path)))
		n.line(fmt.Sprintf("  sqlite3 %s 'SELECT position, time, stream, type, data FROM log'", quoted(storePath(s.dir))))
	}
}

func timesWord(n int) string {
	switch n {
	case 0:
		return "never ran"
	case 1:
		return "ran once"
	}
	return fmt.Sprintf("ran %d times", n)
}

func styleOf(o outcome) string {
	switch o {
	case recovered, absorbed:
		return green
	case lostByContract:
		return yellow
	}
	return red
}

// quoted is a word of a shell.
func quoted(path string) string {
	if strings.ContainsFunc(path, func(r rune) bool {
		return !strings.ContainsRune("/._-+,:@%", r) && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	}) {
		return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
	}
	return path
}

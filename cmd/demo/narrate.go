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
	"github.com/towline-dev/towline/provider/git"
)

// narrator speaks to a person. Sentences are short, every colour has its word, and a bar is drawn on a terminal only.
type narrator struct {
	out    io.Writer // of sentences; io.Discard with -json
	bar    io.Writer // nil: no terminal
	width  int
	colour bool
	long   bool // with the events

	drawn   bool         // a bar stands in the last line
	drawnAt time.Time    // or told
	run     events.RunID // whose progress was told last
	began   time.Time    // when the first of it was
	told    int          // quarters of it that were told without a terminal
}

const (
	narrowest = 40
	widest    = 110
	usual     = 80 // where there is no terminal to ask
)

func newNarrator(o options, stdout *printer, stderr io.Writer) *narrator {
	n := &narrator{out: stdout, long: o.long, width: usual}
	screen := stdout.to
	if o.json {
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
func (n *narrator) say(text string) { n.lead("", "", text) }

// lead prints a paragraph whose first words have a style. They stay in the first line, however narrow it is.
func (n *narrator) lead(style, first, rest string) {
	for i, l := range wrap(first+rest, n.width) {
		if i == 0 {
			l = n.paint(style, first) + strings.TrimPrefix(l, first)
		}
		n.line(l)
	}
}

// title prints the heading of a chapter.
func (n *narrator) title(text string) {
	for _, l := range wrap(text, n.width) {
		n.line(n.paint(bold, l))
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

func (n *narrator) opening(s *stage, o options, swept bool) {
	calendar := string(s.repo.layout.Calendar)
	n.lead(bold, "Towline demo", fmt.Sprintf(": the history of a git repository goes into one SQLite file, %s by %s. The process that does it is killed %d times with SIGKILL, each time at another point, and the next one goes on from the log.",
		calendar, calendar, len(crashes)))
	n.blank()
	n.fact("", "repository", fmt.Sprintf("%s: %s in %s", s.repo.path, amount(s.repo.commits, "commit"), amount(len(s.repo.periods), calendar)))
	for _, note := range s.repo.notes {
		n.fact("", "", note)
	}
	if o.keep == "" {
		n.fact("", "files", "in a temporary folder, removed in the end; -keep DIR keeps them")
	} else {
		n.fact("", "files", s.dir)
	}
	if swept {
		n.fact("", "", "What an earlier demo had left there is removed.")
	}
	seed := fmt.Sprintf("%d; -seed %d repeats its choices", o.seed, o.seed)
	if !n.long {
		seed += "; -v shows the events"
	}
	n.fact("", "seed", seed)
	n.fact("", "waits", fmt.Sprintf("retry backoff %s, dispatch.countdown %s; by default both are 60s", retryBackoff, countdown))
	tables := git.Commits
	if s.repo.layout.Changes {
		tables += " or " + git.Changes
	}
	n.fact("", "unit", fmt.Sprintf("one piece of a run: a %s of the table %s, or all refs, or all files; %d in the first run",
		calendar, tables, s.repo.layout.units(len(s.repo.periods))))
	n.fact("", "row", "of any table: a commit, a file that it changed, a ref, a file")
	n.fact("", "wakeup", "a message that the log says is owed; a relay publishes it")
	n.fact("", "post_sync", "the script after a run; here it counts commits")
	n.fact("", "W0, C-2", "crash window and crash row, as in docs/GUARANTEES.md")
	if !n.long {
		n.blank()
		return
	}
	n.fact("", "#9", "the 9th event of the log, with its fields as they stand there; *** is a secret")
	n.fact("", "Outbox…", "of a wakeup, n is its number: Armed, it is owed; Claimed, a relay has it; Dispatched, noted after it was published (publish_first), or before, so at most once (mark_first); Released, the claim is void; Outcome, what is known of the publish; Dropped, nothing is owed any more")
	n.fact("", "Unit…", "Dispatched, it has a slot and its message is due; Claimed, a worker has it until the lease ends")
	n.fact("", "cause", "why: capped, the slots were full; settled, a unit ended; redriven, published and still owed; incarnation_gone, the process is dead")
}

func (n *narrator) killed(i int, c *crash, r *caseReport, s *stage) {
	if n.long {
		n.blank()
	}
	if i > 0 && c.order(s).Plan != nil {
		n.say(fmt.Sprintf("A second run of %s, capped: it has %s for units at work", amount(s.log.tallies[s.log.run(1)].total, "unit"), amount(s.secondCap, "slot")))
	}
	head := fmt.Sprintf("%d/%d %s: %s", i+1, len(crashes), c.row, c.title)
	for j, l := range wrap(head, n.width) {
		if j > 0 {
			l = "    " + l
		}
		n.line(n.paint(bold, l))
	}
	n.fact(red, "killed", fmt.Sprintf("process %d at %s: %s", r.PID, c.window, c.where(s)))
	n.fact("", "log held", c.held(s))
	if n.long {
		n.events(r.left, s)
		n.found(r.autopsy)
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
	if !n.long {
		n.fact(style, name, fmt.Sprintf("in %s: %s", length(took), c.then(s)))
		return
	}
	n.fact(style, name, fmt.Sprintf("in %s by process %d: %s", length(took), s.child.pid(), c.then(s)))
	n.events(r.after, s)
	n.found(r.proof)
}

// found says what was seen beside the log.
func (n *narrator) found(text string) {
	if text != "" {
		n.fact("", "", text)
	}
}

// ended tells of a run that nobody has killed to its end.
func (n *narrator) ended(i int, s *stage) {
	if !n.long {
		return
	}
	run := s.log.run(i)
	t := s.log.tallies[run]
	_, end, _ := newest[events.RunFinalized](s.log.streams[events.RunStream(run)])
	name, what := "third run", fmt.Sprintf("as a schedule would start it: %s, what has changed and what is always read", amount(t.total, "unit"))
	if i == 1 {
		n.blank()
		n.title("The rest")
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
		if n.bar == nil {
			n.drawnAt = n.began
		}
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
	const soon = 5 * time.Second // that nobody minds to wait
	quarter := 0
	if t.total > 0 {
		quarter = t.ended * 4 / t.total
	}
	if now := time.Now(); quarter > n.told && now.Sub(n.drawnAt) > soon {
		n.told, n.drawnAt = quarter, now
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
	n.title("The unit that lost its worker (C-13): " + name)
	for _, l := range picture {
		n.line(l)
	}
	n.fact("", "fence", "the claim's position in the log; history.db refuses a lower one")
}

func (n *narrator) ending(s *stage, o options) {
	r := s.report
	if len(r.Cases) > 0 {
		n.blank()
		n.title("The crashes, and how long after the start of the next process it was over")
		n.table(r.Cases)
	}
	if r.Oracle.Git > 0 {
		n.blank()
		n.title("What git and the log say")
		n.oracle(r.Oracle)
	}
	if r.Events > 0 {
		n.log(r)
	}
	n.blank()
	took := length(time.Duration(r.TookMS) * time.Millisecond)
	if r.OK {
		n.lead(green, "All of it holds", fmt.Sprintf(" after %s, in %s: nothing lost, doubled or stranded.", amount(len(r.Cases), "kill"), took))
	} else {
		n.lead(red, "It does not hold", ":")
		for _, p := range r.Problems {
			n.say("- " + p)
		}
	}
	if o.keep != "" {
		n.blank()
		n.say("Look for yourself:")
		n.line("  cd " + quoted(s.dir))
		n.line("  cat " + markName)
		n.line("  sqlite3 history.db 'SELECT count(*) FROM commits'")
		n.line("  git -C " + quoted(s.repo.path) + " rev-list --count --all")
		n.line("  sqlite3 towline.db 'SELECT * FROM log LIMIT 20'")
		n.line("  sqlite3 -line towline.db 'SELECT * FROM runs_view'")
		n.line("  sqlite3 -line towline.db 'SELECT * FROM units_view WHERE attempt > 1'")
	}
}

// table has a line for each crash, and its title in a column of it, or below it where that is too narrow for one of
// them.
func (n *narrator) table(cases []caseReport) {
	const outcomes = 18 // the longest: duplicate absorbed
	const before = 2 + 5 + 1 + 3 + 1 + 8 + 2 + outcomes + 2
	below := false
	for i := range cases {
		below = below || before+utf8.RuneCountInString(crashes[i].short) > n.width
	}
	for i, c := range cases {
		what := strings.ReplaceAll(string(c.Outcome), "_", " ")
		took := length(time.Duration(c.RecoveredMS) * time.Millisecond)
		if what == "" {
			what, took = "not recovered", "-"
		}
		line := fmt.Sprintf("  %-5s %-3s %8s  ", c.Row, c.Window, took) + n.paint(styleOf(c.Outcome), what)
		if !below {
			n.line(line + strings.Repeat(" ", outcomes+2-len(what)) + crashes[i].short)
			continue
		}
		n.line(line)
		n.line("      " + crashes[i].short)
	}
}

func (n *narrator) oracle(o oracle) {
	n.fact("", "git", fmt.Sprintf("%s by git rev-list --all, %s in the table commits", amount(o.Git, "commit"), amount(o.Rows, "row")))
	style, word := green, "equal"
	if !o.holds() {
		style, word = red, "not equal"
	}
	n.fact(style, word, fmt.Sprintf("%d lost, %d doubled, %d unexpected; compared id by id", o.Lost, o.Doubled, o.Unexpected))
	for _, e := range o.Examples {
		n.fact("", "", e)
	}
}

func (n *narrator) log(r *report) {
	style := green
	if r.Verify != "ok" {
		style = red
	}
	n.fact(style, "verify "+r.Verify, fmt.Sprintf("%s folded anew, and compared with every view and rule", amount(r.Events, "event")))
	n.fact("", "stranded", fmt.Sprintf("%d: open runs, and wakeups overdue, claimed or parked", r.Stranded))
	succeeded, once := 0, 0
	for _, run := range r.Runs {
		if run.Status == string(events.RunSucceeded) {
			succeeded++
		}
		if run.Applied == 1 {
			once++
		}
		if !n.long {
			continue
		}
		post := run.PostSync
		if run.Cause != "" {
			post += " (" + spaced(run.Cause) + ")"
		}
		n.fact("", "run "+run.Run[len(run.Run)-6:], fmt.Sprintf("%s, %s, %d of %s; post_sync %s, and its script %s",
			run.Mode, run.Status, run.Succeeded, amount(run.Units, "unit"), post, timesWord(run.Applied)))
	}
	if !n.long {
		n.fact("", "runs", fmt.Sprintf("%d of %d succeeded; post_sync ran once for %d of them", succeeded, len(r.Runs), once))
	}
	for _, u := range r.Unresolved {
		n.fact(yellow, "unresolved", u+": never sent again by itself; a person decides")
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

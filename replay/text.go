package replay

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/projections"
)

// TextOptions say how a history is written.
type TextOptions struct {
	Width int             // columns of a line; zero: 100. A word that is longer stays whole
	Keep  func(Step) bool // nil: every step
	// Renewals writes each renewal of a lease. False: several in a row become one line.
	Renewals bool
	// Behind is called behind each event that was written, when all of it has reached w. Its error ends the text, and is
	// returned as it is. nil: nobody waits.
	Behind func(Step) error
}

const (
	usualWidth = 100
	leastWidth = 40
)

// Text writes a history as lines for people: each transaction with its events, the deaths of processes between them, and
// what the run was at the end. An event has its position, what it happened to, and how that went from one state to the
// next; below, the event as the log has it, and what else it changed. Times count from the plan.
//
// The same log gives the same text, and no secret is in it (E-4).
func Text(ctx context.Context, w io.Writer, h *History, o TextOptions) error {
	buffered := bufio.NewWriter(w)
	p := &printer{words: words{h: h}, w: buffered, width: max(cmp.Or(o.Width, usualWidth), leastWidth), digits: len(h.Position.String())}
	p.head()
	steps := h.Steps(ctx)
	var last Step
	if o.Keep != nil {
		steps = Keep(steps, o.Keep)
	}
	for s, err := range steps {
		if err != nil {
			return fmt.Errorf("replay run %s: %w", h.Run, err)
		}
		if last = s; !o.Renewals && p.hold(s) {
			continue
		}
		p.step(s)
		if o.Behind == nil {
			continue
		}
		if err := buffered.Flush(); err != nil {
			return err
		}
		if err := o.Behind(s); err != nil {
			return err
		}
	}
	p.release()
	run, err := h.Outcome(ctx)
	if err != nil {
		return fmt.Errorf("replay run %s: %w", h.Run, err)
	}
	if !over(run) {
		restarts, err := h.RestartsAfter(ctx, last)
		if err != nil {
			return fmt.Errorf("replay run %s: %w", h.Run, err)
		}
		p.restarts(restarts)
	}
	p.tail(run)
	return buffered.Flush()
}

// over reports a run of which nothing more is to come: it has ended, and so has what follows it.
func over(run projections.SyncRun) bool {
	done := 0
	for _, post := range run.PostSync.Posts {
		if post.Status != decider.PostStarted {
			done++
		}
	}
	return run.Status.Terminal() && (!run.PostSync.Owed || done >= len(run.Policy.Targets))
}

// printer is where a text stands. Errors of w stay with w.
type printer struct {
	words
	w             *bufio.Writer
	width, digits int
	tx            events.Position
	node          events.NodeID
	held          []Step // renewals in a row
}

func (p *printer) line(s string) { fmt.Fprintln(p.w, strings.TrimRight(s, " ")) }

func (p *printer) head() {
	p.paragraph(0, fmt.Sprintf("run %s: %s, %s, %s", p.h.Run, word(p.h.Sync), p.h.Mode, amount(p.h.Units, "unit")))
	p.paragraph(0, fmt.Sprintf("planned at %s, from which all times count", p.h.PlannedAt))
	p.paragraph(0, "by "+named(p.h.Planner))
}

func (p *printer) tail(run projections.SyncRun) {
	p.line("")
	p.paragraph(0, p.outcome(run))
	p.paragraph(0, fmt.Sprintf("as of %d, %s", p.h.Position, p.since(p.h.At)))
}

// outcome is the end of a run in words, as a text has it.
func (w *words) outcome(run projections.SyncRun) string {
	what := fmt.Sprintf("run is %s", run.Status)
	if !run.CompletedAt.IsZero() {
		what = fmt.Sprintf("run ended %s: %s", w.since(events.MicrosOf(run.CompletedAt)), run.Status)
	}
	return fmt.Sprintf("%s, %d of %s succeeded, %d failed, %d cancelled", what, run.Succeeded, amount(run.Total, "unit"), run.Failed, run.Cancelled)
}

// hold keeps a renewal back until it is known how many there are in a row.
func (p *printer) hold(s Step) bool {
	if _, ok := s.Event.Event.(events.UnitLeaseRenewed); ok && (len(s.Restarts) == 0 || len(p.held) == 0) {
		p.held = append(p.held, s)
		return true
	}
	p.release()
	return false
}

// fewRenewals are written out.
const fewRenewals = 2

func (p *printer) release() {
	held := p.held
	p.held = nil
	if len(held) <= fewRenewals {
		for _, s := range held {
			p.step(s)
		}
		return
	}
	first, last := held[0], held[len(held)-1]
	p.restarts(first.Restarts)
	p.line("")
	p.line(fmt.Sprintf("%s to %s", p.since(first.Event.At), p.since(last.Event.At)))
	p.paragraph(0, fmt.Sprintf("  %d to %d  %s: %s", first.Event.Position, last.Event.Position, amount(len(held), "lease renewal"), renewed(held)))
	p.tx, p.node = 0, last.Event.Node
}

// renewed counts the renewals of each unit, in the order of the first.
func renewed(held []Step) string {
	counts := map[string]int{}
	var names []string
	for _, s := range held {
		if counts[s.Subject.Name]++; counts[s.Subject.Name] == 1 {
			names = append(names, s.Subject.Name)
		}
	}
	for i, name := range names {
		names[i] = fmt.Sprintf("%s (%d)", name, counts[name])
	}
	return strings.Join(names, ", ")
}

func (p *printer) step(s Step) {
	if s.Subject.Ordinal > 0 {
		p.remember(s.Subject)
	}
	p.restarts(s.Restarts)
	if s.Event.Tx != p.tx {
		p.transaction(s)
	}
	head := fmt.Sprintf("  %*d  %s", p.digits, s.Event.Position, s.Subject)
	own, others := p.split(s)
	if state := p.state(own); state != "" {
		head += ": " + state
	}
	p.paragraph(0, head)
	below := 2 + p.digits + 2
	p.paragraph(below, events.Describe(s.Event.Event))
	if len(s.Because) > 0 {
		p.paragraph(below, because(s.Because))
	}
	for _, c := range append(own, others...) {
		if text := p.change(s, c); text != "" {
			p.paragraph(below, text)
		}
	}
}

// transaction is the head of the events that were decided together.
func (p *printer) transaction(s Step) {
	p.tx = s.Event.Tx
	head := p.since(s.Event.At) + "  " + s.Event.Command
	if s.Event.Actor != "" {
		head += ", for " + word(s.Event.Actor)
	}
	if !s.Opener.IsZero() {
		head += ", in the transaction of " + s.Opener.String()
	}
	if n := s.Event.Node; n != p.node && !p.node.IsZero() && len(s.Restarts) == 0 {
		head += ", by process " + n.Short()
	}
	p.node = s.Event.Node
	p.line("")
	p.paragraph(0, head)
}

func because(links []Link) string {
	parts := make([]string, len(links))
	for i, l := range links {
		parts[i] = l.String()
	}
	return "because of " + strings.Join(parts, ", because of ")
}

func (p *printer) restarts(list []Restart) {
	for _, r := range list {
		p.line("")
		for _, l := range p.ended(r) {
			p.paragraph(0, "---- "+l)
		}
	}
}

// ended says what became of a process, and who came next.
func (w *words) ended(r Restart) []string {
	next := named(r.To)
	if r.How == Joined {
		return []string{next + " of the shared store takes part"}
	}
	end := fmt.Sprintf("process %s died", r.From.Node)
	switch {
	case r.How == Died && r.Last.Position > 0:
		end += fmt.Sprintf(", its last sign of life is %d, %s", r.Last.Position, w.since(r.Last.At))
	case r.How == Stopped:
		end = fmt.Sprintf("process %s stopped, %s", r.From.Node, w.since(r.Last.At))
		if r.Reason != "" {
			end += " (" + word(r.Reason) + ")"
		}
	}
	return []string{end, fmt.Sprintf("%s started %s later, %s", next, length(r.Gap()), w.since(r.To.Started.At))}
}

// named is a process, as its operating system knew it.
func named(p Process) string {
	name := "process " + p.Node.String()
	var at []string
	if p.PID != 0 {
		at = append(at, fmt.Sprintf("pid %d", p.PID))
	}
	if p.Host != "" {
		at = append(at, "host "+word(p.Host))
	}
	if len(at) > 0 {
		name += " (" + strings.Join(at, ", ") + ")"
	}
	return name
}

// paragraph writes a text so far in, broken between words. What does not fit goes further in.
func (p *printer) paragraph(in int, text string) {
	const hang = 4
	lead := text[:len(text)-len(strings.TrimLeft(text, " "))]
	line := strings.Repeat(" ", in) + lead
	begun := false
	for _, word := range strings.Split(text[len(lead):], " ") {
		if begun && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > p.width {
			p.line(line)
			line, begun = strings.Repeat(" ", in+hang), false
		}
		if begun {
			line += " "
		}
		line, begun = line+word, true
	}
	p.line(line)
}

// length is a span, to the millisecond where it is long.
func length(s events.Span) string {
	d := s.Std()
	if d >= time.Second {
		d = d.Round(time.Millisecond)
	}
	return d.String()
}

func amount(n int, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}

package replay

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/projections"
)

// fold is several steps in a row that are told as one: their numbers, and what the rows of the page are behind them, so that
// whoever stops later sees every row as it was.
type fold struct {
	first, last Step
	n           int
	held        []Step // as long as all are renewals, and few
	renewals    counts // by unit
	routine     counts // by register
	others      counts // by type
	units       map[int]bool
	keys        counts
	rows        []foldedRow
	byID        map[string]int
	shift       tally
}

// counts are names and how often each came, in the order of the first.
type counts struct {
	names []string
	of    map[string]int
}

func (c *counts) add(name string) {
	if c.of == nil {
		c.of = map[string]int{}
	}
	if c.of[name]++; c.of[name] == 1 {
		c.names = append(c.names, name)
	}
}

func (c *counts) sum() (n int) {
	for v := range maps.Values(c.of) {
		n += v
	}
	return n
}

// maxNames bounds a list of names in a line.
const maxNames = 6

func (c *counts) String() string {
	var parts []string
	for _, name := range c.names[:min(len(c.names), maxNames)] {
		parts = append(parts, fmt.Sprintf("%s (%d)", name, c.of[name]))
	}
	if n := len(c.names) - maxNames; n > 0 {
		parts = append(parts, fmt.Sprintf("and %d more", n))
	}
	return strings.Join(parts, ", ")
}

// foldedRow is a row, and the step that wrote it first.
type foldedRow struct {
	step Step
	projections.Change
}

// hold takes a step that is not told by itself.
func (p *page) hold(s Step) bool {
	_, renewal := s.Event.Event.(events.UnitLeaseRenewed)
	folded := p.seen.folded(s)
	if !folded && (!renewal || p.o.Renewals) {
		return false
	}
	if p.fold == nil {
		p.fold = &fold{first: s, units: map[int]bool{}, byID: map[string]int{}}
	}
	f := p.fold
	f.last = s
	f.n++
	if !folded && len(f.held) == f.n-1 && f.n <= fewRenewals {
		f.held = append(f.held, s)
	}
	p.anchors[s.Event.Position] = f.first.Event.Position
	switch {
	case s.Subject.Ordinal == 0:
		f.routine.add(s.Subject.Name)
		f.keys.add(keyName(s.Subject))
	case folded:
		f.units[s.Subject.Ordinal] = true
		f.others.add(s.Event.Event.EventType().String())
	default:
		f.renewals.add(p.label(s.Subject))
		f.keys.add(keyName(s.Subject))
	}
	own, _ := p.split(s)
	was, is := p.went(own)
	f.shift.join(shiftOf(s, was, is))
	for _, c := range s.Changes {
		if folded && s.Subject.Ordinal > 0 && !p.isTold(c) {
			continue
		}
		f.merge(s, c)
	}
	return true
}

func (t *tally) join(o tally) {
	for i, n := range o {
		t[i] += n
	}
}

// isTold reports a row that a unit without a lane may write, and which the page has all the same.
func (p *page) isTold(c projections.Change) bool {
	_, known := p.rows[rowID(c)]
	return known || c.Table == "runs" || c.Table == "jobs" || c.Table == "outbox"
}

// merge makes one change of several: from what a row was at first to what it is at last.
func (f *fold) merge(s Step, c projections.Change) {
	id := rowID(c)
	i, ok := f.byID[id]
	if !ok {
		f.byID[id] = len(f.rows)
		c.Columns = slices.Clone(c.Columns)
		f.rows = append(f.rows, foldedRow{s, c})
		return
	}
	r := &f.rows[i]
	if r.Op != projections.RowNew || c.Op == projections.RowGone {
		r.Op = c.Op
	}
	for _, column := range c.Columns {
		j := slices.IndexFunc(r.Columns, func(x projections.ColumnChange) bool { return x.Name == column.Name })
		if j < 0 {
			r.Columns = append(r.Columns, column)
			continue
		}
		r.Columns[j].After = column.After
	}
}

// release writes what was held back.
func (p *page) release() {
	f := p.fold
	p.fold = nil
	if f == nil {
		return
	}
	if len(f.held) == f.n {
		for _, s := range f.held {
			p.tell(s)
		}
		return
	}
	p.leave()
	first, last := f.first.Event, f.last.Event
	p.node = last.Node
	t := toldStep{
		ID: int64(first.Position), To: int64(last.Position), X: p.seen.scale.x(last.At), Keys: strings.Join(f.keys.names, " "),
		Since: p.since(first.At), Until: p.since(last.At), Shift: f.shift.attribute(),
	}
	if n := f.renewals.sum(); n > 0 {
		t.Parts = append(t.Parts, fmt.Sprintf("%s: %s", amount(n, "lease renewal"), &f.renewals))
	}
	if n := f.others.sum(); n > 0 {
		t.Parts = append(t.Parts, fmt.Sprintf("%s of %s without a lane: %s", amount(n, "event"), amount(len(f.units), "unit"), &f.others))
	}
	if n := f.routine.sum(); n > 0 {
		t.Parts = append(t.Parts, fmt.Sprintf("%s of routine: %s", amount(n, "event"), &f.routine))
	}
	slices.SortStableFunc(f.rows, func(a, b foldedRow) int { return cmp.Compare(a.Table, b.Table) })
	for _, r := range f.rows {
		row := p.changed(r.step, r.Change, r.Op)
		row.Own = false
		t.Rows = append(t.Rows, row)
	}
	p.writeFold(t)
}

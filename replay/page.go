package replay

import (
	"bufio"
	"crypto/sha256"
	_ "embed" // of the files of a page
	"encoding/base64"
	"fmt"
	"strings"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/projections"
)

// The parts of a page. They stand in it as they are, and its policy names them by their hashes.
var (
	//go:embed page/page.css
	pageStyle string
	//go:embed page/page.js
	pageScript string

	pagePolicy = fmt.Sprintf("default-src 'none'; style-src %s; script-src %s; base-uri 'none'; form-action 'none'", hashOf(pageStyle), hashOf(pageScript))
)

func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// page is where an HTML stands. The first error stays.
type page struct {
	words
	w    *bufio.Writer
	o    HTMLOptions
	seen *survey
	err  error

	open    events.Position // the transaction that is being told; 0: none
	node    events.NodeID
	tx      events.Position                     // of the newest step
	anchors map[events.Position]events.Position // where each of its events is told
	rows    map[string]int                      // numbers of the rows that were told
	fold    *fold                               // nil: nothing is held back
}

func (p *page) put(piece markup, values ...any) {
	if p.err == nil {
		p.err = put(p.w, piece, values...)
	}
}

// head is all before the first step.
func (p *page) head(run projections.SyncRun) {
	h := p.h
	p.writeHead(heading{
		Run: h.Run.String(), Job: h.Job.String(), Sync: printable(h.Sync), Mode: string(h.Mode), Units: amount(h.Units, "unit"),
		Planned: h.PlannedAt.String(), Planner: named(h.Planner),
		Class: classOf(string(run.Status)), Status: spaced(run.Status), Outcome: p.outcome(run),
		Position: int64(h.Position), At: h.At.String(), Since: p.since(h.At),
		Steps: amount(p.seen.steps, "event"), Facts: p.seen.facts(), Story: p.seen.story(),
		Picture: p.seen.draw(), Subjects: p.seen.subjects(),
	})
}

// subject is a choice of the filter.
type subject struct{ Key, Label string }

func (v *survey) subjects() (out []subject) {
	for _, l := range v.units {
		if v.told[l.Ordinal] {
			out = append(out, subject{keyName(l.Subject), l.label})
		}
	}
	for _, l := range v.registers {
		out = append(out, subject{keyName(l.Subject), l.Name})
	}
	return out
}

// linked is a word that leads to another step. One that is not on the page leads nowhere.
type linked struct{ Text, Href string }

func (p *page) link(l Link) linked {
	if at, ok := p.anchors[l.Position]; ok {
		return linked{printable(l.String()), anchor(at)}
	}
	return linked{Text: printable(l.String())}
}

// toldStep is a step on the page, or several that are folded.
type toldStep struct {
	ID, To       int64
	X            int
	Keys         string
	Subject      string
	Since, Until string
	Was, Is      string
	WasC, IsC    string
	Type, Fields string
	Because      []linked
	Parts        []string // of a fold
	Rows         []toldRow
	Shift        string
}

type toldRow struct {
	N       int
	Table   string // where the row is told first, and so is Owner
	Owner   string // key of the subject
	Name    string
	Op      string
	Shared  bool
	Own     bool // of the subject, which is named above
	Columns []toldColumn
}

// Long reports a new row, which repeats what its event says.
func (r toldRow) Long() bool { return r.Op == string(projections.RowNew) && len(r.Columns) > 3 }

// toldColumn is a column. Above is the state of the subject, which stands above.
type toldColumn struct {
	Name, Was, Is         string
	WasNone, IsNot, Above bool
}

func (p *page) step(s Step) {
	if s.Subject.Ordinal > 0 {
		p.remember(s.Subject)
	}
	if len(s.Restarts) > 0 {
		p.release()
		p.deaths(s.Restarts, s.Event.Position)
	}
	if s.Event.Tx != p.tx {
		p.tx, p.anchors = s.Event.Tx, map[events.Position]events.Position{}
	}
	if p.hold(s) {
		return
	}
	p.release()
	p.tell(s)
}

// tell writes a step by itself.
func (p *page) tell(s Step) {
	p.enter(s)
	env := s.Event
	p.anchors[env.Position] = env.Position
	t := toldStep{
		ID: int64(env.Position), X: p.seen.scale.x(env.At), Keys: keyName(s.Subject), Subject: p.label(s.Subject), Since: p.since(env.At),
	}
	t.Type, t.Fields, _ = strings.Cut(events.Describe(env.Event), " ")
	for _, l := range s.Because {
		t.Because = append(t.Because, p.link(l))
	}
	own, others := p.split(s)
	t.Was, t.Is = p.went(own)
	t.WasC, t.IsC = classOf(t.Was), classOf(t.Is)
	t.Shift = shiftOf(s, t.Was, t.Is).attribute()
	for _, c := range append(own, others...) {
		t.Rows = append(t.Rows, p.changed(s, c, c.Op))
	}
	p.writeStep(t)
}

func (p *page) label(s Subject) string {
	if l := p.seen.byStream[s.Stream]; l != nil {
		return l.label
	}
	return printable(s.Name)
}

// shiftOf is what a step changes in the sum of all units.
func shiftOf(s Step, was, is string) (t tally) {
	if s.Subject.Ordinal > 0 && was != is {
		t.add(was, -1)
		t.add(is, 1)
	}
	return t
}

// attribute is a tally for the script of a page; "": nothing has changed.
func (t tally) attribute() string {
	if t == (tally{}) {
		return ""
	}
	return strings.Trim(fmt.Sprint([len(t)]int(t)), "[]")
}

// changed is a row of a step.
func (p *page) changed(s Step, c projections.Change, op projections.ChangeOp) toldRow {
	r := toldRow{Name: p.row(s, c), Op: string(op), Shared: c.Shared}
	if r.Name == "" {
		r.Name, r.Own = p.label(s.Subject), true
	}
	id := rowID(c)
	n, known := p.rows[id]
	if !known {
		n = len(p.rows) + 1
		p.rows[id] = n
		r.Table, r.Owner = c.Table, keyName(s.Subject)
		if c.Table == "runs" {
			r.Owner = "run"
		}
	}
	r.N = n
	for _, column := range c.Columns {
		r.Columns = append(r.Columns, toldColumn{
			Name: column.Name, Was: p.value(column.Name, column.Before), Is: p.value(column.Name, column.After),
			WasNone: column.Before == nil, IsNot: column.After == nil, Above: r.Own && column.Name == status,
		})
	}
	return r
}

// rowID tells rows apart.
func rowID(c projections.Change) string { return fmt.Sprintf("%s %q", c.Table, c.Key) }

// transaction is the head of the events that were decided together.
type transaction struct {
	Since, Command, Actor, By string
	Opener                    linked
}

// enter begins the transaction of a step, if it is not the one that is being told.
func (p *page) enter(s Step) {
	if p.open == s.Event.Tx {
		return
	}
	p.leave()
	p.open = s.Event.Tx
	t := transaction{Since: p.since(s.Event.At), Command: s.Event.Command, Actor: printable(s.Event.Actor)}
	if !s.Opener.IsZero() {
		t.Opener = p.link(s.Opener)
	}
	if n := s.Event.Node; n != p.node && !p.node.IsZero() && len(s.Restarts) == 0 {
		t.By = n.Short()
	}
	p.node = s.Event.Node
	p.writeTransaction(t)
}

func (p *page) leave() {
	if p.open > 0 {
		p.put("</ol></li>\n")
	}
	p.open = 0
}

// deaths are told between steps; before is 0 behind the last.
func (p *page) deaths(list []Restart, before events.Position) {
	p.leave()
	for i, r := range list {
		id := deathAnchor(before)[1:]
		if i > 0 {
			id = ""
		}
		p.writeDeath(id, r.How, p.ended(r))
		p.node = r.To.Node
	}
}

// tail is all behind the last step.
func (p *page) tail(run projections.SyncRun) {
	p.release()
	p.leave()
	for _, d := range p.seen.deaths {
		if d.before == 0 {
			p.deaths([]Restart{d.Restart}, 0)
		}
	}
	p.writeTail(p.outcome(run), int64(p.h.Position), p.since(p.h.At))
}

package replay

import (
	"fmt"
	"slices"

	"github.com/towline-dev/towline/events"
)

// toldUnits are by ordinal where all are told, else the most telling first.
func (v *survey) toldUnits() []*lane {
	list := v.units
	if len(v.told) < len(v.units) {
		list = v.ranked()
	}
	return slices.DeleteFunc(slices.Clone(list), func(l *lane) bool { return !v.told[l.Ordinal] })
}

func (v *survey) drawLane(l *lane, y int, used map[string]bool) drawnLane {
	d := &laneDrawing{drawnLane: drawnLane{Y: y, TextY: y + 15, H: laneHeight}, v: v, l: l, used: used}
	if l.worst > cutOff {
		d.Class = "odd"
	}
	linked := l.Ordinal > 0 || l.Stream.Family() == events.FamilyRun
	for _, s := range l.spans {
		if isEnd(s.state) || s.state == "idle" {
			continue
		}
		href := ""
		if s.position > 0 && (linked || !v.foldRegisters) {
			href = anchor(s.position)
		}
		d.span(s, href)
	}
	for _, m := range l.marks[:min(len(l.marks), maxMarks)] {
		d.Marks = append(d.Marks, drawn{
			X: v.scale.x(m.at), Y: y + laneHeight/2, Class: string(m.sign), Href: anchor(m.position),
			Title: l.label + " " + m.text + ", " + v.since(m.at),
		})
	}
	if len(l.spans) > 0 && l.spans[0].position > 0 && linked {
		d.Href = anchor(l.spans[0].position)
	}
	return d.drawnLane
}

// laneDrawing is a lane of which the columns up to covered are drawn.
type laneDrawing struct {
	drawnLane
	v       *survey
	l       *lane
	covered int
	used    map[string]bool // states, for the legend
}

// span draws a time in a state, in two parts if its process was gone before it ended.
func (d *laneDrawing) span(s span, href string) {
	if s.lost == 0 || s.lost > s.to {
		d.bar(s.state, s.note, s.from, s.to, href)
		return
	}
	d.bar(s.state, s.note, s.from, s.lost, href)
	d.bar("lost", "its process is gone", s.lost, s.to, href)
}

func (d *laneDrawing) bar(state, note string, from, to events.Micros, href string) {
	x0, x1 := d.v.scale.x(from), d.v.scale.x(to)
	if from == to && state != "claimed" || x0 < d.covered && x1 <= d.covered {
		return // no time, or no column of its own; a claim is work, however short
	}
	least := leastBar
	if d.l.Ordinal == 0 {
		least = leastWork
	}
	x0 = max(x0, d.covered)
	x1 = max(x1, x0+least)
	d.covered = x1
	d.used[classOf(state)] = true
	what := spaced(state)
	switch {
	case state == alive:
		what = note
	case note != "":
		what += ", " + note
	}
	h := barHeight(state, d.l)
	b := drawn{X: x0, W: x1 - x0, H: h, Y: d.Y + (laneHeight-h)/2, Class: classOf(state), Href: href}
	b.Title = fmt.Sprintf("%s: %s, %s to %s, %s", d.l.label, what, d.v.since(from), d.v.since(to), length(events.Span(to-from)))
	b.TextX = x0 + barPad
	if slices.ContainsFunc(d.l.marks, func(m mark) bool { return m.at == from }) {
		b.TextX += markHalf
	}
	for _, text := range []string{what, spaced(state)} {
		if h == fullBar && b.TextX+len([]rune(text))*barText+barPad <= x1 {
			b.Text = text
			break
		}
	}
	d.Bars = append(d.Bars, b)
}

// maxMarks bounds the marks of a lane.
const maxMarks = 200

const fullBar = 15

// barHeight is the second sign of a state, beside its colour: what is at work is high, what waits is low.
func barHeight(state string, l *lane) int {
	switch {
	case state == "planned":
		return 3
	case state == "retrying", state == "pending", state == "dispatching" && l.Ordinal > 0:
		return 9
	}
	return fullBar
}

func anchor(p events.Position) string { return fmt.Sprintf("#p%d", p) }

// processLane tells who was there; nil where processes share the store, or there was only one.
func (v *survey) processLane() *lane {
	if v.shared || len(v.processes) < 2 {
		return nil
	}
	l := &lane{label: "process"}
	for _, p := range v.processes {
		s := span{state: alive, from: max(p.Started.At, v.from), to: v.to, note: briefly(p.Process)}
		if p.how != "" {
			s.to = p.until.At
		}
		if s.to >= s.from {
			l.spans = append(l.spans, s)
		}
	}
	return l
}

package replay

import (
	"fmt"
	"slices"
	"strings"

	"github.com/towline-dev/towline/events"
)

// picture is the drawing of a survey: whole numbers in a field of pictureWidth.
type picture struct {
	Width, Height, Left, Right, Top, Bottom, Axis2 int

	About  string
	Ticks  []drawn
	Cuts   []drawn
	Ends   []drawn // of processes
	Labels []drawn // of those
	Lanes  []drawnLane
	Area   []drawn
	AreaY  drawn
	Rest   string // what has no lane
	Legend []string
}

// drawn is a form: not every field has a meaning for each.
type drawn struct {
	X, Y, W, H               int
	TextX                    int
	Class, Href, Title, Text string
	Path                     string
}

type drawnLane struct {
	Y, TextY, H              int
	Key, Label, Title, Class string
	Href                     string
	Bars, Marks              []drawn
}

const (
	pictureWidth = 1200
	plotFrom     = 252
	plotTo       = 1180
	laneHeight   = 22
	laneFirst    = 52
	areaHeight   = 64
	labelRunes   = 36
	leastBar     = 2 // columns
	leastWork    = 4 // of a register, which has many
	barText      = 6 // columns of a letter in a bar
	barPad       = 4
	markHalf     = 8
	areaCell     = 4  // columns
	manyLanes    = 12 // below these the times stand again
	areaUnits    = 12 // of more units the picture has their sum
)

// draw makes the picture. The lanes of units that were not as planned come first, if there is no room for all.
func (v *survey) draw() picture {
	p := picture{Width: pictureWidth, Left: plotFrom, Right: plotTo, Top: laneFirst}
	y := laneFirst
	used := map[string]bool{}
	lane := func(l *lane, key, label string) {
		d := v.drawLane(l, y, used)
		d.Key, d.Title, d.Label = key, label, shortened(label, labelRunes)
		p.Lanes = append(p.Lanes, d)
		y += laneHeight
	}
	if v.run != nil {
		lane(v.run, "run", "run")
	}
	if l := v.processLane(); l != nil {
		lane(l, "", "process")
	}
	if v.h.Units > areaUnits {
		p.AreaY = drawn{X: plotFrom, W: plotTo - plotFrom, Y: y + 4, H: areaHeight - 8, Text: fmt.Sprintf("all %d units", v.h.Units)}
		p.Area = v.area(y+4, areaHeight-8, used)
		y += areaHeight
	}
	for _, l := range v.toldUnits() {
		lane(l, keyName(l.Subject), l.label)
	}
	for _, l := range v.registers {
		lane(l, keyName(l.Subject), l.Name)
	}
	p.Bottom = y
	p.Height = y + 6
	v.drawAxis(&p)
	v.drawEnds(&p)
	for _, state := range drawnStates {
		if used[state] {
			p.Legend = append(p.Legend, state)
		}
	}
	p.Rest, p.About = v.rest(), v.about()
	return p
}

func (v *survey) drawAxis(p *picture) {
	for _, t := range v.scale.ticks(v.h.PlannedAt) {
		d := drawn{X: t.x, Text: v.since(t.at), Class: "middle"}
		switch {
		case t.x < plotFrom+20:
			d.Class = "start"
		case t.x > plotTo-30:
			d.Class = "end"
		}
		p.Ticks = append(p.Ticks, d)
	}
	if len(p.Lanes) > manyLanes {
		p.Axis2 = p.Bottom + 14
		p.Height = p.Bottom + 20
	}
	for _, c := range v.scale.pieces {
		if c.cut {
			p.Cuts = append(p.Cuts, drawn{
				X: c.x0, W: c.x1 - c.x0, H: p.Bottom - laneFirst, Y: laneFirst, Text: length(events.Span(c.to - c.from)),
				Title: fmt.Sprintf("%s to %s, drawn short: nothing happened to the run in these %s, but for lease renewals",
					v.since(c.from), v.since(c.to), length(events.Span(c.to-c.from))),
			})
		}
	}
}

// drawnStates are those that have a form of their own, in the order of the legend.
var drawnStates = []string{
	"planned", "pending", "dispatching", "claimed", "running", "retrying", "marked", "parked", "unresolved",
	"succeeded", "failed", "cancelled", "lost", alive,
}

// alive is the one state of a process.
const alive = "process alive"

// classOf is the style of a state.
func classOf(state string) string {
	if state == "partial_failed" {
		return "failed"
	}
	if slices.Contains(drawnStates, state) {
		return state
	}
	return "other"
}

// keyName is what the filter of a page calls a subject.
func keyName(s Subject) string {
	if s.Ordinal > 0 {
		return fmt.Sprintf("u%d", s.Ordinal)
	}
	return s.Name
}

// briefly is a process by what an operator knows of it; its whole id is in the event that tells its end.
func briefly(p Process) string {
	if p.PID != 0 {
		return fmt.Sprintf("pid %d", p.PID)
	}
	return "process " + p.Node.Short()
}

func (v *survey) drawEnds(p *picture) {
	for _, e := range v.deaths {
		last := e.Last.At
		if e.Last.Position == 0 {
			last = e.To.Started.At
		}
		x0, x1 := v.scale.x(max(last, v.from)), v.scale.x(e.To.Started.At)
		d := drawn{X: x0, W: max(x1-x0, 1), Y: laneFirst, H: p.Bottom - laneFirst, Class: string(e.How), Href: deathAnchor(e.before)}
		d.Title = strings.Join(v.ended(e.Restart), "; ")
		p.Ends = append(p.Ends, d)
		label := drawn{X: min(max(x0, plotFrom+24), plotTo-24), Class: d.Class, Href: d.Href, Title: d.Title, Text: endName(e.How)}
		if n := len(p.Labels); n > 0 && label.X-p.Labels[n-1].X < tickRoom {
			p.Labels[n-1].join(label)
			continue
		}
		p.Labels = append(p.Labels, label)
	}
}

// join makes one label of two that have no room beside each other. W counts them.
func (d *drawn) join(o drawn) {
	d.W++
	d.Text = fmt.Sprintf("× %d %s", d.W+1, d.Class)
	if d.Class != o.Class {
		d.Class = string(Died)
		d.Text = fmt.Sprintf("× %d ended", d.W+1)
	}
	d.Title += "; " + o.Title
}

func endName(c Change) string {
	if c == Died {
		return "× died"
	}
	return string(c)
}

// deathAnchor is where a death is told: before a step, or at the end.
func deathAnchor(before events.Position) string { return fmt.Sprintf("#d%d", before) }

// about is the picture in words.
func (v *survey) about() string {
	text := fmt.Sprintf("The states of the run, of %s and of %s, %s after the plan.",
		amount(len(v.told), "unit"), amount(len(v.registers), "register"), length(v.to.Sub(v.h.PlannedAt)))
	for _, e := range v.deaths {
		text += " " + strings.Join(v.ended(e.Restart), "; ") + "."
	}
	return text
}

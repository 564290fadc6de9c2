package main

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/towline-dev/towline/events"
)

// span is a time that a unit has spent in one lane of its picture. One that ends when it begins is a moment.
type span struct {
	lane     string
	from, to time.Time
	note     string
	lost     bool // its end is a death
}

// timeline is the picture of the unit whose worker was killed; nil if there was none.
func (s *stage) timeline(width int) (picture []string, name string) {
	if s.victimUnit.IsZero() {
		return nil, ""
	}
	spans := spansOf(s.log.streams[events.UnitStream(s.victimUnit)], s.kills)
	return drawTimeline(spans, width), s.alias(s.victimUnit)
}

// spansOf reads the history of a unit. kills are when processes died, which is the one thing that no dead process
// could have written into the log.
func spansOf(history trail, kills []time.Time) []span {
	var out []span
	next := func(lane, note string, at events.Micros) {
		if n := len(out); n > 0 && out[n-1].to.IsZero() {
			out[n-1].to = at.Time()
		}
		out = append(out, span{lane: lane, from: at.Time(), note: note})
	}
	moment := func(lane, note string, at events.Micros) {
		next(lane, note, at)
		out[len(out)-1].to = at.Time()
	}
	for _, env := range history {
		switch e := env.Event.(type) {
		case events.UnitPlanned:
			next("planned", "", env.At)
		case events.UnitDispatched:
			next("dispatching", string(e.Cause), env.At)
		case events.UnitClaimed:
			next("running", fmt.Sprintf("attempt %d, fence …%04d", e.Attempt, env.Position), env.At)
		case events.UnitLeaseExpired:
			running := &out[len(out)-1]
			running.lost = true
			for _, died := range kills {
				if died.After(running.from) && died.Before(env.At.Time()) {
					running.to = died
					note := "lost: " + spaced(string(e.Cause))
					if e.Cause == events.LeaseIncarnationGone {
						note = "lost: its process is dead"
					}
					out = append(out, span{lane: "(nobody)", from: died, note: note})
					break
				}
			}
		case events.UnitRetryScheduled:
			next("retrying", spaced(string(e.Cause))+", backoff", env.At)
		case events.UnitSucceeded:
			moment("succeeded", amount(e.Result.Rows, "row"), env.At)
		case events.UnitFailed:
			moment("failed", spaced(string(e.Category)), env.At)
		case events.UnitLateResult:
			moment("late", fmt.Sprintf("attempt %d, refused", e.Attempt), env.At)
		}
	}
	return out
}

func spaced(word string) string { return strings.ReplaceAll(word, "_", " ") }

const (
	leastCells = 3  // of a span: short ones are drawn longer than they are
	noteWidth  = 34 // room for length and note, beside the picture
)

// drawTimeline draws one line for each span, from left to right, over an axis that gives the true times.
func drawTimeline(spans []span, width int) []string {
	if len(spans) == 0 {
		return nil
	}
	below := width-label-noteWidth < leastCells*len(spans) // no room beside the picture
	room := width - label - 1
	if !below {
		room -= noteWidth
	}
	cells := allot(spans, room)
	var out []string
	at := 0
	for i, sp := range spans {
		bar := stroke(sp, cells[i])
		line := fmt.Sprintf("  %-*s%s%s", label-2, sp.lane, strings.Repeat(" ", at), bar)
		note := sp.note
		if took := sp.to.Sub(sp.from); took > 0 {
			note = strings.TrimSuffix(fmt.Sprintf("%8s  %s", length(took), sp.note), "  ")
		} else {
			note = strings.Repeat(" ", 10) + note
		}
		if below {
			out = append(out, line, "      "+strings.TrimLeft(note, " "))
		} else {
			pad := label + room - utf8.RuneCountInString(line)
			out = append(out, strings.TrimRight(line+strings.Repeat(" ", max(pad, 0))+note, " "))
		}
		at += cells[i]
	}
	return append(out, axis(spans, cells, width-label)...)
}

// allot shares the cells: every span gets a few, and what is left goes by length.
func allot(spans []span, room int) []int {
	cells := make([]int, len(spans))
	var total time.Duration
	free := room
	for i, sp := range spans {
		cells[i] = leastCells
		if sp.to.Equal(sp.from) {
			cells[i] = 1
		}
		free -= cells[i]
		total += sp.to.Sub(sp.from)
	}
	if free <= 0 || total <= 0 {
		return cells
	}
	for i, sp := range spans {
		cells[i] += int(float64(free) * float64(sp.to.Sub(sp.from)) / float64(total))
	}
	return cells
}

func stroke(sp span, cells int) string {
	switch {
	case sp.to.Equal(sp.from):
		return "◆"
	case sp.lane == "(nobody)":
		return strings.Repeat("┄", cells)
	case sp.lost:
		return "├" + strings.Repeat("━", cells-2) + "✗"
	case sp.lane == "running":
		return "├" + strings.Repeat("━", cells-2) + "┤"
	}
	return "├" + strings.Repeat("─", cells-2) + "┤"
}

// axis is a line with ticks where spans begin, and below each the time since the first. A tick for whose time there is
// no room is left out; the death and the end come before the others.
func axis(spans []span, cells []int, width int) []string {
	starts, end := make([]int, len(spans)), 0
	for i := range spans {
		starts[i] = end
		end += cells[i]
	}
	order := []int{0}
	for i, sp := range spans {
		if sp.lost && i+1 < len(spans) {
			order = append(order, i+1)
		}
	}
	for i, sp := range spans { // the first moment
		if sp.to.Equal(sp.from) {
			order = append(order, i)
			break
		}
	}
	for i := range spans {
		order = append(order, i)
	}
	line, labels := []rune(strings.Repeat("─", end)), []rune(strings.Repeat(" ", width))
	for _, i := range order {
		text := "0"
		if i > 0 {
			text = length(spans[i].from.Sub(spans[0].from))
		}
		from := min(starts[i], width-len(text)) // the last one may have to end at the edge
		if room := labels[max(from-1, 0):min(from+len(text)+1, width)]; strings.TrimLeft(string(room), " ") == "" {
			copy(labels[from:], []rune(text))
			line[starts[i]] = '┴'
		}
	}
	margin := strings.Repeat(" ", label)
	return []string{margin + string(line), strings.TrimRight(fmt.Sprintf("  %-*s%s", label-2, "since plan", string(labels)), " ")}
}

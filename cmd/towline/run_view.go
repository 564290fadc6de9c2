package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/projections"
	"github.com/towline-dev/towline/wire"
)

// runView is a run as text.
type runView struct {
	run   wire.Run
	units []wire.Unit
	why   *wire.Explanation // nil: of the past
	seq   int64
	now   time.Time
	then  time.Time // of which it is
}

func (v runView) write(w io.Writer) {
	r := v.run
	if v.why != nil && v.why.NeedsPerson {
		fmt.Fprintf(w, "needs a person: %s\n", personNeeded(*v.why))
	}
	fmt.Fprintf(w, "run %s  %s  %s   as of seq %s   %s units · %s\n", r.Alias, r.Sync, strings.ToUpper(string(r.State)), grouped(v.seq), done(r), v.times())
	if notes := note(r); notes != "" {
		fmt.Fprintf(w, "  %s\n", notes)
	}
	for _, l := range r.LeftOut {
		fmt.Fprintf(w, "  left out: %s (%s)\n", l.Source, l.Reason)
	}
	for _, line := range v.strips() {
		fmt.Fprintf(w, " %s\n", line)
	}
	if line := v.counts(); line != "" {
		fmt.Fprintf(w, " %s\n", line)
	}
	v.writeFailures(w)
	v.writeWaiting(w)
}

func (v runView) times() string {
	text := "planned " + clock(v.run.PlannedAt, v.now)
	if !v.run.CompletedAt.IsZero() {
		text += " · ended " + clock(v.run.CompletedAt, v.now)
	}
	return text + " · took " + took(v.run, v.then)
}

// signs are one character for each state, which a legend in the help explains.
var signs = map[events.UnitStatus]string{
	events.UnitHasSucceeded: "✔", events.UnitIsRunning: "◐", events.UnitIsRetrying: "↻", events.UnitHasFailed: "✘", events.UnitIsCancelled: "○",
}

func sign(u wire.Unit) string {
	if s := signs[u.State]; s != "" {
		return s
	}
	return "·"
}

const maxStrip = 60 // signs of one dataset; more of them are counted

// strips are a line for each source: its datasets, and a sign for each unit.
func (v runView) strips() []string {
	type place struct{ source, dataset string }
	var sources []string
	var datasets []place
	strip := map[place][]string{}
	width := 0
	for _, u := range v.units {
		at := place{u.Source, u.Dataset}
		if !slices.Contains(sources, u.Source) {
			sources = append(sources, u.Source)
			width = max(width, len(u.Source))
		}
		if strip[at] == nil {
			datasets = append(datasets, at)
		}
		strip[at] = append(strip[at], sign(u))
	}
	var out []string
	for _, source := range sources {
		line := fmt.Sprintf("%-*s", width, source)
		for _, at := range datasets {
			if at.source == source {
				line += "  " + at.dataset + " " + stripOf(strip[at])
			}
		}
		out = append(out, line)
	}
	return out
}

func stripOf(signs []string) string {
	if len(signs) <= maxStrip {
		return strings.Join(signs, "")
	}
	var parts []string
	for _, s := range []string{"✔", "◐", "↻", "·", "✘", "○"} {
		n := 0
		for _, x := range signs {
			if x == s {
				n++
			}
		}
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%s%d", s, n))
		}
	}
	return strings.Join(parts, " ")
}

// counts are the units that have not ended, with the times that matter.
func (v runView) counts() string {
	var running, retrying, leases []string
	waiting := 0
	var next time.Time
	for _, u := range v.units {
		switch u.State {
		case events.UnitIsRunning:
			running = append(running, u.Alias)
			if u.Lease != nil && len(leases) < 4 {
				leases = append(leases, span(u.Lease.ExpiresAt.Sub(v.now)))
			}
		case events.UnitIsRetrying:
			retrying = append(retrying, u.Alias)
			if next.IsZero() || u.AvailableAt.Before(next) {
				next = u.AvailableAt
			}
		case events.UnitIsPlanned, events.UnitIsDispatching:
			waiting++
		case events.UnitHasSucceeded, events.UnitHasFailed, events.UnitIsCancelled:
		}
	}
	var parts []string
	if len(running) > 0 {
		text := fmt.Sprintf("%d running", len(running))
		if v.why != nil && len(leases) > 0 {
			text += " (lease " + strings.Join(leases, ", ") + ")"
		}
		parts = append(parts, text)
	}
	if len(retrying) > 0 {
		text := fmt.Sprintf("%d retrying", len(retrying))
		if v.why != nil {
			text += " " + ahead(next, v.now)
		}
		parts = append(parts, text)
	}
	if waiting > 0 {
		parts = append(parts, fmt.Sprintf("%d waiting", waiting))
	}
	return strings.Join(parts, " · ")
}

// writeFailures groups what failed by its category, with the command that runs it again.
func (v runView) writeFailures(w io.Writer) {
	const examples = 3
	failed := map[string][]wire.Unit{}
	var categories []string
	for _, u := range v.units {
		if u.State != events.UnitHasFailed || u.Error == nil {
			continue
		}
		c := string(u.Error.Category)
		if failed[c] == nil {
			categories = append(categories, c)
		}
		failed[c] = append(failed[c], u)
	}
	for _, c := range categories {
		fmt.Fprintf(w, " failed: %s × %d\n", c, len(failed[c]))
		for _, u := range failed[c][:min(len(failed[c]), examples)] {
			fmt.Fprintf(w, "   %s  %s\n", u.Alias, oneLine(u.Error.Text))
		}
	}
	if len(categories) > 0 && v.run.State.Terminal() {
		fmt.Fprintf(w, " again: towline run retry %s --reason …\n", v.run.Alias)
	}
}

// writeWaiting says what the open units wait for, the leading reason first.
func (v runView) writeWaiting(w io.Writer) {
	if v.why == nil || v.why.NeedsPerson || v.why.Reason == "" {
		return
	}
	fmt.Fprintf(w, " waits: %s\n", reasonOf(*v.why, v.now))
	for _, c := range v.why.Counts {
		fmt.Fprintf(w, "   %d × %s\n", c.Units, c.Why)
	}
}

// postInWords is what is not well about the post_sync of a run; empty: nothing.
func postInWords(t projections.PostTarget) string {
	effect, outcome := string(t.Effect), string(t.Outcome)
	switch {
	case t.Effect == decider.PostCompleted:
		return ""
	case effect != "":
		return fmt.Sprintf("post_sync %s: %s", t.Target, effect)
	case outcome != "":
		return fmt.Sprintf("post_sync %s: %s", t.Target, outcome)
	}
	return fmt.Sprintf("post_sync %s: not sent yet", t.Target)
}

// personNeeded is what a person must do, in one line.
func personNeeded(e wire.Explanation) string {
	text := e.Reason
	if e.On != "" {
		text += " (" + e.On + ")"
	}
	if !e.Since.IsZero() {
		text += " since " + clock(e.Since, time.Now())
	}
	if e.Fix != "" {
		text += " → " + e.Fix
	}
	return text
}

// reasonOf is why a thing waits, in one line.
func reasonOf(e wire.Explanation, now time.Time) string {
	text := e.Reason
	if e.On != "" {
		text += " (" + e.On + ")"
	}
	if e.Behind != "" {
		text += " behind " + e.Behind
	}
	if e.Next != nil {
		text += fmt.Sprintf("; %s %s (%s)", e.Next.What, clock(e.Next.At, now), ahead(e.Next.At, now))
	}
	return text
}

// oneLine is a text without its line breaks, cut where a table would be.
func oneLine(text string) string {
	const most = 120
	text = strings.Join(strings.Fields(text), " ")
	if r := []rune(text); len(r) > most {
		text = string(r[:most-1]) + "…"
	}
	return text
}

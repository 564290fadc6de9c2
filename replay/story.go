package replay

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/towline-dev/towline/events"
)

// fact is a number that says at once whether there is something to look at.
type fact struct{ Text, Class string }

// facts are those that are not zero, and behind the first of them how many there are more.
func (v *survey) facts() (out []fact) {
	add := func(n int, class, one, many string) {
		switch {
		case n == 1:
			out = append(out, fact{"1 " + one, class})
		case n > 1:
			out = append(out, fact{fmt.Sprintf("%d %s", n, many), class})
		}
	}
	ends := map[Change]int{}
	for _, d := range v.deaths {
		ends[d.How]++
	}
	signs := map[sign]int{}
	units := map[severity]int{}
	for _, l := range v.units {
		units[l.worst]++
		for _, m := range l.marks {
			signs[m.sign]++
		}
	}
	add(ends[Died], "bad", "process died", "processes died")
	add(ends[Stopped], "note", "process stopped", "processes stopped")
	add(signs[signBad], "bad", "unit failed", "units failed")
	add(signs[signLost], "bad", "lease lost", "leases lost")
	add(signs[signCut], "note", "unit cancelled", "units cancelled")
	add(units[cameLate]+units[triedAgain]+units[lostLease], "note", "unit needed more than one attempt", "units needed more than one attempt")
	add(units[unfinished], "note", "unit under way", "units under way")
	for _, l := range v.registers {
		for _, m := range l.marks {
			if m.sign == signBad {
				out = append(out, fact{l.Name + ": " + m.text, "bad"})
			}
		}
	}
	if len(out) == 0 {
		out = append(out, fact{"nothing but the plan happened", "good"})
	}
	if left := len(out) - maxFacts; left > 0 {
		out = append(out[:maxFacts], fact{fmt.Sprintf("… and %d more", left), "note"})
	}
	return out
}

// maxFacts and maxStory bound what stands above the picture.
const (
	maxFacts = 12
	maxStory = 40
)

// entry is one thing that was not planned.
type entry struct {
	Since, Subject, Text string
	Class                string
	Href                 string

	at       events.Micros
	position events.Position
	worst    severity
}

// story is what an engineer looks for first, in the order of time. Of too many things the worst are there.
type story struct {
	Entries []entry
	More    int
}

func (v *survey) story() story {
	var all []entry
	for _, d := range v.deaths {
		at := d.Last.At
		if d.Last.Position == 0 {
			at = d.To.Started.At
		}
		all = append(all, entry{
			Since: v.since(at), Subject: briefly(d.From), Text: v.endedBriefly(d.Restart), Class: classOfEnd(d.How),
			Href: deathAnchor(d.before), at: at, position: d.Last.Position, worst: endedBadly + 1,
		})
	}
	lanes := slices.Concat(v.units, v.registers)
	if v.run != nil {
		lanes = append(lanes, v.run)
	}
	for _, l := range lanes {
		for _, m := range l.marks {
			if m.sign == signGood {
				continue
			}
			e := entry{Since: v.since(m.at), Subject: l.label, Text: m.text, Class: string(m.sign), at: m.at, position: m.position, worst: l.worst}
			if l.Ordinal == 0 || v.told[l.Ordinal] {
				e.Href = anchor(m.position)
			}
			all = append(all, e)
		}
	}
	slices.SortStableFunc(all, func(a, b entry) int {
		return cmp.Or(cmp.Compare(b.worst, a.worst), cmp.Compare(a.position, b.position))
	})
	out := story{Entries: all[:min(len(all), maxStory)], More: max(len(all)-maxStory, 0)}
	slices.SortStableFunc(out.Entries, func(a, b entry) int { return cmp.Compare(a.position, b.position) })
	return out
}

func (v *survey) endedBriefly(r Restart) string {
	text := string(r.How)
	switch {
	case r.How == Died && r.Last.Position > 0:
		text += fmt.Sprintf(", its last sign of life is %d", r.Last.Position)
	case r.Reason != "" && r.Reason != text:
		text += ": " + shortened(word(r.Reason), textInStory)
	}
	return fmt.Sprintf("%s; %s started %s later", text, briefly(r.To), length(r.Gap()))
}

func classOfEnd(c Change) string {
	if c == Died {
		return "lost"
	}
	return "note"
}

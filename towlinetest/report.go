package towlinetest

import (
	"fmt"
	"slices"
	"strings"
)

const (
	mostProblems = 10 // of a window in a report
	mostOthers   = 10 // windows beside the first
	mostBefore   = 6  // boundaries before a kill
)

// unkilled is the report of a run that fails without a kill.
func (p *player) unkilled(w *window) string {
	var b strings.Builder
	fmt.Fprintf(&b, "towlinetest: nothing was killed yet, and the run has failed:\n\n")
	w.writeProblems(&b)
	w.writeWorks(&b, func(works []*work) bool { return len(works) > 1 || !strings.HasSuffix(works[0].ended, "returned nil") })
	fmt.Fprintf(&b, "again: %s", p.again(0))
	return b.String()
}

// report is that of a matrix in which windows have failed: the first of them in full.
func (p *player) report(played int, failed []*window) string {
	var b strings.Builder
	w := failed[0]
	of := count(played, "window")
	if p.endedEarly > 0 {
		of = fmt.Sprintf("the first %d windows", played)
	}
	fmt.Fprintf(&b, "towlinetest: %d of %s failed", len(failed), of)
	if p.endedEarly > 0 {
		fmt.Fprintf(&b, ", which ended the matrix of %d", len(p.whole.boundaries))
	}
	fmt.Fprintf(&b, ". Window %d: killed %s\n\n", w.at.N, w.at.Label())
	if w.differs != "" {
		fmt.Fprintf(&b, "handler not deterministic: %s\n\nWhat has failed, the first time:\n\n", w.differs)
	}
	w.writeProblems(&b)
	w.writeWorks(&b, func(works []*work) bool { return len(works) > 1 })
	w.writeBefore(&b)
	fmt.Fprintf(&b, "again: %s\n", p.again(w.at.N))
	for _, other := range failed[1:min(len(failed), mostOthers+1)] {
		what := headline(other.problems[0])
		if other.differs != "" {
			what = "handler not deterministic"
		}
		fmt.Fprintf(&b, "window %d, killed %s: %s\n", other.at.N, other.at.Label(), line(what))
	}
	if more := len(failed) - 1 - mostOthers; more > 0 {
		fmt.Fprintf(&b, "and %s more\n", count(more, "window"))
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func (w *window) writeProblems(b *strings.Builder) {
	for _, problem := range w.problems[:min(len(w.problems), mostProblems)] {
		fmt.Fprintf(b, "    %s\n", strings.ReplaceAll(problem, "\n", "\n    "))
	}
	if more := len(w.problems) - mostProblems; more > 0 {
		fmt.Fprintf(b, "    and %s more\n", count(more, "problem"))
	}
	b.WriteByte('\n')
}

// writeWorks lists the calls of the provider for those units of which it is to tell.
func (w *window) writeWorks(b *strings.Builder, tells func([]*work) bool) {
	var places []string
	of := map[string][]*work{}
	for _, work := range w.works {
		if of[work.place] == nil {
			places = append(places, work.place)
		}
		of[work.place] = append(of[work.place], work)
	}
	places = slices.DeleteFunc(places, func(place string) bool { return !tells(of[place]) })
	for _, place := range places[:min(len(places), mostProblems)] {
		fmt.Fprintf(b, "the provider has worked on %s %s:\n", place, times(len(of[place])))
		for _, work := range of[place] {
			fmt.Fprintf(b, "    %s\n", work)
		}
	}
	if len(places) > 0 {
		b.WriteByte('\n')
	}
}

func times(n int) string {
	switch n {
	case 1:
		return "once"
	case 2:
		return "twice"
	}
	return fmt.Sprintf("%d times", n)
}

// writeBefore lists what the node had done before it was killed.
func (w *window) writeBefore(b *strings.Builder) {
	if len(w.crashes) == 0 {
		return
	}
	at := slices.Index(w.boundaries, w.death())
	fmt.Fprintf(b, "before the kill:\n")
	for _, before := range w.boundaries[max(0, at-mostBefore) : at+1] {
		fmt.Fprintf(b, "    %s\n", before)
	}
	b.WriteByte('\n')
}

func (p *player) again(window int) string {
	flags := []string{fmt.Sprintf("-towline.seed=%d", p.m.Seed)}
	if window != 0 {
		flags = append(flags, fmt.Sprintf("-towline.window=%d", window))
	}
	return again(p.t.Name(), flags...)
}

// headline of a problem is what it says, without where testify has found it.
func headline(problem string) string {
	if _, text, ok := strings.Cut(problem, "Error:"); ok {
		return text
	}
	return problem
}

func indented(lines []string) string {
	return "    " + strings.Join(lines, "\n    ")
}

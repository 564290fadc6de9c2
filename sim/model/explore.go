package model

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Report is what an exploration has found.
type Report struct {
	Config  Config
	Bug     Bug
	States  int
	Depth   int  // transitions to the farthest state
	Whole   bool // every state was found; else the bound was met, or a violation
	Elapsed time.Duration

	Violation string   // empty: none
	Trace     []string // the shortest way to it
}

// String is one line of a table.
func (r Report) String() string {
	seconds := r.Elapsed.Seconds()
	which := "all"
	if !r.Whole {
		which = "the first"
	}
	return fmt.Sprintf("%-14s %9s %9d states  depth %3d  %6.1f s  %8.0f states/s",
		r.Config.Name, which, r.States, r.Depth, seconds, float64(r.States)/seconds)
}

// Explore tries every order of events of a configuration, under the rules with one bug in them or none, until it has found
// the first violation, every state, or as many states as limit.
func Explore(c Config, bug Bug, limit int) Report {
	began := time.Now()
	e := exploration{rules: &rules{c, bug}, visited: newVisited(), settling: newSettling(), limit: limit}
	report := e.run()
	report.Config, report.Bug, report.States, report.Elapsed = c, bug, e.visited.n, time.Since(began)
	return report
}

type exploration struct {
	*rules
	visited  *visited
	settling *settling
	limit    int
}

func (e *exploration) run() (report Report) {
	first := e.first()
	e.canonical(&first)
	e.visited.add(&first, -1)
	layer := e.visited.n // where the states begin that are one transition farther
	for n := 0; n < e.visited.n; n++ {
		if n == layer {
			report.Depth++
			layer = e.visited.n
		}
		if report.Violation, report.Trace = e.visit(n); report.Violation != "" {
			return report
		}
		if e.visited.n >= e.limit {
			return report
		}
	}
	report.Whole = true
	return report
}

// first is the state behind the plan of all runs (U-1, R-1).
func (r *rules) first() state {
	s := r.step(&state{faults: r.Faults, acts: r.MaxActs}, 0)
	for run := range r.Runs {
		s.arm(run, kindDispatch, now)
	}
	return s.state
}

// visit checks one state and finds those behind it.
func (e *exploration) visit(n int) (violation string, trace []string) {
	s := e.visited.at(n).state
	here := e.step(&s, 0)
	if here.check(); here.broken != "" {
		return here.broken, e.trace(n, nil)
	}
	if why, way := e.settling.standstill(e.rules, &s); why != "" {
		return why, e.trace(n, append([]string{"-- no more faults --"}, lines(way)...))
	}
	e.enabled(&s, func(t transition) {
		for alternatives := uint8(1); t.alternative < alternatives && violation == ""; t.alternative++ {
			next := e.apply(&s, t)
			alternatives = next.alternatives
			if next.broken != "" {
				violation, trace = next.broken, e.trace(n, []string{t.String()})
				return
			}
			e.canonical(&next.state)
			e.visited.add(&next.state, int32(n))
		}
	})
	return violation, trace
}

// trace are the lines that lead to a state, and more behind them. The states on the way are canonical, so units may have
// changed their names between two of them: the way is walked once more under the names of its beginning.
func (e *exploration) trace(n int, more []string) []string {
	var way []*state
	for ; n >= 0; n = int(e.visited.at(n).from) {
		way = append(way, &e.visited.at(n).state)
	}
	slices.Reverse(way)
	s := e.first()
	var out []string
	for i, to := range way[1:] {
		t, next, found := e.between(&s, to)
		if !found { // a relay was still busy with a run that had ended: from here on the names are those of the representative
			t, next, _ = e.between(way[i], to)
		}
		out, s = append(out, t.String()), next
	}
	out = append(out, "STATE "+e.describe(&s))
	return append(out, more...)
}

// between is a transition that leads from a state to one of which only the representative is known.
func (e *exploration) between(s, to *state) (taken transition, next state, found bool) {
	e.enabled(s, func(t transition) {
		for alternatives := uint8(1); t.alternative < alternatives && !found; t.alternative++ {
			behind := e.apply(s, t)
			alternatives = behind.alternatives
			c := behind.state
			if e.canonical(&c); c == *to {
				taken, next, found = t, behind.state, true
			}
		}
	})
	return taken, next, found
}

func lines(way []transition) []string {
	out := make([]string, len(way))
	for i, t := range way {
		out[i] = t.String()
	}
	return out
}

// describe is a state in one line.
func (r *rules) describe(s *state) string {
	var b strings.Builder
	for i := range r.Units {
		u := &s.units[i]
		fmt.Fprintf(&b, "unit %d %s", i, u.status)
		note(&b, u.attempts > 0, " attempts=%d", u.attempts)
		note(&b, u.stale, " stale")
		note(&b, u.due, " due")
		note(&b, u.suspect, " suspect")
		note(&b, u.lease != holdNone, " lease=%s", u.lease)
		note(&b, u.messages > 0, " messages=%d", u.messages)
		note(&b, u.workers > 0, " workers=%b", u.workers)
		b.WriteString("; ")
	}
	for run := range r.Runs {
		fmt.Fprintf(&b, "run %d %s; ", run, s.runs[run].status)
		for k := range kind(kinds) {
			g := &s.runs[run].registers[k]
			if g.newest == 0 {
				continue
			}
			fmt.Fprintf(&b, "%s %s", k, g.status)
			note(&b, g.status == pending, "@%s", g.at)
			note(&b, g.attempts > 0, " attempts=%d", g.attempts)
			note(&b, g.maybe, " maybe")
			note(&b, g.waits, " next@%s", g.waitAt)
			note(&b, g.closed != never, " closed=%s", g.closed)
			note(&b, g.claim != holdNone, " claim=%s", g.claim)
			note(&b, g.messages > 0, " messages=%d", g.messages)
			b.WriteString("; ")
		}
		for t := range r.Targets {
			if p := s.runs[run].posts[t]; p != (post{}) {
				fmt.Fprintf(&b, "target %d outcome=%s effect=%s published=%d; ", t, p.outcome, p.effect, p.published)
			}
		}
	}
	note(&b, s.paused, "engine paused; ")
	note(&b, s.sourcePaused, "source 0 paused; ")
	note(&b, s.breakerOpen, "breaker open; ")
	note(&b, s.booting, "booting; ")
	return strings.TrimSuffix(b.String(), "; ")
}

func note(b *strings.Builder, holds bool, format string, args ...any) {
	if holds {
		fmt.Fprintf(b, format, args...)
	}
}

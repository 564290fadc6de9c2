package main

import (
	"fmt"
	"time"
)

// progress tells on standard error how far something long has come: a bar on a terminal, else a line for each quarter. What
// takes no longer than a moment is told by nobody.
type progress struct {
	screen   *screen
	what     string // "events folded"
	began    time.Time
	drawn    time.Time
	quarters int // that were told
}

const (
	moment    = time.Second
	drawEvery = 100 * time.Millisecond
)

func (p *program) progress(what string) *progress {
	return &progress{screen: newScreen(p.stderr, p.flags.noColor), what: what, began: time.Now()}
}

// at tells how far it is.
func (g *progress) at(done, all int) {
	now := time.Now()
	if now.Sub(g.began) < moment || now.Sub(g.drawn) < drawEvery || all <= 0 {
		return
	}
	g.drawn = now
	done = min(done, all) // what is counted may grow meanwhile
	words := fmt.Sprintf("%s/%s %s", grouped(int64(done)), grouped(int64(all)), g.what)
	if g.screen.terminal {
		g.screen.draw(g.screen.barOf(done, all, words+eta(done, all, now.Sub(g.began))))
		return
	}
	const quarters = 4
	if q := quarters * done / all; q > g.quarters {
		g.quarters = q
		g.screen.line("towline: " + words)
	}
}

// over takes the bar away.
func (g *progress) over() { g.screen.draw("") }

package projections

import (
	"slices"

	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/events"
)

// gate is what the lanes of one source of a provider have in common, in all open runs: a pause of the source and
// the cooldown of its account (RL-5). It costs something only when it opens or closes.
type gate struct {
	provider, source string
	paused           bool
	cooling          bool // its cooldown is in force
	cooldown         *cooldown
	lanes            map[*lane]struct{}
}

// cooldown is the time until which an account of a provider is left alone.
type cooldown struct {
	key   string
	until events.Micros
	gates []*gate // the sources that have reported it, and no other since
}

type account struct{ provider, source string }

func (h *Hot) gate(provider, source string) *gate {
	a := account{provider, source}
	g, ok := h.gates[a]
	if !ok {
		g = &gate{provider: provider, source: source, paused: h.controls[source].Paused, lanes: map[*lane]struct{}{}}
		h.gates[a] = g
	}
	return g
}

func (g *gate) refresh() {
	for l := range g.lanes { // no order: each is counted alone
		l.refresh()
	}
}

// coolUntil is the end of the cooldown in force; 0: none is.
func (g *gate) coolUntil() events.Micros {
	if !g.cooling {
		return 0
	}
	return g.cooldown.until
}

// control takes over what a control stream says. It is symmetric: an older state undoes a newer one.
func (h *Hot) control(c decider.Control, source string) {
	c.Releases = 0 // of restored holds, and no pause
	if c == (decider.Control{Source: c.Source}) || c == (decider.Control{}) {
		delete(h.controls, source)
	} else {
		h.controls[source] = c
	}
	if source == "" {
		return // the engine: asked for with every question
	}
	for _, g := range h.gates { // no order: each is judged alone
		if g.source == source && g.paused != c.Paused {
			g.paused = c.Paused
			g.refresh()
		}
	}
}

// enginePaused: nothing is on offer, whatever is counted.
func (h *Hot) enginePaused() bool { return h.controls[""].Paused }

// cooled is what a deferral has changed, to be undone.
type cooled struct {
	gate   *gate
	before *cooldown // of the gate
	until  events.Micros
}

// cool begins or prolongs the cooldown of a key, which the source has just reported (RL-4).
func (h *Hot) cool(provider, source, key string, until events.Micros) *cooled {
	g, c := h.gate(provider, source), h.cooldowns[key]
	if c == nil {
		c = &cooldown{key: key}
		h.cooldowns[key] = c
	}
	undo := &cooled{gate: g, before: g.cooldown, until: c.until}
	h.assign(g, c)
	c.until = max(c.until, until)
	h.judgeCooldown(c)
	return undo
}

func (h *Hot) uncool(u *cooled) {
	c := u.gate.cooldown
	c.until = u.until
	h.assign(u.gate, u.before)
	h.judgeCooldown(c)
	if u.before != nil {
		h.judgeCooldown(u.before)
	}
	if c.until == 0 {
		delete(h.cooldowns, c.key) // it was the first of its key
	}
}

// assign gives a gate another cooldown; nil: none.
func (h *Hot) assign(g *gate, c *cooldown) {
	if g.cooldown == c {
		return
	}
	if old := g.cooldown; old != nil {
		old.gates = slices.DeleteFunc(old.gates, func(other *gate) bool { return other == g })
	}
	g.cooldown = c
	if c != nil {
		c.gates = append(c.gates, g)
	}
	h.judgeGate(g)
}

func (h *Hot) judgeCooldown(c *cooldown) {
	if c.until > h.settled {
		h.thaw = events.Earliest(h.thaw, c.until)
	}
	for _, g := range c.gates {
		h.judgeGate(g)
	}
}

func (h *Hot) judgeGate(g *gate) {
	if cooling := g.cooldown != nil && g.cooldown.until > h.settled; cooling != g.cooling {
		g.cooling = cooling
		g.refresh()
	}
}

// thawed ends the cooldowns that are over at the time to which everything is settled.
func (h *Hot) thawed() {
	h.thaw = 0
	for _, c := range h.cooldowns { // no order: each is judged alone
		h.judgeCooldown(c)
	}
}

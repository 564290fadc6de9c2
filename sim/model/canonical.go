package model

import "bytes"

// canonical is the representative of all states that differ only in what no rule, and nobody in the world, can tell apart.
func (r *rules) canonical(s *state) {
	for run := range r.Runs {
		for k := range kind(kinds) {
			g := &s.runs[run].registers[k]
			g.newest = min(g.newest, 1) // only the order of numbers matters
			if !r.InProcess {
				g.gone, g.local = false, false
			}
		}
	}
	if r.Reduced {
		r.forgetEnded(s)
	}
	r.sortRelays(s)
	r.sortUnits(s)
}

// forgetEnded drops what can only be skipped: messages for units that have ended, late workers, and all but post_sync of a
// run that has ended.
func (r *rules) forgetEnded(s *state) {
	for i := range r.Units {
		if u := &s.units[i]; u.status.terminal() {
			*u = unit{status: u.status, expanded: u.expanded}
		}
	}
	for run := range r.Runs {
		g := &s.runs[run]
		if !g.status.terminal() || !r.ended(s, run) {
			continue
		}
		g.status, g.started = runCancelled, false // how it ended only its units say
		for k := range kindPost {
			g.registers[k] = register{}
		}
		for y := range s.relays {
			if y := &s.relays[y]; y.phase != phaseIdle && int(y.run) == run && y.kind != kindPost {
				*y = relay{}
			}
		}
		n := 0
		for i := range r.unitsOf(run) {
			if s.units[i].status == succeeded {
				n++
			}
		}
		for i := range r.unitsOf(run) { // how many have succeeded is all that is left of them
			s.units[i] = unit{status: cancelled}
			if n > 0 {
				s.units[i].status = succeeded
				n--
			}
		}
	}
}

// ended reports that all units of a run have ended, as they must when it has.
func (r *rules) ended(s *state, run int) bool {
	for i := range r.unitsOf(run) {
		if !s.units[i].status.terminal() {
			return false
		}
	}
	return true
}

// sortRelays: two relays are interchangeable.
func (r *rules) sortRelays(s *state) {
	if r.Relays < 2 || bytes.Compare(s.relays[0].bytes(), s.relays[1].bytes()) <= 0 {
		return
	}
	s.relays[0], s.relays[1] = s.relays[1], s.relays[0]
	swap := func(b uint8) uint8 { return b&1<<1 | b&2>>1 }
	for i := range s.units {
		s.units[i].expanded = swap(s.units[i].expanded)
	}
	for run := range s.runs {
		for t := range s.runs[run].posts {
			p := &s.runs[run].posts[t]
			p.expanded = swap(p.expanded)
		}
	}
}

// sortUnits: units of the same run, source and tier are interchangeable.
func (r *rules) sortUnits(s *state) {
	for i := range r.Units {
		for j := i; j > 0 && r.Units[j] == r.Units[j-1] && bytes.Compare(s.units[j].bytes(), s.units[j-1].bytes()) < 0; j-- {
			s.units[j], s.units[j-1] = s.units[j-1], s.units[j]
		}
	}
}

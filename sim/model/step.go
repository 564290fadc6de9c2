package model

import "fmt"

// rules are the rules of the specification under one configuration, with at most one planted bug.
type rules struct {
	Config
	bug Bug
}

// step is one transition under way. Rules read and change its state, and say what they break.
type step struct {
	*rules
	state

	broken string // the invariant that broke first, and how

	// Some decisions depend on what the model does not know, such as which of two retries has waited longer. A step takes
	// the alternative that it is told, and counts how many there were.
	alternative  uint8
	alternatives uint8

	freed      [maxRuns]uint8 // slots that this transaction has given back, by run (B-6)
	firstFreed uint8          // the run of the first of them
}

func (r *rules) step(s *state, alternative uint8) step {
	return step{rules: r, state: *s, alternative: alternative, alternatives: 1}
}

// has reports that a bug is planted.
func (r *rules) has(b Bug) bool { return r.bug == b }

// breaks notes the first violation: an invariant, and the evidence.
func (s *step) breaks(invariant, format string, args ...any) {
	if s.broken == "" {
		s.broken = invariant + ": " + fmt.Sprintf(format, args...)
	}
}

// choose is a number below n that the rules leave open. Two choices of one step are made together.
func (s *step) choose(n uint8) uint8 {
	c := s.alternative / s.alternatives % n
	s.alternatives *= n
	return c
}

package model

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var seed = flag.Uint64("seed", 0, "of the random walks; 0: a new one")

// Every rule that the model has, the engine has too, and decides alike: a random walk of the model is walked by the rules of
// package decider as well, and behind each step all that a log can know is the same in both.
func TestTheDeciderAgrees(t *testing.T) {
	s := *seed
	if s == 0 {
		s = uint64(time.Now().UnixNano())
	}
	t.Logf("go test ./sim/model -run '^TestTheDeciderAgrees$' -seed %d", s)
	random := rand.New(rand.NewPCG(s, 0))
	const rounds = 300
	var taken [breakerCloses + 1]int
	for range rounds {
		for _, c := range walked {
			walk(t, c, random, &taken)
		}
	}
	steps := 0
	for do, n := range taken {
		steps += n
		if action(do) != timeNeverStarted { // the walks begin behind it
			require.NotZero(t, n, "no walk has taken: %s", transition{do: action(do)})
		}
	}
	t.Logf("%d steps in %d walks", steps, rounds*len(walked))
}

// A walk goes on for a while when all runs have ended: what comes late must change nothing.
const (
	longest = 400
	late    = 30
)

func walk(t *testing.T, c Config, random *rand.Rand, taken *[breakerCloses + 1]int) {
	t.Helper()
	c.Reduced, c.MaxReturns, c.NeverStarted = false, 1, true // dispatches are counted: HD-3 asks how many there were
	r := &rules{Config: c}
	s := r.first()
	s.impatient = true
	twin := newTwin(r)
	var trace []string
	for left := longest; left > 0; left-- {
		if here := r.step(&s, 0); here.resting() {
			left = min(left, late)
		}
		s.faults, s.acts = 200, 200 // there is always one more
		next, ok := r.pick(&s, random)
		if !ok {
			return
		}
		taken[next.do]++
		trace = append(trace, next.String())
		if s, ok = follow(r, twin, &s, next); !ok {
			t.Fatalf("%s: the model and the decider part at: %s\n%s%s", c.Name, next, lastOf(trace), differences(s, twin.seen(&s)))
		}
	}
}

// differences are the parts in which two states differ.
func differences(model, decider state) (out string) {
	part := func(name string, a, b any) {
		if a != b {
			out += fmt.Sprintf("  %s\n    model:   %+v\n    decider: %+v\n", name, a, b)
		}
	}
	for i := range model.units {
		part(fmt.Sprint("unit ", i), model.units[i], decider.units[i])
	}
	for run := range model.runs {
		a, b := model.runs[run], decider.runs[run]
		for k := range kind(kinds) {
			part(fmt.Sprintf("%s of run %d", k, run), a.registers[k], b.registers[k])
		}
		for t := range a.posts {
			part(fmt.Sprintf("target %d of run %d", t, run), a.posts[t], b.posts[t])
		}
		part(fmt.Sprint("run ", run), a.status, b.status)
		part(fmt.Sprintf("run %d started", run), a.started, b.started)
	}
	part("engine paused", model.paused, decider.paused)
	part("source paused", model.sourcePaused, decider.sourcePaused)
	return out
}

func lastOf(trace []string) (out string) {
	const enough = 30
	for _, line := range trace[max(0, len(trace)-enough):] {
		out += "    " + line + "\n"
	}
	return out
}

// pick is the next step. Faults and operators take their turn, but not all of it.
func (r *rules) pick(s *state, random *rand.Rand) (transition, bool) {
	quiet := *s
	quiet.faults, quiet.acts = 0, 0
	needsNone := map[transition]bool{}
	r.enabled(&quiet, func(t transition) { needsNone[t] = t.do != operatorRedrives })
	var usual, rare []transition
	r.enabled(s, func(t transition) {
		switch {
		case t.do == timeNeverStarted: // the walk begins behind it
		case needsNone[t]:
			usual = append(usual, t)
		default:
			rare = append(rare, t)
		}
	})
	const often = 8
	switch {
	case len(usual) > 0 && (len(rare) == 0 || random.IntN(often) > 0):
		return usual[random.IntN(len(usual))], true
	case len(rare) > 0:
		return rare[random.IntN(len(rare))], true
	}
	return transition{}, false
}

// follow takes a step in both. Where the rules leave something open, the model takes the alternative that the decider has
// taken, if there is one. Else it returns the first of them, and false.
func follow(r *rules, twin *twin, s *state, t transition) (state, bool) {
	if t.do < relayClaims {
		return pass(r, twin, s, t)
	}
	twin.transact(func() { twin.perform(t, s) })
	first := r.apply(s, t)
	for ; t.alternative < first.alternatives; t.alternative++ {
		if next := r.apply(s, t); twin.seen(&next.state) == next.state {
			return next.state, true
		}
	}
	return first.state, false
}

// pass lets time pass until a timer has gone off, and all that go off before.
func pass(r *rules, twin *twin, s *state, t transition) (state, bool) {
	twin.jump(t, s)
	frozen := -1
	if t.do == timeLeaseEnds {
		frozen = int(t.unit)
	}
	next := *s
	for _, x := range twin.passed(s, frozen) {
		next = r.apply(&next, x).state
	}
	return next, twin.seen(&next) == next
}

package model

// check looks at what must hold in every state, however it came about. What a single transition must not do, its rule says.
func (s *step) check() {
	for i := range s.Units {
		u := &s.units[i]
		run := s.runOf(i)
		r := s.register(run, kindUnit)
		switch {
		case u.status == dispatching && u.announced == numberWaiting && !r.waits:
			s.breaks("K-1", "unit %d waits for a wakeup that no longer waits", i)
		case u.status == dispatching && u.announced == numberCurrent && r.status == idle:
			s.breaks("REC-8", "the wakeup of unit %d is not closed, and none is open", i)
		case s.runs[run].status.terminal() && !u.status.terminal():
			s.breaks("R-8", "run %d has ended, and unit %d is %s", run, i, u.status)
		}
	}
	for run := range s.Runs {
		for k := range kind(kinds) {
			s.checkRegister(run, k)
		}
		if ended := s.runs[run].status.terminal(); ended && (s.register(run, kindPost).newest > 0) != s.owesPost(run) {
			s.breaks("I-8", "run %d has ended with %d successes, and post_sync is armed: %t", run, s.successes(run), s.register(run, kindPost).newest > 0)
		}
	}
}

func (s *step) checkRegister(run int, k kind) {
	r := s.register(run, k)
	open := r.status == pending || r.status == claimed
	switch {
	case r.waits && !open:
		s.breaks("I-11", "%s of run %d is %s, and a number waits behind it", k, run, r.status)
	case r.attempts > s.MaxAttempts:
		s.breaks("I-12", "%s of run %d has %d attempts", k, run, r.attempts)
	case r.status == parked && s.markFirst(k):
		s.breaks("O-15", "post_sync of run %d is parked, and nothing could redrive it", run)
	case (r.claim != holdNone) != (r.status == claimed || r.status == marked):
		s.breaks("O-S4", "%s of run %d is %s, and its claim is %s", k, run, r.status, r.claim)
	case open && r.known && !r.maybe && r.status == pending:
		s.breaks("O-6", "a broker knows the number of %s of run %d, and the register does not", k, run)
	}
}

// resting is the end of a run and of what follows it: nothing more will happen by itself.
func (s *step) resting() bool {
	for run := range s.Runs {
		if !s.runs[run].status.terminal() {
			return false
		}
		if !s.owesPost(run) {
			continue
		}
		for t := range s.Targets {
			p := &s.runs[run].posts[t]
			if s.Mode == AtMostOnce && p.outcome == noOutcome || s.Mode == ExactlyOnce && p.effect != effectCompleted && !s.heldPost(p) {
				return false
			}
		}
	}
	return true
}

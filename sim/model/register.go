package model

func (s *step) register(run int, k kind) *register { return &s.runs[run].registers[k] }

// markFirst is the order of effects of a kind (spec 7).
func (r *rules) markFirst(k kind) bool { return k == kindPost && r.Mode == AtMostOnce }

// arm is O-3: it wishes that somebody be woken, in the transaction of the change that it announces. It returns which
// number the wish has.
func (s *step) arm(run int, k kind, at when) number {
	r := s.register(run, k)
	if s.markFirst(k) && r.newest > 0 && !s.has(PostArmedAgain) {
		return numberClosed // wakeup 1 is the only one
	}
	if s.markFirst(k) && r.newest > 0 {
		s.breaks("I-13", "post_sync of run %d has a second number", run)
	}
	switch r.status {
	case pending:
		if !r.maybe || s.has(ArmBesideMaybe) {
			s.moveEarlier(r, at)
			return numberCurrent
		}
	case claimed:
		if s.has(ArmSwallowedByClaim) {
			return numberCurrent
		}
	case parked:
		if s.has(ParkedStaysDeaf) {
			return numberCurrent
		}
		s.open(run, k, at)
		return numberCurrent
	case marked, unresolved:
		return numberClosed // nobody arms what is published at most once
	default:
		s.open(run, k, at)
		return numberCurrent
	}
	s.wait(r, at)
	return numberWaiting
}

// moveEarlier is O-4: earliest wins, but a backoff is a floor.
func (s *step) moveEarlier(r *register, at when) {
	if at < r.at && !r.floor {
		r.at = at
	}
}

// wait is O-6: while the current number may be with a broker, a wish gets the next one and waits.
func (s *step) wait(r *register, at when) {
	switch {
	case !r.waits:
		r.waits, r.waitAt = true, at
		r.newest++
	case at < r.waitAt:
		r.waitAt = at
	}
}

// open is O-2: a new number, with no attempt used.
func (s *step) open(run int, k kind, at when) {
	s.register(run, k).newest++
	s.begin(run, k, at)
}

func (s *step) begin(run int, k kind, at when) {
	r := s.register(run, k)
	r.status, r.at = pending, at
	r.floor, r.maybe, r.attempts, r.claim, r.known, r.taken = false, false, 0, holdNone, false, false
	s.newIDs(run, k)
	for y := range s.relays {
		if y := &s.relays[y]; y.phase != phaseIdle && int(y.run) == run && y.kind == k {
			y.holds, y.same = false, false
		}
	}
}

// newIDs is K-3: a new number has new message ids.
func (s *step) newIDs(run int, k kind) {
	switch k {
	case kindUnit:
		for i := range s.unitsOf(run) {
			s.units[i].known = false
		}
	case kindPost:
		for t := range s.runs[run].posts {
			s.runs[run].posts[t].known = false
		}
	}
}

// endClaim takes the claim from the relay that has it (M-10): it can neither mark nor release any more.
func (s *step) endClaim(run int, k kind) {
	s.register(run, k).claim = holdNone
	for y := range s.relays {
		if y := &s.relays[y]; y.phase != phaseIdle && int(y.run) == run && y.kind == k {
			y.holds = false
		}
	}
}

// close is O-S5: the current number, and what is parked below it, is closed; one that waits takes its place. published
// says whether it was sent, or dropped.
func (s *step) close(run int, k kind, published bool) {
	r := s.register(run, k)
	s.endClaim(run, k)
	r.closed = recent
	switch {
	case published:
		r.local = s.InProcess
	case r.gone:
		r.local = false
	}
	r.gone = false
	if k == kindUnit {
		for i := range s.unitsOf(run) {
			if s.units[i].announced == numberCurrent {
				s.units[i].announced = numberClosed
			}
		}
	}
	s.advance(run, k)
}

// advance makes the waiting number the current one, or leaves the register idle.
func (s *step) advance(run int, k kind) {
	r := s.register(run, k)
	if s.has(MarkDropsWaiting) {
		r.waits, r.waitAt = false, now
	}
	if r.waits {
		at := r.waitAt
		r.waits, r.waitAt = false, now
		s.begin(run, k, at)
		if k == kindUnit {
			for i := range s.unitsOf(run) {
				if s.units[i].announced == numberWaiting {
					s.units[i].announced = numberCurrent
				}
			}
		}
		return
	}
	r.status, r.at, r.floor, r.maybe, r.attempts = idle, now, false, false, 0
}

// release is how a claim ends without a mark.
type release struct {
	counted bool // the attempt is used up (O-5)
	maybe   bool // a broker may know the number (O-6)
	forEver bool // the refusal is permanent (O-15)
	at      when // when it is due again
}

// release is O-S6, and O-15 where the attempts are spent: what is owed is parked, what is not is dropped.
func (s *step) release(run int, k kind, c release) {
	r := s.register(run, k)
	s.endClaim(run, k)
	publishFirst := !s.markFirst(k)
	spent := c.counted && r.attempts >= s.MaxAttempts && !s.has(NothingIsParked)
	if publishFirst && (spent || c.forEver) && !s.owed(run, k) {
		s.drop(run, k)
		return
	}
	if !c.counted && publishFirst {
		r.attempts--
	}
	r.status, r.at, r.floor = pending, c.at, c.counted && c.at > now
	r.maybe = r.maybe || c.maybe && publishFirst
	if publishFirst && (spent || c.forEver) {
		s.park(run, k)
	}
}

// park is O-S7: a number that waits takes the place of the parked one.
func (s *step) park(run int, k kind) {
	r := s.register(run, k)
	if r.waits && !s.has(ParkTakesWaiting) {
		s.advance(run, k)
		return
	}
	attempts := r.attempts
	r.waits, r.waitAt = false, now
	s.advance(run, k)
	r.status, r.attempts = parked, attempts
}

// drop is O-8: the number closes, and nothing is published. What waits for a later time, for which an early wakeup of
// dispatch stood too, keeps it (HD-6).
func (s *step) drop(run int, k kind) {
	s.close(run, k, false)
	if k != kindDispatch {
		return
	}
	at, waits := s.later(run)
	if waits && !s.has(DropForgetsLater) {
		s.arm(run, kindDispatch, at)
	}
	if waits && !s.unheard(run, kindDispatch) {
		s.breaks("HD-6", "a unit of run %d waits for its time, and the drop has left no wakeup for it", run)
	}
}

// owed is O-8: something is behind the current number of a register.
func (s *step) owed(run int, k kind) bool {
	switch k {
	case kindDispatch:
		return s.runOpen(run) && s.dispatchable(run)
	case kindUnit:
		return s.runOpen(run) && s.announces(run)
	case kindFinalize:
		return s.runOpen(run) && s.openUnits(run) == 0
	}
	return s.Mode == AtMostOnce || !s.allDone(run)
}

// announces is K-1: the current number expands to some unit.
func (s *step) announces(run int) bool {
	for i := range s.unitsOf(run) {
		if u := &s.units[i]; u.status == dispatching && u.announced == numberCurrent {
			return true
		}
	}
	return false
}

// unheard is I-9: the register has a wakeup that no broker can know yet.
func (s *step) unheard(run int, k kind) bool {
	r := s.register(run, k)
	if r.waits {
		return true
	}
	if r.status != pending || r.known {
		return false
	}
	for i := range s.unitsOf(run) {
		if k == kindUnit && s.units[i].announced == numberCurrent && s.units[i].known && !r.maybe {
			return false
		}
	}
	return true
}

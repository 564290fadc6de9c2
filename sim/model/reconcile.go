package model

// The reconciler (section 11), and what a restart does first (N-4).

// owes is REC-7, REC-9 and REC-10. REC-8 is an assertion.
func (s *step) owes(run int, k kind) bool {
	switch k {
	case kindDispatch:
		return s.runOpen(run) && s.dispatchable(run)
	case kindFinalize:
		return s.runOpen(run) && s.openUnits(run) == 0 && !s.has(FinalizeIsNotMaterialized)
	case kindPost:
		return s.owesPost(run) && (s.Mode == AtMostOnce || s.effectsOpen(run))
	}
	return false
}

// materializes is REC-12: what is owed has lost its wakeup.
func (s *step) materializes(run int, k kind) bool {
	if !s.owes(run, k) {
		return false
	}
	r := s.register(run, k)
	if s.markFirst(k) && r.newest > 0 && !s.has(PostArmedAgain) || r.waits && r.waitAt == now {
		return false
	}
	switch r.status {
	case claimed, parked, marked, unresolved:
		return false
	case pending:
		if r.floor || r.at == now {
			return false
		}
		if r.at == soon {
			return k == kindDispatch && s.fits(run) && s.died(run, k)
		}
	}
	return r.closed == never || r.closed == old || s.died(run, k)
}

// died is N-3: the message of the newest number, or of a unit, was in the memory of a process that is gone.
func (s *step) died(run int, k kind) bool {
	r := s.register(run, k)
	if !r.gone {
		return false
	}
	if r.local {
		return true
	}
	for i := range s.unitsOf(run) {
		if u := &s.units[i]; k == kindDispatch && u.status == dispatching && u.lost && !s.held(i) {
			return true
		}
	}
	return false
}

func (s *step) materialize(run int, k kind) {
	s.arm(run, k, now)
	if !s.unheard(run, k) {
		s.breaks("I-9", "%s of run %d is materialized, and no fresh wakeup is open", k, run)
	}
}

// expirable is REC-5.
func (s *step) expirable(i int) bool {
	u := &s.units[i]
	return u.status == running && u.lease != holdLive && s.runOpen(s.runOf(i)) && !s.has(LeasesAreNotExpired)
}

// releaseDead is REC-13 and O-14: nobody will mark a claim that has ended. That of a gone incarnation is due at once (N-4).
func (s *step) releaseDead(run int, k kind) {
	at := soon
	if s.register(run, k).claim == holdOrphaned {
		at = now
	}
	s.release(run, k, release{counted: true, maybe: !s.has(ExpiredClaimIsSafe), at: at})
}

// dead reports a claim, or the time of a mark, that is over.
func (s *step) dead(run int, k kind, status registerStatus) bool {
	r := s.register(run, k)
	return r.status == status && r.claim != holdLive && !s.has(ClaimsAreNotReleased)
}

// crash is the end of the one process of an exclusive store, and the start of the next incarnation (N-1, N-3).
func (s *step) crash() {
	s.booting = true
	for y := range s.relays {
		s.rest(&s.relays[y])
	}
	for run := range s.Runs {
		for k := range kind(kinds) {
			s.crashRegister(run, k)
		}
		for t := range s.Targets {
			p := &s.runs[run].posts[t]
			p.orphan = p.orphan || p.busy && s.Mode == AtMostOnce
			p.busy, p.receipt = false, noOutcome
			if s.InProcess {
				p.messages, p.known = 0, false
			}
		}
	}
	for i := range s.Units {
		u := &s.units[i]
		if u.workers = 0; u.lease != holdNone {
			u.lease = holdOrphaned
		}
		if !s.InProcess {
			continue
		}
		u.messages, u.known = 0, false
		if u.status == dispatching && u.announced == numberClosed {
			u.lost, u.stale = true, true
		}
	}
}

func (s *step) crashRegister(run int, k kind) {
	r := s.register(run, k)
	if r.claim != holdNone {
		r.claim = holdOrphaned
	}
	if s.InProcess {
		r.messages, r.known = 0, false
		r.gone = r.closed != never
	}
}

// recovered is N-4: what the gone incarnation left is decided.
func (s *step) recovered() bool {
	for run := range s.Runs {
		for k := range kind(kinds) {
			if s.register(run, k).claim == holdOrphaned {
				return false
			}
		}
		for t := range s.Targets {
			if s.losable(run, t) {
				return false
			}
		}
	}
	for i := range s.Units {
		if s.units[i].lease == holdOrphaned && s.expirable(i) {
			return false
		}
	}
	return true
}

package model

import "iter"

// unitsOf are the numbers of the units of a run.
func (r *rules) unitsOf(run int) iter.Seq[int] {
	return func(yield func(int) bool) {
		for i := range r.Units {
			if int(r.Units[i].Run) == run && !yield(i) {
				return
			}
		}
	}
}

func (s *step) runOf(i int) int { return int(s.Units[i].Run) }

// enter moves a unit to another state. Every transition of spec 6.1 requires an open run, and none leaves a terminal state.
func (s *step) enter(i int, to unitStatus) {
	u := &s.units[i]
	if u.status.terminal() {
		s.breaks("I-3", "unit %d leaves %s for %s", i, u.status, to)
	}
	if !s.runOpen(s.runOf(i)) {
		s.breaks("I-3", "unit %d becomes %s, and its run has ended", i, to)
	}
	if u.status == running && to != running || u.status == dispatching && to == cancelled {
		s.free(s.runOf(i))
	}
	if to == dispatching && u.status != dispatching {
		u.tries = 0
	}
	u.status = to
	u.stale, u.lost, u.due, u.lease = false, false, false, holdNone
	if to != dispatching {
		u.announced = numberClosed
	}
	if to == running || to.terminal() {
		u.known = false
	}
	if to.terminal() {
		u.suspect = false
	}
}

// end is what the terminal transitions have in common: U-13 and U-15 for what waits for a reference unit, and U-21.
func (s *step) end(i int, as unitStatus) {
	s.enter(i, as)
	run := s.runOf(i)
	if as != succeeded && s.Units[i].Reference && !s.has(NoCascade) {
		for j := range s.unitsOf(run) {
			if s.waitsFor(j, i) && s.units[j].status == planned {
				s.enter(j, as)
			}
		}
	}
	if s.openUnits(run) > 0 {
		return
	}
	if !s.has(SettleDoesNotArmFinalize) {
		s.arm(run, kindFinalize, now)
	}
	if !s.unheard(run, kindFinalize) {
		s.breaks("I-9", "the last unit of run %d has ended, and no fresh wakeup of finalize is open", run)
	}
}

// waitsFor reports that unit j is a work item of the source of the reference unit i, in its run.
func (r *rules) waitsFor(j, i int) bool {
	a, b := r.Units[i], r.Units[j]
	return a.Reference && !b.Reference && a.Run == b.Run && a.Source == b.Source
}

// tierOpen is P-9: all reference units of the source have succeeded.
func (s *step) tierOpen(j int) bool {
	for i := range s.unitsOf(s.runOf(j)) {
		if s.waitsFor(j, i) && s.units[i].status != succeeded && !s.has(TierIsAlwaysOpen) {
			return false
		}
	}
	return true
}

// openUnits counts the units of a run that have not ended.
func (s *step) openUnits(run int) (n int) {
	for i := range s.unitsOf(run) {
		if !s.units[i].status.terminal() {
			n++
		}
	}
	return n
}

func (s *step) successes(run int) (n int) {
	for i := range s.unitsOf(run) {
		if s.units[i].status == succeeded {
			n++
		}
	}
	return n
}

// retry is U-9, U-10, U-11 and U-16: the unit waits, and dispatch is armed for it.
func (s *step) retry(i int, at when) {
	s.enter(i, retrying)
	s.units[i].due = at == now
	run := s.runOf(i)
	if !s.has(RetryDoesNotArm) {
		s.arm(run, kindDispatch, at)
	}
	if r := s.register(run, kindDispatch); !r.waits && !(r.status == pending && !r.known && (r.at <= at || r.floor)) {
		s.breaks("I-10", "unit %d is to be retried, and no fresh wakeup of dispatch is open for it", i)
	}
}

// claimUnit is U-5 and HU-1: any message may start a dispatching unit; every other one is a duplicate. A stale unit needs a
// slot, for its own may be given away, and a suspect its turn.
func (s *step) claimUnit(i int) {
	u := &s.units[i]
	if !s.runOpen(s.runOf(i)) || u.status != dispatching && !(s.has(AnybodyMayClaim) && (u.status == retrying || u.status == planned)) {
		return
	}
	if u.stale && !s.admits(i) && !s.has(StaleClaimNeedsNoSlot) {
		return
	}
	if u.status != dispatching {
		s.breaks("I-4", "unit %d is claimed, and nobody has dispatched it", i)
	}
	before := s.slots()
	s.enter(i, running)
	u.attempts++
	u.lease = holdLive
	u.workers |= bit(int(u.attempts - 1))
	if n := s.slots(); n > before && n > s.Cap {
		s.breaks("I-17", "the claim of unit %d raises the slots in use to %d of %d", i, n, s.Cap)
	}
	s.oneSuspect()
}

// result is how a worker settles.
type result uint8

const (
	succeeds result = iota
	fails
	isLimited // by a rate limit
	handsBack
)

func (r result) String() string {
	return [...]string{"success", "failure", "rate limit", "hand-back"}[r]
}

// settle is U-7, U-8, U-9 and U-16 for the worker of an attempt that holds the live lease; of all others it is a late
// result (U-19).
func (s *step) settle(i int, attempt uint8, as result) {
	u := &s.units[i]
	u.workers &^= bit(int(attempt - 1))
	holds := u.attempts == attempt || s.has(SettleWithoutToken)
	live := u.lease == holdLive || s.has(SettleWithoutLease)
	if u.status != running || !holds || !live || !s.runOpen(s.runOf(i)) {
		return
	}
	if u.attempts != attempt || u.lease != holdLive {
		s.breaks("I-5", "attempt %d settles unit %d, of which attempt %d has a lease that is %s", attempt, i, u.attempts, u.lease)
	}
	switch as {
	case succeeds:
		s.end(i, succeeded)
	case fails:
		s.end(i, failed)
	case isLimited:
		u.returns++
		u.suspect = false
		s.retry(i, far)
	case handsBack:
		u.returns++
		u.suspect = false
		s.retry(i, now)
	}
}

// expire is U-11 and U-12 for a lease that has ended (RW-4), or whose worker an operator states to be gone.
func (s *step) expire(i int) {
	u := &s.units[i]
	if u.expiries >= s.MaxRetries && !(s.has(RetriesAreNotCounted) && u.expiries < maxAttempts-1) {
		s.end(i, failed)
		return
	}
	orphaned := u.lease == holdOrphaned
	u.expiries++
	if u.expiries > s.MaxRetries {
		s.breaks("I-19", "unit %d is tried again after %d lost leases", i, u.expiries)
	}
	u.suspect = orphaned && u.expiries >= s.MaxRetries // RW-8
	s.retry(i, far)
}

package model

// Slots (B-1 to B-6) and the dispatch decision (spec 10.1). All units are of one bucket.

// slots is B-1: running units under a live lease, and dispatching ones that are not stale.
func (s *step) slots() (n uint8) {
	for i := range s.Units {
		u := &s.units[i]
		if u.status == running && u.lease == holdLive || u.status == dispatching && !u.stale {
			n++
		}
	}
	return n
}

// suspectAtWork is RW-8: a crash suspect is dispatching and not stale, or running.
func (s *step) suspectAtWork() bool { return s.suspectsAtWork() > 0 && !s.has(SuspectsGoTogether) }

func (s *step) suspectsAtWork() (n int) {
	for i := range s.Units {
		u := &s.units[i]
		if u.suspect && (u.status == running || u.status == dispatching && !u.stale) {
			n++
		}
	}
	return n
}

// oneSuspect is what RW-8 is for: no suspect takes another with it.
func (s *step) oneSuspect() {
	if n := s.suspectsAtWork(); n > 1 {
		s.breaks("RW-8", "%d crash suspects are at work", n)
	}
}

// admits reports room for a unit, and if it is a suspect that it is its turn.
func (s *step) admits(i int) bool {
	return s.slots() < s.Cap && !(s.units[i].suspect && s.suspectAtWork())
}

// held is: a pause keeps the unit from being dispatched, and from nothing else.
func (s *step) held(i int) bool { return s.paused || s.sourcePaused && s.Units[i].Source == 0 }

// offered is HD-3: the unit could be dispatched if there were room.
func (s *step) offered(i int) bool {
	u := &s.units[i]
	switch u.status {
	case planned:
		return s.tierOpen(i) && !s.held(i)
	case retrying:
		return u.due && !s.held(i)
	case dispatching:
		return u.stale && !s.held(i) && !s.has(StaleIsNotReclaimed)
	}
	return false
}

// dispatchable is REC-7 and O-8: some unit of the run is on offer.
func (s *step) dispatchable(run int) bool {
	for i := range s.unitsOf(run) {
		if s.offered(i) {
			return true
		}
	}
	return false
}

// later is HD-6: the time for which units wait that nothing else holds.
func (s *step) later(run int) (at when, waits bool) {
	if !s.runOpen(run) {
		return now, false
	}
	for i := range s.unitsOf(run) {
		if u := &s.units[i]; u.status == retrying && !u.due && !s.held(i) {
			return far, true
		}
	}
	return now, false
}

// fits is B-6: a free slot lets a unit of the run in.
func (s *step) fits(run int) bool {
	if !s.runOpen(run) {
		return false
	}
	for i := range s.unitsOf(run) {
		if s.offered(i) && s.admits(i) {
			return true
		}
	}
	return false
}

// oldestThatFits is the oldest open run of which a free slot lets a unit in.
func (s *step) oldestThatFits() (int, bool) {
	for run := range s.Runs {
		if s.fits(run) {
			return run, true
		}
	}
	return 0, false
}

// candidates are the units on offer in the order of HD-3. Which of two stale or two due units has waited longer the model
// does not know: it tries all.
func (s *step) candidates(run int) (list [maxUnits]int, n int) {
	group := func(status unitStatus, belongs func(i int) bool) {
		first := n
		for i := range s.unitsOf(run) {
			if s.units[i].status == status && s.offered(i) && belongs(i) {
				list[n] = i
				n++
			}
		}
		if equals := list[first:n]; status != planned && len(equals) > 1 {
			rotate(equals, int(s.choose(uint8(len(equals)))))
		}
	}
	often := func(i int) bool { return s.units[i].tries == fourTries } // and nobody has claimed it: it goes last
	group(dispatching, func(i int) bool { return !often(i) })
	group(retrying, func(int) bool { return true })
	group(planned, func(i int) bool { return s.Units[i].Reference })
	group(planned, func(i int) bool { return !s.Units[i].Reference })
	group(dispatching, often)
	return list, n
}

func rotate(list []int, by int) {
	for range by {
		first := list[0]
		copy(list, list[1:])
		list[len(list)-1] = first
	}
}

// dispatch is HD-2 to HD-6: the decision of the handler, which takes what fits, and of a refill, which takes as many units as
// slots were freed.
func (s *step) dispatch(run int, limit int) {
	s.giveUp(run)
	list, n := s.candidates(run)
	left := false
	taken := 0
	for _, i := range list[:n] {
		switch {
		case taken == limit:
			left = true
		case !s.admits(i) && !s.has(DispatchIgnoresCap):
			left = true
		default:
			s.dispatchUnit(i)
			taken++
		}
	}
	if taken > 0 {
		s.runs[run].started = true
	}
	s.net(run, left)
}

// net is HD-6: what is left over is looked at after the countdown, and what waits for a time at that time.
func (s *step) net(run int, left bool) {
	if left {
		s.arm(run, kindDispatch, soon)
		return
	}
	if at, waits := s.later(run); waits {
		s.arm(run, kindDispatch, at)
	}
}

// dispatchUnit is U-2, U-3 and U-4, and HD-5.
func (s *step) dispatchUnit(i int) {
	run := s.runOf(i)
	s.enter(i, dispatching)
	u := &s.units[i]
	if s.NeverStarted {
		u.tries = min(u.tries+1, fourTries)
	}
	for j := range s.unitsOf(run) {
		if s.waitsFor(i, j) && s.units[j].status != succeeded {
			s.breaks("I-21", "work item %d is dispatched before reference unit %d has succeeded", i, j)
		}
	}
	if n := s.slots(); n > s.Cap {
		s.breaks("I-17", "%d slots of %d are in use at the dispatch of unit %d", n, s.Cap, i)
	}
	s.oneSuspect()
	if s.has(DispatchDoesNotAnnounce) {
		return
	}
	u.announced = s.arm(run, kindUnit, now)
	r := s.register(run, kindUnit)
	if !s.unheard(run, kindUnit) || u.announced == numberCurrent && (u.known || r.maybe) {
		s.breaks("I-10", "unit %d is dispatched, and no fresh wakeup announces it", i)
	}
}

// giveUp is U-14: a unit that nobody claimed, however often it was dispatched. One whose newest message is old is dispatched
// once more instead; the model does not know how old it is, and tries both.
func (s *step) giveUp(run int) {
	if !s.impatient {
		return
	}
	for i := range s.unitsOf(run) {
		const often = 3
		u := &s.units[i]
		if u.status == dispatching && u.stale && u.tries >= often && !s.held(i) && s.slots() < s.Cap && s.choose(2) == 0 {
			s.end(i, failed)
		}
	}
}

// free notes a slot that was given back.
func (s *step) free(run int) {
	if s.freed == [maxRuns]uint8{} {
		s.firstFreed = uint8(run)
	}
	s.freed[run]++
}

// refill is B-6, at the end of a transaction: the slots that it has freed go to a run that they let in, its own before the
// oldest other. The other runs that have freed a slot get their net, and if one more unit fits its run is woken at once.
func (s *step) refill() {
	n := 0
	for _, freed := range s.freed {
		n += int(freed)
	}
	if n == 0 {
		return
	}
	run, fits := int(s.firstFreed), s.fits(int(s.firstFreed))
	if !fits {
		run, fits = s.oldestThatFits()
	}
	if fits && !s.has(NoRefill) {
		s.dispatch(run, n)
	}
	for own, freed := range s.freed {
		if freed > 0 && !(fits && own == run) {
			s.net(own, s.runOpen(own) && s.dispatchable(own))
		}
	}
	if oldest, ok := s.oldestThatFits(); ok && !s.has(NoRefill) {
		s.arm(oldest, kindDispatch, now)
	}
	s.filled()
}

// filled is what B-6 is for: a free slot that lets a unit in waits neither for a countdown nor for a broker that has a
// message already.
func (s *step) filled() {
	oldest, ok := s.oldestThatFits()
	if !ok {
		return
	}
	r := s.register(oldest, kindDispatch)
	if r.waits && r.waitAt == now || r.status == pending && !r.known && (r.at == now || r.floor) {
		return
	}
	s.breaks("B-6", "a slot is free, a unit of run %d could have it, and no fresh wakeup is due", oldest)
}

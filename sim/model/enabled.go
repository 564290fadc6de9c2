package model

// enabled yields every transition that the rules and the world allow in a state, the first alternative of each.
func (r *rules) enabled(from *state, yield func(transition)) {
	s := r.step(from, 0)
	for run := range uint8(r.Runs) {
		for k := range kind(kinds) {
			s.enabledRegister(run, k, yield)
		}
		s.enabledRun(run, yield)
	}
	for i := range r.Units {
		s.enabledUnit(i, yield)
	}
	for y := range uint8(r.Relays) {
		s.enabledRelay(y, yield)
	}
	s.enabledWorld(yield)
}

func (s *step) enabledRegister(run uint8, k kind, yield func(transition)) {
	r := s.register(int(run), k)
	do := func(a action) { yield(transition{do: a, run: run, kind: k}) }
	if r.status == pending && r.at > now {
		do(timeRegisterDue)
	}
	if !s.Reduced && r.waits && r.waitAt > now { // the exploration lets it fall due when it is current
		do(timeWaitingDue)
	}
	if r.claim == holdLive && (s.faults > 0 || !s.holder(int(run), k)) {
		do(timeClaimEnds)
	}
	if s.ages(int(run), k) {
		do(timeRedriveAfter)
	}
	if s.dead(int(run), k, claimed) {
		do(reconcileClaim)
	}
	if !s.booting && s.materializes(int(run), k) {
		do(reconcileOwed)
	}
	if s.claimable(int(run), k) {
		for y := range uint8(s.Relays) {
			if s.relays[y].phase == phaseIdle {
				yield(transition{do: relayClaims, run: run, kind: k, relay: y})
			}
		}
	}
	if s.redrivable(int(run), k) {
		do(operatorRedrives)
	}
	if s.acts > 0 && s.Acts.has(ParkWakeups) && s.parkable(int(run), k) {
		do(operatorParks)
	}
	if k == kindDispatch || k == kindFinalize {
		deliver := deliverDispatch
		if k == kindFinalize {
			deliver = deliverFinalize
		}
		s.enabledMessage(r.messages, transition{do: deliver, run: run, kind: k}, yield)
	}
}

func (s *step) enabledMessage(copies uint8, deliver transition, yield func(transition)) {
	if copies == 0 {
		return
	}
	if !s.booting {
		yield(deliver)
	}
	if s.faults == 0 {
		return
	}
	deliver.do = loseMessage
	yield(deliver)
	if copies < maxCopies {
		deliver.do = doubleMessage
		yield(deliver)
	}
}

func (s *step) enabledRun(run uint8, yield func(transition)) {
	if s.acts > 0 && s.Acts.has(CancelRuns) && !s.runs[run].status.terminal() {
		yield(transition{do: operatorCancelsRun, run: run})
	}
	if s.dead(int(run), kindPost, marked) {
		yield(transition{do: reconcileOutcomes, run: run, kind: kindPost})
	}
	for target := range uint8(s.Targets) {
		p := s.runs[run].posts[target]
		about := transition{run: run, kind: kindPost, target: target}
		deliver := about
		deliver.do = deliverPost
		s.enabledMessage(p.messages, deliver, yield)
		if s.losable(int(run), int(target)) {
			about.do = reconcileEffect
			yield(about)
		}
		if s.register(int(run), kindPost).status == unresolved && p.outcome == unknown && !p.resolved {
			about.do = operatorResolves
			yield(about)
		}
		if !p.busy {
			continue
		}
		about.do = effectEnds
		for about.with = range uint8(effectDoneDies) + 1 {
			switch e := ending(about.with); {
			case e != effectSucceeds && s.faults == 0:
			case e == effectDies && s.Exclusive: // all of them die at once, with the process
			case e == effectDoneDies && s.Mode == AtMostOnce: // it is the same as a death before
			default:
				yield(about)
			}
		}
	}
}

func (s *step) enabledUnit(i int, yield func(transition)) {
	u := &s.units[i]
	about := transition{run: s.Units[i].Run, kind: kindUnit, unit: uint8(i)}
	do := func(a action) { t := about; t.do = a; yield(t) }
	open := !s.runs[about.run].status.terminal()
	if u.status == dispatching && !u.stale && open {
		do(timeStale)
	}
	if u.status == running && u.lease == holdLive && (s.faults > 0 || !s.works(i)) {
		do(timeLeaseEnds)
	}
	if u.status == retrying && !u.due {
		do(timeRetryDue)
	}
	if s.expirable(i) {
		do(reconcileLease)
	}
	deliver := about
	deliver.do = deliverUnit
	s.enabledMessage(u.messages, deliver, yield)
	for attempt := uint8(1); attempt <= u.attempts; attempt++ {
		if u.workers&bit(int(attempt-1)) != 0 {
			s.enabledWorker(about, attempt, yield)
		}
	}
	if s.acts == 0 || !open {
		return
	}
	if s.Acts.has(CancelUnits) && !u.status.terminal() {
		do(operatorCancelsUnit)
	}
	if s.Acts.has(ReleaseUnits) && u.status == running {
		do(operatorReleasesUnit)
	}
}

func (s *step) enabledWorker(about transition, attempt uint8, yield func(transition)) {
	about.do, about.attempt = workerSettles, attempt
	for as := range handsBack + 1 {
		isReturn := as == isLimited || as == handsBack
		if as != succeeds && s.faults == 0 || isReturn && s.units[about.unit].returns >= s.MaxReturns {
			continue
		}
		about.with = uint8(as)
		yield(about)
	}
	if s.faults > 0 && !s.Exclusive {
		about.do, about.with = workerDies, 0
		yield(about)
	}
}

func (s *step) enabledRelay(n uint8, yield func(transition)) {
	y := &s.relays[n]
	about := transition{run: y.run, kind: y.kind, relay: n}
	do := func(a action, with uint8) { t := about; t.do, t.with = a, with; yield(t) }
	markFirst := s.markFirst(y.kind)
	switch y.phase {
	case phaseIdle:
		return
	case phaseClaimed, phaseSending, phaseMarked:
		if markFirst && y.phase == phaseClaimed {
			do(relayMarks, 0)
			break
		}
		list, n := s.outgoing(y)
		for _, of := range list[:n] {
			switch y.kind {
			case kindUnit:
				about.unit = uint8(of)
			case kindPost:
				about.target = uint8(of)
			}
			for p := range publication(publications) {
				if s.maySend(y, of, p) {
					do(relayPublishes, uint8(p))
				}
			}
		}
		about.unit, about.target = 0, 0
	case phaseSent:
		if markFirst {
			do(relayRecords, 0)
			break
		}
		do(relayConcludes, 0)
		if y.met != metAccepted && !y.met.has(metForEver) {
			do(relayConcludes, 1)
		}
	}
	if y.phase == phaseClaimed && y.holds && s.register(int(y.run), y.kind).claim == holdLive && (s.breakerOpen || s.faults > 0) {
		do(relaySheds, 0)
	}
	if s.faults > 0 && !s.Exclusive {
		do(relayDies, 0)
	}
}

func (s *step) enabledWorld(yield func(transition)) {
	do := func(possible bool, a action) {
		if possible {
			yield(transition{do: a})
		}
	}
	act := func(a Acts) bool { return s.acts > 0 && s.Acts.has(a) }
	do(s.NeverStarted && !s.impatient, timeNeverStarted)
	do(s.Exclusive && s.faults > 0, processDies)
	do(s.booting && s.recovered(), processRecovers)
	do(!s.paused && act(PauseEngine), operatorPausesEngine)
	do(s.paused, operatorResumesEngine)
	do(!s.sourcePaused && act(PauseSource), operatorPausesSource)
	do(s.sourcePaused, operatorResumesSource)
	do(!s.breakerOpen && act(OpenBreaker), breakerOpens)
	do(s.breakerOpen, breakerCloses)
}

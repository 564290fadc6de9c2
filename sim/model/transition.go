package model

import "fmt"

// action is what happens in one transition.
type action uint8

const (
	timeRegisterDue action = iota
	timeWaitingDue
	timeStale
	timeLeaseEnds
	timeClaimEnds
	timeRedriveAfter
	timeRetryDue
	timeNeverStarted

	relayClaims
	relayPublishes
	relayConcludes
	relaySheds
	relayMarks
	relayRecords
	relayDies

	deliverDispatch
	deliverUnit
	deliverFinalize
	deliverPost
	loseMessage
	doubleMessage

	workerSettles
	workerDies
	effectEnds

	reconcileLease
	reconcileClaim
	reconcileOutcomes
	reconcileEffect
	reconcileOwed

	processDies
	processRecovers

	operatorCancelsRun
	operatorCancelsUnit
	operatorReleasesUnit
	operatorPausesEngine
	operatorResumesEngine
	operatorPausesSource
	operatorResumesSource
	operatorParks
	operatorRedrives
	operatorResolves
	breakerOpens
	breakerCloses
)

// transition is one step of the system or of its world. Which fields count depends on what it does.
type transition struct {
	do          action
	run         uint8
	kind        kind
	unit        uint8
	target      uint8
	relay       uint8
	attempt     uint8
	with        uint8 // a result, a publication or an ending; of a failed publish 1 if its wakeup is charged
	alternative uint8
}

// String is a line of a trace.
func (t transition) String() string {
	register := fmt.Sprintf("%s of run %d", t.kind, t.run)
	unit := fmt.Sprintf("unit %d", t.unit)
	target := fmt.Sprintf("target %d of run %d", t.target, t.run)
	about := register
	switch t.kind {
	case kindUnit:
		about = "the message of " + unit
	case kindPost:
		about = "post_sync of " + target
	}
	switch t.do {
	case timeRegisterDue:
		return "time: " + register + " falls due"
	case timeWaitingDue:
		return "time: the waiting number of " + register + " falls due"
	case timeStale:
		return "time: " + unit + " becomes stale"
	case timeLeaseEnds:
		return "time: the lease of " + unit + " ends"
	case timeClaimEnds:
		return "time: the claim of " + register + " ends"
	case timeRedriveAfter:
		return "time: redrive_after has passed for " + register
	case timeRetryDue:
		return "time: the retry of " + unit + " falls due"
	case timeNeverStarted:
		return "time: never_started_after has passed"
	case relayClaims:
		return fmt.Sprintf("relay %d claims %s, or drops it", t.relay, register)
	case relayPublishes:
		return fmt.Sprintf("relay %d publishes %s: %s", t.relay, about, publication(t.with))
	case relayConcludes:
		return fmt.Sprintf("relay %d records what it has published", t.relay) + [...]string{"", ", and the wakeup is charged"}[t.with]
	case relaySheds:
		return fmt.Sprintf("relay %d gives its claim back", t.relay)
	case relayMarks:
		return fmt.Sprintf("relay %d marks post_sync", t.relay)
	case relayRecords:
		return fmt.Sprintf("relay %d records the outcomes of post_sync", t.relay)
	case relayDies:
		return fmt.Sprintf("CRASH of relay %d", t.relay)
	case deliverDispatch:
		return fmt.Sprintf("run %d is dispatched by its message", t.run)
	case deliverUnit:
		return "a worker gets the message of " + unit
	case deliverFinalize:
		return fmt.Sprintf("run %d is finalized by its message", t.run)
	case deliverPost:
		return "a consumer gets post_sync of " + target
	case loseMessage:
		return "the broker LOSES " + about
	case doubleMessage:
		return "the broker DOUBLES " + about
	case workerSettles:
		return fmt.Sprintf("attempt %d of %s settles: %s", t.attempt, unit, result(t.with))
	case workerDies:
		return fmt.Sprintf("CRASH of the worker of attempt %d of %s", t.attempt, unit)
	case effectEnds:
		return "the effect of " + target + " " + ending(t.with).String()
	case reconcileLease:
		return "reconciler: the lease of " + unit + " has ended"
	case reconcileClaim:
		return "reconciler: the claim of " + register + " has ended"
	case reconcileOutcomes:
		return fmt.Sprintf("reconciler: nobody will know the outcomes of run %d", t.run)
	case reconcileEffect:
		return "reconciler: the process that had begun " + target + " is gone"
	case reconcileOwed:
		return "reconciler: " + register + " is owed, and armed"
	case processDies:
		return "CRASH of the process; the next incarnation starts"
	case processRecovers:
		return "boot recovery is done"
	case operatorCancelsRun:
		return fmt.Sprintf("operator cancels run %d", t.run)
	case operatorCancelsUnit:
		return "operator cancels " + unit
	case operatorReleasesUnit:
		return "operator releases " + unit
	case operatorPausesEngine:
		return "operator pauses the engine"
	case operatorResumesEngine:
		return "operator resumes the engine"
	case operatorPausesSource:
		return "operator pauses source 0"
	case operatorResumesSource:
		return "operator resumes source 0"
	case operatorParks:
		return "operator parks " + register
	case operatorRedrives:
		return "operator redrives " + register
	case operatorResolves:
		return "operator resolves " + target
	case breakerOpens:
		return "the breaker opens"
	case breakerCloses:
		return "the breaker closes"
	}
	panic(fmt.Sprintf("model: no words for action %d", t.do))
}

// apply is the state behind a transition, and what the transition broke. The whole of it is one transaction.
func (r *rules) apply(from *state, t transition) step {
	s := r.step(from, t.alternative)
	s.perform(t)
	s.refill()
	return s
}

func (s *step) perform(t transition) {
	run, unit, target := int(t.run), int(t.unit), int(t.target)
	y := &s.relays[t.relay]
	switch t.do {
	case timeRegisterDue:
		s.fallDue(run, t.kind)
	case timeWaitingDue:
		s.register(run, t.kind).waitAt = now
	case timeStale:
		s.units[unit].stale = true
	case timeLeaseEnds:
		s.spend(s.works(unit))
		s.units[unit].lease = holdEnded
	case timeClaimEnds:
		s.spend(s.holder(run, t.kind))
		s.register(run, t.kind).claim = holdEnded
	case timeRedriveAfter:
		s.register(run, t.kind).closed = old
	case timeRetryDue:
		s.retryDue(unit)
	case timeNeverStarted:
		s.impatient = true

	case relayClaims:
		s.claim(int(t.relay), run, t.kind)
	case relayPublishes:
		s.publish(y, int(t.unit|t.target), publication(t.with))
	case relayConcludes:
		s.conclude(y, t.with == 1)
	case relaySheds:
		s.spend(!s.breakerOpen)
		s.shed(y)
	case relayMarks:
		s.mark(y)
	case relayRecords:
		s.record(y)
	case relayDies:
		s.spend(true)
		s.dieRelay(y)

	case deliverDispatch:
		s.register(run, kindDispatch).messages--
		s.handleDispatch(run)
	case deliverUnit:
		s.units[unit].messages--
		s.claimUnit(unit)
	case deliverFinalize:
		s.register(run, kindFinalize).messages--
		s.handleFinalize(run)
	case deliverPost:
		s.runs[run].posts[target].messages--
		s.handlePost(run, target)
	case loseMessage:
		s.spend(true)
		*s.copies(t)--
	case doubleMessage:
		s.spend(true)
		*s.copies(t)++

	case workerSettles:
		s.spend(result(t.with) != succeeds)
		s.settle(unit, t.attempt, result(t.with))
	case workerDies:
		s.spend(true)
		s.units[unit].workers &^= bit(int(t.attempt - 1))
	case effectEnds:
		s.spend(ending(t.with) != effectSucceeds)
		s.endEffect(run, target, ending(t.with))

	case reconcileLease:
		s.expire(unit)
	case reconcileClaim:
		s.releaseDead(run, t.kind)
	case reconcileOutcomes:
		s.loseOutcomes(run)
	case reconcileEffect:
		s.loseEffect(run, target)
	case reconcileOwed:
		s.materialize(run, t.kind)

	case processDies:
		s.spend(true)
		s.crash()
	case processRecovers:
		s.booting = false

	case operatorCancelsRun:
		s.acts--
		s.cancelRun(run)
	case operatorCancelsUnit:
		s.acts--
		s.cancelUnit(unit)
	case operatorReleasesUnit:
		s.acts--
		s.units[unit].lease = holdEnded // whatever it was: a person has said so, and no incarnation (RW-8)
		s.expire(unit)
	case operatorPausesEngine:
		s.acts--
		s.paused = true
	case operatorResumesEngine:
		s.resumeEngine()
	case operatorPausesSource:
		s.acts--
		s.sourcePaused = true
	case operatorResumesSource:
		s.resumeSource()
	case operatorParks:
		s.acts--
		s.park(run, t.kind)
	case operatorRedrives:
		s.arm(run, t.kind, now)
	case operatorResolves:
		s.resolve(run, target)
	case breakerOpens:
		s.acts--
		s.breakerOpen = true
	case breakerCloses:
		s.breakerOpen = false
	}
}

// spend takes one of the faults that the world may still have.
func (s *step) spend(isFault bool) {
	if isFault {
		s.faults--
	}
}

// copies are those of a message that the broker has.
func (s *step) copies(t transition) *uint8 {
	switch t.kind {
	case kindUnit:
		return &s.units[t.unit].messages
	case kindPost:
		return &s.runs[t.run].posts[t.target].messages
	}
	return &s.register(int(t.run), t.kind).messages
}

// dieRelay is the death of a relay in a shared store: what it knows is lost with it, its claim stays until it ends.
func (s *step) dieRelay(y *relay) {
	if s.markFirst(y.kind) && (y.phase == phaseMarked || y.phase == phaseSent) {
		for t := range s.Targets {
			s.runs[y.run].posts[t].receipt = noOutcome
		}
	}
	s.rest(y)
}

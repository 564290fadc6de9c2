package model

// What follows a run: the post_sync fan-out in both modes (K-8, O-12, O-17, HP-1 to HP-5).

// mark is O-S5a: a mark_first number closes before its only publish.
func (s *step) mark(y *relay) {
	run := int(y.run)
	r := s.register(run, kindPost)
	switch {
	case y.holds && r.claim == holdLive:
		r.status, r.closed, r.gone, r.local = marked, recent, false, s.InProcess
	case !s.has(PublishedUnmarked):
		s.rest(y)
		return
	}
	y.phase = phaseMarked
}

// takePost notes that the current number is claimed: a failure counts once for the newest number that was (HP-3).
func (s *step) takePost(run int) {
	r := s.register(run, kindPost)
	for t := range s.Targets {
		p := &s.runs[run].posts[t]
		p.failing = p.failing && r.taken
	}
	r.taken = true
}

// published counts what the broker was sent.
func (s *step) published(y *relay, target int) {
	run := int(y.run)
	p := &s.runs[run].posts[target]
	p.published = min(p.published+1, 2)
	if s.Mode != AtMostOnce {
		return
	}
	if s.register(run, kindPost).closed == never {
		s.breaks("I-14", "post_sync of run %d is published to target %d, and not marked", run, target)
	}
	if p.published > 1 {
		s.breaks("I-14", "post_sync of run %d is published to target %d twice", run, target)
	}
	if p.outcome != noOutcome {
		s.breaks("O-12", "post_sync of run %d is published to target %d, of which the outcome %s is on record", run, target, p.outcome)
	}
}

// record is O-12: what the relay knows of each target, unless something is on record already.
func (s *step) record(y *relay) {
	run := int(y.run)
	s.rest(y)
	for t := range s.Targets {
		p := &s.runs[run].posts[t]
		s.recordOutcome(run, t, p.receipt)
		p.receipt = noOutcome
	}
}

func (s *step) recordOutcome(run, target int, o outcome) {
	p := &s.runs[run].posts[target]
	final := s.register(run, kindPost).status != marked || p.outcome != noOutcome
	if o == noOutcome || final && !s.has(OutcomeIsOverwritten) {
		return
	}
	if p.outcome != noOutcome {
		s.breaks("I-13", "target %d of run %d has a second outcome, %s behind %s", target, run, o, p.outcome)
	}
	p.outcome = o
	s.settleOutcomes(run)
}

// settleOutcomes is O-S9 and O-S10: once every target has an outcome, what is unknown waits for a person.
func (s *step) settleOutcomes(run int) {
	r := s.register(run, kindPost)
	as := idle
	for t := range s.Targets {
		switch p := s.runs[run].posts[t]; {
		case p.outcome == noOutcome:
			return
		case p.outcome == unknown && !p.resolved:
			as = unresolved
		}
	}
	r.status, r.claim = as, holdNone
}

// loseOutcomes is REC-13: a marked number whose claim is over has no relay that will say more.
func (s *step) loseOutcomes(run int) {
	for t := range s.Targets {
		s.recordOutcome(run, t, unknown)
	}
}

// losable is HP-5: an effect that had begun in a process which is gone.
func (s *step) losable(run, target int) bool {
	p := s.runs[run].posts[target]
	r := s.register(run, kindPost).status
	return s.Mode == AtMostOnce && p.effect == effectStarted && p.orphan && (r == idle || r == unresolved) &&
		p.outcome != noOutcome && p.outcome != unknown && !p.resolved
}

func (s *step) loseEffect(run, target int) {
	s.runs[run].posts[target].outcome = unknown
	s.settleOutcomes(run)
}

// resolve is O-17.
func (s *step) resolve(run, target int) {
	s.runs[run].posts[target].resolved = true
	s.settleOutcomes(run)
}

// handlePost is HP-1 to HP-3: in at_most_once mode the message takes the effect, once in the life of the run. In
// exactly_once mode it takes nothing; a process runs an effect once at a time.
func (s *step) handlePost(run, target int) {
	r := s.register(run, kindPost)
	p := &s.runs[run].posts[target]
	if !s.runs[run].status.terminal() || s.Mode == AtMostOnce && r.closed == never {
		return
	}
	switch {
	case s.Mode == ExactlyOnce:
		p.busy = p.busy || p.effect != effectCompleted
	case p.effect == noEffect || s.has(PostStartedTwice):
		if p.effect != noEffect {
			s.breaks("HP-2", "the effect of target %d of run %d is begun twice", target, run)
		}
		p.effect, p.busy = effectStarted, true
	}
}

// ending is how a process ends an effect.
type ending uint8

const (
	effectSucceeds ending = iota
	effectFails
	effectDies     // before it has done anything
	effectDoneDies // behind its commit, and before the record
)

func (e ending) String() string {
	return [...]string{"succeeds", "fails", "dies with its process", "is done, and its process dies before the record"}[e]
}

// endEffect is HP-2 and HP-3.
func (s *step) endEffect(run, target int, e ending) {
	p := &s.runs[run].posts[target]
	p.busy = false
	if e == effectSucceeds || e == effectDoneDies {
		if !p.ledger || s.Mode == AtMostOnce || s.has(LedgerIsIgnored) {
			p.done = min(p.done+1, 2)
		}
		p.ledger = true
		if p.done > 1 {
			s.breaks("K-6", "the effect of target %d of run %d is committed twice", target, run)
		}
	}
	switch {
	case e == effectDies, e == effectDoneDies, p.effect == effectCompleted:
	case e == effectSucceeds:
		p.effect = effectCompleted
	case s.Mode == AtMostOnce:
		p.effect = effectFailed
	default:
		if !p.failing { // once for each wakeup, however often its message is delivered
			p.failures = min(p.failures+1, s.MaxFailures)
		}
		p.effect, p.failing = effectFailed, true
		add(&p.messages) // the transport delivers again
	}
}

// heldPost is REC-10: the target has failed in as many wakeups as the run allows.
func (s *step) heldPost(p *post) bool {
	return s.Mode == ExactlyOnce && p.effect == effectFailed && p.failures >= s.MaxFailures
}

// allDone reports that every target has completed: nothing is owed any more.
func (s *step) allDone(run int) bool {
	for t := range s.Targets {
		if s.runs[run].posts[t].effect != effectCompleted {
			return false
		}
	}
	return true
}

// effectsOpen is REC-10: some target has not completed, and is not held.
func (s *step) effectsOpen(run int) bool {
	for t := range s.Targets {
		if p := &s.runs[run].posts[t]; p.effect != effectCompleted && !s.heldPost(p) {
			return true
		}
	}
	return false
}

// effectFailedOf is O-18: an effect has failed and is not done.
func (s *step) effectHasFailed(run int) bool {
	for t := range s.Targets {
		if s.runs[run].posts[t].effect == effectFailed {
			return true
		}
	}
	return false
}

package model

func (s *step) runOpen(run int) bool { return !s.runs[run].status.terminal() || s.has(EndedRunsGoOn) }

// handleDispatch is spec 10.1.
func (s *step) handleDispatch(run int) {
	if !s.runOpen(run) || s.paused { // HD-1
		return
	}
	s.dispatch(run, maxUnits)
	if s.openUnits(run) == 0 { // HD-7
		s.arm(run, kindFinalize, now)
	}
}

// handleFinalize is spec 10.3, with.
func (s *step) handleFinalize(run int) {
	if s.runs[run].status.terminal() && !s.has(FinalizedTwice) {
		return
	}
	if s.openUnits(run) > 0 {
		return
	}
	units := 0
	for range s.unitsOf(run) {
		units++
	}
	switch s.successes(run) {
	case units:
		s.finish(run, runSucceeded)
	case 0:
		s.finish(run, runFailed)
	default:
		s.finish(run, runPartialFailed)
	}
}

// finish is: the run ends, and post_sync is armed if it is owed.
func (s *step) finish(run int, as runStatus) {
	r := &s.runs[run]
	if r.status.terminal() {
		s.breaks("I-7", "run %d ends twice", run)
	}
	if n := s.openUnits(run); n > 0 {
		s.breaks("I-7", "run %d ends with %d open units", run, n)
	}
	r.status = as
	if s.owesPost(run) && !(as == runCancelled && s.has(CancelDoesNotArmPost)) {
		s.arm(run, kindPost, now)
	}
}

// owesPost is R-9.
func (s *step) owesPost(run int) bool {
	return s.runs[run].status.terminal() && s.successes(run) > 0 && s.Targets > 0
}

// cancelRun is X-1: all open units and the run, in one transaction.
func (s *step) cancelRun(run int) {
	for i := range s.unitsOf(run) {
		if !s.units[i].status.terminal() && !s.has(CancelLeavesUnits) {
			s.enter(i, cancelled) // nothing is armed: the run ends with it
		}
	}
	s.finish(run, runCancelled)
}

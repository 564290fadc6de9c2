package model

// Operators (section 18, O-18, O-21).

// Acts are what operators may do in a configuration, beside what ends a hold: resume, redrive and resolve are always there.
type Acts uint8

// The acts.
const (
	CancelRuns Acts = 1 << iota
	CancelUnits
	PauseEngine
	PauseSource
	OpenBreaker // the breaker's own act, but nobody in the model counts failures
	ParkWakeups
	ReleaseUnits
)

func (a Acts) has(x Acts) bool { return a&x != 0 }

// resume is: every run with a unit that waited for what was held is woken, now or at the time for which all of
// its units wait.
func (s *step) resume(waited func(i int) bool) {
	for run := range s.Runs {
		if !s.runOpen(run) || s.paused {
			continue
		}
		waits := false
		for i := range s.unitsOf(run) {
			isRetry := s.units[i].status == retrying && !s.held(i)
			waits = waits || waited(i) && (s.offered(i) || isRetry)
		}
		if !waits {
			continue
		}
		if s.dispatchable(run) {
			s.arm(run, kindDispatch, now)
		} else if at, ok := s.later(run); ok {
			s.arm(run, kindDispatch, at)
		}
	}
}

func (s *step) resumeEngine() {
	s.paused = false
	s.resume(func(int) bool { return true })
}

func (s *step) resumeSource() {
	s.sourcePaused = false
	s.resume(func(i int) bool { return s.Units[i].Source == 0 })
}

// cancelUnit is X-2.
func (s *step) cancelUnit(i int) { s.end(i, cancelled) }

// over is O-18 and O-21: nothing is owed to the register, whatever is done to it.
func (s *step) over(run int, k kind) bool {
	if k == kindPost {
		return s.allDone(run)
	}
	return !s.runOpen(run)
}

// redrivable is O-18.
func (s *step) redrivable(run int, k kind) bool {
	r := s.register(run, k)
	failed := r.status == idle && k == kindPost && s.effectHasFailed(run)
	return !s.markFirst(k) && (r.status == parked || failed) && !s.over(run, k)
}

// parkable is O-21.
func (s *step) parkable(run int, k kind) bool {
	return !s.markFirst(k) && s.register(run, k).status == pending && !s.over(run, k)
}

package model

// Time passes for each thing by itself. What is alive renews what it holds, so for that it passes only by a fault: a process
// that was frozen, a clock that jumped.

// fallDue is the time of a pending register.
func (s *step) fallDue(run int, k kind) {
	r := s.register(run, k)
	r.at, r.floor = now, false
}

// retryDue is the time of a retry. Its run's dispatch was armed for no later time (I-10).
func (s *step) retryDue(i int) {
	s.units[i].due = true
	r := s.register(s.runOf(i), kindDispatch)
	if r.status == pending && r.at == far && !r.floor {
		r.at = now
	}
	if r.waits && r.waitAt == far {
		r.waitAt = now
	}
}

// works reports that the worker of the newest attempt lives.
func (s *step) works(i int) bool {
	u := &s.units[i]
	return u.attempts > 0 && u.workers&bit(int(u.attempts-1)) != 0
}

// ages reports that somebody would notice that relay.redrive_after passes.
func (s *step) ages(run int, k kind) bool {
	r := s.register(run, k)
	if r.closed != recent {
		return false
	}
	return !s.Reduced || s.owes(run, k) && (r.status == idle || r.status == pending && r.at == far)
}

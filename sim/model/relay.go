package model

// The relay (sections 8 and 11, step 3): claim, publish, record. A relay may stall, or die, between any two of them.

// claimable is O-7.
func (s *step) claimable(run int, k kind) bool {
	r := s.register(run, k)
	return r.status == pending && r.at == now && !s.breakerOpen && !s.booting
}

// claim is O-S4 and O-5: one relay takes the due number, and the attempt counts from here on. What is not owed any more is
// dropped at once (O-8).
func (s *step) claim(y, run int, k kind) {
	if k == kindPost {
		s.takePost(run)
	}
	if !s.owed(run, k) {
		s.drop(run, k)
		return
	}
	r := s.register(run, k)
	switch {
	case s.markFirst(k): // nothing asks how often
	case r.attempts < s.MaxAttempts:
		r.attempts++
	default:
		s.breaks("I-12", "%s of run %d is claimed again after %d attempts", k, run, r.attempts)
	}
	r.status, r.claim, r.at, r.floor = claimed, holdLive, now, false
	s.relays[y] = relay{phase: phaseClaimed, run: uint8(run), kind: k, holds: true, same: true}
	s.expand(y, run, k)
}

// expand is K-1 and K-8: the messages of a claim, anew with every claim.
func (s *step) expand(y, run int, k kind) {
	switch k {
	case kindUnit:
		for i := range s.unitsOf(run) {
			if u := &s.units[i]; u.status == dispatching && u.announced == numberCurrent {
				u.expanded |= bit(y)
			}
		}
	case kindPost:
		for t := range s.Targets {
			if p := &s.runs[run].posts[t]; s.Mode == AtMostOnce || p.effect != effectCompleted {
				p.expanded |= bit(y)
			}
		}
	}
}

// message is one that is about to be published.
type message struct {
	copies   *uint8 // with the broker
	known    *bool  // to the broker, under the current number
	expanded *uint8 // relays that have it to publish; nil: it is the only one of its wakeup
	current  bool   // its id is the one that the next publish of its register has, too
}

// message is the one of a relay about a unit or target.
func (s *step) message(y *relay, about int) message {
	run := int(y.run)
	switch y.kind {
	case kindUnit:
		u := &s.units[about]
		return message{&u.messages, &u.known, &u.expanded, y.same && u.status == dispatching && u.announced == numberCurrent}
	case kindPost:
		p := &s.runs[run].posts[about]
		return message{&p.messages, &p.known, &p.expanded, y.same}
	}
	r := s.register(run, y.kind)
	return message{&r.messages, &r.known, nil, y.same}
}

// outgoing are the units or targets whose messages a relay has still to publish, in any order (relays publish side by side).
func (s *step) outgoing(y *relay) (list [maxUnits]int, n int) {
	of := 1
	switch y.kind {
	case kindUnit:
		of = len(s.Units)
	case kindPost:
		of = s.Targets
	}
	for about := range of {
		if e := s.message(y, about).expanded; e == nil || *e&bit(s.index(y)) != 0 {
			list[n] = about
			n++
		}
	}
	return list, n
}

func (s *step) index(y *relay) int {
	if y == &s.relays[0] {
		return 0
	}
	return 1
}

// publication is what becomes of one publish: what the relay is told (O-10), and what the broker did.
type publication uint8

const (
	delivered publication = iota
	suppressed
	swallowed
	refusedNow
	refusedForEver
	unknownDelivered
	unknownLost
	notSent

	publications = 8
)

func (p publication) String() string {
	return [...]string{
		"accepted", "accepted, and suppressed under an id that the broker knows", "accepted, and lost by the broker", "refused",
		"refused for ever", "unknown, and delivered", "unknown, and lost", "not sent, for the claim is old",
	}[p]
}

// isFault: the world must spend one to do that.
func (p publication) isFault() bool { return p != delivered && p != suppressed && p != notSent }

func (p publication) met() meets {
	switch p {
	case delivered, suppressed, swallowed:
		return metAccepted
	case refusedNow, notSent:
		return metRefused
	case refusedForEver:
		return metRefused | metForEver
	}
	return metUnknown
}

func (p publication) outcome() outcome {
	switch m := p.met(); {
	case m.has(metAccepted):
		return accepted
	case m.has(metRefused):
		return refused
	}
	return unknown
}

// maySend says what may become of a publish of a relay.
func (s *step) maySend(y *relay, about int, p publication) bool {
	m := s.message(y, about)
	marked := y.phase == phaseMarked
	late := marked && s.register(int(y.run), y.kind).claim != holdLive && !s.has(PublishedHoweverLate) && !s.has(PublishedUnmarked)
	switch {
	case p.isFault() && s.faults == 0, late != (p == notSent):
		return false
	case p == suppressed:
		return !marked && *m.known && m.current
	case p == refusedForEver:
		return !marked && s.Permanent
	}
	return true
}

// publish sends one message. A fan-out goes on behind a failure (K-2).
func (s *step) publish(y *relay, about int, p publication) {
	m := s.message(y, about)
	s.spend(p.isFault())
	if p == delivered || p == unknownDelivered {
		add(m.copies)
	}
	if p.met().has(metAccepted|metUnknown) && m.current {
		*m.known = true
	}
	if y.kind == kindPost && p != notSent {
		s.published(y, about)
	}
	y.met |= p.met()
	if y.phase == phaseMarked {
		s.runs[y.run].posts[about].receipt = p.outcome()
	} else {
		y.phase = phaseSending
	}
	if m.expanded != nil {
		*m.expanded &^= bit(s.index(y))
	}
	if _, n := s.outgoing(y); n == 0 || m.expanded == nil {
		y.phase = phaseSent
	}
}

// conclude is O-9 and O-11: the record of what was published, by the relay that has the live claim. A failure is the
// wakeup's, and burns its attempt, or the transport's (O-16); which, depends on what else the transport took.
func (s *step) conclude(y *relay, charged bool) {
	run, k := int(y.run), y.kind
	r := s.register(run, k)
	met := y.met
	mayRecord := y.holds && r.claim == holdLive || s.has(MarkWithoutToken) && r.status == claimed
	if mayRecord && !y.holds {
		s.breaks("I-11", "the claim of %s of run %d is another relay's, and it is marked", k, run)
	}
	s.rest(y)
	switch {
	case !mayRecord:
	case met == metAccepted:
		s.close(run, k, true)
	default:
		forEver := met.has(metForEver)
		s.release(run, k, release{
			counted: charged || forEver, maybe: met.has(metAccepted|metUnknown) && !s.has(UnknownIsSafe), forEver: forEver, at: soon,
		})
	}
}

// shed is O-20, and O-16 for a breaker that opened behind the claim: no publish has begun, and the attempt is given back.
func (s *step) shed(y *relay) {
	run, k := int(y.run), y.kind
	s.rest(y)
	s.release(run, k, release{at: now})
}

// rest is the end of a relay's round, or of its process.
func (s *step) rest(y *relay) {
	mine := bit(s.index(y))
	for i := range s.units {
		s.units[i].expanded &^= mine
	}
	for run := range s.runs {
		for t := range s.runs[run].posts {
			s.runs[run].posts[t].expanded &^= mine
		}
	}
	*y = relay{}
}

// holder reports a relay that has the claim.
func (s *step) holder(run int, k kind) bool {
	for y := range s.relays {
		if y := &s.relays[y]; y.phase != phaseIdle && y.holds && int(y.run) == run && y.kind == k {
			return true
		}
	}
	return false
}

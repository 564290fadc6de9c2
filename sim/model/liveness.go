package model

import "hash/maphash"

// I-27: once faults stop and time moves on, every run ends. Breadth-first search cannot say "at last", but it can try: from
// every state some fair schedules are followed, in which no fault and no new act happens. A schedule takes, of all
// transitions that are possible, the first by its order of preference. Time moves only when nothing else can, and then for
// all that waits as long.

// schedule is an order in which the parts of the system come to their turn.
type schedule struct {
	name     string
	urgency  func(*step, transition) int // less goes first; from shortTime on, time moves
	confirms bool                        // the transport tells what it has accepted; else it delivers and never says so
}

const (
	holdsEnd  = 0  // what holds is ended: pauses, an open breaker
	shortTime = 50 // backoffs, claims, leases, redrive_after, stale
	longTime  = 60 // retries, and wakeups as far ahead
	byHand    = 70 // what is parked waits for an operator
)

// progress orders the parts: the lower the sooner.
type progress struct{ messages, workers, reconciler, relays int }

func (p progress) urgency(s *step, t transition) int {
	switch t.do {
	case operatorResumesEngine, operatorResumesSource, breakerCloses, processRecovers:
		return holdsEnd
	case deliverDispatch, deliverUnit, deliverFinalize, deliverPost:
		return p.messages
	case workerSettles, effectEnds:
		return p.workers
	case reconcileLease, reconcileClaim, reconcileOutcomes, reconcileEffect, reconcileOwed:
		return p.reconciler
	case relayClaims, relayPublishes, relayConcludes, relayMarks, relayRecords, relaySheds:
		return p.relays
	case timeRegisterDue:
		if s.register(int(t.run), t.kind).at == far {
			return longTime
		}
	case timeRetryDue:
		return longTime
	case operatorRedrives, operatorResolves:
		return byHand
	}
	return shortTime
}

// schedules are worst cases of their kind: messages first, relays first, workers first; a broker suppresses each id that it
// knows. The last transport delivers, and never confirms.
var schedules = [...]schedule{
	{"messages first", progress{10, 11, 12, 13}.urgency, true},
	{"relays first", progress{13, 12, 11, 10}.urgency, true},
	{"workers late", progress{12, 13, 10, 11}.urgency, true},
	{"no confirmation", progress{10, 11, 12, 13}.urgency, false},
}

// settling are the fault-free states from which schedules are known to come to rest. Only hashes are kept: a collision of two
// of 64 bits could hide a standstill, once in millions of explorations.
type settling struct {
	seed  maphash.Seed
	known hashes       // schedules that come to rest from a state, one bit each
	path  []uint64     // of follow, reused
	turn  []transition // the same
}

func newSettling() *settling { return &settling{seed: maphash.MakeSeed(), known: newHashes()} }

// standstill is why some schedule does not lead from a state to the end of every run, with the way there; empty: all do.
func (l *settling) standstill(r *rules, from *state) (why string, way []transition) {
	start := *from
	start.faults, start.acts = 0, 0
	r.canonical(&start)
	known := l.known.bits(maphash.Bytes(l.seed, start.bytes()))
	for n := range schedules {
		if known&bit(n) == 0 {
			if why := l.follow(r, start, n, nil); why != "" {
				const enough = 60 // of one that goes round
				l.follow(r, start, n, func(t transition) {
					if len(way) < enough {
						way = append(way, t)
					}
				})
				return why + " (" + schedules[n].name + ")", way
			}
		}
	}
	return "", nil
}

// patience bounds a schedule. The longest that comes to rest takes about a third of it.
const patience = 600

// follow says why a schedule does not come to rest. It tells note of each step.
func (l *settling) follow(r *rules, s state, n int, note func(transition)) string {
	l.path = l.path[:0]
	for range patience {
		here := r.step(&s, 0)
		hash := maphash.Bytes(l.seed, s.bytes())
		if l.known.bits(hash)&bit(n) != 0 || here.resting() {
			l.known.add(hash, bit(n))
			for _, h := range l.path {
				l.known.add(h, bit(n))
			}
			return ""
		}
		l.path = append(l.path, hash)
		turn, urgency := r.turn(&s, schedules[n], l.turn[:0])
		l.turn = turn
		if len(turn) == 0 {
			return "I-27: nothing can happen any more, and not all runs have ended"
		}
		if urgency >= longTime && here.waitsInVain() {
			return "B-6: a slot is free, a unit could have it, and nothing happens before a far time"
		}
		for _, t := range turn {
			if note != nil {
				note(t)
			}
			next := r.apply(&s, t)
			if next.broken != "" {
				return next.broken
			}
			s = next.state
		}
		r.canonical(&s)
	}
	return "I-27: no end is in sight"
}

// turn is the transition that a schedule takes next, or if time must move all that comes with it.
func (r *rules) turn(s *state, by schedule, buffer []transition) (turn []transition, urgency int) {
	here := r.step(s, 0)
	turn = buffer
	r.enabled(s, func(t transition) {
		u := by.urgency(&here, t)
		switch t.do {
		case timeStale:
			if here.isAwaited(int(t.unit)) {
				return
			}
		case relayPublishes:
			switch publication(t.with) {
			case suppressed:
				u-- // the worst that an honest broker can do
			case delivered:
				if !by.confirms {
					t.with = uint8(unknownDelivered)
				}
			}
		case relaySheds:
			return // it is nobody's turn
		case relayConcludes:
			u += int(t.with) // an uncharged failure goes first: it can go on for ever
		}
		switch {
		case len(turn) == 0 || u < urgency:
			turn, urgency = append(turn[:0], t), u
		case u == urgency && u >= shortTime:
			turn = append(turn, t)
		}
	})
	return turn, urgency
}

// isAwaited reports a dispatching unit whose message is with the broker, or will be published.
func (s *step) isAwaited(i int) bool {
	u := &s.units[i]
	return u.messages > 0 || u.announced != numberClosed && s.register(s.runOf(i), kindUnit).status != parked
}

// waitsInVain is B-6 again: REC-7 owes a dispatch and a slot is free, and nothing holds it.
func (s *step) waitsInVain() bool {
	for run := range s.Runs {
		d, u := s.register(run, kindDispatch), s.register(run, kindUnit)
		if s.fits(run) && d.status != parked && u.status != parked {
			return true
		}
	}
	return false
}

package projections

import (
	"slices"

	"github.com/towline-dev/towline/events"
)

// What a run has to offer is counted as it changes, not when somebody asks: every settle asks of all open runs whether
// the slot that it frees lets a unit in (B-6), and must not walk their units for that.

// offer counts the units of a run in one bucket that could be dispatched if there were room (HD-3): those of its open
// lanes.
type offer struct {
	bucket *hotBucket
	tally
}

// tally counts units that wait to be dispatched.
type tally struct {
	planned  int // with an open tier
	due      int // retrying, and their time has come
	stale    int // dispatching, and they hold no slot any more
	suspects int // due or stale, and crash suspects: only one of them goes at a time (RW-8)
}

func (t tally) units() int { return t.planned + t.due + t.stale }

func (t tally) any() bool { return t.units()+t.suspects > 0 }

// lane is what opens and closes as one for a run: the units of one tier, source, dataset and bucket. What a pause, a
// cooldown or a configuration holds is counted on, but it is not on offer.
type lane struct {
	run     *hotRun
	offer   *offer
	from    *hotSource
	gate    *gate
	key     laneKey
	missing string // from the configuration of this node; empty: nothing

	waiting tally // open or not
	offered tally // of it, what the offer counts
}

type laneKey struct {
	provider, source, dataset string
	bucket                    events.Bucket
	reference                 bool
}

// held: only a person or another configuration opens the lane.
func (l *lane) held() bool { return l.missing != "" || l.gate.paused }

func (l *lane) open() bool { return !l.held() && !l.gate.cooling }

// reachable is what waits in the lane for nothing but the lane: planned units behind a closed tier do not (P-9).
func (l *lane) reachable() tally {
	t := l.waiting
	if !l.key.reference && !l.from.open() {
		t.planned = 0
	}
	return t
}

// refresh brings the offer to what the lane has for it now.
func (l *lane) refresh() {
	var t tally
	if l.open() {
		t = l.reachable()
	}
	was := l.offered
	if t == was {
		return
	}
	o := l.offer
	o.planned += t.planned - was.planned
	o.due += t.due - was.due
	o.stale += t.stale - was.stale
	o.suspects += t.suspects - was.suspects
	o.bucket.offered += t.units() - was.units()
	o.bucket.suspects += t.suspects - was.suspects
	l.offered = t
}

// add changes what waits by n units: planned, due or stale ones.
func (l *lane) add(count *int, n int) {
	*count += n
	l.refresh()
}

// counter is where a unit that is due or stale counts.
func (u *hotUnit) counter(plain *int) *int {
	if u.suspect {
		return &u.lane.waiting.suspects
	}
	return plain
}

// hotSource is a source of a run. Its planned work items are on offer while it is open (P-9).
type hotSource struct {
	blocking int     // reference units that have not succeeded
	lanes    []*lane // of work items
}

func (s *hotSource) open() bool { return s.blocking == 0 }

// block changes the number of reference units that have not succeeded by n. The first of them takes the planned work
// items of the source off offer, and the end of the last one puts them on.
func (s *hotSource) block(n int) {
	was := s.open()
	s.blocking += n
	if s.open() == was {
		return
	}
	for _, l := range s.lanes {
		l.refresh()
	}
}

func (r *hotRun) source(name string) *hotSource {
	s, ok := r.sources[name]
	if !ok {
		s = &hotSource{}
		r.sources[name] = s
	}
	return s
}

func (r *hotRun) offerIn(b *hotBucket) *offer {
	if i := slices.IndexFunc(r.offers, func(o *offer) bool { return o.bucket == b }); i >= 0 {
		return r.offers[i]
	}
	o := &offer{bucket: b}
	r.offers = append(r.offers, o)
	return o
}

// laneOf is the lane of a unit, opened with its first.
func (h *Hot) laneOf(r *hotRun, of live) *lane {
	key := laneKey{of.provider, of.source, of.dataset, of.bucket, of.reference}
	l, ok := r.lanes[key]
	if ok {
		return l
	}
	l = &lane{
		run: r, offer: r.offerIn(h.bucket(of.bucket)), from: r.source(of.source), gate: h.gate(of.provider, of.source), key: key,
	}
	if h.knobs.Missing != nil {
		l.missing = h.knobs.Missing(r.sync, of.provider, of.source, of.dataset)
	}
	r.lanes[key] = l
	l.gate.lanes[l] = struct{}{}
	if !of.reference {
		l.from.lanes = append(l.from.lanes, l)
	}
	return l
}

// offersAny reports units that could be dispatched if there were room.
func (r *hotRun) offersAny() bool {
	return slices.ContainsFunc(r.offers, func(o *offer) bool { return o.any() })
}

func (r *hotRun) offersPlanned() bool {
	return slices.ContainsFunc(r.offers, func(o *offer) bool { return o.planned > 0 })
}

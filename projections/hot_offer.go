package projections

import "slices"

// What a run has to offer is counted as it changes, not when somebody asks: every settle asks of all open runs whether
// the slot that it frees lets a unit in (B-6), and must not walk their units for that.

// offer counts the units of a run in one bucket that could be dispatched if there were room (HD-3).
type offer struct {
	bucket  *hotBucket
	planned int // with an open tier
	due     int // retrying, and their time has come
	stale   int // dispatching, and they hold no slot any more
}

func (o *offer) units() int { return o.planned + o.due + o.stale }

// add changes one of the counts by n, and that of the bucket with it.
func (o *offer) add(count *int, n int) {
	*count += n
	o.bucket.offered += n
}

// hotSource is a source of a run. Its planned work items are on offer while it is open (P-9).
type hotSource struct {
	blocking int            // reference units that have not succeeded
	waiting  map[*offer]int // planned work items, open or not
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
	for o, planned := range s.waiting { // no order: each is counted alone
		if was {
			planned = -planned
		}
		o.add(&o.planned, planned)
	}
}

// wait enters a planned unit, with n = 1, or takes it out, with n = -1.
func (u *hotUnit) wait(n int) {
	if !u.reference {
		u.from.waiting[u.offer] += n
		if !u.from.open() {
			return
		}
	}
	u.offer.add(&u.offer.planned, n)
}

func (r *hotRun) source(name string) *hotSource {
	s, ok := r.sources[name]
	if !ok {
		s = &hotSource{waiting: map[*offer]int{}}
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

func (r *hotRun) offersAny() bool {
	return slices.ContainsFunc(r.offers, func(o *offer) bool { return o.units() > 0 })
}

func (r *hotRun) offersPlanned() bool {
	return slices.ContainsFunc(r.offers, func(o *offer) bool { return o.planned > 0 })
}

package decider

import (
	"cmp"
	"iter"
	"slices"

	"github.com/towline-dev/towline/events"
)

// Candidate is a unit that could be dispatched if there were room.
type Candidate struct {
	Unit              events.UnitID
	Ordinal           int
	Bucket            events.Bucket
	AvailableAt       events.Micros // of a retry
	Dispatches        int           // in this attempt
	FirstDispatchedAt events.Micros // of this attempt
	MessageGone       bool          // its message lived in an incarnation that is gone
	Suspect           bool          // its process died under it, and its retries are spent (RW-8)
}

// Waiting is what a run has to offer, in the groups of HD-3.
type Waiting struct {
	Stale   []Candidate         // dispatching, and their message must be taken for lost
	Retries []Candidate         // retrying, and due
	Planned iter.Seq[Candidate] // planned, with an open tier: reference tier first, then by ordinal; nil: none
}

// InOrder is the walk of HD-3: what was lost goes first, so that new work cannot starve it; but a unit that nobody
// claims, however often it is dispatched, goes last, so that it cannot hold back the rest.
func (w Waiting) InOrder() iter.Seq[Candidate] {
	return func(yield func(Candidate) bool) {
		stale := slices.Clone(w.Stale)
		slices.SortFunc(stale, func(a, b Candidate) int {
			return cmp.Or(cmp.Compare(a.FirstDispatchedAt, b.FirstDispatchedAt), cmp.Compare(a.Ordinal, b.Ordinal))
		})
		retries := slices.Clone(w.Retries)
		slices.SortFunc(retries, func(a, b Candidate) int {
			return cmp.Or(cmp.Compare(a.AvailableAt, b.AvailableAt), cmp.Compare(a.Ordinal, b.Ordinal))
		})
		for _, c := range stale {
			if c.Dispatches <= ReclaimsBeforeNeverStarted && !yield(c) {
				return
			}
		}
		for _, c := range retries {
			if !yield(c) {
				return
			}
		}
		if w.Planned != nil {
			for c := range w.Planned {
				if !yield(c) {
					return
				}
			}
		}
		for _, c := range stale {
			if c.Dispatches > ReclaimsBeforeNeverStarted && !yield(c) {
				return
			}
		}
	}
}

// Room is how many units may still be put in flight. All three caps must have room (B-2).
type Room struct {
	Engine, Run int
	Bucket      func(events.Bucket) int
	Suspects    int // 1, or 0 while a suspect is at work: a unit that kills its process takes no other suspect with it (RW-8)
}

// Fits reports room for one unit of a bucket.
func (r Room) Fits(b events.Bucket) bool { return r.Engine > 0 && r.Run > 0 && r.Bucket(b) > 0 }

// Admits reports room for one unit, suspect or not.
func (r Room) Admits(b events.Bucket, suspect bool) bool {
	return r.Fits(b) && (!suspect || r.Suspects > 0)
}

// Choose takes units in order while there is room, at most limit of them (HD-4). A full bucket skips its units and
// does not stop the walk, and no more does a crash suspect whose turn it is not. left reports that a candidate was not
// taken.
func Choose(candidates iter.Seq[Candidate], room Room, limit int) (taken []Candidate, left bool) {
	used := map[events.Bucket]int{}
	for c := range candidates {
		full := len(taken) >= min(limit, room.Engine, room.Run)
		if full || room.Bucket(c.Bucket) <= used[c.Bucket] || c.Suspect && room.Suspects <= 0 {
			left = true
			if full {
				break
			}
			continue
		}
		used[c.Bucket]++
		if c.Suspect {
			room.Suspects--
		}
		taken = append(taken, c)
	}
	return taken, left
}

package check

import (
	"cmp"
	"math"
	"slices"

	"github.com/towline-dev/towline/events"
)

// slots counts what is in flight as B-1 does: running units with a live lease and dispatching units that are not
// stale. Both end by the mere passing of time, so each unit has the time until which it holds its slot, and a heap
// says which is next.
type slots struct {
	flight  []*unit // dispatching or running, whether they hold a slot or not
	engine  int
	buckets map[events.Bucket]*bucket
	stale   events.Span // dispatch.stale of the node that decides; 0: not known
	due     []slotEnd   // a heap; an entry is void if its unit has another end by now
}

type bucket struct {
	name events.Bucket
	used int
}

type slotEnd struct {
	at events.Micros
	u  *unit
}

func newSlots(stale events.Span) slots {
	return slots{buckets: map[events.Bucket]*bucket{}, stale: stale}
}

const forever = events.Micros(math.MaxInt64)

// advance moves the time to that of e, under the settings of its node.
func (c *Checker) advance(e events.Envelope) {
	c.now = max(c.now, e.At)
	if !e.Node.IsZero() {
		c.restale(c.settings(e.Node).Stale)
	}
	for len(c.slots.due) > 0 && c.slots.due[0].at <= c.now {
		end := c.slots.pop()
		if u := end.u; u.holds && u.slotEnd <= c.now {
			c.take(u, false)
		}
	}
}

// restale takes over another dispatch.stale.
func (c *Checker) restale(stale events.Span) {
	if stale != c.slots.stale {
		c.slots.stale = stale
		c.recount()
	}
}

// slotUntil is the time until which u holds a slot for a node with this dispatch.stale; 0: it holds none.
func (c *Checker) slotUntil(u *unit, stale events.Span) events.Micros {
	switch u.Status {
	case events.UnitIsRunning:
		return c.leaseEnd(u)
	case events.UnitIsDispatching:
		switch {
		case c.messageGone(u):
			return 0
		case stale <= 0:
			return forever
		}
		return u.LastDispatchedAt.Add(stale)
	}
	return 0
}

// count looks anew whether u holds a slot.
func (c *Checker) count(u *unit) {
	until := c.slotUntil(u, c.slots.stale)
	holds := until > c.now
	push := holds && until != forever && (until != u.slotEnd || !u.holds)
	u.slotEnd = until
	if holds != u.holds {
		c.take(u, holds)
	}
	if push {
		c.slots.push(slotEnd{until, u})
	}
}

// recount does so for all units in flight, after a change that is not theirs.
func (c *Checker) recount() {
	for _, u := range c.slots.flight {
		c.count(u)
	}
}

func (c *Checker) take(u *unit, holds bool) {
	by := -1
	if holds {
		by = 1
	}
	u.holds = holds
	u.bucket.used += by
	u.run.slots += by
	c.slots.engine += by
}

// checkCaps compares the slots in use with the caps in force at the node of e (B-2, I-17).
func (c *Checker) checkCaps(e events.Envelope, u *unit, what string) {
	if c.slots.stale <= 0 {
		return // who is stale cannot be told, so the slots cannot be counted
	}
	s := c.settings(e.Node)
	for _, l := range [...]struct {
		of        string
		used, cap int
	}{
		{"bucket " + string(u.bucket.name), u.bucket.used, s.capOf(u.bucket.name)},
		{"its run", u.run.slots, u.run.Policy.RunCap},
		{"the engine", c.slots.engine, s.CapEngine},
	} {
		if l.cap > 0 && l.used > l.cap {
			c.wrong("I-17", e, "with this %s %s has %d slots in use, and the cap is %d", what, l.of, l.used, l.cap)
		}
	}
}

// room reports that one more unit of u's bucket would fit (U-14).
func (c *Checker) room(e events.Envelope, u *unit) bool {
	s := c.settings(e.Node)
	fits := func(used, cap int) bool { return cap <= 0 || used < cap }
	return c.slots.stale <= 0 ||
		fits(u.bucket.used, s.capOf(u.bucket.name)) && fits(u.run.slots, u.run.Policy.RunCap) && fits(c.slots.engine, s.CapEngine)
}

func (s *slots) bucketOf(name events.Bucket) *bucket {
	b := s.buckets[name]
	if b == nil {
		b = &bucket{name: name}
		s.buckets[name] = b
	}
	return b
}

// push and pop are a binary heap by time. container/heap would box each entry. Void entries are thrown out when they
// outnumber the others, so that a log of many events in little time does not pile them up.
func (s *slots) push(e slotEnd) {
	if len(s.due) > 2*len(s.flight)+64 {
		valid := s.due[:0]
		for _, old := range s.due {
			if old.u.holds && old.u.slotEnd == old.at {
				valid = append(valid, old)
			}
		}
		clear(s.due[len(valid):])
		slices.SortFunc(valid, func(a, b slotEnd) int { return cmp.Compare(a.at, b.at) }) // a sorted slice is a heap
		s.due = valid
	}
	h := append(s.due, e)
	for i := len(h) - 1; i > 0; {
		parent := (i - 1) / 2
		if h[parent].at <= h[i].at {
			break
		}
		h[parent], h[i] = h[i], h[parent]
		i = parent
	}
	s.due = h
}

func (s *slots) pop() slotEnd {
	h := s.due
	top, last := h[0], len(h)-1
	h[0], h[last] = h[last], slotEnd{}
	h = h[:last]
	for i := 0; ; {
		child := 2*i + 1
		if child >= len(h) {
			break
		}
		if right := child + 1; right < len(h) && h[right].at < h[child].at {
			child = right
		}
		if h[i].at <= h[child].at {
			break
		}
		h[i], h[child] = h[child], h[i]
		i = child
	}
	s.due = h
	return top
}

package projections

import (
	"container/heap"

	"github.com/towline-dev/towline/events"
)

// flight counts the slots in use over all runs (B-1). A dispatching unit holds its slot until it is stale, a running one
// until its lease ends; both happen by the clock alone, without an event. So the units in flight stand in a heap by the
// time at which that will be, and every question first settles what has come due.
type flight struct {
	live int
	heap deadlines
}

// deadline is the time at which a unit stops holding its slot. An entry whose stamp is not the unit's newest is void.
type deadline struct {
	at    events.Micros
	unit  *hotUnit
	stamp int32
}

type deadlines []deadline

func (d deadlines) Len() int           { return len(d) }
func (d deadlines) Less(i, j int) bool { return d[i].at < d[j].at }
func (d deadlines) Swap(i, j int)      { d[i], d[j] = d[j], d[i] }
func (d *deadlines) Push(x any)        { *d = append(*d, x.(deadline)) }
func (d *deadlines) Pop() any {
	last := len(*d) - 1
	x := (*d)[last]
	(*d)[last] = deadline{}
	*d = (*d)[:last]
	return x
}

// judge enters the time at which u stops holding its slot: at once, if its incarnation or its message is gone.
func (h *Hot) judge(u *hotUnit) {
	u.stamp++
	at := u.leaseExpires
	switch {
	case u.status == events.UnitIsDispatching && h.messageGone(u):
		at = 0
	case u.status == events.UnitIsDispatching:
		at = u.lastDispatched.Add(h.knobs.StaleAfter)
	case h.Gone(u.leaseNode):
		at = 0
	}
	if at == 0 {
		h.kill(u)
		return
	}
	h.flight.push(deadline{at, u, u.stamp})
}

func (f *flight) push(d deadline) {
	// Void entries are dropped when they are most of the heap, so it stays as large as what is in flight.
	const slack = 64
	if len(f.heap) > 2*f.live+slack {
		kept := f.heap[:0]
		for _, e := range f.heap {
			if e.stamp == e.unit.stamp {
				kept = append(kept, e)
			}
		}
		clear(f.heap[len(kept):])
		f.heap = kept
		heap.Init(&f.heap)
	}
	heap.Push(&f.heap, d)
}

// settle lets go of the slots of all units that are stale or whose lease has ended at now.
func (h *Hot) settle(now events.Micros) {
	for len(h.flight.heap) > 0 && h.flight.heap[0].at <= now {
		d := heap.Pop(&h.flight.heap).(deadline)
		if d.stamp == d.unit.stamp {
			h.kill(d.unit)
		}
	}
}

func (h *Hot) kill(u *hotUnit) {
	if u.dead {
		return
	}
	u.dead = true
	u.bucket.dead++
	h.slots(u, -1)
}

// judgeAll looks at every unit in flight again, after an incarnation came or went.
func (h *Hot) judgeAll() {
	for _, r := range h.order {
		for _, u := range r.busy {
			if !u.dead {
				h.judge(u)
			}
		}
	}
}

// Gone reports an incarnation that is known to be dead (N-3). The zero incarnation is an API worker's, which no restart
// ends (N-5).
func (h *Hot) Gone(n events.NodeID) bool {
	if n.IsZero() {
		return false
	}
	_, alive := h.alive[n]
	return !alive
}

// messageGone reports a dispatching unit whose message lived in the process of an incarnation that is gone.
func (h *Hot) messageGone(u *hotUnit) bool { return h.Gone(u.run.announcer.MessageIn(u.wakeup)) }

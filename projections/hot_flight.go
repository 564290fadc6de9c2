package projections

import (
	"container/heap"

	"github.com/towline-dev/towline/events"
)

// flight counts the slots in use over all runs (B-1). A dispatching unit holds its slot until it is stale, a running one
// until its lease ends, and a retrying unit waits until it is due; all of it happens by the clock alone, without an event.
// So these units stand in a heap by the time at which that will be, and every question first settles what has come due.
type flight struct {
	live    int
	waiting int // retrying units that are not due
	heap    deadlines
}

// deadline is the time at which a unit stops holding its slot, or is due. An entry whose stamp is not the unit's newest
// is void.
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

// InUse is how many slots are in use at a moment (B-1). Runs and buckets without any are not in it.
type InUse struct {
	Engine  int
	Runs    map[events.RunID]int
	Buckets map[events.Bucket]int
}

// InUse counts as Room does.
func (h *Hot) InUse(now events.Micros) InUse {
	h.settle(now)
	in := InUse{Engine: h.flight.live, Runs: map[events.RunID]int{}, Buckets: map[events.Bucket]int{}}
	for _, r := range h.order {
		if r.inFlight > 0 {
			in.Runs[r.id] = r.inFlight
		}
	}
	for name, b := range h.buckets {
		if b.inFlight > 0 {
			in.Buckets[name] = b.inFlight
		}
	}
	return in
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
	// Void entries are dropped when they are most of the heap, so it stays as large as what is in flight or waits.
	const slack = 64
	if len(f.heap) > 2*(f.live+f.waiting)+slack {
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

// settle lets go of the slots of all units that are stale or whose lease has ended at now, and offers the retries that
// are due, or whose cooldown is over.
func (h *Hot) settle(now events.Micros) {
	h.settled = max(h.settled, now)
	if h.thaw != 0 && h.thaw <= h.settled {
		h.thawed()
	}
	for len(h.flight.heap) > 0 && h.flight.heap[0].at <= now {
		switch d := heap.Pop(&h.flight.heap).(deadline); {
		case d.stamp != d.unit.stamp:
		case d.unit.status == events.UnitIsRetrying:
			h.fallDue(d.unit)
		default:
			h.kill(d.unit)
		}
	}
}

func (h *Hot) kill(u *hotUnit) {
	if u.dead {
		return
	}
	u.dead = true
	h.slots(u, -1)
	if u.status == events.UnitIsDispatching {
		u.lane.add(u.counter(&u.lane.waiting.stale), 1)
		delete(h.atWork, u)
	}
}

// land takes a unit out of flight. was is its status there.
func (h *Hot) land(u *hotUnit, was events.UnitStatus) {
	switch {
	case !u.dead:
		h.slots(u, -1)
	case was == events.UnitIsDispatching:
		u.lane.add(u.counter(&u.lane.waiting.stale), -1)
	}
	delete(h.atWork, u)
	u.dead = false
	u.stamp++ // its entry in the heap is void
}

func (h *Hot) slots(u *hotUnit, n int) {
	u.run.inFlight += n
	u.lane.offer.bucket.inFlight += n
	h.flight.live += n
}

// await enters the time at which a retrying unit is due.
func (h *Hot) await(u *hotUnit) {
	u.stamp++
	h.flight.waiting++
	h.flight.push(deadline{u.availableAt, u, u.stamp})
}

func (h *Hot) fallDue(u *hotUnit) {
	u.due = true
	h.flight.waiting--
	u.lane.add(u.counter(&u.lane.waiting.due), 1)
}

// endWait takes out a unit that is retrying no more.
func (h *Hot) endWait(u *hotUnit) {
	if u.due {
		u.lane.add(u.counter(&u.lane.waiting.due), -1)
	} else {
		h.flight.waiting--
	}
	u.due = false
	u.stamp++ // its entry in the heap is void
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

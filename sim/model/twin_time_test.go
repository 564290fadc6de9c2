package model

import (
	"time"

	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/events"
)

// The twin has one clock, where the model lets time pass for each thing by itself. So when the walk lets something fall due,
// the clock jumps to that time, and what else has come due by then falls due in the model, too.

// margin is what lies between any two times, but for those that are taken as one. Nothing that waits is ever so near that a
// countdown could reach behind it.
var margin = events.SpanOf(5 * time.Second)

// hop is how long a living worker goes without renewing its lease.
var hop = events.SpanOf(9 * time.Minute)

// timer is something that falls due: which transition of the model that is, and when.
type timer struct {
	transition
	at events.Micros
}

// timers are all that lie ahead, and all that have passed. Leases of living workers are renewed in time, but for that of
// one unit; -1: of none.
func (w *twin) timers(world *state, frozen int) (list []timer) {
	add := func(at events.Micros, t transition) { list = append(list, timer{t, at}) }
	for run := range w.Runs {
		for k := range kind(kinds) {
			r := w.reg(run, kindNames[k])
			about := func(do action) transition { return transition{do: do, run: uint8(run), kind: k} }
			if r.Status == decider.RegisterPending {
				add(r.AvailableAt, about(timeRegisterDue))
			}
			if r.Next != 0 {
				add(r.NextAt, about(timeWaitingDue))
			}
			if r.Status == decider.RegisterClaimed || r.Status == decider.RegisterMarked {
				add(r.Claim.ExpiresAt, about(timeClaimEnds))
			}
			if r.Closed > 0 {
				add(r.LastClosedAt.Add(span.redrive), about(timeRedriveAfter))
			}
		}
	}
	for i := range w.Units {
		u := w.unit(i)
		about := func(do action) transition {
			return transition{do: do, run: w.Units[i].Run, kind: kindUnit, unit: uint8(i)}
		}
		switch u.Status {
		case events.UnitIsDispatching:
			add(u.LastDispatchedAt.Add(span.stale), about(timeStale))
		case events.UnitIsRetrying:
			add(u.AvailableAt, about(timeRetryDue))
		case events.UnitIsRunning:
			if i == frozen || !w.isRenewed(world, i) {
				add(u.Lease.ExpiresAt, about(timeLeaseEnds))
			}
		}
	}
	return list
}

// isRenewed reports a unit whose worker lives and holds its lease.
func (w *twin) isRenewed(world *state, i int) bool {
	s := w.step(world, 0)
	return s.works(i) && world.units[i].lease == holdLive
}

// jump moves the clock to the time of a transition, and behind all that lies close to it. Workers renew on the way.
func (w *twin) jump(t transition, world *state) {
	frozen := -1
	if t.do == timeLeaseEnds {
		frozen = int(t.unit)
	}
	timers := w.timers(world, frozen)
	to := w.now
	for _, x := range timers {
		if x.transition == t {
			to = max(to, x.at)
		}
	}
	for moved := true; moved; {
		moved = false
		for _, x := range timers {
			if x.at > to && x.at <= to.Add(margin) {
				to, moved = x.at, true
			}
		}
	}
	for w.now < to {
		w.now = min(to, w.now.Add(hop))
		for i := range w.Units {
			if i != frozen && w.isRenewed(world, i) {
				u := w.unit(i)
				w.execute(decider.RenewLease{
					Unit: unitID(i), At: w.now, RunOpen: true, Attempt: u.Attempt, Token: leaseToken(i, u.Attempt), Lease: span.lease,
				})
			}
		}
	}
}

// passed are the transitions of the model for what has come due in the twin.
func (w *twin) passed(s *state, frozen int) (list []transition) {
	for _, x := range w.timers(s, frozen) {
		if x.at > w.now {
			continue
		}
		r := &s.runs[x.run].registers[x.kind]
		u := &s.units[x.unit]
		due := map[action]bool{
			timeRegisterDue:  r.status == pending && r.at > now,
			timeWaitingDue:   r.waits && r.waitAt > now,
			timeClaimEnds:    r.claim == holdLive,
			timeRedriveAfter: r.closed == recent,
			timeStale:        u.status == dispatching && !u.stale,
			timeRetryDue:     u.status == retrying && !u.due,
			timeLeaseEnds:    u.lease == holdLive,
		}
		if due[x.do] {
			list = append(list, x.transition)
		}
	}
	return list
}

// levelOf is a time as the model knows it.
func (w *twin) levelOf(at events.Micros) when {
	switch {
	case at <= w.now:
		return now
	case at <= w.now.Add(margin):
		return soon
	}
	return far
}

package model

import (
	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/events"
)

// seen is the state of the model with all that the log decides taken from the twin: what is left of the model's own is the
// world, which no log knows.
func (w *twin) seen(world *state) state {
	s := *world
	for i := range w.Units {
		w.seeUnit(i, &s.units[i])
	}
	for run := range w.Runs {
		r := w.run(run)
		s.runs[run].status = map[events.RunStatus]runStatus{
			events.RunIsPlanned: runOpen, events.RunIsDispatching: runOpen, events.RunSucceeded: runSucceeded,
			events.RunPartialFailed: runPartialFailed, events.RunFailed: runFailed, events.RunIsCancelled: runCancelled,
		}[r.Status]
		s.runs[run].started = r.StartedAt != 0
		for k := range kind(kinds) {
			w.seeRegister(w.reg(run, kindNames[k]), k, &s.runs[run].registers[k])
		}
		for t := range w.Targets {
			w.seePost(run, t, &s.runs[run].posts[t])
		}
	}
	s.paused = w.paused(events.EngineControlStream())
	s.sourcePaused = w.paused(events.SourceControlStream(sourceName(0)))
	return s
}

func (w *twin) seeUnit(i int, s *unit) {
	u := w.unit(i)
	s.status = map[events.UnitStatus]unitStatus{
		events.UnitIsPlanned: planned, events.UnitIsDispatching: dispatching, events.UnitIsRunning: running, events.UnitIsRetrying: retrying,
		events.UnitHasSucceeded: succeeded, events.UnitHasFailed: failed, events.UnitIsCancelled: cancelled,
	}[u.Status]
	s.attempts, s.expiries, s.suspect = uint8(u.Attempt), uint8(u.ExpiredLeaseRetries), u.Suspect
	if w.NeverStarted {
		s.tries = uint8(min(u.AttemptDispatches, fourTries))
	}
	s.stale, s.lost = w.isStale(i), w.messageGone(i)
	s.due = u.Status == events.UnitIsRetrying && u.AvailableAt <= w.now
	s.lease = holdNone
	if u.Status == events.UnitIsRunning {
		s.lease = w.holdOf(u.Lease.Node, u.Lease.ExpiresAt)
	}
	s.announced = numberClosed
	if r := w.reg(w.runNumber(i), events.KindUnit); u.Status == events.UnitIsDispatching && u.Wakeup > r.Closed {
		s.announced = numberCurrent
		if u.Wakeup == r.Next {
			s.announced = numberWaiting
		}
	}
}

func (w *twin) holdOf(node events.NodeID, expires events.Micros) hold {
	switch {
	case w.gone[node]:
		return holdOrphaned
	case expires <= w.now:
		return holdEnded
	}
	return holdLive
}

func (w *twin) seeRegister(r decider.Register, k kind, s *register) {
	s.status = map[decider.RegisterStatus]registerStatus{
		"": idle, decider.RegisterIdle: idle, decider.RegisterPending: pending, decider.RegisterClaimed: claimed, decider.RegisterMarked: marked,
		decider.RegisterParked: parked, decider.RegisterUnresolved: unresolved,
	}[r.Status]
	s.newest, s.attempts = uint8(r.Newest), uint8(r.Attempts)
	if w.markFirst(k) {
		s.attempts = 0 // it is never parked, so the model does not count them
	}
	s.at, s.floor = now, false
	if r.Status == decider.RegisterPending {
		s.at = w.levelOf(r.AvailableAt)
		s.floor = r.Floor && s.at > now
	}
	if r.Status == decider.RegisterPending || r.Status == decider.RegisterClaimed {
		s.maybe = r.MaybePublished
	}
	s.claim = holdNone
	if r.Status == decider.RegisterClaimed || r.Status == decider.RegisterMarked {
		s.claim = w.holdOf(r.Claim.Node, r.Claim.ExpiresAt)
	}
	if k == kindPost {
		s.taken = r.Claimed > 0 && r.Claimed >= r.Current
	}
	s.waits, s.waitAt = r.Next != 0, now
	if s.waits {
		s.waitAt = w.levelOf(r.NextAt)
	}
	switch {
	case r.Closed == 0:
		s.closed = never
	case r.LastClosedAt.Add(span.redrive) <= w.now:
		s.closed = old
	default:
		s.closed = recent
	}
	s.local = r.Closed > 0 && events.InProcess(r.Transport)
	s.gone = w.InProcess && r.Closed > 0 && w.gone[r.ClosedBy]
}

func (w *twin) seePost(run, target int, s *post) {
	name := targetName(target)
	r := w.reg(run, events.KindPostSync)
	o, _ := r.Outcome(name)
	s.outcome = map[events.Outcome]outcome{"": noOutcome, events.Accepted: accepted, events.Refused: refused, events.Unknown: unknown}[o.Outcome]
	s.resolved = false
	for _, x := range r.Resolved {
		s.resolved = s.resolved || x.Target == name
	}
	p, _ := w.run(run).Post(name)
	s.effect = map[decider.PostStatus]effect{
		"": noEffect, decider.PostStarted: effectStarted, decider.PostCompleted: effectCompleted, decider.PostFailed: effectFailed,
	}[p.Status]
	s.orphan = p.Status == decider.PostStarted && w.gone[p.Node]
	if w.Mode == ExactlyOnce && s.effect != effectCompleted {
		s.failures = uint8(min(p.Failures, int(w.MaxFailures)))
		id, _ := w.postID(run, target)
		s.failing = p.Status == decider.PostFailed && p.MessageID == id
	}
}

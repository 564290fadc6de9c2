package towline

import (
	"context"
	"sync"

	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/projections"
)

// effects are what a commit leaves to be told: a register that is due, one that will be, runs that ended or whose
// post_sync went on, a lease that was taken from its worker.
type effects struct {
	due     bool
	later   events.Micros // earliest time ahead at which something comes due; 0: none
	ended   []events.RunID
	revoked bool
	looks   bool // at schedules
}

func (x *effects) note(after decider.State, now events.Micros) {
	switch s := after.(type) {
	case decider.Register:
		if s.Kind == events.KindPostSync {
			x.ended = append(x.ended, events.RunID(s.Owner)) // somebody may wait for its outcome (WaitPostSync)
		}
		if s.Status != decider.RegisterPending {
			return
		}
		if s.AvailableAt <= now {
			x.due = true
		} else {
			x.later = events.Earliest(x.later, s.AvailableAt)
		}
	case decider.Run:
		if s.Exists() && !s.Open() {
			x.ended = append(x.ended, s.ID)
			x.looks = x.looks || s.Plan.Occurrence != "" // another may wait for it (S-6)
		}
	case decider.Schedule:
		x.looks = true
	}
}

// revoke notes that an operator has taken a lease from a worker, which may be at work in this process.
func (x *effects) revoke(before decider.State, e events.Event) {
	if u, ok := before.(decider.Unit); !ok || u.Status != events.UnitIsRunning {
		return
	}
	switch e := e.(type) {
	case events.UnitCancelled:
		x.revoked = true
	case events.UnitLeaseExpired:
		x.revoked = x.revoked || e.Cause == events.LeaseReleased
	}
}

// signals tell goroutines what a commit has made possible. Nothing waits for them inside a transaction, and nothing is
// lost if nobody listens: the pass of the reconciler finds it (REC-1).
type signals struct {
	nudge   chan struct{} // of length 1, so nudges coalesce
	alarm   chan events.Micros
	revoked chan struct{} // of length 1
	looks   chan struct{} // of length 1
	full    chan struct{} // of length 1

	stopped func()        // the last word: nobody waits any longer
	ended   chan struct{} // closed by it

	mu      sync.Mutex
	waiters map[events.RunID][]chan struct{}
}

func newSignals() signals {
	ended := make(chan struct{})
	return signals{
		nudge: make(chan struct{}, 1), alarm: make(chan events.Micros, 1), revoked: make(chan struct{}, 1),
		looks: make(chan struct{}, 1), full: make(chan struct{}, 1),
		waiters: map[events.RunID][]chan struct{}{},
		stopped: sync.OnceFunc(func() { close(ended) }), ended: ended,
	}
}

// refuse notes that a run was refused for want of room.
func (s *signals) refuse() {
	select {
	case s.full <- struct{}{}:
	default: // one is waiting already
	}
}

func (s *signals) after(x effects) {
	if x.due {
		s.wake()
	}
	if x.revoked {
		select {
		case s.revoked <- struct{}{}:
		default: // one is waiting already
		}
	}
	if x.looks {
		select {
		case s.looks <- struct{}{}:
		default: // one is waiting already
		}
	}
	if x.later != 0 {
		s.wakeAt(x.later)
	}
	if len(x.ended) > 0 {
		s.release(x.ended)
	}
}

func (s *signals) wake() {
	select {
	case s.nudge <- struct{}{}:
	default: // one is waiting already
	}
}

// wakeAt keeps the earliest of the times that nobody has taken yet.
func (s *signals) wakeAt(at events.Micros) {
	for {
		select {
		case s.alarm <- at:
			return
		case waiting := <-s.alarm:
			at = events.Earliest(at, waiting)
		}
	}
}

func (s *signals) release(runs []events.RunID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range runs {
		for _, w := range s.waiters[id] {
			close(w)
		}
		delete(s.waiters, id)
	}
}

func (s *signals) wait(run events.RunID) (ended <-chan struct{}, cancel func()) {
	w := make(chan struct{})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiters[run] = append(s.waiters[run], w)
	return w, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		for i, other := range s.waiters[run] {
			if other == w {
				s.waiters[run] = append(s.waiters[run][:i], s.waiters[run][i+1:]...)
				break
			}
		}
		if len(s.waiters[run]) == 0 {
			delete(s.waiters, run)
		}
	}
}

// Nudge says that something may have become due outside the engine's own transactions.
func (e *Engine) Nudge() { e.signals.wake() }

// Nudged delivers after commits that left a register due. It is for the one relay of the process.
func (e *Engine) Nudged() <-chan struct{} { return e.signals.nudge }

// Alarms delivers the earliest time ahead at which a commit has made something due. It is for the one relay of the
// process.
func (e *Engine) Alarms() <-chan events.Micros { return e.signals.alarm }

// Revoked delivers after commits in which an operator has taken a lease from its worker: a cancel, or a release. It is for
// the one heartbeat of the process, so that a worker of this process need not wait for its next renewal to learn it.
func (e *Engine) Revoked() <-chan struct{} { return e.signals.revoked }

// Full is sent to when a run was refused because the store has no room (DUR-6): whoever archives may make some.
func (e *Engine) Full() <-chan struct{} { return e.signals.full }

// Scheduled delivers after commits that may let a schedule go on: a run of one has ended, or one was defined, resumed or
// removed. It is for the one loop of the process that ticks.
func (e *Engine) Scheduled() <-chan struct{} { return e.signals.looks }

// Wait returns the run when it has ended. It only waits: a run goes on while a node runs (Node.Run, Node.RunWhile), this one
// or, of a shared store, another. Where nobody runs one it waits until ctx ends, so give ctx a deadline, or run the node
// first.
//
// It waits for the signal of this process's own commit and polls nothing; a run that another process of a shared store ends
// is found by CheckWaiters, which the relay of a node that runs calls within a second of the commit, and in every pass. In a
// node of a shared store that is not run itself, nobody does. Errors: ErrNotFound; ErrStopped if the engine has stopped
// before, and then the next process goes on with the run; the cause of ctx.
func (e *Engine) Wait(ctx context.Context, run events.RunID) (projections.SyncRun, error) {
	return e.waitUntil(ctx, run, func(row projections.SyncRun) bool { return row.Status.Terminal() })
}

// WaitPostSync returns the run when it has ended and nothing of its post_sync is under way any more: each target is done,
// has failed for good, is lost, is held, or is unknown: nobody knows whether it was sent, or what became of it when its
// process died in it (HP-5), and a person must look. A target that was accepted and never begun, because its process died
// (C-46), is none of these in at_most_once mode, and ctx alone ends the wait; in shared mode neither is one that had begun in
// a process which nobody knows to be gone. What another process of a shared store records is seen as by Wait, which also says
// when nobody brings the run to its end. Errors: as Wait.
func (e *Engine) WaitPostSync(ctx context.Context, run events.RunID) (projections.SyncRun, error) {
	return e.waitUntil(ctx, run, func(row projections.SyncRun) bool { return row.Status.Terminal() && row.PostSync.Over() })
}

func (e *Engine) waitUntil(ctx context.Context, run events.RunID, over func(projections.SyncRun) bool) (projections.SyncRun, error) {
	for {
		ended, cancel := e.signals.wait(run) // before the look, so that nothing falls between
		row, err := e.lookup(ctx, run)
		if err != nil || over(row) {
			cancel()
			return row, err
		}
		select {
		case <-ended:
		case <-e.signals.ended:
			cancel()
			return row, ErrStopped
		case <-ctx.Done():
			cancel()
			return row, context.Cause(ctx)
		}
	}
}

func (e *Engine) lookup(ctx context.Context, run events.RunID) (projections.SyncRun, error) {
	var row projections.SyncRun
	err := e.View(ctx, func(v projections.View) error {
		r, ok, err := v.Run(run)
		if err == nil && !ok {
			err = &RequestError{Field: "run", Problem: "there is no run " + run.String(), Kind: ErrNotFound}
		}
		row = r
		return err
	})
	return row, err
}

// CheckWaiters wakes those who wait for a run that has ended elsewhere.
func (e *Engine) CheckWaiters(ctx context.Context) error {
	e.signals.mu.Lock()
	var runs []events.RunID
	for id := range e.signals.waiters { // no order: each is looked up alone
		runs = append(runs, id)
	}
	e.signals.mu.Unlock()
	for _, id := range runs {
		row, err := e.lookup(ctx, id)
		if err != nil {
			return err
		}
		if row.Status.Terminal() {
			e.signals.release([]events.RunID{id})
		}
	}
	return nil
}

package sim

import (
	"context"
	"errors"
	"time"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/projections"
)

// watch is what a node knows of one schedule: node.Run has a loop for each, of which this is one turn at a time.
type watch struct {
	name string
	next time.Time // it looks again then; zero: now
	busy bool      // a look is under way
}

// watchSchedules begins the loops of a node that has come up.
func (n *node) watchSchedules() {
	n.watches = nil
	for _, name := range n.engine.ScheduleNames() {
		n.watches = append(n.watches, &watch{name: name})
	}
}

// dueSchedules are the schedules at which the node looks now: their time has come, or a commit lets them go on.
func (n *node) dueSchedules() (out []*watch) {
	select {
	case <-n.engine.Scheduled():
		for _, s := range n.watches {
			s.next = time.Time{}
		}
	default:
	}
	if n.w.c.Nodes > 1 && n.followed < n.w.head { // another process has committed: that is seen within a second
		n.followed = n.w.head
		for _, s := range n.watches {
			if later := n.w.now.Add(time.Second); later.Before(s.next) {
				s.next = later
			}
		}
	}
	for _, s := range n.watches {
		if !s.busy && !n.w.now.Before(s.next) {
			out = append(out, s)
		}
	}
	return out
}

// tick is one turn of a loop of node.Run.
func (n *node) tick(ctx context.Context, s *watch) {
	const again = time.Second // behind a look that failed
	s.busy = true
	defer func() { s.busy = false }()
	wait := n.engine.Knobs().ReconcileInterval
	s.next = n.w.now.Add(wait)
	ticked, err := n.engine.Tick(ctx, s.name)
	switch {
	case n.dead:
		return
	case errors.Is(err, towline.ErrUnavailable):
		wait = again
	case err != nil:
		n.tell(Entry{Refused: err})
		n.w.breaks("schedule %s: %w", s.name, err)
	case ticked.Next != 0:
		wait = min(wait, ticked.Wait)
	}
	if at := n.w.now.Add(wait); at.Before(s.next) {
		s.next = at
	}
}

// Schedule says which schedules the incarnations have that start from now on. nil: they have nothing to do with schedules.
func (w *World) Schedule(schedules []towline.Schedule) { w.c.Schedules = schedules }

// waiting reports a due time that waits for its run.
func (w *World) waiting(v projections.View) (bool, error) {
	if w.c.Schedules == nil {
		return false, nil
	}
	all, err := v.Schedules()
	if err != nil {
		return false, err
	}
	for _, s := range all {
		queued, err := v.QueuedOccurrences(s.Name, 1)
		if err != nil || len(queued) > 0 {
			return len(queued) > 0, err
		}
	}
	return false, nil
}

package node

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/events"
)

// schedules looks at each schedule in a loop of its own, so that a provider that is slow to list its periods (P-12) holds up
// no other. They end with ctx, or with a store that has been taken away.
func (n *Node) schedules(ctx context.Context) error {
	names := n.engine.ScheduleNames()
	if len(names) == 0 {
		return nil
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var all sync.WaitGroup
	failures := make(chan error, len(names))
	var looks []chan struct{}
	for _, name := range names {
		look := make(chan struct{}, 1)
		looks = append(looks, look)
		all.Go(func() {
			if err := n.keepSchedule(ctx, name, look); err != nil {
				failures <- err
				stop()
			}
		})
	}
	n.wakeSchedules(ctx, looks)
	all.Wait()
	close(failures)
	return <-failures
}

// followEvery is how often a process of a shared store looks whether another has ended a run.
const followEvery = time.Second

// wakeSchedules hands on what may let a schedule go on: a run that has ended, or, in a shared store, whatever another process
// has committed.
func (n *Node) wakeSchedules(ctx context.Context, looks []chan struct{}) {
	var follow <-chan time.Time
	if n.engine.Shared() {
		ticker := time.NewTicker(followEvery)
		defer ticker.Stop()
		follow = ticker.C
	}
	var seen events.Position
	for {
		select {
		case <-ctx.Done():
			return
		case <-n.engine.Scheduled():
		case <-follow:
			head, err := n.engine.Head(ctx)
			if err != nil || head == seen { // the relay complains about a store that cannot be read
				continue
			}
			seen = head
		}
		for _, look := range looks {
			select {
			case look <- struct{}{}:
			default: // one is waiting already
			}
		}
	}
}

// keepSchedule looks at a schedule at once, whenever it is due, when something wakes it, and once an interval of the
// reconciler: a wall clock that steps forward is seen no later.
func (n *Node) keepSchedule(ctx context.Context, name string, look <-chan struct{}) error {
	const again = time.Second // behind a look that failed: the store may be full or locked
	timer := time.NewTimer(0)
	defer timer.Stop()
	var complained time.Time
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-look:
		case <-timer.C:
		}
		interval := n.engine.Knobs().ReconcileInterval // a reload may have changed it
		wait := interval
		switch ticked, err := n.tick(ctx, name); {
		case ctx.Err() != nil, errors.Is(err, towline.ErrStopped):
			return nil
		case errors.Is(err, towline.ErrMoved):
			return towline.ErrMoved
		case err != nil:
			if wait = again; time.Since(complained) >= interval {
				complained = time.Now()
				n.logger.Error("schedule", "schedule", name, "error", err)
			}
		case ticked.Next != 0:
			wait = min(interval, ticked.Wait)
		}
		timer.Reset(wait)
	}
}

// tick is a look at a schedule. A panic in it is a defect that must not end the loop: it is reported like any error.
func (n *Node) tick(ctx context.Context, name string) (ticked towline.Ticked, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	ticked, err = n.engine.Tick(ctx, name)
	if err == nil {
		for _, p := range ticked.Planned {
			n.logger.Info("scheduled", "schedule", name, "run", p.Run, "units", p.Units)
		}
	}
	return ticked, err
}

package node

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/relay"
	"github.com/towline-dev/towline/store"
)

// Retention says how long finished runs stay in the log.
type Retention struct {
	// ArchiveAfter is the age at which they move to sealed segments (L-1); zero: never. They move earlier, the oldest first, while
	// the store is near its size budget (DUR-6).
	ArchiveAfter time.Duration
}

func (r Retention) check() error {
	if r.ArchiveAfter < 0 {
		return fmt.Errorf("retention: archive after %s is no age: give one, or 0 for never", r.ArchiveAfter)
	}
	return nil
}

// PruneState is how the pruner of a node fares.
type PruneState struct {
	ArchiveAfter time.Duration    `json:"archive_after,omitzero"`
	Last         time.Time        `json:"last,omitzero"`  // when it last looked, and archived what there was; zero: it has not yet
	Archived     towline.Archived `json:"archived"`       // since the start of the node
	Error        string           `json:"error,omitzero"` // why it did not the last time; empty: it did
	// FailingSince is when the looks began to fail, one behind the other; zero: the last one has not, or waits for an upgrade of
	// the store.
	FailingSince time.Time `json:"failing_since,omitzero"`
}

// pruner is the loop that archives.
type pruner struct {
	mu      sync.Mutex
	state   PruneState
	changed chan struct{} // rung when the age is another one
}

const (
	pruneFirst = time.Minute      // behind a start, which has better things to do
	pruneEvery = 10 * time.Minute // between two looks
	prunePause = 100 * time.Millisecond

	// A store with a size budget is looked at more often, and counts as near it at so much of what refuses a run.
	pruneTightEvery = 10 * time.Second
	pruneTight      = 0.8
)

// PruneState says how the pruner fares (Config.Retention).
func (n *Node) PruneState() PruneState {
	n.pruner.mu.Lock()
	defer n.pruner.mu.Unlock()
	return n.pruner.state
}

// SetRetention puts another age in force, without a restart. Runs that are old enough now are archived at once.
func (n *Node) SetRetention(r Retention) error {
	if err := r.check(); err != nil {
		return err
	}
	n.pruner.mu.Lock()
	defer n.pruner.mu.Unlock()
	if n.pruner.state.ArchiveAfter == r.ArchiveAfter {
		return nil
	}
	n.pruner.state.ArchiveAfter = r.ArchiveAfter
	select {
	case n.pruner.changed <- struct{}{}:
	default: // it was told already
	}
	return nil
}

func (n *Node) notePruner(change func(*PruneState)) {
	n.pruner.mu.Lock()
	defer n.pruner.mu.Unlock()
	change(&n.pruner.state)
}

// prune archives what is old enough, one segment at a time and with pauses: nothing waits for it, and a failure is logged,
// shown and tried again.
func (n *Node) prune(ctx context.Context) error {
	every := pruneEvery
	if n.c.MaxBytes > 0 {
		every = pruneTightEvery
	}
	timer := time.NewTimer(pruneFirst)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-n.pruner.changed:
		case <-n.engine.Full():
		case <-timer.C:
		}
		more, err := n.pruneOnce(ctx)
		if ctx.Err() != nil || errors.Is(err, towline.ErrStopped) {
			return nil
		}
		if err != nil && n.PruneState().Error != err.Error() {
			n.logger.Error("archive finished runs", "error", err)
		}
		n.notePruner(func(s *PruneState) { s.looked(n.wall(), err) })
		if more { // also where one that fails keeps none of the others
			timer.Reset(prunePause)
		} else {
			timer.Reset(every)
		}
	}
}

// looked notes how a look has ended. A store that waits for its upgrade is no failure: it works, and can be taken back (DUR-7).
func (s *PruneState) looked(now time.Time, err error) {
	switch {
	case err == nil:
		s.Last, s.FailingSince, s.Error = now, time.Time{}, ""
	case errors.Is(err, store.ErrFormat):
		s.FailingSince, s.Error = time.Time{}, err.Error()
	default:
		if s.FailingSince.IsZero() {
			s.FailingSince = now
		}
		s.Error = err.Error()
	}
}

// LoopPrune is the name under which Loops has the pruner. While it fails nothing is archived, and everything else works.
const LoopPrune = "prune"

// prunes is the pruner as a loop; none while nothing is to be archived.
func (n *Node) prunes() []relay.Loop {
	s := n.PruneState()
	if s.ArchiveAfter <= 0 {
		return nil
	}
	return []relay.Loop{{Name: LoopPrune, LastSuccess: s.Last, FailingSince: s.FailingSince, Error: s.Error}}
}

// pruneOnce archives one batch.
func (n *Node) pruneOnce(ctx context.Context) (more bool, err error) {
	age := n.PruneState().ArchiveAfter
	if age <= 0 {
		return false, nil
	}
	budget, err := n.engine.Budget(ctx)
	if err != nil {
		return false, err
	}
	if budget.Ratio() >= pruneTight {
		age = 0 // what is archived is not lost, and a run that is refused may be
	}
	a, err := n.engine.ArchiveRuns(ctx, age)
	n.notePruner(func(s *PruneState) { s.Archived.Add(a) })
	if a.Segments > 0 {
		n.logger.Info("archived finished runs", "runs", a.Runs, "segments", a.Segments, "events", a.Events, "bytes", a.Bytes)
	}
	return a.More && a.Segments > 0, err
}

// Prune archives all runs that ended at least age ago, now, the oldest first. each is told what was done so far, after each batch,
// and says whether to go on. A run that cannot be archived keeps none of the others; the error names it.
func (n *Node) Prune(ctx context.Context, age time.Duration, each func(towline.Archived) bool) (all towline.Archived, err error) {
	for {
		a, err := n.engine.ArchiveRuns(ctx, age)
		all.Add(a)
		on := each(all)
		if !on || !a.More || a.Segments == 0 || ctx.Err() != nil {
			return all, errors.Join(err, ctx.Err())
		}
	}
}

package relay

import (
	"log/slog"
	"slices"
	"sync"

	"github.com/towline-dev/towline"
)

// unsettled are wakeups of all lanes that were published, and the store was away when it should have been recorded.
type unsettled struct {
	mu   sync.Mutex
	list []*wakeup
}

func (u *unsettled) add(some []*wakeup) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.list = append(u.list, some...)
}

func (u *unsettled) take() []*wakeup {
	u.mu.Lock()
	defer u.mu.Unlock()
	all := u.list
	u.list = nil
	return all
}

// laneChanges are what the breakers of some lanes have done since it was noted last.
type laneChanges []laneChange

type laneChange struct {
	lane    *lane
	changes []change
}

// takeChanges takes those of the lanes of a batch: they are noted in the transaction that settles it.
func takeChanges(batch []*wakeup) (all laneChanges) {
	for _, w := range batch {
		if slices.ContainsFunc(all, func(c laneChange) bool { return c.lane == w.lane }) {
			continue
		}
		all = append(all, laneChange{w.lane, w.lane.takeChanges()})
	}
	return all
}

func (all laneChanges) note(tx *towline.Tx) error {
	for _, of := range all {
		for _, c := range of.changes {
			if _, err := tx.Execute(c.note); err != nil {
				return err
			}
		}
	}
	return nil
}

// ended says what has been noted, or keeps it for the next transaction.
func (all laneChanges) ended(err error, logger *slog.Logger) {
	for _, of := range all {
		if err != nil {
			of.lane.giveBack(of.changes)
			continue
		}
		for _, c := range of.changes {
			c.announce(logger)
		}
	}
}

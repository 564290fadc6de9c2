package towline

import (
	"context"
	"errors"
	"fmt"

	"github.com/towline-dev/towline/store"
)

// DiskBudget is the name of the condition in which no run is accepted, because the store has reached its size budget (DUR-6).
const DiskBudget = "disk_budget"

// reserved is the part of the budget that is kept for runs that are accepted: no new one is from seven eighths on. A unit takes
// about 1.5 KiB to its end, so an eighth of 512 MiB is room for some 40,000 units.
const reserved = 8

// DiskBudgetError says that the store has no room for another run (DUR-6). Nothing was written. Those that are accepted go on,
// and end: a reserve is kept for them.
type DiskBudgetError struct {
	Used int64 // bytes that hold something
	Max  int64 // Config.MaxBytes
	Full int64 // from here on no run is accepted
}

func (e *DiskBudgetError) Error() string {
	return fmt.Sprintf("the store holds %d MiB, and takes no new run from %d MiB on (store.max_bytes is %d MiB): raise store.max_bytes; runs that are open go on",
		e.Used>>20, e.Full>>20, e.Max>>20)
}

// room is how much of the budget is used.
type room struct{ used, max int64 }

// full is nil while a run may be accepted.
func (r room) full() error {
	if limit := r.max - r.max/reserved; r.max > 0 && r.used >= limit {
		return &DiskBudgetError{Used: r.used, Max: r.max, Full: limit}
	}
	return nil
}

// pagesUsed counts what a transaction sees, so also what only the WAL holds. What was removed is used again and does not count.
const pagesUsed = `
	SELECT ((SELECT page_count FROM pragma_page_count) - (SELECT freelist_count FROM pragma_freelist_count))
	     * (SELECT page_size FROM pragma_page_size)`

func (e *Engine) roomIn(tx store.ReadTx) (room, error) {
	r := room{max: e.maxBytes}
	if r.max <= 0 {
		return r, nil
	}
	if err := tx.Query(func(row store.Row) error { return row.Scan(&r.used) }, pagesUsed); err != nil {
		return r, fmt.Errorf("measure the store: %w", err)
	}
	return r, nil
}

// hasRoom refuses a run for which the store has no room.
func (t *Tx) hasRoom() error {
	r, err := t.e.roomIn(t.tx)
	if err != nil {
		return err
	}
	return r.full()
}

// budgetCondition says that no run is accepted.
func (e *Engine) budgetCondition(ctx context.Context) ([]Condition, error) {
	var r room
	err := e.store.Read(ctx, func(tx store.Reader) (err error) {
		r, err = e.roomIn(tx)
		return err
	})
	if err != nil {
		return nil, err
	}
	var full *DiskBudgetError
	if errors.As(r.full(), &full) {
		return []Condition{{DiskBudget, full.Error()}}, nil
	}
	return nil, nil
}

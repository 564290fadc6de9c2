package towline

import (
	"context"
	"errors"
	"fmt"

	"github.com/towline-dev/towline/projections"
	"github.com/towline-dev/towline/store"
)

// DiskBudget is the name of the condition in which no run is accepted, because the store has reached its size budget (DUR-6).
const DiskBudget = "disk_budget"

// What accepted work takes until its end counts as used, for it ends whatever the budget says. These are what one attempt takes;
// the last eighth of the budget is kept for what nobody knows before: retries, error texts, results, messages of applications.
const (
	reserved   = 8
	bytesOfRun = 2 << 10
	// bytesOfUnit is from its plan to its end. One that is open has taken a part of it already, which counts twice.
	bytesOfUnit = 3 << 9
)

// DiskBudgetError says that the store has no room for another run (DUR-6). Nothing was written. Those that are accepted go on,
// and end: what they still take is counted before they are accepted.
type DiskBudgetError struct {
	Used int64 // bytes that hold something
	Owed int64 // what the runs that are open may take until they end, and the one that was refused
	Max  int64 // Config.MaxBytes
	Full int64 // Used and Owed together pass no more than this
}

func (e *DiskBudgetError) Error() string {
	const mib = 1 << 20
	return fmt.Sprintf("the store holds %.1f MiB, runs that are open or asked for take %.1f MiB more, and no run is accepted beyond %.1f MiB (store.max_bytes is %.1f MiB): raise store.max_bytes, or ask again when open runs have ended",
		float64(e.Used)/mib, float64(e.Owed)/mib, float64(e.Full)/mib, float64(e.Max)/mib)
}

// Budget is how much of the size budget of a store is used, or will be by what was accepted (DUR-6).
type Budget struct {
	Used int64 // bytes that hold something, with what only the WAL has
	Owed int64 // what the runs that are open may take until they end
	Max  int64 // Config.MaxBytes; zero: no bound, and nothing is measured
	Full int64 // no run is accepted with which Used and Owed together would pass this
}

// NewBudget is that of a store of which somebody else has measured what is used, as sqlite.Look does; see Engine.Owed.
func NewBudget(used, owed, bound int64) Budget {
	r := room{used: used, owed: owed, max: bound}
	return Budget{Used: used, Owed: owed, Max: bound, Full: r.limit()}
}

// Refuses reports that not even a run of one unit is accepted.
func (b Budget) Refuses() bool {
	return room{used: b.Used, owed: b.Owed + owed(1, 1), max: b.Max}.full() != nil
}

// Ratio is how near a refusal is: at 1 not even the smallest run is accepted. Zero without a bound.
func (b Budget) Ratio() float64 {
	if b.Max <= 0 {
		return 0
	}
	return float64(b.Used+b.Owed) / float64(b.Full)
}

// Budget says how near the store is to its size budget. It counts what is open, never history.
func (e *Engine) Budget(ctx context.Context) (Budget, error) {
	r, err := e.budget(ctx, false, 0, 0)
	if err != nil || r.max <= 0 {
		return Budget{}, err
	}
	return NewBudget(r.used, r.owed, r.max), nil
}

// Owed is what the runs that are open may take of the store until they end, also in a store that is only read.
func (e *Engine) Owed(ctx context.Context) (bytes int64, err error) {
	err = e.View(ctx, func(v projections.View) error {
		runs, _, err := v.CountOpen()
		if err != nil {
			return err
		}
		units, err := openUnits(v)
		bytes = owed(runs, units)
		return err
	})
	return bytes, err
}

func openUnits(v projections.View) (n int, err error) {
	groups, err := v.CountUnits(0)
	for _, g := range groups {
		if !g.Status.Terminal() {
			n += g.Count
		}
	}
	return n, err
}

// room is how much of the budget is used, or will be by what was accepted.
type room struct{ used, owed, max int64 }

func owed(runs, units int) int64 { return int64(runs)*bytesOfRun + int64(units)*bytesOfUnit }

// limit is the budget without its reserve.
func (r room) limit() int64 { return r.max - r.max/reserved }

// full is nil while a run may be accepted.
func (r room) full() error {
	if r.max > 0 && r.used+r.owed > r.limit() {
		return &DiskBudgetError{Used: r.used, Owed: r.owed, Max: r.max, Full: r.limit()}
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

// hasRoom refuses a run of so many units for which the store has no room.
func (t *Tx) hasRoom(units int) error {
	r, err := t.e.roomIn(t.tx)
	if err != nil {
		return err
	}
	r.owed = owed(t.hot.Runs()+1, t.hot.Units()+units)
	if err := r.full(); err != nil {
		t.e.signals.refuse()
		return err
	}
	return nil
}

// budgetCondition says that not even a run of one unit is accepted.
func (e *Engine) budgetCondition(ctx context.Context) ([]Condition, error) {
	r, err := e.budget(ctx, true, 1, 1)
	if err != nil {
		return nil, err
	}
	var full *DiskBudgetError
	if errors.As(r.full(), &full) {
		return []Condition{{Name: DiskBudget, Text: full.Error()}}, nil
	}
	return nil, nil
}

// budget measures the room with so many runs and units more. rough: units that have ended count too while that changes nothing.
func (e *Engine) budget(ctx context.Context, rough bool, moreRuns, moreUnits int) (r room, err error) {
	if e.maxBytes <= 0 {
		return r, nil
	}
	err = e.store.Read(ctx, func(tx store.Reader) (err error) {
		if r, err = e.roomIn(tx); err != nil {
			return err
		}
		v := projections.NewView(tx)
		runs, planned, err := v.CountOpen()
		if r.owed = owed(runs+moreRuns, planned+moreUnits); err != nil || rough && r.full() == nil {
			return err // most often, and then nobody needs to look at units
		}
		units, err := openUnits(v)
		r.owed = owed(runs+moreRuns, units+moreUnits)
		return err
	})
	return r, err
}

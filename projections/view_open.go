package projections

import (
	"fmt"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/store"
)

// CountOpen counts the runs that are open, and all the units that were planned for them. Its cost grows with the runs.
func (v View) CountOpen() (runs, units int, err error) {
	err = v.tx.Query(func(r store.Row) error { return r.Scan(&runs, &units) },
		`SELECT count(*), coalesce(sum(total_units), 0)
		FROM runs INDEXED BY runs_open
		WHERE completed_at IS NULL`)
	if err != nil {
		return 0, 0, fmt.Errorf("count what is open: %w", err)
	}
	return runs, units, nil
}

// OpenUnits are units of open runs that are alike, counted.
type OpenUnits struct {
	Status events.UnitStatus
	Bucket events.Bucket
	Count  int
	// Fresh are those of them that hold a slot: running ones, and dispatching ones that are not stale yet (B-1).
	Fresh int
}

// CountUnits counts the units of open runs by status and bucket. A unit that was dispatched before a time holds no slot. Its
// cost grows with what is open.
func (v View) CountUnits(staleBefore events.Micros) (out []OpenUnits, err error) {
	err = v.tx.Query(func(r store.Row) error {
		var u OpenUnits
		var status, provider, cost string
		err := r.Scan(&status, &provider, &cost, &u.Count, &u.Fresh)
		u.Status, u.Bucket = events.UnitStatus(status), events.NewBucket(provider, events.Cost(cost))
		out = append(out, u)
		return err
	}, `SELECT u.status, u.provider, u.cost_class, count(*),
			count(CASE WHEN u.status = 'running' OR u.status = 'dispatching' AND u.last_dispatched_at > $1 THEN 1 END)
		FROM runs r INDEXED BY runs_open CROSS JOIN units u
		WHERE r.completed_at IS NULL AND u.run_id = r.run_id
		GROUP BY u.status, u.provider, u.cost_class
		ORDER BY u.status, u.provider, u.cost_class`, int64(staleBefore))
	if err != nil {
		return nil, fmt.Errorf("count units: %w", err)
	}
	return out, nil
}

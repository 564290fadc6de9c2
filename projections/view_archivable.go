package projections

import (
	"fmt"

	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/store"
)

// Finished is a run that has ended, of which all is over.
type Finished struct {
	Run         events.RunID
	Units       int
	CompletedAt events.Micros
}

// archivable are runs that have ended and of which nothing will happen by itself any more (L-1): whatever their end was, each
// of their registers is idle, a post_sync that is owed was armed, one in exactly_once mode is done, and no effect is at work.
// What waits for a person keeps its run in the log.
const archivable = `r.completed_at IS NOT NULL AND r.archived IS NULL
	AND NOT (r.post_sync_owed = 1 AND r.post_sync_armed = 0)
	AND coalesce(r.effects, '` + string(decider.EffectsDone) + `') = '` + string(decider.EffectsDone) + `'
	AND NOT EXISTS (SELECT 1 FROM outbox AS o WHERE o.owner = r.run_id AND o.status <> '` + string(decider.RegisterIdle) + `')
	AND NOT EXISTS (SELECT 1 FROM begun AS b WHERE b.run_id = r.run_id)`

// Archivable lists runs that had ended at a time and may be archived, the first to end first, behind one of them; the zero
// Finished is before all. It looks at those, and at the runs that had ended by then and have to stay.
func (v View) Archivable(ended events.Micros, after Finished, limit int) (out []Finished, err error) {
	err = v.tx.Query(func(r store.Row) error {
		var f Finished
		var id []byte
		err := r.Scan(&id, &f.Units, &f.CompletedAt)
		copy(f.Run[:], id)
		out = append(out, f)
		return err
	}, `SELECT r.run_id, r.total_units, r.completed_at
		FROM runs AS r INDEXED BY runs_archivable
		WHERE `+archivable+` AND r.completed_at <= $1 AND (r.completed_at, r.run_id) > ($2, $3)
		ORDER BY r.completed_at, r.run_id LIMIT $4`, int64(ended), int64(after.CompletedAt), after.Run[:], limit)
	if err != nil {
		return nil, fmt.Errorf("look for runs to archive: %w", err)
	}
	return out, nil
}

// MayBeArchived reports that a run may be archived, at the time of this view.
func (v View) MayBeArchived(run events.RunID) (may bool, err error) {
	err = v.tx.Query(func(store.Row) error { may = true; return nil },
		`SELECT 1 FROM runs AS r WHERE r.run_id = $1 AND `+archivable, run[:])
	if err != nil {
		return false, fmt.Errorf("look whether a run may be archived: %w", err)
	}
	return may, nil
}

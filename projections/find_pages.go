package projections

import (
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/store"
)

// Found is one page of a search.
type Found[T any, K any] struct {
	Rows []T
	// Next is where the next page begins, for the call that follows; only if More.
	Next K
	// More: there may be more. A page that found nothing may have it, too: a search reads so many rows at a time, and no more.
	More bool
}

// rowsPerSearch bounds how many rows one page of a search looks at, so that no snapshot gets old (DUR-4). The rows of a run
// are large.
const (
	rowsPerSearch = 20_000
	runsPerSearch = 5_000
)

// floor is the key behind which a page of a search does not look; false: the table ends before.
func (v View) floor(query string, scan func(store.Row) error, args ...any) (found bool, err error) {
	err = v.tx.Query(func(r store.Row) error { found = true; return scan(r) }, query, args...)
	return found, err
}

// FindRuns lists runs that all terms hold of, newest first, at most limit of them before a run; the zero id begins at the
// newest.
func (v View) FindRuns(terms []Term, before events.RunID, limit int) (found Found[SyncRun, events.RunID], err error) {
	before = events.RunID(orNewest(events.MessageID(before)))
	var floor events.RunID
	bounded, err := v.floor(`SELECT run_id FROM runs WHERE run_id < $1 ORDER BY run_id DESC LIMIT 1 OFFSET $2`,
		func(r store.Row) error { return scanID(r, &floor) }, before[:], runsPerSearch-1)
	if err != nil {
		return found, err
	}
	and, args, err := where(runFields, terms, []any{before[:], floor[:], limit + 1})
	if err != nil {
		return found, err
	}
	found.Rows, err = v.runs(`SELECT `+runColumns+` FROM `+runTables+` WHERE r.run_id < $1 AND r.run_id >= $2`+and+
		` ORDER BY r.run_id DESC LIMIT $3`, args...)
	found.cut(limit, floor, bounded, func(r SyncRun) events.RunID { return r.Run })
	return found, err
}

// FindUnits lists units that all terms hold of, newest first, as FindRuns does.
func (v View) FindUnits(terms []Term, before events.UnitID, limit int) (found Found[SyncRunUnit, events.UnitID], err error) {
	before = events.UnitID(orNewest(events.MessageID(before)))
	var floor events.UnitID
	bounded, err := v.floor(`SELECT unit_id FROM units WHERE unit_id < $1 ORDER BY unit_id DESC LIMIT 1 OFFSET $2`,
		func(r store.Row) error { return scanID(r, &floor) }, before[:], rowsPerSearch-1)
	if err != nil {
		return found, err
	}
	and, args, err := where(unitFields, terms, []any{before[:], floor[:], limit + 1})
	if err != nil {
		return found, err
	}
	found.Rows, err = v.units(`SELECT `+unitColumns+` FROM units u WHERE u.unit_id < $1 AND u.unit_id >= $2`+and+
		` ORDER BY u.unit_id DESC LIMIT $3`, args...)
	found.cut(limit, floor, bounded, func(u SyncRunUnit) events.UnitID { return u.Unit })
	return found, err
}

// FindUnitsOf lists units of one run that all terms hold of, by ordinal, at most limit of them behind an ordinal.
func (v View) FindUnitsOf(run events.RunID, terms []Term, after, limit int) (found Found[SyncRunUnit, int], err error) {
	and, args, err := where(unitFields, terms, []any{run[:], after, after + rowsPerSearch, limit + 1})
	if err != nil {
		return found, err
	}
	found.Rows, err = v.units(`SELECT `+unitColumns+` FROM units u WHERE u.run_id = $1 AND u.ordinal > $2 AND u.ordinal <= $3`+and+
		` ORDER BY u.ordinal LIMIT $4`, args...)
	if err != nil {
		return found, err
	}
	beyond, err := v.floor(`SELECT 1 FROM units WHERE run_id = $1 AND ordinal > $2 LIMIT 1`,
		func(store.Row) error { return nil }, run[:], after+rowsPerSearch)
	found.cut(limit, after+rowsPerSearch, beyond, func(u SyncRunUnit) int { return u.Ordinal })
	return found, err
}

// FindRegisters lists registers that all terms hold of, those of the newest owners first, as FindRuns does; the zero key
// begins at the newest.
func (v View) FindRegisters(terms []Term, before Key, limit int) (found Found[Register, Key], err error) {
	if before.Owner.IsZero() {
		before = Key{Owner: events.RunID(orNewest(events.MessageID{})), Kind: "~"} // behind every kind
	}
	var floor Key
	bounded, err := v.floor(`SELECT owner, kind FROM outbox WHERE (owner, kind) < ($1, $2) ORDER BY owner DESC, kind DESC LIMIT 1 OFFSET $3`,
		func(r store.Row) error {
			var owner []byte
			var kind string
			err := r.Scan(&owner, &kind)
			copy(floor.Owner[:], owner)
			floor.Kind = events.Kind(kind)
			return err
		}, before.Owner[:], string(before.Kind), rowsPerSearch-1)
	if err != nil {
		return found, err
	}
	and, args, err := where(registerFields, terms, []any{before.Owner[:], string(before.Kind), floor.Owner[:], string(floor.Kind), limit + 1})
	if err != nil {
		return found, err
	}
	found.Rows, err = v.registers(`SELECT `+registerColumns+` FROM outbox o WHERE (o.owner, o.kind) < ($1, $2) AND (o.owner, o.kind) >= ($3, $4)`+and+
		` ORDER BY o.owner DESC, o.kind DESC LIMIT $5`, args...)
	found.cut(limit, floor, bounded, Register.Key)
	return found, err
}

// FindJobs lists jobs that all terms hold of, newest first, as FindRuns does.
func (v View) FindJobs(terms []Term, before events.JobID, limit int) (found Found[JobRun, events.JobID], err error) {
	before = events.JobID(orNewest(events.MessageID(before)))
	var floor events.JobID
	bounded, err := v.floor(`SELECT job_id FROM jobs WHERE job_id < $1 ORDER BY job_id DESC LIMIT 1 OFFSET $2`,
		func(r store.Row) error { return scanID(r, &floor) }, before[:], rowsPerSearch-1)
	if err != nil {
		return found, err
	}
	and, args, err := where(jobFields, terms, []any{before[:], floor[:], limit + 1})
	if err != nil {
		return found, err
	}
	found.Rows, err = v.jobs(`SELECT `+jobColumns+` FROM jobs j WHERE j.job_id < $1 AND j.job_id >= $2`+and+
		` ORDER BY j.job_id DESC LIMIT $3`, args...)
	found.cut(limit, floor, bounded, func(j JobRun) events.JobID { return j.Job })
	return found, err
}

// cut drops the row that was read only to see whether there is one, and says where the next page begins: behind the last
// row, or where the search has stopped to look.
func (f *Found[T, K]) cut(limit int, floor K, bounded bool, key func(T) K) {
	switch {
	case len(f.Rows) > limit:
		f.Rows = f.Rows[:limit]
		f.Next, f.More = key(f.Rows[limit-1]), true
	case bounded:
		f.Next, f.More = floor, true
	}
}

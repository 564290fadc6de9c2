package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/sink"
)

// A fence orders the attempts of one store. What another store wrote is neither older nor newer: its positions count
// another log.
//
//	stored row of            the attempt commits if
//	nobody yet               always
//	its own store            its fence is not lower
//	a store not known        its fence is not lower; the row then is of its store
//	another store            never: ErrForeign, also at another window of the dataset
//
// With TakeOver what other stores have left of the dataset is removed by the commit, whatever its fence is. A store is not known in files
// of releases that did not note it, and if Scope.Store is empty.

// fenceRow is what was committed last at a scope.
type fenceRow struct {
	fence   events.Fence
	store   string
	unit    string
	attempt int
	at      string
}

type querier interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// checkFence compares the stored fence of the scope with that of the attempt. An equal one is this attempt itself.
func (w *writer) checkFence() error {
	if err := w.checkStrangers(); err != nil {
		return err
	}
	stored, err := w.storedFence(w.conn)
	switch {
	case err != nil:
		return err
	case w.d.takeOver && stored.store != w.scope.Store:
		return nil
	case w.foreign(stored.store):
		return w.errForeign(fmt.Sprintf("store %s, unit %s, attempt %d, at %s", stored.store, stored.unit, stored.attempt, stored.at))
	case stored.fence <= w.scope.Fence:
		return nil
	}
	err = fmt.Errorf("%s/%s/%s in %s: %w: fence %s, unit %s, attempt %d, at %s",
		w.scope.Source, w.scope.Dataset, w.window, w.d.path, sink.ErrFenced, stored.fence, stored.unit, stored.attempt, stored.at)
	if stored.store == "" && w.scope.Store != "" {
		return fmt.Errorf("%w; its store is not known: if that is gone for good, open the file with sqlite.TakeOver()", err)
	}
	return err
}

// checkStrangers refuses a dataset of which another store has written any window: a snapshot replaces the rows of all of
// them, and windows that are cut another way overlap.
func (w *writer) checkStrangers() error {
	if w.d.takeOver || w.scope.Store == "" {
		return nil
	}
	var store, window, at string
	err := w.conn.QueryRowContext(context.Background(), `
SELECT store, window, committed_at
FROM _towline_fence
WHERE source = $1 AND dataset = $2 AND (store > $3 OR store > '' AND store < $3)
LIMIT 1`, w.scope.Source, w.scope.Dataset, w.scope.Store).Scan(&store, &window, &at)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil
	case err != nil:
		return fmt.Errorf("look for other stores in %s: %w", w.d.path, err)
	}
	return w.errForeign(fmt.Sprintf("store %s, window %s, at %s", store, window, at))
}

// foreign reports that what a store wrote cannot be compared with the attempt.
func (w *writer) foreign(store string) bool {
	return store != "" && w.scope.Store != "" && store != w.scope.Store
}

func (w *writer) errForeign(who string) error {
	return fmt.Errorf("%s/%s/%s in %s: %w: %s: go on with that store, or, if it is gone for good, open the file with sqlite.TakeOver()",
		w.scope.Source, w.scope.Dataset, w.window, w.d.path, sink.ErrForeign, who)
}

// storedFence is zero if nothing was committed at the scope yet.
func (w *writer) storedFence(q querier) (fenceRow, error) {
	var r fenceRow
	err := q.QueryRowContext(context.Background(), `
SELECT fence, store, unit, attempt, committed_at
FROM _towline_fence
WHERE source = $1 AND dataset = $2 AND window = $3`,
		w.scope.Source, w.scope.Dataset, w.window).Scan(&r.fence, &r.store, &r.unit, &r.attempt, &r.at)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		w.d.file.Store(nil) // another file may have come under the same number: the next attempt sets it up
		return fenceRow{}, fmt.Errorf("read the fence in %s: %w", w.d.path, err)
	}
	return r, nil
}

// takeOver removes the fences of other stores from the dataset. They are not overwritten, because the file refuses that.
func (w *writer) takeOver() error {
	return exec(w.conn, `
DELETE FROM _towline_fence
WHERE source = $1 AND dataset = $2 AND store <> $3`,
		w.scope.Source, w.scope.Dataset, w.scope.Store)
}

func (w *writer) mergeFence(at string) error {
	if w.d.takeOver {
		if err := w.takeOver(); err != nil {
			return err
		}
	}
	return exec(w.conn, `
INSERT INTO _towline_fence (source, dataset, window, fence, run, unit, attempt, committed_at, store)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
ON CONFLICT (source, dataset, window)
DO UPDATE SET fence = excluded.fence, run = excluded.run, unit = excluded.unit, attempt = excluded.attempt,
	committed_at = excluded.committed_at, store = excluded.store`,
		w.scope.Source, w.scope.Dataset, w.window, string(w.scope.Fence),
		w.scope.Run.String(), w.scope.Unit.String(), w.scope.Attempt, at, w.scope.Store)
}

// mergeState keeps the state of the newest attempt: two windows of a dataset may commit in any order. A window that no
// other store has written may still belong to a dataset of which another store has left the state.
func (w *writer) mergeState(at string) error {
	if len(w.state) == 0 {
		return nil
	}
	var store, left string
	err := w.conn.QueryRowContext(context.Background(), `
SELECT store, committed_at
FROM _towline_state
WHERE source = $1 AND dataset = $2`, w.scope.Source, w.scope.Dataset).Scan(&store, &left)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	if w.foreign(store) && !w.d.takeOver {
		return w.errForeign(fmt.Sprintf("the state of the dataset is of store %s, at %s", store, left))
	}
	return exec(w.conn, `
INSERT INTO _towline_state (source, dataset, state, fence, committed_at, store)
VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT (source, dataset)
DO UPDATE SET state = excluded.state, fence = excluded.fence, committed_at = excluded.committed_at, store = excluded.store
WHERE excluded.fence >= _towline_state.fence OR ($7 AND excluded.store <> _towline_state.store)`,
		w.scope.Source, w.scope.Dataset, string(w.state), string(w.scope.Fence), at, w.scope.Store, w.d.takeOver)
}

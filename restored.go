package towline

import (
	"context"
	"fmt"

	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/projections"
	"github.com/towline-dev/towline/store"
)

// RestoredHold is the name of the condition in which a store is that was restored and that nobody has released (DUR-5).
const RestoredHold = "restored_hold"

// ErrRestoredHold: the store was restored, and nobody has released it yet, so nothing is handed to a worker (DUR-5). Where it is
// returned, ErrNotClaimable is too. ReleaseHold ends it.
var ErrRestoredHold = fmt.Errorf("the store was restored, and holds what it would send until an operator releases it: %w", ErrNotClaimable)

// beginLife says that the store was put in the place of another since it was opened last (DUR-5). It is right behind NodeStarted,
// before anything is decided.
func (t *Tx) beginLife() error {
	epoch := 1
	const newest = `SELECT coalesce(max(epoch), 1) FROM restores` // which a restore has left in the file
	if err := t.tx.Query(func(r store.Row) error { return r.Scan(&epoch) }, newest); err != nil {
		return fmt.Errorf("look for a restore: %w", err)
	}
	if epoch <= t.hot.Epoch() {
		return nil
	}
	head := t.hot.Position() - 1 // before the NodeStarted of this transaction, which is its first event
	_, err := t.Execute(decider.RestoreStore{Node: t.e.node, Epoch: epoch, Head: head})
	return err
}

// Held reports a restored hold: no wakeup is claimed, no unit is handed to a worker and no schedule mints (DUR-5).
func (t *Tx) Held() bool { return t.hot.Held() }

// InEpoch is the id of a message in this life of the store (K-3).
func (t *Tx) InEpoch(id string) string { return decider.InEpoch(id, t.hot.Epoch()) }

// Hold is what a restored store holds back (DUR-5).
type Hold struct {
	projections.Restored
	// Waiting counts, by kind, the wakeups that would be published once it is released: now, or when they come due. RegistersOf
	// and Due list them.
	Waiting map[events.Kind]int `json:"waiting"`
}

// Hold says what a restored hold keeps back; false: there is none.
func (e *Engine) Hold(ctx context.Context) (h Hold, held bool, err error) {
	err = e.View(ctx, func(v projections.View) (err error) {
		if h.Restored, err = v.Restored(); err != nil || !h.Held {
			return err
		}
		held = true
		h.Waiting, err = v.CountPending()
		return err
	})
	return h, held, err
}

// logHold says once, at the start, that nothing will be sent.
func (e *Engine) logHold(ctx context.Context) {
	if h, held, err := e.Hold(ctx); err == nil && held { // whoever cannot read meets it again
		e.logger.Warn("the store was restored, and sends nothing until an operator releases it", "epoch", h.Epoch, "copy_ends_at", h.Head)
	}
}

// ReleaseHold ends a restored hold: what waits is published from now on, units are handed out, schedules mint what catch-up
// leaves of the times since the backup (DUR-5). Before that, look at what would be sent, resolve as delivered each post_sync that
// went out in the earlier life (Resolve), and cancel what is not wanted any more: the log does not know what has happened behind
// the backup.
//
// It returns false, and nothing was written, if there is no hold. by needs a name and a reason. Errors: *RequestError (which is
// ErrInvalid), ErrUnavailable, ErrStopped.
func (e *Engine) ReleaseHold(ctx context.Context, by Actor) (released bool, err error) {
	by, err = e.operatorWithReason(by)
	if err != nil {
		return false, err
	}
	err = e.Transact(ctx, by.Name, func(tx *Tx) error {
		released = false
		if !tx.Held() {
			return nil
		}
		f, err := tx.fold(events.EngineControlStream(), false)
		if err != nil {
			return err
		}
		number := f.state.(decider.Control).Releases + 1
		results, err := tx.Execute(decider.ReleaseHold{Number: number, Actor: by.Name, Reason: by.Reason})
		if err != nil {
			return err
		}
		released = len(results[0].Events) > 0
		tx.effects.due, tx.effects.looks = true, true
		return nil
	})
	return released && err == nil, err
}

package towline

import (
	"context"
	"fmt"
	"maps"

	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/projections"
)

// Reload puts other values in force, all of them or none, without a restart (CFG-3). What differs is on record as
// NodeConfigChanged; values that are in force already append nothing. by is who wants it: its Name is required, and a
// Reason is not kept.
//
// A run keeps what it was planned with (CFG-2). A cap that was lowered stops new dispatch only (B-7), and one that was
// raised lets waiting units in at once. MaxDeliveries belongs to the bus of the process, and stays until a restart. Errors:
// a value that is out of bounds, a by without a name (ErrInvalid), ErrUnavailable, ErrStopped; nothing has changed then.
func (e *Engine) Reload(ctx context.Context, k Knobs, by Actor) error {
	after := k.withDefaults()
	if err := after.check(); err != nil {
		return fmt.Errorf("configuration: %w", err)
	}
	if by.Name == "" {
		return &RequestError{Field: "by.name", Problem: "it is empty", Fix: "say who reloads", Kind: ErrInvalid}
	}
	before := e.inForce.Load()
	after.MaxDeliveries = before.MaxDeliveries
	after.CapBuckets = after.stillNamed(before.CapBuckets)
	changed := false
	err := e.Transact(ctx, by.Name, func(tx *Tx) error {
		changed = false
		result, err := tx.Execute(decider.ChangeConfig{Node: e.node, Config: after.recorded(), Actor: by.Name})
		if err != nil || len(result[0].Events) == 0 {
			return err
		}
		changed = true
		e.inForce.Store(&after) // from the next transaction on, as the log has it
		e.mem.hot = nil
		return nil
	})
	if err != nil {
		e.inForce.Store(before)
		_ = e.ask(ctx, func(*Tx) error { // if the store cannot be asked, its failure has dropped the memory already
			e.mem.hot = nil
			return nil
		})
		return fmt.Errorf("reload: %w", err)
	}
	if !changed || !after.raises(*before) {
		return nil
	}
	return e.wakeBehind(ctx, events.RunID{}, "", func(projections.Lane) bool { return true })
}

// stillNamed keeps naming the buckets that had a cap of their own: a value that is gone must be on record as another one.
func (k Knobs) stillNamed(before map[events.Bucket]int) map[events.Bucket]int {
	if len(before) == 0 {
		return k.CapBuckets
	}
	out := map[events.Bucket]int{}
	for b := range before { // into a map, so their order is nothing
		out[b] = k.CapBucket
	}
	maps.Copy(out, k.CapBuckets)
	return out
}

// raises reports a cap under which more may run than before.
func (k Knobs) raises(before Knobs) bool {
	if k.CapEngine > before.CapEngine || k.CapBucket > before.CapBucket {
		return true
	}
	for b := range k.CapBuckets {
		if k.capOf(b) > before.capOf(b) {
			return true
		}
	}
	for b := range before.CapBuckets {
		if k.capOf(b) > before.capOf(b) {
			return true
		}
	}
	return false
}

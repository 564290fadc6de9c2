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
	k = k.withDefaults()
	if err := k.check(); err != nil {
		return fmt.Errorf("configuration: %w", err)
	}
	if by.Name == "" {
		return &RequestError{Field: "by.name", Problem: "it is empty", Fix: "say who reloads", Kind: ErrInvalid}
	}
	var before, after Knobs
	changed := false
	err := e.Transact(ctx, by.Name, func(tx *Tx) error {
		changed, before, after = false, e.Knobs(), k
		after.MaxDeliveries = before.MaxDeliveries
		after.CapBuckets = k.stillNamed(before.CapBuckets)
		result, err := tx.Execute(decider.ChangeConfig{Node: e.node, Config: after.recorded(), Actor: by.Name})
		if err != nil || len(result[0].Events) == 0 {
			return err
		}
		changed = true
		tx.putInForce(after)
		return nil
	})
	if err != nil {
		return fmt.Errorf("reload: %w", err)
	}
	if !changed || !after.raises(before) {
		return nil
	}
	return e.wakeBehind(ctx, events.RunID{}, "", func(projections.Lane) bool { return true })
}

// reloads is what the writer keeps of reloads until their commit is on disk. Only the writer puts knobs in force, and takes
// them back before another transaction runs: each sees one set of them, but the one that reloads.
type reloads struct {
	before *Knobs // in force when the commit in progress began; nil: it holds no reload
	whole  bool   // that commit has had its last write: the next transaction finds it on disk, or void has come before
}

// putInForce lets the transactions behind this one go by other knobs, as the log has it.
func (t *Tx) putInForce(k Knobs) {
	t.knobs = t.e.inForce.Load()
	if t.e.mem.reloads.before == nil {
		t.e.mem.reloads.before = t.knobs
	}
	t.e.inForce.Store(&k)
	t.e.mem.hot = nil // it holds the caps
}

// void takes back what a commit that failed has left in memory.
func (e *Engine) void() {
	if before := e.mem.reloads.before; before != nil {
		e.inForce.Store(before)
	}
	e.mem.void()
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

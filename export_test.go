package towline

import (
	"context"
	"fmt"
	"reflect"

	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/internal/redact"
	"github.com/towline-dev/towline/store"
)

// CompareMemory says in which lines the hot view that the writer keeps differs from one that is loaded from the tables,
// and which cached folds differ from the fold of their stream (L-3).
func (e *Engine) CompareMemory(ctx context.Context) ([]string, error) {
	m, err := e.verifyHot(ctx)
	if err != nil {
		return nil, err
	}
	out := m.differences
	return out, e.Transact(ctx, "", func(tx *Tx) error {
		for _, id := range e.mem.folds.Keys() {
			kept, _ := e.mem.folds.Peek(id)
			history, err := tx.tx.Stream(id)
			if err != nil {
				return err
			}
			version := events.Version(0)
			if n := len(history); n > 0 {
				version = history[n-1].Version
			}
			if want := decider.Fold(id, history); kept.version != version || !reflect.DeepEqual(kept.state, want) {
				out = append(out, fmt.Sprintf("fold of %s is at version %d: %+v; the log says version %d: %+v", id,
					kept.version, kept.state, version, want))
			}
		}
		return nil
	})
}

// VerifyPage is the size of a page of Verify.
const VerifyPage = verifyPage

// VerifyInPages is Verify with pages of so many rows.
func (e *Engine) VerifyInPages(ctx context.Context, scratch store.Store, page int) (Verification, error) {
	return e.verify(ctx, scratch, page, func(events.Position) {})
}

// CachedFolds is how many folds the writer keeps.
func (e *Engine) CachedFolds() int { return e.mem.folds.Len() }

// ForgetMemory is what a commit that fails does to the memory of the writer.
func (e *Engine) ForgetMemory() { e.mem.void() }

// Redact and its bounds are tested apart from the cut.
var Redact = redact.Secrets

package handlers

import (
	"context"
	"fmt"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/transport"
)

// finalizeSyncRun ends a run whose units have ended, once (spec 10.3). On any other run it does nothing.
func (h *Handlers) finalizeSyncRun(ctx context.Context, n transport.Notice) error {
	finalized := false
	err := h.e.Transact(ctx, "", func(tx *towline.Tx) (err error) {
		finalized, err = tx.Finalize(n.Run)
		return err
	})
	if err != nil {
		return fmt.Errorf("finalize run %s: %w", n.Run, err)
	}
	if !finalized {
		h.e.Absorb(events.KindFinalize)
	}
	h.logger.Debug("finalize_sync_run", "run", n.Run, "finalized", finalized)
	return nil
}

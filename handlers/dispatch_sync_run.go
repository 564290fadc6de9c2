package handlers

import (
	"context"
	"fmt"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/transport"
)

// dispatchSyncRun gives slots to the units of a run, in one transaction (spec 10.1).
func (h *Handlers) dispatchSyncRun(ctx context.Context, n transport.Notice) error {
	var code decider.DispatchCode
	err := h.e.Transact(ctx, "", func(tx *towline.Tx) (err error) {
		code, err = tx.Dispatch(n.Run)
		return err
	})
	if err != nil {
		return fmt.Errorf("dispatch run %s: %w", n.Run, err)
	}
	if code != decider.DispatchDispatched {
		h.e.Absorb(events.KindDispatch)
	}
	h.logger.Debug("dispatch_sync_run", "run", n.Run, "result", code)
	return nil
}

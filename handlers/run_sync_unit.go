package handlers

import (
	"context"
	"errors"
	"fmt"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/transport"
)

// runSyncUnit claims a unit, lets its provider work, and settles it (spec 10.2). Every duplicate ends at the claim.
func (h *Handlers) runSyncUnit(ctx context.Context, n transport.Notice) error {
	turn, err := h.slots.enter(h.intake, n.Unit)
	if err != nil {
		return fmt.Errorf("unit %s: %w", n.Unit, err)
	}
	if !turn.claimed && h.intake.Err() != nil { // its slot came with the end of the intake
		h.slots.leave()
		return fmt.Errorf("unit %s: %w", n.Unit, context.Cause(h.intake))
	}
	if !turn.claimed {
		turn.asked = h.rt.Now()
		l, err := h.e.Claim(ctx, n.Unit, towline.Worker{Name: h.c.Name})
		turn.lease, turn.err = &l, err
	}
	switch err := turn.err; {
	case errors.Is(err, towline.ErrNotClaimable), errors.Is(err, towline.ErrTooEarly):
		h.slots.leave()
		h.e.Absorb(events.KindUnit)
		h.logger.Debug("run_sync_unit", "unit", n.Unit, "result", "skipped", "reason", err)
		return nil
	case err != nil:
		h.slots.leave()
		return fmt.Errorf("claim unit %s: %w", n.Unit, err)
	}
	h.settle(ctx, turn.lease, h.attempts.work(turn.lease, turn.asked))
	return nil
}

// settle ends the attempt. The slot goes to the next in line, whose claim shares the transaction; behind the end of the intake
// nothing more is claimed.
func (h *Handlers) settle(ctx context.Context, l *towline.Lease, s towline.Settle) {
	if s == nil {
		h.slots.leave()
		return
	}
	var next *ticket
	if h.intake.Err() == nil {
		next = h.slots.next()
	}
	var err error
	if next != nil {
		asked := h.rt.Now()
		lease, settled, claimed := h.e.SettleAndClaim(ctx, *l, s, next.unit, towline.Worker{Name: h.c.Name})
		next.turn <- turn{claimed: true, asked: asked, lease: &lease, err: claimed}
		err = settled
	} else {
		err = h.e.Settle(ctx, *l, s)
		h.slots.leave()
	}
	_ = h.attempts.finish(ctx, l, s, err) // it is logged
}

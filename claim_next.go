package towline

import (
	"context"
	"errors"

	"github.com/towline-dev/towline/projections"
)

// candidates bounds how many units one ClaimNext tries: one that is stale may have lost its slot, and is passed by.
const candidates = 16

// ClaimedAgain gives the leases that a worker has claimed with its secret, and of which it may not have heard: its engine was
// killed, or its answer was lost. Their times are those that are left. It writes nothing. Errors: ErrUnavailable, ErrStopped.
func (e *Engine) ClaimedAgain(ctx context.Context, w Worker) (leases []Lease, err error) {
	err = e.Transact(ctx, "", func(tx *Tx) error {
		leases = nil
		for _, id := range tx.hot.Running() {
			u, err := tx.Unit(id)
			if err != nil {
				return err
			}
			if u.Lease.Token != w.token(tx, id, u.Attempt) {
				continue
			}
			run, err := tx.Run(u.Plan.Run)
			if err != nil {
				return err
			}
			lease, err := tx.lease(id, run)
			if err != nil {
				return err
			}
			if lease.ExpiresIn > 0 {
				leases = append(leases, lease)
			}
		}
		return nil
	})
	return leases, err
}

// ClaimNext takes the lease of the next unit that waits for a worker, for one that has no message of it and asks (surfaces
// 5.4): of the oldest run first, by ordinal. of says which lanes the worker knows; nil: all. false: there is none now. The
// rest is as of Claim: one transaction, on disk when it returns (U-5). Errors: ErrUnavailable, ErrStopped.
func (e *Engine) ClaimNext(ctx context.Context, w Worker, of func(projections.Lane) bool) (lease Lease, found bool, err error) {
	if of == nil {
		of = func(projections.Lane) bool { return true }
	}
	err = e.Transact(ctx, "", func(tx *Tx) error {
		lease, found = Lease{}, false
		for _, unit := range tx.hot.Dispatching(candidates, of) {
			l, rejected, err := tx.claim(unit, w)
			if err != nil {
				return err
			}
			if rejected == nil {
				lease, found = l, true
				return nil
			}
			if !errors.Is(rejected, ErrNotClaimable) && !errors.Is(rejected, ErrTooEarly) {
				return rejected
			}
		}
		return nil
	})
	return lease, found && err == nil, err
}
